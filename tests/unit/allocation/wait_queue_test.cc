#include "allocation/wait_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "allocation/wait_texts.h"

namespace alignd::allocation {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

const Refusal kQueuedRefusal{"TopologyAffinityError", "Resources cannot be allocated"};
const WaitQueue::Time kQueueStart = WaitQueue::Time() + std::chrono::hours(1000);

WaitingPod PodThatNeeds(const std::string& uid, const std::set<std::string>& needs,
                        int32_t priority = 0) {
  return {.uid = uid, .name = "default/" + uid, .priority = priority, .needs = needs};
}

WaitingPod ContainerThatNeeds(const std::string& uid, const std::string& container,
                              const std::set<std::string>& needs) {
  WaitingPod pod = PodThatNeeds(uid, needs);
  pod.container = container;
  return pod;
}

class WaitQueueTest : public ::testing::Test {
 protected:
  void Join(const WaitingPod& pod, WaitQueue::Time now = kQueueStart) {
    ASSERT_TRUE(queue_.Join(pod, kQueuedRefusal, now));
    queue_.Confirm(pod.uid, pod.container, kQueuedRefusal);
  }
  std::vector<std::string> Order() const {
    std::vector<std::string> order;
    for (const WaitQueue::SharedPlace& place : queue_.Places()) order.push_back(place->pod.uid);
    return order;
  }
  // The UID of the pod for which it waits; empty: it need not wait.
  std::string Before(const WaitingPod& pod, WaitQueue::Time now = kQueueStart) const {
    const WaitQueue::Place* const first = queue_.FirstBefore(pod, now);
    return first == nullptr ? "" : first->pod.uid;
  }
  // All that can be tried, in order.
  std::vector<std::string> Try(const std::set<std::string>& not_called = {}) {
    std::vector<std::string> tried;
    const auto is_called = [&](const std::string& uid) { return !not_called.contains(uid); };
    while (const auto uid = queue_.NextToTry(kQueueStart, is_called)) tried.push_back(*uid);
    return tried;
  }

  using List = std::vector<std::string>;
  WaitQueue queue_{WaitLimits{}};
};

TEST_F(WaitQueueTest, HigherPriorityFirstThenOldestFirst) {
  Join(PodThatNeeds("old", {"cpu"}));
  Join(PodThatNeeds("low", {"cpu"}, -5));
  Join(PodThatNeeds("high", {"cpu"}, 100));
  Join(PodThatNeeds("new", {"cpu"}));
  EXPECT_EQ(Order(), (List{"high", "old", "new", "low"}));
  EXPECT_EQ(queue_.PositionOf("new"), 3U);
  EXPECT_EQ(queue_.PositionOf("other"), 0U);
}

TEST_F(WaitQueueTest, NamesThePodsThatAreServedBefore) {
  Join(PodThatNeeds("a", {"cpu"}));
  Join(PodThatNeeds("b", {"gpu"}));
  Join(PodThatNeeds("c", {"cpu", "gpu"}));
  Join(PodThatNeeds("low", {"cpu"}, -5));
  const auto before = [this](const WaitingPod& pod, size_t limit = 5) {
    List names;
    for (const auto& place : queue_.PlacesBefore(pod, kQueueStart, limit)) {
      names.push_back(place->pod.uid);
    }
    return names;
  };
  EXPECT_EQ(before(PodThatNeeds("new", {"cpu"})), (List{"a", "c"}));
  EXPECT_EQ(before(PodThatNeeds("new", {"cpu"}), 1), List{"a"});
  EXPECT_EQ(before(PodThatNeeds("c", {"cpu"})), List{"a"});
  EXPECT_EQ(before(PodThatNeeds("a", {"cpu"})), List{});
  EXPECT_EQ(before(PodThatNeeds("new", {"cpu"}, -6)), (List{"a", "c", "low"}));
  EXPECT_EQ(before(PodThatNeeds("new", {"memory"})), List{});
}

TEST_F(WaitQueueTest, AFurtherRefusalKeepsThePlaceAndItsTime) {
  Join(PodThatNeeds("a", {"cpu"}));
  Join(PodThatNeeds("b", {"cpu"}));
  const Refusal other{"SMTAlignmentError", "other"};
  ASSERT_TRUE(queue_.Join(PodThatNeeds("a", {"cpu", "memory"}), other, kQueueStart + seconds(30)));
  EXPECT_EQ(Order(), (List{"a", "b"}));
  EXPECT_EQ(queue_.Find("a")->since, kQueueStart);
  EXPECT_EQ(queue_.Find("a")->why, other);
  EXPECT_EQ(queue_.Find("a")->pod.needs.size(), 2U);
}

TEST_F(WaitQueueTest, APriorityThatIsLearntLaterMovesThePlace) {
  Join(PodThatNeeds("a", {"cpu"}));
  Join(PodThatNeeds("b", {"cpu"}));
  Join(PodThatNeeds("b", {"cpu"}, 10));
  EXPECT_EQ(Order(), (List{"b", "a"}));
}

TEST_F(WaitQueueTest, ALaterPodWaitsOnlyIfItNeedsTheSameKind) {
  Join(PodThatNeeds("head", {"cpu", "memory"}));
  EXPECT_EQ(Before(PodThatNeeds("later", {"memory"})), "head");
  EXPECT_EQ(Before(PodThatNeeds("later", {"nvidia.com/gpu"})), "");
  EXPECT_EQ(Before(PodThatNeeds("later", {})), "");
  EXPECT_EQ(Before(PodThatNeeds("later", {"cpu"}, 1)), "");  // is before it
  EXPECT_EQ(Before(PodThatNeeds("head", {"cpu", "memory"})), "");
  Join(PodThatNeeds("second", {"cpu"}));
  EXPECT_EQ(Before(PodThatNeeds("second", {"cpu"})), "head");
  WaitingPod part = PodThatNeeds("part", {"cpu"});
  part.has_part = true;  // a restart, or a further container
  EXPECT_EQ(Before(part), "");
}

TEST_F(WaitQueueTest, APodWithAPartReservesForSomeTimeOnly) {
  WaitingPod part = PodThatNeeds("part", {"cpu"});
  part.has_part = true;
  Join(part);
  const WaitingPod later = PodThatNeeds("later", {"cpu"});
  const auto end = kQueueStart + queue_.limits().part_reserves;
  EXPECT_EQ(queue_.NextExpiry(kQueueStart), end);
  EXPECT_EQ(Before(later, end - seconds(1)), "part");
  EXPECT_EQ(Before(later, end), "");
  EXPECT_EQ(queue_.NextExpiry(end), kQueueStart + queue_.limits().kept);
  // Two of them: each can be tried, whatever the other one waits for.
  WaitingPod other = PodThatNeeds("other", {"cpu"});
  other.has_part = true;
  Join(other);
  EXPECT_EQ(Try(), (List{"part", "other"}));
}

TEST_F(WaitQueueTest, EachPodIsTriedOnceAfterEachRelease) {
  Join(PodThatNeeds("a", {"cpu"}));
  Join(PodThatNeeds("b", {"cpu"}));
  Join(PodThatNeeds("c", {"nvidia.com/gpu"}));
  Join(PodThatNeeds("d", {"cpu", "nvidia.com/gpu"}));
  EXPECT_EQ(Try(), (List{"a", "c"}));  // b and d wait for those before them
  EXPECT_EQ(Try(), List{});
  queue_.Leave("a", WaitEnd::kAdmitted);
  EXPECT_EQ(Try(), (List{"b"}));
  queue_.Released();
  EXPECT_EQ(Try({"b"}), (List{"c"}));  // no call for b comes: its place still reserves
  EXPECT_EQ(Try(), (List{"b"}));
}

TEST_F(WaitQueueTest, WhatWasDecidedWithEarlierResourcesIsTriedAgain) {
  const uint64_t before = queue_.generation();
  queue_.Released();  // while the pod was being decided about
  Join(PodThatNeeds("a", {"cpu"}));
  queue_.Tried("a", "", before);
  EXPECT_EQ(Try(), (List{"a"}));
  queue_.Tried("a", "", queue_.generation());
  EXPECT_EQ(Try(), List{});
}

TEST_F(WaitQueueTest, IsExplainedAnewAfterAChangeOfTheInventory) {
  ASSERT_TRUE(queue_.Join(PodThatNeeds("a", {"cpu"}), kQueuedRefusal, kQueueStart));
  EXPECT_FALSE(queue_.IsExplained("a", ""));
  queue_.Confirm("a", "", kQueuedRefusal);
  EXPECT_TRUE(queue_.IsExplained("a", ""));
  queue_.Released();
  EXPECT_TRUE(queue_.IsExplained("a", ""));
  queue_.InventoryChanged();
  EXPECT_FALSE(queue_.IsExplained("a", ""));
  EXPECT_EQ(Try(), (List{"a"}));
}

TEST_F(WaitQueueTest, APlaceExpiresIfNoCallComes) {
  const auto kept = queue_.limits().kept;
  Join(PodThatNeeds("gone", {"cpu"}));
  Join(PodThatNeeds("held", {"cpu"}));
  Join(PodThatNeeds("calls", {"cpu"}));
  queue_.Called("calls", "", kQueueStart + seconds(10));
  const auto is_held = [](const std::string& uid, const std::string&) { return uid == "held"; };
  EXPECT_TRUE(queue_.Expire(kQueueStart + kept - seconds(1), is_held).dropped.empty());
  const WaitQueue::Expired expired = queue_.Expire(kQueueStart + kept, is_held);
  ASSERT_EQ(expired.dropped.size(), 1U);
  EXPECT_EQ(expired.dropped[0]->pod.uid, "gone");
  EXPECT_TRUE(expired.failed.empty());
  EXPECT_EQ(Order(), (List{"held", "calls"}));
  EXPECT_EQ(queue_.Ended(WaitEnd::kExpired), 1U);
  EXPECT_GT(kept, minutes(5));  // the kubelet's longest back-off
}

TEST_F(WaitQueueTest, WithFailAfterThePlaceIsLostAndEveryLaterCallIsRefused) {
  queue_.SetLimits({.fail_after = minutes(10)});
  Join(PodThatNeeds("a", {"cpu"}));
  EXPECT_EQ(queue_.NextExpiry(kQueueStart), kQueueStart + queue_.limits().kept);
  const auto is_held = [](const std::string&, const std::string&) { return true; };
  EXPECT_TRUE(queue_.Expire(kQueueStart + minutes(10) - seconds(1), is_held).failed.empty());
  EXPECT_EQ(queue_.NextExpiry(kQueueStart), kQueueStart + minutes(10));
  const WaitQueue::Expired expired = queue_.Expire(kQueueStart + minutes(10), is_held);
  ASSERT_EQ(expired.failed.size(), 1U);
  EXPECT_TRUE(queue_.IsEmpty());
  ASSERT_NE(queue_.FindFailed("a"), nullptr);
  const Refusal refusal = WaitTimeout(**queue_.FindFailed("a"), minutes(10));
  EXPECT_EQ(refusal.reason, kQueuedRefusal.reason);
  EXPECT_NE(refusal.message.find("has waited for 600 s, as long as --on-refusal allows"),
            std::string::npos);
  // What was free then need not be true of the moment of a later answer.
  EXPECT_NE(refusal.message.find("Its last refusal before that: " + kQueuedRefusal.message),
            std::string::npos)
      << refusal.message;
  // Forgotten with its pod, or once no call comes any more.
  WaitQueue other = queue_;
  other.Forget("a");
  EXPECT_EQ(other.FindFailed("a"), nullptr);
  (void)queue_.Expire(kQueueStart + minutes(10) + queue_.limits().kept, is_held);
  EXPECT_EQ(queue_.FindFailed("a"), nullptr);
}

TEST_F(WaitQueueTest, HasALimitedNumberOfPlaces) {
  for (size_t i = 0; i < queue_.limits().places; ++i) {
    Join(PodThatNeeds("p" + std::to_string(i), {"cpu"}));
  }
  EXPECT_FALSE(queue_.Join(PodThatNeeds("more", {"cpu"}), kQueuedRefusal, kQueueStart));
  EXPECT_TRUE(queue_.Join(PodThatNeeds("p7", {"cpu"}), kQueuedRefusal, kQueueStart));
  queue_.Leave("p3", WaitEnd::kAdmitted);
  EXPECT_TRUE(queue_.Join(PodThatNeeds("more", {"cpu"}), kQueuedRefusal, kQueueStart));
  EXPECT_EQ(queue_.PositionOf("more"), queue_.limits().places);
}

TEST_F(WaitQueueTest, CountsEndsOfConfirmedPlacesOnly) {
  ASSERT_TRUE(queue_.Join(PodThatNeeds("never", {"cpu"}), kQueuedRefusal, kQueueStart));
  EXPECT_TRUE(queue_.Leave("never", WaitEnd::kCannotFit));
  EXPECT_FALSE(queue_.Leave("never", WaitEnd::kCannotFit));
  EXPECT_EQ(queue_.Ended(WaitEnd::kCannotFit), 0U);
  Join(PodThatNeeds("a", {"cpu"}));
  queue_.Forget("a");
  EXPECT_EQ(queue_.Ended(WaitEnd::kPodGone), 1U);
}

TEST_F(WaitQueueTest, ContainersThatAskAloneShareThePlaceOfTheirPod) {
  const Refusal other{"SMTAlignmentError", "other"};
  Join(ContainerThatNeeds("p", "a", {"cpu"}));
  ASSERT_TRUE(queue_.Join(ContainerThatNeeds("p", "b", {"nvidia.com/gpu"}), other, kQueueStart));
  EXPECT_EQ(queue_.size(), 1U);
  EXPECT_EQ(queue_.Find("p")->pod.needs, (std::set<std::string>{"cpu", "nvidia.com/gpu"}));
  EXPECT_EQ(queue_.Find("p")->WhyOf("a"), kQueuedRefusal);
  EXPECT_EQ(queue_.Find("p")->WhyOf("b"), other);
  EXPECT_EQ(queue_.Find("p")->WhyOf("c"), other);  // the last one of the pod
  EXPECT_EQ(Before(PodThatNeeds("later", {"cpu"})), "p");
  EXPECT_EQ(Before(PodThatNeeds("later", {"nvidia.com/gpu"})), "p");
  // The place lasts until none waits.
  EXPECT_FALSE(queue_.Leave("p", "c", WaitEnd::kOtherReason, false, kQueueStart));
  EXPECT_TRUE(queue_.Leave("p", "b", WaitEnd::kOtherReason, false, kQueueStart));
  EXPECT_EQ(Before(PodThatNeeds("later", {"nvidia.com/gpu"})), "");
  EXPECT_EQ(Before(PodThatNeeds("later", {"cpu"})), "p");
  EXPECT_TRUE(queue_.Leave("p", "a", WaitEnd::kAdmitted, true, kQueueStart));
  EXPECT_TRUE(queue_.IsEmpty());
  EXPECT_EQ(queue_.Ended(WaitEnd::kOtherReason), 0U);
  EXPECT_EQ(queue_.Ended(WaitEnd::kAdmitted), 1U);
}

TEST_F(WaitQueueTest, OnceAContainerIsAdmittedTheOthersWaitForNoPod) {
  const auto got_part = kQueueStart + minutes(20);
  Join(PodThatNeeds("head", {"cpu"}));
  Join(ContainerThatNeeds("p", "a", {"cpu"}));
  Join(ContainerThatNeeds("p", "b", {"cpu"}));
  EXPECT_EQ(Try(), (List{"head"}));
  EXPECT_TRUE(queue_.Leave("p", "a", WaitEnd::kAdmitted, /*has_part=*/true, got_part));
  EXPECT_EQ(queue_.PositionOf("p"), 2U);
  EXPECT_EQ(Try(), (List{"p"}));
  // Others wait for it for some time, which begins now.
  queue_.Leave("head", WaitEnd::kExpired);
  const auto end = got_part + queue_.limits().part_reserves;
  EXPECT_EQ(Before(PodThatNeeds("later", {"cpu"}), end - seconds(1)), "p");
  EXPECT_EQ(Before(PodThatNeeds("later", {"cpu"}), end), "");
}

TEST_F(WaitQueueTest, EachContainerIsTriedAfterEachRelease) {
  Join(ContainerThatNeeds("p", "a", {"cpu"}));
  Join(ContainerThatNeeds("p", "b", {"cpu"}));
  queue_.Released();
  queue_.Tried("p", "b", queue_.generation());  // by its own call
  EXPECT_EQ(Try(), (List{"p"}));
  EXPECT_EQ(Try(), List{});
  queue_.Tried("p", "a", std::nullopt);  // it was not decided about after all
  EXPECT_EQ(Try(), (List{"p"}));
}

TEST_F(WaitQueueTest, AContainerThatIsNotCalledExpiresBesideOneThatIs) {
  Join(ContainerThatNeeds("p", "gone", {"cpu"}));
  Join(ContainerThatNeeds("p", "held", {"nvidia.com/gpu"}));
  const auto end = kQueueStart + queue_.limits().kept;
  const auto is_held = [](const std::string&, const std::string& container) {
    return container == "held";
  };
  EXPECT_TRUE(queue_.Expire(end, is_held).dropped.empty());
  EXPECT_EQ(queue_.Find("p")->pod.needs, (std::set<std::string>{"nvidia.com/gpu"}));
  EXPECT_EQ(queue_
                .Expire(end + queue_.limits().kept,
                        [](const std::string&, const std::string&) { return false; })
                .dropped.size(),
            1U);
}

TEST_F(WaitQueueTest, TheLastRequestSaysWhetherThePodIsKnownAsAWhole) {
  Join(ContainerThatNeeds("p", "a", {"cpu"}));
  Join(PodThatNeeds("p", {"cpu", "memory"}));
  EXPECT_EQ(queue_.FindPart("p", "a"), nullptr);
  EXPECT_NE(queue_.FindPart("p", ""), nullptr);
  Join(ContainerThatNeeds("p", "b", {"cpu"}));
  EXPECT_EQ(queue_.FindPart("p", ""), nullptr);
  EXPECT_EQ(queue_.size(), 1U);
}

TEST_F(WaitQueueTest, APriorityThatIsKnownStaysKnown) {
  Join(PodThatNeeds("a", {"cpu"}));
  Join(PodThatNeeds("b", {"cpu"}, 10));
  Join(PodThatNeeds("b", {"cpu"}));  // the Pods API did not answer
  EXPECT_EQ(Order(), (List{"b", "a"}));
  EXPECT_EQ(Before(PodThatNeeds("b", {"cpu"})), "");
}

TEST_F(WaitQueueTest, WhatWaitsForDevicesThatAreAwayReservesNothing) {
  Join(PodThatNeeds("head", {"cpu", "nvidia.com/gpu"}));
  const WaitingPod later = PodThatNeeds("later", {"cpu"});
  EXPECT_EQ(Before(later), "head");
  queue_.SetDevices({"example.com/nic"});
  EXPECT_EQ(Before(later), "");
  Join(later);
  EXPECT_EQ(Try({"head"}), (List{"later"}));
  queue_.SetDevices({"nvidia.com/gpu"});
  EXPECT_EQ(Before(later), "head");
}

TEST_F(WaitQueueTest, IsRenewedAfterAChangeOfTheConfiguration) {
  for (const char* const uid : {"less", "assigned", "same"}) Join(PodThatNeeds(uid, {"cpu"}));
  queue_.Renew(kQueueStart, [](const WaitQueue::Place& place, const std::string& container) {
    EXPECT_EQ(container, "");
    std::optional<WaitingPod> renewed = place.pod;
    if (place.pod.uid == "less") renewed->needs.clear();
    if (place.pod.uid == "assigned") renewed.reset();
    return renewed;
  });
  EXPECT_EQ(Order(), (List{"less", "same"}));
  EXPECT_EQ(Before(PodThatNeeds("same", {"cpu"})), "");
  EXPECT_EQ(queue_.Ended(WaitEnd::kAdmitted), 1U);
}

TEST_F(WaitQueueTest, IsCheckedOnceAfterEachChangeOfTheInventory) {
  WaitingPod pod = PodThatNeeds("a", {"cpu", "nvidia.com/gpu"});
  pod.requested = std::make_shared<const Pod>();
  Join(pod);
  Join(PodThatNeeds("large", {"cpu"}));  // its request is not kept
  EXPECT_FALSE(queue_.NextToCheck());
  queue_.InventoryChanged();
  queue_.SetDevices({});
  EXPECT_FALSE(queue_.NextToCheck());
  queue_.SetDevices({"nvidia.com/gpu"});
  const std::optional<WaitQueue::Check> check = queue_.NextToCheck();
  ASSERT_TRUE(check);
  EXPECT_EQ(check->uid, "a");
  EXPECT_EQ(check->requested, pod.requested);
  EXPECT_TRUE(queue_.Checked(*check));
  EXPECT_FALSE(queue_.NextToCheck());
  queue_.InventoryChanged();
  EXPECT_TRUE(queue_.NextToCheck());
  queue_.Leave("a", WaitEnd::kExpired);
  EXPECT_FALSE(queue_.Checked(*check));
}

TEST_F(WaitQueueTest, ContainersThatWaitAreLimitedTogether) {
  queue_.SetLimits({.parts = 3});
  for (const char* const name : {"a", "b", "c"}) Join(ContainerThatNeeds("p", name, {"cpu"}));
  EXPECT_FALSE(queue_.Join(ContainerThatNeeds("p", "d", {"cpu"}), kQueuedRefusal, kQueueStart));
  EXPECT_FALSE(queue_.Join(PodThatNeeds("other", {"cpu"}), kQueuedRefusal, kQueueStart));
  EXPECT_TRUE(queue_.Join(ContainerThatNeeds("p", "b", {"cpu"}), kQueuedRefusal, kQueueStart));
}

TEST_F(WaitQueueTest, CopiesDoNotChangeWithTheOriginal) {
  Join(PodThatNeeds("a", {"cpu"}));
  const WaitQueue copy = queue_;
  queue_.Forget("a");
  EXPECT_EQ(copy.PositionOf("a"), 1U);
}

TEST_F(WaitQueueTest, TextsNameThePositionThePodsBeforeAndTheLimits) {
  for (const char* const uid : {"a", "b", "c", "d", "e", "f"}) Join(PodThatNeeds(uid, {"cpu"}));
  EXPECT_EQ(DescribePlace(queue_, "a", kQueueStart + seconds(65), true),
            ". Waits: position 1 of 6 in the queue, for 65 s. The place is kept for 360 s after "
            "this answer");
  EXPECT_EQ(DescribePlace(queue_, "f", kQueueStart + std::chrono::milliseconds(20), true),
            ". Waits: position 6 of 6 in the queue, for 20 ms, after pods default/a, default/b, "
            "default/c, default/d and 1 more. The place is kept for 360 s after this answer");
  EXPECT_EQ(DescribePlace(queue_, "a", kQueueStart + seconds(65), false),
            ". Waits: position 1 of 6 in the queue, for 65 s. The place ends with this answer");
  EXPECT_EQ(DescribePlace(queue_, "x", kQueueStart, true), "");
  WaitingPod part = PodThatNeeds("part", {"cpu"});
  part.has_part = true;
  Join(part);
  EXPECT_NE(DescribePlace(queue_, "part", kQueueStart, true)
                .find("other pods wait for it for 300 s only: if two such pods wait for each "
                      "other, delete one"),
            std::string::npos);
  const Refusal behind = WaitsBehind(PodThatNeeds("z", {"cpu", "x"}), *queue_.Find("a"));
  EXPECT_EQ(behind.reason, "WaitsForEarlierPods");
  EXPECT_EQ(behind.message.find("pod default/a waits for cpu, is before pod default/z in the "
                                "queue, and is served first. What would help: "),
            0U)
      << behind.message;
  EXPECT_NE(DescribeFull(queue_).find("7 pods wait already"), std::string::npos);
}

}  // namespace
}  // namespace alignd::allocation
