#include "reconcile/pod_releaser.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <variant>

#include "conditions_fixture.h"
#include "edge/allocation_node.h"
#include "sync/task_queue.h"

namespace alignd::reconcile {
namespace {

using std::chrono::milliseconds;

TEST(PodReleaser, ReleasesAlsoWhileOtherPodsKeepStopping) {
  testing::AllocationNode node;
  node.Up();
  ASSERT_TRUE(
      std::holds_alternative<allocation::Allocated>(node.Admit(testing::AppPod("ended", 2))));
  ContainerRegistry registry;
  registry.AddSandbox("sandbox", "ended");
  registry.SandboxStopped("sandbox");
  TaskQueue background("background");
  PodReleaser releaser(background, *node.manager, registry,
                       {.grace = {.stopped = milliseconds(0), .found = milliseconds(0)}});
  // On the decision thread, a Look comes before every answer.
  std::atomic<bool> over = false;
  std::function<void(Result<Done>)> look = [&](const Result<Done>&) {
    if (over) return;
    node.manager->ReleasePod("unknown", look);
    releaser.Look();
  };
  look(Done{});
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!node.published().cpu.assignments.empty() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  over = true;
  EXPECT_TRUE(node.published().cpu.assignments.empty());
  releaser.Stop();
  node.Down();  // the manager's callbacks end before the releaser does
}

// After a restart of alignd, no decision has the name of the pod, and the registry forgets it with
// the last sandbox.
TEST(PodReleaser, NamesThePodAfterItsSandboxIsRemoved) {
  testing::AllocationNode node;
  node.Up();
  ASSERT_TRUE(
      std::holds_alternative<allocation::Allocated>(node.Admit(testing::AppPod("ended", 2))));
  node.Down();
  node.Up();
  ContainerRegistry registry;
  registry.AddSandbox("sandbox", "ended", "ns/train");
  registry.SandboxStopped("sandbox");
  TaskQueue background("background");
  Logged logged;
  // Not due before the sandbox is removed.
  PodReleaser releaser(
      background, *node.manager, registry,
      {.grace = {.stopped = std::chrono::hours(1), .found = std::chrono::hours(1)}});
  releaser.Start();
  std::promise<void> has_run;
  background.Post([&] { has_run.set_value(); });
  has_run.get_future().wait();
  registry.RemoveSandbox("sandbox");
  releaser.Release("ended");
  node.Settle();
  releaser.Stop();
  node.Down();
  const std::string text = logged.Take();
  EXPECT_NE(text.find("pod ns/train (ended) has ended: "), std::string::npos) << text;
}

// After a restart of alignd, the runtime may have lost the pod meanwhile.
TEST(PodReleaser, NamesAPodThatOnlyTheDecisionsOfBeforeTheRestartKnow) {
  testing::AllocationNode node;
  node.Up();
  for (const char* const uid : {"known", "unknown"}) {
    ASSERT_TRUE(std::holds_alternative<allocation::Allocated>(node.Admit(testing::AppPod(uid, 1))));
  }
  node.Down();
  node.Up();
  const ContainerRegistry registry;
  TaskQueue background("background");
  Logged logged;
  PodReleaser releaser(background, *node.manager, registry,
                       {.grace = {}, .name_before = [](const std::string& uid) {
                          return uid == "known" ? std::string("ns/train") : std::string();
                        }});
  releaser.Release("known");
  releaser.Release("unknown");
  node.Settle();
  releaser.Stop();
  node.Down();
  const std::string text = logged.Take();
  EXPECT_NE(text.find("pod ns/train (known) has ended: "), std::string::npos) << text;
  EXPECT_NE(text.find("pod unknown has ended: "), std::string::npos) << text;
}

}  // namespace
}  // namespace alignd::reconcile
