#include "reconcile/kubelet_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "conditions_fixture.h"

namespace alignd::reconcile {
namespace {

using std::chrono::seconds;
using WatchTime = KubeletWatch::Clock::time_point;

constexpr char kList[] = "/runtime.v1.RuntimeService/ListPodSandbox";
constexpr char kStatus[] = "/runtime.v1.RuntimeService/Status";

bool IsReported(const Conditions& conditions) {
  for (const Condition& condition : conditions.Report()) {
    if (condition.type == ConditionType::kKubeletNotAttached) return true;
  }
  return false;
}

TEST(KubeletWatch, ReportsContainersThatAppearWithoutACallAfterTheGracePeriod) {
  Logged logged;
  Conditions conditions;
  KubeletWatch watch(conditions);
  const WatchTime start = KubeletWatch::Clock::now();
  watch.Listed({"c1"}, start);
  watch.Listed({"c1", "c2"}, start + seconds(59));
  EXPECT_FALSE(IsReported(conditions));
  watch.Listed({"c1", "c2"}, start + seconds(60));
  EXPECT_TRUE(IsReported(conditions));
  EXPECT_EQ(logged.Take(),
            "error KubeletNotAttached: the kubelet does not use alignd: containers of pods are "
            "created (c1 and 1 more), but no kubelet calls through alignd's socket; run `alignctl "
            "kubelet status`, then `alignctl kubelet attach`, and "
            "restart the kubelet\n");
}

TEST(KubeletWatch, NoContainersAreNoSign) {
  Conditions conditions;
  KubeletWatch watch(conditions);
  const WatchTime start = KubeletWatch::Clock::now();
  watch.Listed({}, start);
  watch.Listed({"c1"}, start + seconds(100));
  watch.Listed({}, start + seconds(130));  // it has ended
  watch.Listed({"c2"}, start + seconds(170));
  EXPECT_FALSE(IsReported(conditions));
}

TEST(KubeletWatch, AKubeletThatCallsClearsIt) {
  Logged logged;
  Conditions conditions;
  KubeletWatch watch(conditions);
  const WatchTime start = KubeletWatch::Clock::now();
  watch.Listed({"c1"}, start);
  watch.Listed({"c1"}, start + seconds(60));
  ASSERT_TRUE(IsReported(conditions));
  // With EventedPLEG: a list every 2 s, the status every 5 s.
  for (int second = 60; second <= 90; ++second) {
    if (second % 2 == 0) watch.Called(kList, start + seconds(second));
    if (second % 5 == 0) watch.Called(kStatus, start + seconds(second));
  }
  EXPECT_TRUE(watch.IsAttached(start + seconds(100)));
  EXPECT_FALSE(IsReported(conditions));
  watch.Listed({"c1"}, start + seconds(100));
  // It stops. The container was there while it called.
  watch.Listed({"c1"}, start + seconds(1'000));
  watch.Listed({"c1"}, start + seconds(2'000));
  EXPECT_FALSE(IsReported(conditions));
}

TEST(KubeletWatch, TheTenthCallWithin40SecondsIsThatOfAKubelet) {
  Conditions conditions;
  const WatchTime start = KubeletWatch::Clock::now();
  KubeletWatch nine(conditions);
  for (int i = 0; i < 9; ++i) nine.Called(kList, start + seconds(i));
  EXPECT_FALSE(nine.IsAttached(start + seconds(9)));
  nine.Called("/runtime.v1.RuntimeService/StreamPodSandboxes", start + seconds(40));
  EXPECT_TRUE(nine.IsAttached(start + seconds(40)));
  KubeletWatch slow(conditions);
  for (int i = 0; i < 9; ++i) slow.Called(kList, start + seconds(i));
  slow.Called(kStatus, start + seconds(41));
  EXPECT_FALSE(slow.IsAttached(start + seconds(41)));
}

TEST(KubeletWatch, AKubeletThatCallsNoLongerIsForgotten) {
  Conditions conditions;
  KubeletWatch watch(conditions);
  const WatchTime start = KubeletWatch::Clock::now();
  for (int i = 0; i < 20; ++i) watch.Called(kList, start + seconds(i));
  watch.Listed({"old"}, start + seconds(20));
  // It restarts at the runtime's own socket.
  watch.Listed({"old", "new"}, start + seconds(70));
  watch.Called(kStatus, start + seconds(200));  // of crictl
  EXPECT_TRUE(watch.IsAttached(start + seconds(19 + 300)));
  EXPECT_FALSE(watch.IsAttached(start + seconds(19 + 301)));
  watch.Listed({"old", "new"}, start + seconds(330));
  EXPECT_FALSE(IsReported(conditions));
  watch.Listed({"old", "new"}, start + seconds(390));
  EXPECT_TRUE(IsReported(conditions));
  watch.Listed({"old"}, start + seconds(400));
  EXPECT_FALSE(IsReported(conditions));
}

TEST(KubeletWatch, TheConditionClearsWhenNoContainerIsLeft) {
  Conditions conditions;
  KubeletWatch watch(conditions);
  const WatchTime start = KubeletWatch::Clock::now();
  watch.Listed({"c1"}, start);
  watch.Listed({"c1"}, start + seconds(60));
  ASSERT_TRUE(IsReported(conditions));
  watch.Listed({}, start + seconds(70));
  EXPECT_FALSE(IsReported(conditions));
}

TEST(KubeletWatch, CallsNowAndThenAreNoKubelet) {
  Conditions conditions;
  KubeletWatch watch(conditions);
  const WatchTime start = KubeletWatch::Clock::now();
  for (int minute = 0; minute < 100; ++minute) {
    watch.Called(kList, start + seconds(60 * minute));
    watch.Called(kStatus, start + seconds(60 * minute + 1));
    for (int i = 0; i < 20; ++i) {
      watch.Called("/runtime.v1.RuntimeService/ListContainers", start + seconds(60 * minute));
      watch.Called("/runtime.v1.RuntimeService/ContainerStatus", start + seconds(60 * minute));
    }
  }
  EXPECT_FALSE(watch.IsAttached(start + seconds(60 * 99 + 1)));
}

// A kubelet recognises CRI-O by the end of its endpoint's path.
TEST(KubeletWatch, ReportsCrioThatTheKubeletCannotRecognise) {
  Logged logged;
  Conditions conditions;
  KubeletWatch watch(conditions, KubeletWatch::kGrace, "unix:///run/alignd/alignd.sock");
  watch.RuntimeIs("containerd");
  EXPECT_TRUE(conditions.Report().empty());
  watch.RuntimeIs("cri-o");
  ASSERT_EQ(conditions.Report().size(), 1U);
  EXPECT_EQ(conditions.Report()[0].type, ConditionType::kStatsProviderChanged);
  EXPECT_EQ(logged.Take(),
            "warning StatsProviderChanged: the runtime is CRI-O, but alignd's socket is "
            "unix:///run/alignd/alignd.sock: the kubelet reads the statistics of containers from "
            "CRI instead of cgroups; let --listen end with run/crio/crio.sock, and attach the "
            "kubelet anew\n");
  watch.RuntimeIs("containerd");  // another runtime serves the socket
  EXPECT_TRUE(conditions.Report().empty());
  KubeletWatch named(conditions, KubeletWatch::kGrace, "unix:///run/alignd/run/crio/crio.sock");
  named.RuntimeIs("cri-o");
  EXPECT_TRUE(conditions.Report().empty());
}

}  // namespace
}  // namespace alignd::reconcile
