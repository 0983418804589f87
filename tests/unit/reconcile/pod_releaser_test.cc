#include "reconcile/pod_releaser.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <variant>

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

}  // namespace
}  // namespace alignd::reconcile
