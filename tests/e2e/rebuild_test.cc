// The state files are lost or damaged while real containers run: their marks, which the real
// runtime keeps, bring the assignments back.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "real_node.h"

namespace alignd::testing {
namespace {

TEST_F(RealNode, LostAndDamagedStateIsRebuiltFromRunningContainers) {
  StartDevices(1);
  const PodManifest shared = SharedPod();
  const std::string shared_id = Run(shared);
  const PodManifest pod = MakePod(
      "gpu", "cpu: " + std::to_string(AllocatableCpus()) + ", memory: 64Mi, " + kGpu + ": 1");
  const std::string id = Run(pod);
  ASSERT_TRUE(!id.empty() && !shared_id.empty());
  const int pid = PidOf(pod, id);
  const CpuSet own = CpusOf(pod, id);
  ASSERT_EQ(own, all_ - CpuSet{reserved_});
  const std::string state = CpuState();

  for (const bool removed : {true, false}) {
    SCOPED_TRACE(removed ? "removed" : "damaged");
    CrashAlignd();
    if (removed) {
      std::filesystem::remove_all(tree_.root() / "state");
    } else {
      std::ofstream(tree_.root() / "state/cpu_manager_state") << state.substr(0, 40);
      std::ofstream(tree_.root() / "state/device-plugins/kubelet_internal_checkpoint") << "{}";
    }
    StartAlignd();
    StartDevices(1);
    EXPECT_NE(RunAndFail(ExclusivePod("second", 1)), "") << "a CPU was allocated twice";
    EXPECT_NE(RunAndFail(MakePod("third", std::string(kGpu) + ": 1")), "")
        << "a device was allocated twice";
    EXPECT_TRUE(WaitUntil([&] { return CpuState() == state; })) << CpuState();
    EXPECT_EQ(PidOf(pod, id), pid);
    EXPECT_EQ(CpusOf(pod, id), own);
    EXPECT_EQ(CgroupCpusOf(shared, shared_id), CpuSet{reserved_});
    EXPECT_NE(alignd_->Log().find("StateRebuilt: "), std::string::npos) << alignd_->Log();
  }
  Remove(pod);
  EXPECT_TRUE(WaitUntil([&] { return CpusOf(shared, shared_id) == all_; }));
  EXPECT_EQ(RunAndFail(MakePod("fourth", std::string(kGpu) + ": 1")), "");
}

}  // namespace
}  // namespace alignd::testing
