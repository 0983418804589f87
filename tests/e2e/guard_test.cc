// Real cgroups to which another program writes.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "edge/raw_call.h"
#include "real_node.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::testing {
namespace {

TEST_F(RealNode, ForeignWritesToCpusetsAreRepaired) {
  const PodManifest shared = SharedPod();
  const std::string shared_id = Run(shared);
  const PodManifest exclusive = ExclusivePod("exclusive", 1);
  const std::string id = Run(exclusive);
  ASSERT_TRUE(!shared_id.empty() && !id.empty());
  const CpuSet own = CpusOf(exclusive, id);
  const auto disturb = [&](const PodManifest& pod, const std::string& container,
                           const CpuSet& right) {
    ASSERT_EQ(CpusOf(pod, container), right);
    // An update that is under way would hide the foreign write.
    ASSERT_TRUE(WaitUntil([&] { return RecordedCpusOf(container) == right; }));
    std::ofstream(CgroupOf(pod, container) / "cpuset.cpus") << all_.ToString() << std::endl;
    EXPECT_TRUE(WaitUntil([&] { return CgroupCpusOf(pod, container) == right; }));
    EXPECT_EQ(CpusOf(pod, container), right);
    EXPECT_TRUE(alignd_->WaitForLog("CpusetRepaired: container app of pod " + pod.pod.name_space +
                                    "/" + pod.pod.name + ": another program changed it to CPUs " +
                                    all_.ToString() + "; restored to CPUs " + right.ToString() +
                                    " within"))
        << alignd_->Log();
  };
  disturb(exclusive, id, own);
  disturb(shared, shared_id, all_ - own);
}

// The kubelet's part of a resize: it writes the pod's cgroup, and then asks for the container.
TEST_F(RealNode, RefusedResizeLeavesThePodsCgroupAsItWas) {
  if (std::filesystem::exists("/sys/fs/cgroup/cgroup.controllers")) {
    GTEST_SKIP() << "the controllers of the pod's cgroup are the kubelet's to enable (version 2)";
  }
  const PodManifest exclusive = ExclusivePod("exclusive", 1);
  const std::filesystem::path cpu = MakeCpuCgroupOf(exclusive);
  std::ofstream(cpu / "cpu.shares") << 1024 << std::endl;
  const std::string id = Run(exclusive);
  ASSERT_NE(id, "");
  runtime::v1::UpdateContainerResourcesRequest resize;
  resize.set_container_id(id);
  resize.mutable_linux()->set_cpu_period(100'000);
  // All CPUs of the machine: CPU 0 is reserved, so this is refused on every machine.
  const int64_t cpus = all_.Count();
  resize.mutable_linux()->set_cpu_quota(cpus * 100'000);
  resize.mutable_linux()->set_cpu_shares(cpus * 1024);
  const auto channel = simulator::Dial(Socket());
  ASSERT_TRUE(channel.ok());
  for (int i = 0; i < 3; ++i) {
    std::ofstream(cpu / "cpu.cfs_quota_us") << 200'000 << std::endl;
    std::ofstream(cpu / "cpu.shares") << 2048 << std::endl;
    const RawAnswer refused =
        CallUnary(*channel, "/runtime.v1.RuntimeService/UpdateContainerResources",
                  resize.SerializeAsString());
    EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_NE(refused.status.error_message().find("asked for " + std::to_string(cpus) +
                                                  " exclusive CPUs"),
              std::string::npos)
        << refused.status.error_message();
    EXPECT_TRUE(WaitUntil([&] { return ReadText(cpu / "cpu.cfs_quota_us") == "-1\n"; }));
    EXPECT_TRUE(WaitUntil([&] { return ReadText(cpu / "cpu.shares") == "1024\n"; }));
  }
  EXPECT_TRUE(alignd_->WaitForLog("PodResizeRefused: container app of pod " +
                                  exclusive.pod.name_space + "/exclusive: a resize is refused"))
      << alignd_->Log();
}

TEST_F(RealNode, ProcessMovedOutOfItsCgroupOntoExclusiveCpusIsReported) {
  const PodManifest exclusive = ExclusivePod("exclusive", 1);
  const std::string id = Run(exclusive);
  PodManifest shared = SharedPod();
  shared.containers.at("app").command = {"sh", "-c", "sleep 100000 & wait"};
  const std::string shared_id = Run(shared);
  ASSERT_TRUE(!id.empty() && !shared_id.empty());
  const CpuSet own = CpusOf(exclusive, id);
  const auto child = [&]() -> int {
    std::istringstream pids(ReadText(CgroupOf(shared, shared_id) / "cgroup.procs"));
    for (int pid = 0; pids >> pid;) {
      if (ReadText("/proc/" + std::to_string(pid) + "/comm") == "sleep\n") return pid;
    }
    return 0;
  };
  ASSERT_TRUE(WaitUntil([&] { return child() != 0; }));
  const int pid = child();
  const std::filesystem::path mount = "/sys/fs/cgroup";
  const bool unified = std::filesystem::exists(mount / "cgroup.controllers");
  std::ofstream((unified ? mount : mount / "cpuset") / "cgroup.procs") << pid << std::endl;
  ASSERT_TRUE(AllowedCpus(pid).Contains(own));
  const auto logged = [&](const std::string& text) {
    return WaitUntil([&] { return alignd_->Log().find(text) != std::string::npos; },
                     std::chrono::seconds(60));  // several scans
  };
  EXPECT_TRUE(logged("ProcessOutsideCgroup: container app of pod " + shared.pod.name_space +
                     "/shared: its process " + std::to_string(pid) +
                     " (sleep) is in the cgroup /, not in that"))
      << alignd_->Log();
  kill(pid, SIGKILL);
  EXPECT_TRUE(logged("ProcessOutsideCgroup resolved")) << alignd_->Log();
}

TEST_F(RealNode, QuotaOfThePodsCgroupDoesNotThrottleExclusiveCpus) {
  if (std::filesystem::exists("/sys/fs/cgroup/cgroup.controllers")) {
    GTEST_SKIP() << "the controllers of the pod's cgroup are the kubelet's to enable (version 2)";
  }
  const PodManifest exclusive = ExclusivePod("exclusive", 1);
  const std::filesystem::path cpu = MakeCpuCgroupOf(exclusive);
  std::ofstream(cpu / "cpu.cfs_quota_us") << 50000 << std::endl;
  ASSERT_EQ(ReadText(cpu / "cpu.cfs_quota_us"), "50000\n");
  const std::string id = Run(exclusive);
  ASSERT_NE(id, "");
  EXPECT_EQ(ReadText(cpu / "cpu.cfs_quota_us"), "-1\n");
  EXPECT_EQ(ReadText(cpu / id / "cpu.cfs_quota_us"), "-1\n");
}

}  // namespace
}  // namespace alignd::testing
