// Pods that do not fit wait inside CreateContainer, in front of a real containerd: each starts
// within its call as soon as the pod before it has gone.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "real_node.h"

namespace alignd::testing {
namespace {

class RealQueue : public RealNode {
 protected:
  RealQueue() { on_refusal_.waits = true; }

  struct Waiting {
    PodManifest pod;
    std::unique_ptr<Kubelet> kubelet;  // a connection of its own
    std::future<std::string> outcome;  // the container's id, or why there is none
  };
  Waiting Ask(const std::string& name) const {
    Waiting waiting{ExclusivePod(name, AllocatableCpus()), MakeKubelet(Socket()), {}};
    waiting.outcome = std::async(
        std::launch::async, [kubelet = waiting.kubelet.get(), pod = waiting.pod]() -> std::string {
          const auto run = kubelet->Run(pod);
          if (!run.ok()) return run.error().Text();
          const Result<std::string>& id = run->containers.at(0).id;
          return id.ok() ? *id : id.error().Text();
        });
    return waiting;
  }
  static bool HasEnded(const Waiting& waiting) {
    return waiting.outcome.wait_for(std::chrono::milliseconds(300)) == std::future_status::ready;
  }
  // Its call is held.
  bool Waits(const Waiting& waiting) const {
    const Pod& pod = waiting.pod.pod;
    return alignd_->WaitForLog("pod default/" + pod.name + " (" + pod.uid + ") waits, ") &&
           !HasEnded(waiting);
  }
};

TEST_F(RealQueue, EachPodStartsWithinItsCallInOrder) {
  const CpuSet exclusive = all_ - CpuSet{reserved_};
  PodManifest running = ExclusivePod("first", AllocatableCpus());
  ASSERT_NE(Run(running), "");
  std::vector<Waiting> waiting;
  for (const std::string name : {"second", "third"}) {
    waiting.push_back(Ask(name));
    ASSERT_TRUE(Waits(waiting.back())) << alignd_->Log();
  }
  for (size_t i = 0; i < waiting.size(); ++i) {
    Remove(running);
    running = waiting[i].pod;
    const std::string id = waiting[i].outcome.get();
    EXPECT_EQ(CpusOf(running, id), exclusive) << id;
    EXPECT_TRUE(i + 1 == waiting.size() || !HasEnded(waiting[i + 1]));
  }
}

}  // namespace
}  // namespace alignd::testing
