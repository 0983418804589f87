// The allocation manager with its threads: containers of one pod that wait, each with a call of its
// own.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "allocation_queue_fixture.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;
using std::chrono::milliseconds;

class QueuedContainers : public AllocationQueueTest {
 protected:
  // One container of a pod of which no more is known.
  static Pod PartOf(const std::string& uid, const std::string& container, int cpus) {
    Pod pod = AppPod(uid, cpus);
    pod.containers[0].name = container;
    pod.is_complete = false;
    return pod;
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
};

TEST_F(QueuedContainers, FurtherContainersDoNotWaitForOtherPods) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("other", 3))));
  ASSERT_TRUE(AllocatedOf(world_.Admit(PartOf("part", "first", 8))));
  std::future<Outcome> head = CreateWaiting(AppPod("head", 8));
  EXPECT_TRUE(IsAdmitted(Create(PartOf("part", "second", 2), kLong, "second")));
  EXPECT_FALSE(IsAnswered(head));
  // One that does not fit has a place, says so, and stops others for some time only.
  const Outcome third = Create(PartOf("part", "third", 4), milliseconds(50), "third").get();
  EXPECT_TRUE(Says(third, "if two such pods wait for each other, delete one")) << TextOf(third);
}

TEST_F(QueuedContainers, TwoPodsThatWaitForEachOtherDoNotStopTheOthersForEver) {
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

TEST_F(QueuedContainers, AContainerThatIsAdmittedDoesNotEndTheWaitOfAnother) {
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

TEST_F(QueuedContainers, ContainersThatWaitKeepWhatEachNeeds) {
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

TEST_F(QueuedContainers, AContainerIsTriedAgainAlthoughAnotherOneWasDecidedSinceTheRelease) {
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

TEST_F(QueuedContainers, AHeldCallIsTriedAgainAlthoughItsPodWasDecidedOtherwiseSinceTheRelease) {
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

TEST_F(QueuedContainers, APodWhoseTimeEndsWhileItIsBeingAdmittedIsAdmitted) {
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

TEST_F(QueuedContainers, APodWhoseTimeIsOverMayHaveContainersThatNeedNothing) {
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
