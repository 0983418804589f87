// The pods that the status shows as pending.
#include "allocation/pending_pods.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace alignd::allocation {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

const PendingPods::Time kStart = PendingPods::Time() + std::chrono::hours(1000);
const Outcome kRefused = Refusal{"TopologyAffinityError", "no locality"};

Requested PendingRequest(const std::string& uid, const std::string& container = {}) {
  AdmissionRequest request;
  request.pod.uid = uid;
  request.pod.name = "pod-" + uid;
  request.pod.name_space = "default";
  request.wanted = container;
  return Requested::In(request);
}

TEST(PendingPods, CountsAnswersSinceTheLastAdmission) {
  PendingPods pods;
  pods.Answered(PendingRequest("a", "app"), kRefused, kStart);
  pods.Answered(PendingRequest("a", "app"), Error{ErrorCode::kIo, "full", "free space"},
                kStart + seconds(20));
  const auto report = pods.Report(kStart + seconds(30));
  ASSERT_EQ(report.size(), 1U);
  EXPECT_EQ(report[0].state, "failed");
  EXPECT_EQ(report[0].reason, "");
  EXPECT_EQ(report[0].message, "full; free space");
  EXPECT_EQ(report[0].first, kStart);
  EXPECT_EQ(report[0].last, kStart + seconds(20));
  EXPECT_EQ(report[0].times, 2U);
  // Another container of the pod starts.
  pods.Answered(PendingRequest("a", "log"), Allocated(), kStart + seconds(31));
  EXPECT_EQ(pods.Report(kStart + seconds(31)).size(), 1U);
  pods.Answered(PendingRequest("a"), Allocated(), kStart + seconds(32));
  EXPECT_TRUE(pods.Report(kStart + seconds(32)).empty());
}

TEST(PendingPods, AnAdmittedContainerEndsTheRefusalOfThePodAsAWhole) {
  PendingPods pods;
  pods.Answered(PendingRequest("a"), kRefused, kStart);
  pods.Answered(PendingRequest("a", "app"), Allocated(), kStart);
  EXPECT_TRUE(pods.Report(kStart).empty());
}

TEST(PendingPods, APodIsListedAsAWholeOrByItsContainers) {
  PendingPods pods;
  pods.Answered(PendingRequest("a"), kRefused, kStart);
  pods.Answered(PendingRequest("a", "app"), kRefused, kStart + seconds(1));
  pods.Answered(PendingRequest("a", "log"), kRefused, kStart + seconds(2));
  auto report = pods.Report(kStart + seconds(3));
  ASSERT_EQ(report.size(), 2U);
  EXPECT_EQ(report[0].key.container, "app");
  EXPECT_EQ(report[0].first, kStart);
  EXPECT_EQ(report[1].key.container, "log");
  pods.Answered(PendingRequest("a"), kRefused, kStart + seconds(4));  // a new sandbox
  report = pods.Report(kStart + seconds(4));
  ASSERT_EQ(report.size(), 1U);
  EXPECT_EQ(report[0].key.container, "");
  EXPECT_EQ(report[0].first, kStart);
}

TEST(PendingPods, APodThatIsNotRepeatedIsDropped) {
  PendingPods pods;
  pods.Answered(PendingRequest("a"), kRefused, kStart);
  EXPECT_EQ(pods.Report(kStart + PendingPods::kShown).size(), 1U);
  EXPECT_TRUE(pods.Report(kStart + PendingPods::kShown + seconds(1)).empty());
  pods.Answered(PendingRequest("b"), kRefused, kStart);
  pods.Forget("b");
  EXPECT_TRUE(pods.Report(kStart + minutes(20)).empty());
}

TEST(PendingPods, KeepsALimitedNumberAndALimitedText) {
  PendingPods pods;
  for (size_t i = 0; i < PendingPods::kCapacity + 10; ++i) {
    pods.Answered(PendingRequest(std::to_string(i)), Refusal{"R", std::string(100'000, 'x')},
                  kStart + seconds(static_cast<int>(i)));
  }
  const auto report = pods.Report(kStart + minutes(5));
  ASSERT_EQ(report.size(), PendingPods::kCapacity);
  EXPECT_EQ(report.front().key.pod_uid, "10");  // the oldest are gone
  EXPECT_LT(report.front().message.size(), 5000U);
}

TEST(PendingPods, FindsThePodAsItWasRequestedUnlessItIsHuge) {
  PendingPods pods;
  pods.Answered(PendingRequest("a", "app"), kRefused, kStart);
  for (const char* const name : {"a", "pod-a", "default/pod-a"}) {
    ASSERT_EQ(pods.Find(name).size(), 1U) << name;
    EXPECT_EQ(pods.Find(name)[0].pod->uid, "a");
  }
  EXPECT_TRUE(pods.Find("pod").empty());
  AdmissionRequest huge;
  huge.pod.uid = "huge";
  huge.pod.containers.resize(1000);
  pods.Answered(Requested::In(huge), kRefused, kStart);
  ASSERT_EQ(pods.Find("huge").size(), 1U);
  EXPECT_EQ(pods.Find("huge")[0].pod, nullptr);
}

Requested WebIn(const std::string& name_space, const std::string& uid,
                const std::string& container = {}) {
  AdmissionRequest request;
  request.pod.uid = uid;
  request.pod.name = "web";
  request.pod.name_space = name_space;
  request.wanted = container;
  return Requested::In(request);
}

TEST(PendingPods, FindsAllPodsOfANameAndTheLastOfOneNamespace) {
  PendingPods pods;
  pods.Answered(WebIn("a", "1"), kRefused, kStart + seconds(1));
  pods.Answered(WebIn("a", "2"), kRefused, kStart + seconds(2));  // made again
  pods.Answered(WebIn("b", "3"), kRefused, kStart);
  const auto both = pods.Find("web");
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].name, "a/web");
  EXPECT_EQ(both[0].key.pod_uid, "2");
  EXPECT_EQ(both[1].name, "b/web");
  ASSERT_EQ(pods.Find("b/web").size(), 1U);
  EXPECT_EQ(pods.Find("b/web")[0].key.pod_uid, "3");
  ASSERT_EQ(pods.Find("1").size(), 1U);
  EXPECT_EQ(pods.Find("1")[0].key.pod_uid, "1");
}

TEST(PendingPods, AFailureIsFoundBeforeARefusalByThePolicies) {
  PendingPods pods;
  const Outcome by_policy = Refusal{"R", "no locality. What would help: fewer CPUs"};
  pods.Answered(WebIn("a", "1", "app"), Error{ErrorCode::kIo, "full", "free space"}, kStart);
  pods.Answered(WebIn("a", "1", "log"), by_policy, kStart + seconds(1));
  ASSERT_EQ(pods.Find("web").size(), 1U);
  EXPECT_FALSE(pods.Find("web")[0].by_policy);
  EXPECT_EQ(pods.Find("web")[0].key.container, "app");
  pods.Answered(WebIn("a", "1", "app"), Allocated(), kStart + seconds(2));
  ASSERT_EQ(pods.Find("web").size(), 1U);
  EXPECT_TRUE(pods.Find("web")[0].by_policy);
}

}  // namespace
}  // namespace alignd::allocation
