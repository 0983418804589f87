// The allocation manager with its threads: callers that go while the disk, the kubelet's checkpoint
// or a plugin hangs. Nothing of them is kept, and what was decided stays.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "allocation/allocation_manager.h"
#include "edge/allocation_node.h"
#include "edge/allocation_outcome.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;

// As CreateContainer: it can go, and shows whether anything of it is kept.
struct GoingCaller {
  std::future<Outcome> answer;
  std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
  std::weak_ptr<int> message = {};
};

// The kubelet's checkpoint cannot be read: no answer comes before LetGo.
class HungKubelet final : public KubeletAllocation {
 public:
  void Learn(const std::string& /*pod_uid*/, std::function<void(Learned)> done) override {
    waiting_.push_back(std::move(done));
  }
  // After the decision thread has called Learn.
  void LetGo() {
    for (const auto& done : waiting_) done(LearnedPod());
  }

 private:
  std::vector<std::function<void(Learned)>> waiting_;
};

class CancelledCallers : public ::testing::Test {
 protected:
  CancelledCallers() {
    world_.Up();
    world_.AnnounceDevices();
  }
  ~CancelledCallers() override { world_.disk.LetGo(); }

  GoingCaller Create(Pod pod, const std::string& container = "app") {
    GoingCaller caller;
    auto answer = std::make_shared<std::promise<Outcome>>();
    const auto message = std::make_shared<int>();
    caller.answer = answer->get_future();
    caller.message = message;
    world_.manager->Admit(
        {.pod = std::move(pod), .wanted = container, .cancelled = caller.cancelled},
        [answer, message](Outcome outcome) { answer->set_value(std::move(outcome)); });
    return caller;
  }
  // Returns when all that was asked before is decided.
  void Decide() { (void)world_.manager->KnownPods(); }
  static bool IsAnswered(const GoingCaller& caller) {
    return caller.answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  void Go(const GoingCaller& caller) {
    *caller.cancelled = true;
    world_.manager->DropCancelled();
    Decide();
  }
  void ExpectDropped(GoingCaller& caller) {
    ASSERT_TRUE(IsAnswered(caller));
    const Outcome outcome = caller.answer.get();
    EXPECT_EQ(TextOf(outcome), "error: the caller cancelled the call; call it again");
    EXPECT_TRUE(caller.message.expired());
  }

  AllocationNode world_;
};

TEST_F(CancelledCallers, AreDroppedWhileTheDiskHangs) {
  const Pod pod = AppPod("pod", 4, {{kGpu, "1"}});
  Pod larger = pod;
  larger.containers.push_back(App("beside", {{"cpu", "2"}, {"memory", "1Gi"}}));
  world_.disk.Hold();
  GoingCaller first = Create(pod);
  world_.disk.AwaitHeld();
  GoingCaller retry = Create(pod);                // waits for the same answer
  GoingCaller behind = Create(larger, "beside");  // waits for the next decision
  GoingCaller stays = Create(pod);
  Decide();
  for (GoingCaller* caller : {&first, &retry, &behind}) {
    EXPECT_FALSE(IsAnswered(*caller));
    Go(*caller);
    ExpectDropped(*caller);
  }
  EXPECT_FALSE(IsAnswered(stays));
  world_.disk.LetGo();
  // The decision is that of the first caller.
  const Outcome outcome = stays.answer.get();
  ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
  EXPECT_EQ(AllocatedOf(outcome)->assignments.at("app").exclusive.Count(), 4);
  EXPECT_EQ(world_.plugins->allocations(), 1);
  world_.Settle();
  EXPECT_EQ(world_.saved(), Persistent(world_.published()));
  EXPECT_EQ(world_.published().cpu.Find({"pod", "beside"}), nullptr);
}

// No caller waits for the decision any more.
TEST_F(CancelledCallers, LeaveTheDecisionForTheNextRequest) {
  const Pod pod = AppPod("pod", 4, {{kGpu, "1"}});
  world_.disk.Hold();
  GoingCaller only = Create(pod);
  world_.disk.AwaitHeld();
  Go(only);
  ExpectDropped(only);
  world_.disk.LetGo();
  const Outcome outcome = world_.Admit(pod);
  ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
  EXPECT_EQ(world_.plugins->allocations(), 1);
  world_.Settle();
  EXPECT_EQ(world_.saved(), Persistent(world_.published()));
  EXPECT_NE(world_.saved().cpu.Find({"pod", "app"}), nullptr);
}

TEST_F(CancelledCallers, AreDroppedWhileAPluginHangs) {
  const Pod pod = AppPod("pod", 4, {{kGpu, "1"}});
  world_.plugins->Hold();
  GoingCaller only = Create(pod);
  world_.plugins->AwaitHeld(1);
  Go(only);
  ExpectDropped(only);
  world_.plugins->LetGo();
  const Outcome outcome = world_.Admit(pod);
  ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
  EXPECT_EQ(world_.plugins->allocations(), 1);
}

// The container has its assignment, but the entries of its pod are being written.
TEST_F(CancelledCallers, ThatWaitForAnAssignmentToBeSavedAreDropped) {
  Container init = App("init", {{"cpu", "2"}, {"memory", "1Gi"}});
  init.kind = ContainerKind::kInit;
  const Pod pod = MakePod("pod", {init, App("app", {{"cpu", "4"}, {"memory", "1Gi"}})});
  ASSERT_TRUE(AllocatedOf(world_.Admit(pod)));
  world_.disk.Hold();
  world_.manager->ContainerStarts({"pod", "app"});  // releases what `init` was assigned
  world_.disk.AwaitHeld();
  GoingCaller caller = Create(pod);
  Decide();
  EXPECT_FALSE(IsAnswered(caller));
  Go(caller);
  ExpectDropped(caller);
  world_.disk.LetGo();
  world_.Settle();
  EXPECT_TRUE(AllocatedOf(world_.Admit(pod)));
}

TEST_F(CancelledCallers, AreDroppedWhileTheKubeletsCheckpointHangs) {
  HungKubelet kubelet;
  world_.manager = std::make_unique<AllocationManager>(world_.node, world_.saved(), *world_.store,
                                                       *world_.plugins, kubelet);
  const Pod pod = AppPod("pod", 2, {{"example.com/unknown", "1"}});
  GoingCaller gone = Create(pod);
  GoingCaller stays = Create(pod);
  Decide();
  Go(gone);
  ExpectDropped(gone);
  EXPECT_FALSE(IsAnswered(stays));
  kubelet.LetGo();
  const Outcome outcome = stays.answer.get();
  EXPECT_TRUE(std::holds_alternative<Refusal>(outcome)) << TextOf(outcome);
  world_.manager.reset();  // before the kubelet
}

}  // namespace
}  // namespace alignd::allocation
