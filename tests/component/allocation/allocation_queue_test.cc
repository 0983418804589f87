// The allocation manager with its threads: pods that wait for resources of other pods.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "allocation/allocation_manager.h"
#include "edge/allocation_node.h"
#include "edge/allocation_outcome.h"
#include "edge/process.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;
using std::chrono::milliseconds;

// 15 CPUs can be assigned.
class AllocationQueue : public ::testing::Test {
 protected:
  explicit AllocationQueue(const WaitLimits& limits = {}) { Up(limits); }
  void Up(const WaitLimits& limits) {
    world_.Down();
    world_.waiting.emplace(limits);
    world_.Up();
  }

  // As for CreateContainer.
  std::future<Outcome> Create(const Pod& pod, milliseconds may_wait = kLong,
                              const std::string& wanted = "app") {
    auto answer = std::make_shared<std::promise<Outcome>>();
    world_.manager->Admit({.pod = pod,
                           .wanted = wanted,
                           .describe =
                               [](const std::string& uid) {
                                 return PodStanding{"default/" + uid, false};
                               },
                           .wait_until = std::chrono::steady_clock::now() + may_wait,
                           .cancelled = cancelled_},
                          [answer](Outcome outcome) { answer->set_value(std::move(outcome)); });
    return answer->get_future();
  }
  // Also once it has its place.
  std::future<Outcome> CreateWaiting(const Pod& pod, milliseconds may_wait = kLong) {
    std::future<Outcome> later = Create(pod, may_wait);
    EXPECT_TRUE(WaitUntil([&] { return HasPlace(pod.uid); })) << pod.uid;
    return later;
  }
  bool HasPlace(const std::string& uid) const {
    const auto waiting = world_.manager->WaitingPods();
    const WaitQueue::Place* const place = waiting->Find(uid);
    return place != nullptr && place->is_confirmed;
  }
  size_t PositionOf(const std::string& uid) const {
    return world_.manager->WaitingPods()->PositionOf(uid);
  }
  uint64_t Ended(WaitEnd end) const { return world_.manager->WaitingPods()->Ended(end); }
  static bool IsAnswered(const std::future<Outcome>& later) {
    return later.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  static bool IsAdmitted(std::future<Outcome> later) {
    const Outcome outcome = later.get();
    EXPECT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
    return AllocatedOf(outcome) != nullptr;
  }
  static bool Says(const Outcome& outcome, const std::string& text) {
    return TextOf(outcome).find(text) != std::string::npos;
  }
  // As after a change of the configuration. Without `queue`, the manager's own goes on.
  void UpAgain(admission::Node node, std::optional<WaitQueue> queue = {}) {
    if (!queue) queue = *world_.manager->WaitingPods();
    queue->InventoryChanged();
    world_.Down();
    world_.waiting = std::move(queue);
    world_.node = std::move(node);
    world_.Up();
  }
  // Releases the pod; what `request` posts is decided after that, and before pods that wait are
  // tried again.
  void ReleaseAfter(const std::string& uid, const std::function<void()>& request) {
    std::promise<void> go;
    const std::shared_future<void> may_go = go.get_future().share();
    const auto released = std::make_shared<std::promise<void>>();
    world_.manager->ReleasePod(
        uid, [released](const Result<Done>&) { released->set_value(); },
        [may_go] {
          may_go.wait();
          return true;
        });
    request();
    go.set_value();
    released->get_future().wait();
  }
  // One container of a pod of which no more is known.
  static Pod PartOf(const std::string& uid, const std::string& container, int cpus) {
    Pod pod = AppPod(uid, cpus);
    pod.containers[0].name = container;
    pod.is_complete = false;
    return pod;
  }

  static constexpr std::chrono::minutes kLong{10};
  AllocationNode world_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

TEST_F(AllocationQueue, AHeldRequestGoesOnWhenAnotherPodIsReleased) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  std::future<Outcome> later = CreateWaiting(AppPod("b", 8));
  EXPECT_FALSE(IsAnswered(later));
  ASSERT_TRUE(world_.Release("a").ok());
  EXPECT_TRUE(IsAdmitted(std::move(later)));
  EXPECT_EQ(PositionOf("b"), 0U);
  EXPECT_EQ(Ended(WaitEnd::kAdmitted), 1U);
}

TEST_F(AllocationQueue, AtItsDeadlineItIsRefusedWithItsPositionAndKeepsItsPlace) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  std::future<Outcome> first = CreateWaiting(AppPod("b", 8));
  const Outcome outcome = Create(AppPod("c", 9), milliseconds(100)).get();
  ASSERT_TRUE(std::holds_alternative<Refusal>(outcome)) << TextOf(outcome);
  EXPECT_TRUE(Says(outcome, "What would help: ")) << TextOf(outcome);
  EXPECT_TRUE(Says(outcome, "position 2 of 2 in the queue")) << TextOf(outcome);
  EXPECT_TRUE(Says(outcome, "after pods default/b")) << TextOf(outcome);
  // Unblocked, it also names the pods that have what it needs.
  const Outcome again = Create(AppPod("b", 8), milliseconds(100)).get();
  EXPECT_TRUE(Says(again, "Still assigned: pod default/a (a): ")) << TextOf(again);
  EXPECT_TRUE(Says(again, "container app has CPUs ")) << TextOf(again);
  EXPECT_TRUE(Says(again, "position 1 of 2")) << TextOf(again);
  EXPECT_TRUE(IsError(first.get(), ErrorCode::kUnavailable));  // replaced by the second call
  EXPECT_EQ(PositionOf("b"), 1U);
  EXPECT_EQ(PositionOf("c"), 2U);
  ASSERT_TRUE(world_.Release("a").ok());
  // b has no call now: its place reserves the CPUs all the same.
  EXPECT_TRUE(Says(Create(AppPod("c", 9), milliseconds(0)).get(), "WaitsForEarlierPods"));
  EXPECT_TRUE(IsAdmitted(Create(AppPod("b", 8))));
}

TEST_F(AllocationQueue, WithoutTimeToWaitItIsAnsweredAtOnceAndHasAPlace) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  const Outcome outcome = world_.Admit(AppPod("b", 8));  // as for RunPodSandbox
  EXPECT_TRUE(Says(outcome, "position 1 of 1")) << TextOf(outcome);
  EXPECT_TRUE(HasPlace("b"));
}

TEST_F(AllocationQueue, ALaterPodThatFitsWaitsUnlessItTakesNothingOfThat) {
  world_.AnnounceDevices();
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  std::future<Outcome> head = CreateWaiting(AppPod("head", 8));
  std::future<Outcome> later = CreateWaiting(AppPod("later", 2));
  EXPECT_TRUE(AllocatedOf(world_.Admit(alignd::AppPod("devices", {{kGpu, "1"}}))));
  EXPECT_TRUE(AllocatedOf(world_.Admit(alignd::AppPod("shared", {}))));
  EXPECT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));  // a restart
  EXPECT_FALSE(IsAnswered(later));
  ASSERT_TRUE(world_.Release("a").ok());
  EXPECT_TRUE(IsAdmitted(std::move(head)));
  EXPECT_TRUE(IsAdmitted(std::move(later)));
}

TEST_F(AllocationQueue, AHigherPriorityIsServedFirst) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  Pod important = AppPod("important", 8);
  important.priority = 1000;
  std::future<Outcome> old = CreateWaiting(AppPod("old", 8));
  std::future<Outcome> first = CreateWaiting(important);
  EXPECT_EQ(PositionOf("important"), 1U);
  ASSERT_TRUE(world_.Release("a").ok());
  EXPECT_TRUE(IsAdmitted(std::move(first)));
  world_.Settle();
  EXPECT_FALSE(IsAnswered(old));
  ASSERT_TRUE(world_.Release("important").ok());
  EXPECT_TRUE(IsAdmitted(std::move(old)));
}

TEST_F(AllocationQueue, WhatNeverFitsIsRefusedAtOnce) {
  const Outcome outcome = Create(AppPod("large", 16)).get();
  ASSERT_TRUE(std::holds_alternative<Refusal>(outcome)) << TextOf(outcome);
  EXPECT_FALSE(Says(outcome, "in the queue")) << TextOf(outcome);
  EXPECT_EQ(PositionOf("large"), 0U);
  EXPECT_TRUE(AllocatedOf(world_.Admit(AppPod("b", 2))));
}

TEST_F(AllocationQueue, ServesManyPodsInOrder) {
  constexpr int kPods = 24;
  std::vector<std::future<Outcome>> answers;
  for (int i = 0; i < kPods; ++i) {
    const Pod pod = AppPod("p" + std::to_string(i), 5);  // three fit
    answers.push_back(i < 3 ? Create(pod) : CreateWaiting(pod));
  }
  for (int i = 0; i < kPods; ++i) {
    ASSERT_TRUE(IsAdmitted(std::move(answers[static_cast<size_t>(i)]))) << i;
    world_.Settle();
    for (size_t later = static_cast<size_t>(i) + 3; later < answers.size(); ++later) {
      ASSERT_FALSE(IsAnswered(answers[later])) << i << ", " << later;
    }
    ASSERT_TRUE(world_.Release("p" + std::to_string(i)).ok());
  }
  EXPECT_TRUE(world_.manager->WaitingPods()->IsEmpty());
}

TEST_F(AllocationQueue, AReleasedPodLeavesAndTheNextOneGoesOn) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  std::future<Outcome> head = CreateWaiting(AppPod("head", 8));
  std::future<Outcome> later = CreateWaiting(AppPod("later", 2));
  EXPECT_TRUE(world_.manager->KnownPods().contains("head"));
  ASSERT_TRUE(world_.Release("head").ok());
  EXPECT_TRUE(IsError(head.get(), ErrorCode::kUnavailable));
  EXPECT_TRUE(IsAdmitted(std::move(later)));
  EXPECT_EQ(Ended(WaitEnd::kPodGone), 1U);
}

TEST_F(AllocationQueue, AStoppedSandboxAnswersTheCallAndARemovedOneEndsTheWait) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  std::future<Outcome> head = CreateWaiting(AppPod("head", 8));
  std::future<Outcome> later = CreateWaiting(AppPod("later", 2));
  world_.manager->SandboxStopped("head", /*is_removed=*/false);
  EXPECT_TRUE(IsError(head.get(), ErrorCode::kUnavailable));
  EXPECT_EQ(PositionOf("head"), 1U);
  world_.manager->SandboxStopped("head", /*is_removed=*/true);
  EXPECT_TRUE(IsAdmitted(std::move(later)));
}

TEST_F(AllocationQueue, ACallerThatHasGoneIsDroppedAndThePodKeepsItsPlace) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  std::future<Outcome> later = CreateWaiting(AppPod("b", 8));
  *cancelled_ = true;
  world_.manager->DropCancelled();
  EXPECT_TRUE(IsError(later.get(), ErrorCode::kUnavailable));
  EXPECT_EQ(PositionOf("b"), 1U);
  ASSERT_TRUE(world_.Release("a").ok());
  world_.Settle();
  EXPECT_TRUE(world_.published().cpu.assignments.empty());
}

TEST_F(AllocationQueue, StopAnswersThemAndHoldsNoFurtherOnes) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  std::future<Outcome> later = CreateWaiting(AppPod("b", 8));
  world_.manager->StopWaiting();
  EXPECT_TRUE(IsError(later.get(), ErrorCode::kUnavailable));
  EXPECT_TRUE(std::holds_alternative<Refusal>(Create(AppPod("c", 8)).get()));
}

TEST_F(AllocationQueue, APodWhoseInventoryShrinksForGoodLeaves) {
  world_.AnnounceDevices();
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 1, {{kGpu, "1"}}))));
  std::future<Outcome> head = CreateWaiting(AppPod("head", 1, {{kGpu, "8"}}));
  std::future<Outcome> later = CreateWaiting(AppPod("later", 1, {{kGpu, "2"}}));
  devicemanager::Resource fewer = EightDevices("gpu");
  fewer.devices.erase("gpu7");
  world_.manager->SetResource(kGpu, fewer);
  const Outcome outcome = head.get();
  EXPECT_TRUE(std::holds_alternative<Refusal>(outcome)) << TextOf(outcome);
  EXPECT_TRUE(IsAdmitted(std::move(later)));
  EXPECT_EQ(Ended(WaitEnd::kCannotFit), 1U);
}

TEST_F(AllocationQueue, AWaitingPodGoesOnWhenTheInventoryGrows) {
  world_.manager->SetResource(kGpu, [] {
    devicemanager::Resource one;
    one.registered = true;
    one.devices["gpu0"] = {true, {0}};
    return one;
  }());
  world_.Settle();
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 1, {{kGpu, "1"}}))));
  std::future<Outcome> later = CreateWaiting(AppPod("b", 1, {{kGpu, "1"}}));
  world_.manager->SetResource(kGpu, EightDevices("gpu"));
  EXPECT_TRUE(IsAdmitted(std::move(later)));
}

TEST_F(AllocationQueue, APluginThatFailsEndsTheWait) {
  world_.AnnounceDevices();
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  std::future<Outcome> head = CreateWaiting(AppPod("head", 8, {{kGpu, "1"}}));
  std::future<Outcome> later = CreateWaiting(AppPod("later", 2));
  world_.plugins->Fail(kGpu, Error{ErrorCode::kInternal, "broken", "restart it"});
  ASSERT_TRUE(world_.Release("a").ok());
  EXPECT_TRUE(Says(head.get(), "UnexpectedAdmissionError"));
  EXPECT_TRUE(IsAdmitted(std::move(later)));
  EXPECT_EQ(Ended(WaitEnd::kOtherReason), 1U);
}

TEST_F(AllocationQueue, FurtherContainersDoNotWaitForOtherPods) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("other", 3))));
  ASSERT_TRUE(AllocatedOf(world_.Admit(PartOf("part", "first", 8))));
  std::future<Outcome> head = CreateWaiting(AppPod("head", 8));
  EXPECT_TRUE(IsAdmitted(Create(PartOf("part", "second", 2), kLong, "second")));
  EXPECT_FALSE(IsAnswered(head));
  // One that does not fit has a place, says so, and stops others for some time only.
  const Outcome third = Create(PartOf("part", "third", 4), milliseconds(50), "third").get();
  EXPECT_TRUE(Says(third, "if two such pods wait for each other, delete one")) << TextOf(third);
}

TEST_F(AllocationQueue, TwoPodsThatWaitForEachOtherDoNotStopTheOthersForEver) {
  Up({.part_reserves = milliseconds(200)});
  ASSERT_TRUE(AllocatedOf(world_.Admit(PartOf("a", "first", 6))));
  ASSERT_TRUE(AllocatedOf(world_.Admit(PartOf("b", "first", 6))));
  std::future<Outcome> a = Create(PartOf("a", "second", 6), kLong, "second");
  std::future<Outcome> b = Create(PartOf("b", "second", 6), kLong, "second");
  ASSERT_TRUE(WaitUntil([&] { return HasPlace("a") && HasPlace("b"); }));
  EXPECT_TRUE(IsAdmitted(Create(AppPod("other", 2))));
  EXPECT_FALSE(IsAnswered(a));
  ASSERT_TRUE(world_.Release("a").ok());
  EXPECT_TRUE(IsError(a.get(), ErrorCode::kUnavailable));
  EXPECT_TRUE(IsAdmitted(std::move(b)));
}

TEST_F(AllocationQueue, AResizeToMoreCpusWaitsToo) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 2))));
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("b", 8))));
  std::future<Outcome> head = CreateWaiting(AppPod("head", 8));
  const auto resize = [this](int64_t count) {
    std::promise<ResizeOutcome> done;
    Pod names;
    names.uid = "a";
    names.name = "a";
    names.name_space = "default";
    world_.manager->Resize(names, "app", count,
                           [&done](ResizeOutcome outcome) { done.set_value(std::move(outcome)); });
    return done.get_future().get();
  };
  const ResizeOutcome more = resize(4);
  ASSERT_TRUE(std::holds_alternative<Refusal>(more));
  EXPECT_NE(std::get<Refusal>(more).message.find("waits for CPUs and is served first"),
            std::string::npos)
      << std::get<Refusal>(more).message;
  EXPECT_FALSE(std::get<Refusal>(more).remedy.empty());
  ASSERT_TRUE(world_.Release("b").ok());
  EXPECT_TRUE(IsAdmitted(std::move(head)));
  EXPECT_TRUE(std::holds_alternative<CpuSet>(resize(4)));
}

TEST_F(AllocationQueue, WithFailAfterEveryLaterCallIsRefusedAtOnce) {
  Up({.fail_after = milliseconds(300)});
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  std::future<Outcome> head = CreateWaiting(AppPod("head", 8));
  const Outcome outcome = head.get();
  EXPECT_TRUE(Says(outcome, "as long as --on-refusal allows")) << TextOf(outcome);
  EXPECT_EQ(Ended(WaitEnd::kTimeout), 1U);
  ASSERT_TRUE(world_.Release("a").ok());  // it would fit now
  EXPECT_TRUE(Says(Create(AppPod("head", 8)).get(), "as long as --on-refusal allows"));
  EXPECT_TRUE(AllocatedOf(world_.Admit(AppPod("other", 8))));
  ASSERT_TRUE(world_.Release("other").ok());
  ASSERT_TRUE(world_.Release("head").ok());  // it is forgotten with its pod
  EXPECT_TRUE(IsAdmitted(Create(AppPod("head", 8))));
}

TEST_F(AllocationQueue, AFloodFillsItsPlacesAndDelaysNoRelease) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  std::future<Outcome> head = CreateWaiting(AppPod("head", 8));
  constexpr int kCalls = 10'000;
  std::atomic<int> answered = 0;
  for (int i = 0; i < kCalls; ++i) {
    world_.manager->Admit({.pod = AppPod("flood" + std::to_string(i), 9), .wanted = "app"},
                          [&answered](const Outcome&) { ++answered; });
  }
  ASSERT_TRUE(world_.Release("a").ok());
  EXPECT_TRUE(IsAdmitted(std::move(head)));
  EXPECT_TRUE(WaitUntil([&] { return answered == kCalls; }));
  EXPECT_LE(world_.manager->WaitingPods()->size(), WaitLimits().places);
}

TEST_F(AllocationQueue, ARestartForgetsThePlaces) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  std::future<Outcome> first = CreateWaiting(AppPod("first", 8));
  std::future<Outcome> second = CreateWaiting(AppPod("second", 8));
  Up({});
  EXPECT_TRUE(IsError(first.get(), ErrorCode::kUnavailable));
  second = CreateWaiting(AppPod("second", 8));
  first = CreateWaiting(AppPod("first", 8));
  EXPECT_EQ(PositionOf("second"), 1U);
  ASSERT_TRUE(world_.Release("a").ok());
  EXPECT_TRUE(IsAdmitted(std::move(second)));
}

// --- Containers that ask alone, because no more of their pod is known.

TEST_F(AllocationQueue, AContainerThatIsAdmittedDoesNotEndTheWaitOfAnother) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  ASSERT_TRUE(Says(Create(PartOf("p", "first", 8), milliseconds(0), "first").get(), "position 1"));
  EXPECT_TRUE(IsAdmitted(Create(PartOf("p", "second", 2), kLong, "second")));
  EXPECT_EQ(PositionOf("p"), 1U);
  // The first one is served before later pods.
  EXPECT_TRUE(Says(Create(AppPod("later", 2), milliseconds(0)).get(), "WaitsForEarlierPods"));
  std::future<Outcome> first = Create(PartOf("p", "first", 8), kLong, "first");
  ASSERT_TRUE(world_.Release("a").ok());
  EXPECT_TRUE(IsAdmitted(std::move(first)));
  EXPECT_EQ(PositionOf("p"), 0U);
  EXPECT_EQ(Ended(WaitEnd::kAdmitted), 1U);
}

TEST_F(AllocationQueue, ContainersThatWaitKeepWhatEachNeeds) {
  world_.AnnounceDevices();
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10, {{kGpu, "8"}}))));
  std::future<Outcome> first = Create(PartOf("p", "first", 8), kLong, "first");
  ASSERT_TRUE(WaitUntil([&] { return HasPlace("p"); }));
  Pod device = alignd::AppPod("p", {{kGpu, "1"}});
  device.containers[0].name = "second";
  device.is_complete = false;
  std::future<Outcome> second = Create(device, kLong, "second");
  world_.Settle();
  EXPECT_FALSE(IsAnswered(second));
  // What both need is reserved for the pod.
  EXPECT_TRUE(Says(Create(AppPod("cpus", 2), milliseconds(0)).get(), "waits for cpu"));
  EXPECT_EQ(world_.manager->WaitingPods()->Find("p")->pod.needs,
            (std::set<std::string>{"cpu", "memory", kGpu}));
  ASSERT_TRUE(world_.Release("a").ok());
  EXPECT_TRUE(IsAdmitted(std::move(first)));
  EXPECT_TRUE(IsAdmitted(std::move(second)));
}

TEST_F(AllocationQueue, AContainerIsTriedAgainAlthoughAnotherOneWasDecidedSinceTheRelease) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 8))));
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("b", 4))));
  std::future<Outcome> first = Create(PartOf("p", "first", 6), kLong, "first");
  ASSERT_TRUE(WaitUntil([&] { return HasPlace("p"); }));
  std::future<Outcome> second;
  ReleaseAfter("b", [&] { second = Create(PartOf("p", "second", 9), kLong, "second"); });
  EXPECT_TRUE(WaitUntil([&] { return IsAnswered(first); }));
  world_.manager->StopWaiting();  // the second may be held already, or be decided about
  EXPECT_TRUE(IsAdmitted(std::move(first)));
  EXPECT_FALSE(AllocatedOf(second.get()));
}

TEST_F(AllocationQueue, AHeldCallIsTriedAgainAlthoughItsPodWasDecidedOtherwiseSinceTheRelease) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 8))));
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("b", 4))));
  std::future<Outcome> first = CreateWaiting(AppPod("p", 6));
  Pod other = AppPod("p", 9);
  other.containers[0].name = "other";
  std::future<Outcome> second;
  ReleaseAfter("b", [&] { second = Create(other, kLong, "other"); });
  EXPECT_TRUE(WaitUntil([&] { return IsAnswered(first); }));
  world_.manager->StopWaiting();
  EXPECT_TRUE(IsAdmitted(std::move(first)));
  EXPECT_FALSE(AllocatedOf(second.get()));
}

// --- Pods that cannot be served now.

TEST_F(AllocationQueue, APodReservesNothingWhileItsPluginIsAway) {
  world_.AnnounceDevices();
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 1, {{kGpu, "8"}}))));
  std::future<Outcome> head = CreateWaiting(AppPod("head", 2, {{kGpu, "1"}}));
  std::future<Outcome> later = CreateWaiting(AppPod("later", 2));
  world_.plugins->Await(kGpu, true);
  devicemanager::Resource unhealthy = EightDevices("gpu");
  for (auto& [id, device] : unhealthy.devices) device.healthy = false;
  world_.manager->SetResource(kGpu, unhealthy);
  EXPECT_TRUE(IsAdmitted(std::move(later)));
  EXPECT_FALSE(IsAnswered(head));
  EXPECT_EQ(PositionOf("head"), 1U);
  // It comes back.
  world_.plugins->Await(kGpu, false);
  world_.manager->SetResource(kGpu, EightDevices("gpu"));
  world_.Settle();
  EXPECT_TRUE(Says(Create(AppPod("last", 2), milliseconds(0)).get(), "WaitsForEarlierPods"));
  ASSERT_TRUE(world_.Release("a").ok());
  EXPECT_TRUE(IsAdmitted(std::move(head)));
}

TEST_F(AllocationQueue, APodWithoutACallReservesNothingOnceItsPluginHasGone) {
  world_.AnnounceDevices();
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 1, {{kGpu, "8"}}))));
  ASSERT_TRUE(Says(Create(AppPod("head", 2, {{kGpu, "1"}}), milliseconds(0)).get(), "position 1"));
  std::future<Outcome> later = CreateWaiting(AppPod("later", 2));
  world_.manager->RemoveResource(kGpu);
  EXPECT_TRUE(IsAdmitted(std::move(later)));
}

TEST_F(AllocationQueue, APodWithoutACallLeavesWhenTheInventoryShrinksForGood) {
  world_.AnnounceDevices();
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 1, {{kGpu, "1"}}))));
  ASSERT_TRUE(Says(Create(AppPod("head", 2, {{kGpu, "8"}}), milliseconds(0)).get(), "position 1"));
  std::future<Outcome> later = CreateWaiting(AppPod("later", 2));
  devicemanager::Resource fewer = EightDevices("gpu");
  fewer.devices.erase("gpu7");
  world_.manager->SetResource(kGpu, fewer);
  EXPECT_TRUE(IsAdmitted(std::move(later)));
  EXPECT_EQ(PositionOf("head"), 0U);
  EXPECT_EQ(Ended(WaitEnd::kCannotFit), 1U);
}

// --- A change of the configuration: the next manager gets the queue.

TEST_F(AllocationQueue, APlaceThatNeverFitsUnderTheNextConfigurationIsDropped) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 6))));
  ASSERT_TRUE(Says(Create(AppPod("head", 10), milliseconds(0)).get(), "position 1"));
  ASSERT_TRUE(Says(Create(AppPod("fits", 8), milliseconds(0)).get(), "position 2"));
  KubeletConfig config = StaticConfig();
  config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  UpAgain(MakeNode(config));
  EXPECT_TRUE(WaitUntil([&] { return PositionOf("head") == 0; }));  // without a call
  EXPECT_EQ(PositionOf("fits"), 1U);
  EXPECT_EQ(Ended(WaitEnd::kCannotFit), 1U);
  ASSERT_TRUE(world_.Release("a").ok());
  EXPECT_TRUE(IsAdmitted(Create(AppPod("fits", 8))));
}

TEST_F(AllocationQueue, APlaceNeedsWhatTheNextConfigurationSays) {
  world_.AnnounceDevices();
  ASSERT_TRUE(AllocatedOf(world_.Admit(alignd::AppPod("a", {{kGpu, "8"}}))));
  ASSERT_TRUE(Says(Create(AppPod("head", 2, {{kGpu, "1"}}), milliseconds(0)).get(), "position 1"));
  KubeletConfig config = StaticConfig();
  config.cpu_manager_policy = CpuManagerPolicy::kNone;
  config.memory_manager_policy = MemoryManagerPolicy::kNone;
  config.reserved_memory.clear();
  config.topology_manager_policy = TopologyManagerPolicy::kNone;
  AllocationNode next(MakeNode(config));
  next.waiting = *world_.manager->WaitingPods();
  next.Up();
  const auto waiting = next.manager->WaitingPods();
  ASSERT_EQ(waiting->PositionOf("head"), 1U);
  EXPECT_EQ(waiting->Find("head")->pod.needs, std::set<std::string>{kGpu});
}

TEST_F(AllocationQueue, APodThatIsAdmittedDuringTheChangeHasNoPlaceAfterIt) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  std::future<Outcome> head = CreateWaiting(AppPod("head", 8));
  std::future<Outcome> later = CreateWaiting(AppPod("later", 9));
  const WaitQueue before = *world_.manager->WaitingPods();
  ASSERT_TRUE(world_.Release("a").ok());
  EXPECT_TRUE(IsAdmitted(std::move(head)));
  UpAgain(MakeNode(), before);
  EXPECT_EQ(PositionOf("head"), 0U);
  EXPECT_EQ(PositionOf("later"), 1U);
}

// --- Answers.

TEST_F(AllocationQueue, ADiskThatFailsCostsNoPlace) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  std::future<Outcome> head = CreateWaiting(AppPod("head", 8));
  std::future<Outcome> later = CreateWaiting(AppPod("later", 9));
  world_.disk.DieAt(0);
  EXPECT_FALSE(world_.Release("a").ok());
  EXPECT_TRUE(IsError(head.get(), ErrorCode::kIo));
  world_.Settle();
  EXPECT_EQ(PositionOf("head"), 1U);
  EXPECT_FALSE(IsAnswered(later));
  world_.disk.Repair();
  EXPECT_TRUE(IsAdmitted(Create(AppPod("head", 8))));
  EXPECT_FALSE(IsAnswered(later));
}

TEST_F(AllocationQueue, ACallerWithTheAnswerSeesTheQueueWithoutThePod) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  const auto create = [this](const Pod& pod) {
    auto position = std::make_shared<std::promise<size_t>>();
    world_.manager->Admit(
        {.pod = pod, .wanted = "app", .wait_until = std::chrono::steady_clock::now() + kLong},
        [this, position, uid = pod.uid](const Outcome&) { position->set_value(PositionOf(uid)); });
    EXPECT_TRUE(WaitUntil([&] { return HasPlace(pod.uid); }));
    return position->get_future();
  };
  std::future<size_t> admitted = create(AppPod("admitted", 8));
  std::future<size_t> released = create(AppPod("released", 8));
  std::future<size_t> removed = create(AppPod("removed", 8));
  world_.manager->SandboxStopped("removed", /*is_removed=*/true);
  EXPECT_EQ(removed.get(), 0U);
  ASSERT_TRUE(world_.Release("released").ok());
  EXPECT_EQ(released.get(), 0U);
  ASSERT_TRUE(world_.Release("a").ok());
  EXPECT_EQ(admitted.get(), 0U);
}

TEST_F(AllocationQueue, ACallWhoseSandboxStopsWhileItIsDecidedAboutIsNotHeld) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  // The explanation waits.
  std::promise<void> go;
  const std::shared_future<void> may_go = go.get_future().share();
  auto answer = std::make_shared<std::promise<Outcome>>();
  world_.manager->Admit({.pod = AppPod("head", 8),
                         .wanted = "app",
                         .describe =
                             [may_go](const std::string&) {
                               may_go.wait();
                               return PodStanding{};
                             },
                         .wait_until = std::chrono::steady_clock::now() + kLong},
                        [answer](Outcome outcome) { answer->set_value(std::move(outcome)); });
  ASSERT_TRUE(WaitUntil([&] { return world_.manager->KnownPods().contains("head"); }));
  world_.manager->SandboxStopped("head", /*is_removed=*/false);
  world_.Settle();
  go.set_value();
  std::future<Outcome> later = answer->get_future();
  EXPECT_TRUE(WaitUntil([&] { return IsAnswered(later); }));
  world_.manager->StopWaiting();
  EXPECT_TRUE(std::holds_alternative<Refusal>(later.get()));
  EXPECT_EQ(PositionOf("head"), 1U);
}

TEST_F(AllocationQueue, AnswersNameThePod) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  Pod pod = AppPod("uid", 8);
  pod.name = "web";
  pod.name_space = "shop";
  std::future<Outcome> stopped = CreateWaiting(pod);
  world_.manager->SandboxStopped("uid", /*is_removed=*/false);
  EXPECT_TRUE(Says(stopped.get(), "the sandbox of pod shop/web was stopped"));
  std::future<Outcome> released = CreateWaiting(pod);
  world_.Settle();
  ASSERT_TRUE(world_.Release("uid").ok());
  EXPECT_TRUE(Says(released.get(), "pod shop/web was released while it waited"));
}

// --- With a time limit.

TEST_F(AllocationQueue, APodWhoseTimeEndsWhileItIsBeingAdmittedIsAdmitted) {
  Up({.fail_after = milliseconds(400)});
  world_.AnnounceDevices();
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  std::future<Outcome> head = CreateWaiting(PartOf("head", "first", 8), kLong);
  world_.plugins->Hold();
  Pod part = PartOf("head", "second", 1);
  part.containers[0].resources.limits[kGpu] = Amount("1");
  std::future<Outcome> second = Create(part, kLong, "second");
  world_.plugins->AwaitHeld(1);
  EXPECT_TRUE(WaitUntil([&] { return PositionOf("head") == 0; }));
  world_.plugins->LetGo();
  EXPECT_TRUE(IsAdmitted(std::move(second)));
  EXPECT_EQ(world_.manager->WaitingPods()->FindFailed("head"), nullptr);
  world_.manager->StopWaiting();  // the first one waits anew
  EXPECT_FALSE(AllocatedOf(head.get()));
}

TEST_F(AllocationQueue, APodWhoseTimeIsOverMayHaveContainersThatNeedNothing) {
  Up({.fail_after = milliseconds(200)});
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  EXPECT_TRUE(Says(Create(PartOf("head", "first", 8), kLong, "first").get(), "--on-refusal"));
  Pod shared = alignd::AppPod("head", {});
  shared.containers[0].name = "shared";
  shared.is_complete = false;
  EXPECT_TRUE(IsAdmitted(Create(shared, kLong, "shared")));
  EXPECT_TRUE(Says(Create(PartOf("head", "first", 8), kLong, "first").get(), "--on-refusal"));
}

}  // namespace
}  // namespace alignd::allocation
