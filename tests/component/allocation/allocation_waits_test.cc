// The allocation manager with its threads: requests that wait for a device plugin.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "allocation/allocation_manager.h"
#include "edge/allocation_node.h"
#include "edge/allocation_outcome.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;

class AllocationWaits : public ::testing::Test {
 protected:
  AllocationWaits() {
    world_.Up();
    world_.plugins->Await(kGpu, true);
  }

  // As for CreateContainer.
  std::future<Outcome> Create(const Pod& pod, std::chrono::milliseconds may_wait = kLong) {
    auto answer = std::make_shared<std::promise<Outcome>>();
    world_.manager->Admit({.pod = pod,
                           .wanted = "app",
                           .wait_until = std::chrono::steady_clock::now() + may_wait,
                           .cancelled = cancelled_},
                          [answer](Outcome outcome) { answer->set_value(std::move(outcome)); });
    return answer->get_future();
  }
  static bool IsAnswered(const std::future<Outcome>& later) {
    return later.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  // Returns when everything is decided that was asked before. A request that learns what the
  // kubelet allocated comes to the decision thread twice.
  void Settle() {
    world_.Settle();
    world_.Settle();
  }
  // In the plugin registry, both are one step.
  void Register() {
    world_.plugins->Await(kGpu, false);
    world_.manager->SetResource(kGpu, EightDevices("gpu"));
  }

  static constexpr std::chrono::minutes kLong{10};
  AllocationNode world_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

TEST_F(AllocationWaits, PodWithDevicesOfAnUnknownPluginWaitsUntilItRegisters) {
  const Pod pod = AppPod("p", 2, {{kGpu, "1"}});
  std::future<Outcome> later = Create(pod);
  Settle();
  EXPECT_FALSE(IsAnswered(later));
  EXPECT_TRUE(world_.published().cpu.assignments.empty());
  EXPECT_TRUE(AllocatedOf(world_.Admit(AppPod("other", 2))));  // delays no other pod
  Register();
  const Outcome outcome = later.get();
  ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
  EXPECT_EQ(AllocatedOf(outcome)->assignments.at("app").devices.at(kGpu).Ids().size(), 1U);
}

TEST_F(AllocationWaits, WithoutTimeToWaitItIsAnsweredAtOnceAndNeverAdmittedWithout) {
  const Pod pod = AppPod("p", 2, {{kGpu, "1"}});
  EXPECT_TRUE(IsError(world_.Admit(pod), ErrorCode::kUnavailable));
  EXPECT_TRUE(IsError(Create(pod, std::chrono::milliseconds(0)).get(), ErrorCode::kUnavailable));
  world_.plugins->Await(kGpu, false);  // for long enough
  const Outcome outcome = world_.Admit(pod);
  ASSERT_TRUE(std::holds_alternative<Refusal>(outcome)) << TextOf(outcome);
  EXPECT_NE(TextOf(outcome).find("cannot allocate unregistered device example.com/gpu"),
            std::string::npos);
  EXPECT_TRUE(world_.published().cpu.assignments.empty());
  EXPECT_TRUE(world_.saved().cpu.assignments.empty());
}

// The plugin does not announce that the time is over.
TEST_F(AllocationWaits, IsRefusedOnceThePluginIsNotAwaitedAnyMore) {
  std::future<Outcome> later = Create(AppPod("p", 2, {{kGpu, "1"}}));
  Settle();
  world_.plugins->Await(kGpu, false);
  const Outcome outcome = later.get();
  EXPECT_TRUE(std::holds_alternative<Refusal>(outcome)) << TextOf(outcome);
}

TEST_F(AllocationWaits, IsAnsweredBeforeItsCallerGivesUp) {
  const Outcome outcome =
      Create(AppPod("p", 2, {{kGpu, "1"}}), std::chrono::milliseconds(50)).get();
  EXPECT_TRUE(IsError(outcome, ErrorCode::kUnavailable)) << TextOf(outcome);
  EXPECT_NE(TextOf(outcome).find("example.com/gpu: awaited"), std::string::npos);
}

TEST_F(AllocationWaits, NothingIsAllocatedForACallerThatHasGone) {
  std::future<Outcome> later = Create(AppPod("p", 2, {{kGpu, "1"}}));
  Settle();
  *cancelled_ = true;
  world_.manager->DropCancelled();
  EXPECT_TRUE(IsError(later.get(), ErrorCode::kUnavailable));
  Register();
  Settle();
  EXPECT_TRUE(world_.published().devices.allocations.empty());
  EXPECT_EQ(world_.plugins->allocations(), 0);
}

TEST_F(AllocationWaits, StopAnswersThemAndHoldsNoFurtherOnes) {
  std::future<Outcome> later = Create(AppPod("p", 2, {{kGpu, "1"}}));
  Settle();
  world_.manager->StopWaiting();
  EXPECT_TRUE(IsError(later.get(), ErrorCode::kUnavailable));
  EXPECT_TRUE(IsError(Create(AppPod("q", 2, {{kGpu, "1"}})).get(), ErrorCode::kUnavailable));
}

TEST_F(AllocationWaits, AnswersThemWhenThePodIsReleasedOrTheManagerEnds) {
  std::future<Outcome> released = Create(AppPod("p", 2, {{kGpu, "1"}}));
  std::future<Outcome> waits = Create(AppPod("q", 2, {{kGpu, "1"}}));
  Settle();
  ASSERT_TRUE(world_.Release("p").ok());
  EXPECT_TRUE(IsError(released.get(), ErrorCode::kUnavailable));
  EXPECT_FALSE(IsAnswered(waits));
  world_.manager.reset();
  EXPECT_TRUE(IsError(waits.get(), ErrorCode::kUnavailable));
}

TEST_F(AllocationWaits, KnownPluginThatIsAwayIsAwaited) {
  Register();
  Settle();
  devicemanager::Resource away = EightDevices("gpu");
  for (auto& [id, device] : away.devices) device.healthy = false;
  world_.plugins->Await(kGpu, true);
  world_.manager->SetResource(kGpu, away);
  std::future<Outcome> later = Create(AppPod("p", 2, {{kGpu, "1"}}));
  Settle();
  EXPECT_FALSE(IsAnswered(later));
  Register();
  const Outcome outcome = later.get();
  EXPECT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
}

// One of two plugins has registered: the pod goes on waiting.
TEST_F(AllocationWaits, WaitsForEveryPlugin) {
  world_.plugins->Await(kNic, true);
  std::future<Outcome> later = Create(AppPod("p", 2, {{kGpu, "1"}, {kNic, "1"}}));
  Settle();
  Register();
  Settle();
  EXPECT_FALSE(IsAnswered(later));
  world_.plugins->Await(kNic, false);
  world_.manager->SetResource(kNic, EightDevices("nic"));
  const Outcome outcome = later.get();
  ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
  EXPECT_EQ(AllocatedOf(outcome)->assignments.at("app").devices.size(), 2U);
}

// A container that started without its device, before an update of alignd, does not do so again.
TEST_F(AllocationWaits, ContainerWithAnAssignmentDoesNotStartAgainWithoutItsDevice) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("p", 2))));
  std::future<Outcome> later = Create(AppPod("p", 2, {{kGpu, "1"}}));
  Settle();
  EXPECT_FALSE(IsAnswered(later));
  Register();
  const Outcome outcome = later.get();
  ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
  EXPECT_TRUE(AllocatedOf(outcome)->assignments.at("app").devices.contains(kGpu));
}

// Nor while its plugin is being asked for the device.
TEST_F(AllocationWaits, RetryDuringTheDecisionWaitsForTheSameAnswer) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("p", 2))));
  Register();
  Settle();
  world_.plugins->Hold();
  std::future<Outcome> first = Create(AppPod("p", 2, {{kGpu, "1"}}));
  world_.plugins->AwaitHeld(1);
  std::future<Outcome> retry = Create(AppPod("p", 2, {{kGpu, "1"}}));
  (void)world_.manager->KnownPods();  // both were decided about
  EXPECT_FALSE(IsAnswered(retry));
  world_.plugins->LetGo();
  for (std::future<Outcome>* later : {&first, &retry}) {
    const Outcome outcome = later->get();
    ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
    EXPECT_TRUE(AllocatedOf(outcome)->assignments.at("app").devices.contains(kGpu));
  }
}

TEST_F(AllocationWaits, ResourcesThatAreNoDevicesAreIgnored) {
  world_.manager = std::make_unique<AllocationManager>(world_.node, world_.saved(), *world_.store,
                                                       *world_.plugins, NoKubeletAllocation(),
                                                       nullptr, std::set<std::string>{kGpu});
  const Outcome outcome = world_.Admit(AppPod("p", 2, {{kGpu, "1"}}));
  ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
  Register();  // after all, a plugin serves it
  Settle();
  const Outcome with_device = world_.Admit(AppPod("q", 2, {{kGpu, "1"}}));
  ASSERT_TRUE(AllocatedOf(with_device)) << TextOf(with_device);
  EXPECT_TRUE(AllocatedOf(with_device)->assignments.at("app").devices.contains(kGpu));
}

}  // namespace
}  // namespace alignd::allocation
