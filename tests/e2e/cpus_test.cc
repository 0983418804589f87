// Exclusive CPUs in real containers, as the kernel reports them.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "real_node.h"

namespace alignd::testing {
namespace {

TEST_F(RealNode, ExclusiveContainerHasItsCpusUntilItIsRemoved) {
  const PodManifest shared = SharedPod();
  const std::string shared_id = Run(shared);
  ASSERT_NE(shared_id, "");
  EXPECT_EQ(CpusOf(shared, shared_id), all_);
  const int shared_pid = PidOf(shared, shared_id);

  const PodManifest exclusive = ExclusivePod("exclusive", 1);
  const std::string id = Run(exclusive);
  ASSERT_NE(id, "");
  const CpuSet own = CpusOf(exclusive, id);
  EXPECT_EQ(own.Count(), 1);
  EXPECT_FALSE(own.Contains(reserved_));
  EXPECT_EQ(CgroupCpusOf(exclusive, id), own);
  EXPECT_EQ(CpusOf(shared, shared_id), all_ - own);
  EXPECT_EQ(CgroupCpusOf(shared, shared_id), all_ - own);
  EXPECT_TRUE(WaitUntil([&] { return RecordedCpusOf(shared_id) == all_ - own; }));
  EXPECT_NE(CpuState().find("{\"app\":\"" + own.ToString() + "\"}"), std::string::npos)
      << CpuState();

  Remove(exclusive);
  EXPECT_TRUE(WaitUntil([&] { return CpusOf(shared, shared_id) == all_; }))
      << "still " << CpusOf(shared, shared_id).ToString();
  EXPECT_TRUE(WaitUntil([&] { return RecordedCpusOf(shared_id) == all_; }));
  EXPECT_EQ(PidOf(shared, shared_id), shared_pid) << "it was restarted";
  EXPECT_EQ(CpuState().find("entries"), std::string::npos) << CpuState();
}

// The calls of a kubelet. On a machine with two CPUs, one of them reserved, nothing can grow.
TEST_F(RealNode, RunningContainerIsResizedAsFarAsCpusAreFree) {
  const PodManifest shared = SharedPod();
  const std::string shared_id = Run(shared);
  const PodManifest exclusive = ExclusivePod("exclusive", 1);
  const std::string id = Run(exclusive);
  ASSERT_TRUE(!shared_id.empty() && !id.empty());
  const CpuSet own = CpusOf(exclusive, id);
  const int pid = PidOf(exclusive, id);
  const auto resize = [&](int from, int to) -> std::string {
    const auto pods = kubelet_->List();
    if (!pods.ok()) return pods.error().Text();
    for (const ListedPod& pod : *pods) {
      if (pod.uid != exclusive.pod.uid) continue;
      const Result<Done> resized = kubelet_->Resize(pod, "app", to, from);
      return resized.ok() ? "" : resized.error().Text();
    }
    return "no such pod";
  };
  const std::string refused = resize(1, all_.Count());
  EXPECT_NE(refused.find("UpdateContainerResources: ResizeRefused: container app of pod " +
                         exclusive.pod.name_space + "/exclusive has 1 exclusive CPU (" +
                         own.ToString() + ")"),
            std::string::npos)
      << refused;
  EXPECT_EQ(CpusOf(exclusive, id), own);
  EXPECT_EQ(CpusOf(shared, shared_id), all_ - own);

  const int most = AllocatableCpus();
  EXPECT_EQ(resize(1, most), "");
  const CpuSet grown = CpusOf(exclusive, id);
  EXPECT_EQ(grown.Count(), most);
  EXPECT_TRUE(grown.Contains(own));
  EXPECT_EQ(CpusOf(shared, shared_id), all_ - grown);
  CrashAndRestartAlignd();
  EXPECT_EQ(resize(most, 1), "");
  EXPECT_EQ(CpusOf(exclusive, id), own);
  EXPECT_TRUE(WaitUntil([&] { return CpusOf(shared, shared_id) == all_ - own; }));
  EXPECT_EQ(PidOf(exclusive, id), pid) << "it was restarted";
}

// The shared container loses the CPUs before the exclusive container exists: a CPU is never in
// both.
TEST_F(RealNode, SharedContainerLosesCpusBeforeTheExclusiveOneStarts) {
  const PodManifest shared = SharedPod();
  const std::string shared_id = Run(shared);
  ASSERT_NE(shared_id, "");
  for (int round = 0; round < 3; ++round) {
    const PodManifest exclusive =
        ExclusivePod("exclusive-" + std::to_string(round), AllocatableCpus());
    const auto sandbox = kubelet_->RunSandbox(exclusive);
    ASSERT_TRUE(sandbox.ok()) << sandbox.error().Text();
    const auto id = kubelet_->Create(exclusive, *sandbox, exclusive.pod.containers[0]);
    ASSERT_TRUE(id.ok()) << id.error().Text();

    std::atomic<bool> stop = false;
    int samples = 0;
    int late = 0;
    const CpuSet reserved = {reserved_};
    std::thread sampler([&] {
      const std::filesystem::path processes = CgroupOf(exclusive, *id) / "cgroup.procs";
      const std::filesystem::path cpus = CgroupOf(shared, shared_id) / "cpuset.cpus";
      bool last = false;
      while (!last) {
        last = stop;  // one more check after the start
        if (ReadText(processes).empty()) continue;
        // From here on the exclusive process exists.
        ++samples;
        if (ParseCpus(ReadText(cpus)) != reserved) ++late;
      }
    });
    const auto started = kubelet_->Start(*id);
    stop = true;
    sampler.join();
    ASSERT_TRUE(started.ok()) << started.error().Text();
    EXPECT_GT(samples, 0);
    EXPECT_EQ(late, 0) << "of " << samples << " samples";
    Remove(exclusive);
    EXPECT_TRUE(WaitUntil([&] { return CpusOf(shared, shared_id) == all_; }));
  }
}

TEST_F(RealNode, RefusalArrivesAtCreateContainer) {
  const PodManifest big = ExclusivePod("big", AllocatableCpus() + 1);
  const auto sandbox = kubelet_->RunSandbox(big);
  ASSERT_TRUE(sandbox.ok()) << sandbox.error().Text();
  const auto id = kubelet_->Create(big, *sandbox, big.pod.containers[0]);
  ASSERT_FALSE(id.ok());
  const std::string expected = "not enough cpus available to satisfy request";
  EXPECT_NE(id.error().message.find("UnexpectedAdmissionError"), std::string::npos)
      << id.error().Text();
  EXPECT_NE(id.error().message.find(expected), std::string::npos) << id.error().Text();
  EXPECT_EQ(CpuState().find("entries"), std::string::npos) << CpuState();
}

}  // namespace
}  // namespace alignd::testing
