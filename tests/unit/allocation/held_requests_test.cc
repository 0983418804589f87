#include "allocation/held_requests.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace alignd::allocation {
namespace {

using Clock = HeldRequests::Clock;

const PluginWait kWait{"a.com/gpu", {ErrorCode::kUnavailable, "a.com/gpu: awaited"}};

bool IsAwaited(const std::string& /*resource*/) { return true; }
bool IsRegistered(const std::string& /*resource*/) { return false; }

class HeldRequestsTest : public ::testing::Test {
 protected:
  Caller MakeCaller(const std::string& pod, const std::string& container = "app",
                    Clock::duration may_wait = std::chrono::hours(1)) {
    Caller caller;
    caller.request.pod.uid = pod;
    caller.request.wanted = container;
    caller.request.wait_until = Clock::now() + may_wait;
    caller.done = [this, name = pod + "/" + container](const Outcome& outcome) {
      answered_.push_back(name + ": " + std::get<Error>(outcome).message);
    };
    return caller;
  }
  bool Hold(Caller caller) { return held_.Hold(caller, kWait).ok(); }
  Caller MakeLarge(const std::string& pod, size_t bytes) {
    Caller caller = MakeCaller(pod);
    caller.request.message_bytes = bytes;
    return caller;
  }

  HeldRequests held_;
  std::vector<std::string> answered_;
};

TEST_F(HeldRequestsTest, GoesOnWhenThePluginHasRegistered) {
  ASSERT_TRUE(Hold(MakeCaller("p")));
  EXPECT_TRUE(held_.Take(IsAwaited).empty());
  ASSERT_TRUE(held_.NextCheck());
  const std::vector<Caller> ready = held_.Take(IsRegistered);
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].request.pod.uid, "p");
  EXPECT_TRUE(answered_.empty());
  EXPECT_FALSE(held_.NextCheck());
}

TEST_F(HeldRequestsTest, WhatWasLearntBeforeTheWaitIsDropped) {
  Caller caller = MakeCaller("p");
  caller.learned = KubeletAllocation::LearnedPod();
  ASSERT_TRUE(Hold(std::move(caller)));
  EXPECT_FALSE(held_.Take(IsRegistered).at(0).learned);
}

TEST_F(HeldRequestsTest, NoRequestIsHeldThatMayNotWait) {
  Caller caller = MakeCaller("p");
  caller.request.wait_until.reset();
  EXPECT_FALSE(Hold(std::move(caller)));
  EXPECT_FALSE(Hold(MakeCaller("p", "app", std::chrono::seconds(-1))));
  EXPECT_FALSE(held_.NextCheck());
  EXPECT_TRUE(answered_.empty());  // by the caller of Hold
}

TEST_F(HeldRequestsTest, IsAnsweredInTimeWithTheReason) {
  ASSERT_TRUE(Hold(MakeCaller("later")));
  ASSERT_TRUE(Hold(MakeCaller("now", "app", std::chrono::milliseconds(1))));
  while (Clock::now() < *held_.NextCheck()) {
  }
  while (answered_.empty()) EXPECT_TRUE(held_.Take(IsAwaited).empty());
  EXPECT_EQ(answered_, std::vector<std::string>{"now/app: a.com/gpu: awaited"});
}

TEST_F(HeldRequestsTest, ACancelledRequestIsTakenOut) {
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  Caller caller = MakeCaller("p");
  caller.request.cancelled = cancelled;
  ASSERT_TRUE(Hold(std::move(caller)));
  EXPECT_TRUE(held_.Take(IsAwaited).empty());
  *cancelled = true;
  EXPECT_EQ(held_.Take(IsAwaited).size(), 1U);
}

// A kubelet that tries again has cancelled the earlier call.
TEST_F(HeldRequestsTest, SecondRequestForAContainerReplacesTheFirst) {
  ASSERT_TRUE(Hold(MakeCaller("p")));
  ASSERT_TRUE(Hold(MakeCaller("p", "other")));
  ASSERT_TRUE(Hold(MakeCaller("p")));
  EXPECT_EQ(answered_, std::vector<std::string>{"p/app: a.com/gpu: awaited"});
  EXPECT_EQ(held_.Take(IsRegistered).size(), 2U);
}

TEST_F(HeldRequestsTest, HoldsALimitedNumber) {
  for (size_t i = 0; i < HeldRequests::kMaxHeld; ++i) {
    ASSERT_TRUE(Hold(MakeCaller("p" + std::to_string(i))));
  }
  Caller more = MakeCaller("more");
  const Result<Done> refused = held_.Hold(more, kWait);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find("256 requests wait already, and alignd holds 256"),
            std::string::npos)
      << refused.error().Text();
  EXPECT_TRUE(Hold(MakeCaller("p0")));  // takes the place of the earlier one
  EXPECT_EQ(held_.Take(IsRegistered).size(), HeldRequests::kMaxHeld);
}

TEST_F(HeldRequestsTest, HoldsALimitedNumberOfBytes) {
  constexpr size_t kQuarter = HeldRequests::kMaxHeldBytes / 4;
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  for (const char* const pod : {"a", "b", "c", "d"}) {
    Caller caller = MakeLarge(pod, kQuarter);
    if (pod == std::string("d")) caller.request.cancelled = cancelled;
    ASSERT_TRUE(Hold(std::move(caller)));
  }
  Caller more = MakeLarge("more", 1);
  const Result<Done> refused = held_.Hold(more, kWait);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find(
                "would have 67108865 bytes, more than the 67108864 that alignd holds"),
            std::string::npos)
      << refused.error().Text();
  EXPECT_NE(refused.error().remedy, "");
  EXPECT_TRUE(Hold(MakeLarge("b", kQuarter)));  // takes the place of the earlier one
  // Those that have gone or are answered free their bytes.
  *cancelled = true;
  EXPECT_EQ(held_.Take(IsAwaited).size(), 1U);
  EXPECT_TRUE(Hold(MakeLarge("e", kQuarter)));
  EXPECT_FALSE(Hold(MakeLarge("more", 1)));
  held_.AnswerPod("a", [](const Pod&) { return Error{ErrorCode::kUnavailable, "released"}; });
  EXPECT_TRUE(Hold(MakeLarge("f", kQuarter)));
  EXPECT_FALSE(Hold(MakeLarge("more", 1)));
  held_.Answer({ErrorCode::kUnavailable, "stopping"});
  EXPECT_TRUE(Hold(MakeLarge("whole", 4 * kQuarter)));
}

TEST_F(HeldRequestsTest, AnswersAPodOrAll) {
  for (const char* const pod : {"a", "p", "z"}) ASSERT_TRUE(Hold(MakeCaller(pod)));
  ASSERT_TRUE(Hold(MakeCaller("p", "beside")));
  EXPECT_TRUE(held_.Holds("p", "beside"));
  EXPECT_TRUE(held_.Holds("p", ""));
  held_.AnswerPod("p", [](const Pod& pod) {
    return Error{ErrorCode::kUnavailable, pod.uid + " ended"};
  });
  EXPECT_EQ(answered_, (std::vector<std::string>{"p/app: p ended", "p/beside: p ended"}));
  EXPECT_FALSE(held_.Holds("p", "beside"));
  EXPECT_FALSE(held_.Holds("p", ""));
  held_.Answer({ErrorCode::kUnavailable, "stopping"});
  EXPECT_EQ(answered_.size(), 4U);
  EXPECT_FALSE(held_.NextCheck());
}

}  // namespace
}  // namespace alignd::allocation
