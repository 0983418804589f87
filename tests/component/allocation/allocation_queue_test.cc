// The allocation manager with its threads: pods that wait for resources of other pods.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "allocation_queue_fixture.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;
using std::chrono::milliseconds;

class AllocationQueue : public AllocationQueueTest {};

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

}  // namespace
}  // namespace alignd::allocation
