// alignd or the runtime is killed during calls: no CPU is lost, and none is allocated twice.
#include <gtest/gtest.h>

#include <string>

#include "real_node.h"

namespace alignd::testing {
namespace {

TEST_F(RealNode, CrashBeforeCreate) {
  const PodManifest pod = ExclusivePod("exclusive", AllocatableCpus());
  const auto sandbox = kubelet_->RunSandbox(pod);
  ASSERT_TRUE(sandbox.ok()) << sandbox.error().Text();
  CrashAndRestartAlignd();
  const auto id = kubelet_->Create(pod, *sandbox, pod.pod.containers[0]);
  ASSERT_TRUE(id.ok()) << id.error().Text();
  const auto started = kubelet_->Start(*id);
  ASSERT_TRUE(started.ok()) << started.error().Text();
  EXPECT_EQ(CpusOf(pod, *id), all_ - CpuSet{reserved_});
  EXPECT_NE(RunAndFail(ExclusivePod("second", 1)), "") << "a CPU was allocated twice";
}

TEST_F(RealNode, CrashBetweenCreateAndStart) {
  const PodManifest shared = SharedPod();
  const std::string shared_id = Run(shared);
  const PodManifest pod = ExclusivePod("exclusive", AllocatableCpus());
  const auto sandbox = kubelet_->RunSandbox(pod);
  ASSERT_TRUE(sandbox.ok()) << sandbox.error().Text();
  const auto id = kubelet_->Create(pod, *sandbox, pod.pod.containers[0]);
  ASSERT_TRUE(id.ok()) << id.error().Text();
  const std::string state = CpuState();
  CrashAndRestartAlignd();
  EXPECT_EQ(CpuState(), state);
  const auto started = kubelet_->Start(*id);
  ASSERT_TRUE(started.ok()) << started.error().Text();
  EXPECT_EQ(CpusOf(pod, *id), all_ - CpuSet{reserved_});
  EXPECT_EQ(CgroupCpusOf(shared, shared_id), CpuSet{reserved_});
}

TEST_F(RealNode, CrashWhileContainersRun) {
  const PodManifest shared = SharedPod();
  const std::string shared_id = Run(shared);
  const PodManifest pod = ExclusivePod("exclusive", AllocatableCpus());
  const std::string id = Run(pod);
  ASSERT_NE(id, "");
  const int pid = PidOf(pod, id);
  const std::string state = CpuState();

  CrashAlignd();
  EXPECT_EQ(PidOf(pod, id), pid);
  StartAlignd();
  EXPECT_EQ(CpuState(), state);
  EXPECT_EQ(PidOf(pod, id), pid);
  EXPECT_EQ(CpusOf(pod, id), all_ - CpuSet{reserved_});
  EXPECT_EQ(CpusOf(shared, shared_id), CpuSet{reserved_});
  EXPECT_NE(RunAndFail(ExclusivePod("second", 1)), "") << "a CPU was allocated twice";

  Remove(pod);
  EXPECT_TRUE(WaitUntil([&] { return CpusOf(shared, shared_id) == all_; }));
}

// The shared container has left the exclusive CPUs, and the runtime's record may be the old one.
TEST_F(RealNode, CrashBeforeTheRuntimeIsUpdated) {
  const PodManifest shared = SharedPod();
  const std::string shared_id = Run(shared);
  ASSERT_NE(shared_id, "");
  ASSERT_TRUE(WaitUntil([&] { return RecordedCpusOf(shared_id) == all_; }));
  for (int round = 0; round < 3; ++round) {
    const PodManifest pod = ExclusivePod("exclusive-" + std::to_string(round), AllocatableCpus());
    ASSERT_NE(Run(pod), "");
    CrashAlignd();
    EXPECT_EQ(CgroupCpusOf(shared, shared_id), CpuSet{reserved_});
    StartAlignd();
    EXPECT_TRUE(WaitUntil([&] { return RecordedCpusOf(shared_id) == CpuSet{reserved_}; }));
    EXPECT_EQ(CgroupCpusOf(shared, shared_id), CpuSet{reserved_});
    Remove(pod);
    EXPECT_TRUE(WaitUntil([&] { return RecordedCpusOf(shared_id) == all_; }));
    EXPECT_EQ(CpusOf(shared, shared_id), all_);
  }
}

// CPUs of containers that ended while alignd was down are free after its restart.
TEST_F(RealNode, PodIsRemovedWhileAligndIsDown) {
  const PodManifest shared = SharedPod();
  const std::string shared_id = Run(shared);
  const PodManifest first = ExclusivePod("first", AllocatableCpus());
  ASSERT_NE(Run(first), "");
  CrashAlignd();
  Remove(first, *direct_);
  StartAlignd();
  EXPECT_TRUE(WaitUntil([&] { return CpusOf(shared, shared_id) == all_; }));
  EXPECT_EQ(CpuState().find("entries"), std::string::npos) << CpuState();
  const PodManifest second = ExclusivePod("second", AllocatableCpus());
  const std::string id = Run(second);
  ASSERT_NE(id, "");
  EXPECT_EQ(CpusOf(second, id), all_ - CpuSet{reserved_});
}

TEST_F(RealNode, RuntimeCrashesAndComesBack) {
  const PodManifest shared = SharedPod();
  const std::string shared_id = Run(shared);
  const PodManifest first = ExclusivePod("first", 1);
  const std::string first_id = Run(first);
  ASSERT_NE(first_id, "");
  const int pid = PidOf(first, first_id);
  const CpuSet own = CpusOf(first, first_id);

  CrashAndRestartRuntime();
  ASSERT_TRUE(WaitUntil([&] { return kubelet_->Status(first_id).ok(); }));
  EXPECT_EQ(PidOf(first, first_id), pid);
  EXPECT_EQ(CpusOf(first, first_id), own);
  EXPECT_EQ(CpusOf(shared, shared_id), all_ - own);

  Remove(first);
  EXPECT_TRUE(WaitUntil([&] { return CpusOf(shared, shared_id) == all_; }));
  const PodManifest second = ExclusivePod("second", AllocatableCpus());
  const std::string second_id = Run(second);
  ASSERT_NE(second_id, "");
  EXPECT_EQ(CpusOf(shared, shared_id), CpuSet{reserved_});
}

}  // namespace
}  // namespace alignd::testing
