#include "reconcile/conditions.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <sstream>
#include <string>

namespace alignd::reconcile {
namespace {

using std::chrono::seconds;
using std::chrono::system_clock;

// What is logged while it lives, a line each.
class Logged {
 public:
  Logged() {
    auto logger = std::make_shared<spdlog::logger>(
        "conditions", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_));
    logger->set_pattern("%l %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~Logged() { spdlog::set_default_logger(before_); }
  // What has come since the last call.
  std::string Take() {
    std::string text = text_.str();
    text_.str("");
    return text;
  }

 private:
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream text_;
};

TEST(Conditions, QuotaThatStaysIsSaidOnceForEachPodAndReason) {
  Logged logged;
  Conditions log;
  const Error read_only{ErrorCode::kIo, "write cpu.max: read-only", "make it writable"};
  const std::string said =
      "warning pod a has exclusive CPUs and is throttled by its CFS quota: write cpu.max: "
      "read-only; make it writable\n";
  for (int i = 0; i < 3; ++i) log.QuotaNotLifted("a", read_only);
  EXPECT_EQ(logged.Take(), said);
  log.QuotaNotLifted("b", read_only);
  EXPECT_NE(logged.Take(), "");
  const auto since = log.Report().throttled_pods[0].since;
  log.QuotaNotLifted("a", {ErrorCode::kIo, "write cpu.max: denied"});
  EXPECT_NE(logged.Take().find("denied"), std::string::npos);
  EXPECT_EQ(log.Report().throttled_pods[0].since, since);
  log.QuotaNotLifted("a", read_only);
  EXPECT_EQ(logged.Take(), said);

  log.QuotaSettled("a");
  EXPECT_EQ(log.ThrottledPods(), std::set<std::string>{"b"});
  log.QuotaNotLifted("a", read_only);
  EXPECT_EQ(logged.Take(), said);
}

const Subject kApp{"c1", {"uid", "app"}, "default/web"};

TEST(Conditions, NamesContainersByTheirPodsNameWhereItIsKnown) {
  EXPECT_EQ(NameOf(kApp), "container app of pod default/web");
  EXPECT_EQ(NameOf({"c1", {"uid", "app"}}), "container app of pod uid");
}

TEST(Conditions, DevicesFromAnotherPluginAreSaidOnceAndUntilTheyAreGone) {
  Logged logged;
  Conditions log;
  const PastMirror devices{
      .since = {}, .container = kApp, .resource = "a/gpu", .ids = {"g1", "g2"}};
  log.FoundPastMirror({devices});
  EXPECT_EQ(
      logged.Take(),
      "error container app of pod default/web has a/gpu g1 g2 from a plugin that is registered "
      "with the kubelet itself, beside alignd, which knows nothing of it and may give it to "
      "others; let the plugin reach alignd's device plugin directory alone, and restart alignd, "
      "which takes over what the container has, and whose offer the kubelet takes anew then\n");
  ASSERT_EQ(log.Report().past_mirror.size(), 1U);
  const auto since = log.Report().past_mirror[0].since;
  PastMirror other = devices;
  other.resource = "a/nic";
  log.FoundPastMirror({other, devices});
  EXPECT_EQ(logged.Take().find("a/gpu"), std::string::npos);
  ASSERT_EQ(log.Report().past_mirror.size(), 2U);
  EXPECT_EQ(log.Report().past_mirror[1].since, since);
  log.FoundPastMirror({});
  EXPECT_TRUE(log.Report().past_mirror.empty());
}

TEST(Conditions, UpdateWithoutAnAnswerIsReportedAfterSomeSeconds) {
  Conditions log;
  log.UpdateBegun(kApp, "CPUs 1-3");
  const auto now = system_clock::now();
  EXPECT_TRUE(log.Report(now).failed_updates.empty());
  const auto failed = log.Report(now + seconds(7)).failed_updates;
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0].container.container_id, "c1");
  EXPECT_EQ(failed[0].should, "CPUs 1-3");
  EXPECT_EQ(failed[0].times, 0U);
  EXPECT_TRUE(failed[0].error.starts_with("the runtime has not answered for ")) << failed[0].error;
  log.UpdateAnswered("c1");
  EXPECT_TRUE(log.Report(now + seconds(7)).failed_updates.empty());
}

TEST(Conditions, UpdateThatFailedAndNowHangsIsReportedOnceWithBoth) {
  Conditions log;
  log.UpdateFailed(kApp, "CPUs 1-3", {ErrorCode::kInternal, "out of order"});
  log.UpdateBegun(kApp, "CPUs 1-3");
  const auto failed = log.Report(system_clock::now() + seconds(7)).failed_updates;
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0].times, 1U);
  EXPECT_TRUE(failed[0].error.starts_with("out of order; now the runtime has not answered for "))
      << failed[0].error;
}

TEST(Conditions, RuntimeThatFailsIsOutUntilItAnswers) {
  Conditions log;
  EXPECT_FALSE(log.Report().runtime_outage);
  log.RuntimeAsked();
  log.RuntimeFailed({ErrorCode::kUnavailable, "no such file"});
  log.RuntimeAsked();
  ASSERT_TRUE(log.Report().runtime_outage);
  const RuntimeOutage outage = *log.Report().runtime_outage;
  EXPECT_EQ(outage.error, "no such file");
  EXPECT_TRUE(outage.never_answered);
  log.RuntimeFailed({ErrorCode::kDeadlineExceeded, "too late"});
  EXPECT_EQ(log.Report().runtime_outage->error, "too late");
  EXPECT_EQ(log.Report().runtime_outage->since, outage.since);
  log.RuntimeAsked();
  log.RuntimeAnswered();
  EXPECT_FALSE(log.Report().runtime_outage);
  log.RuntimeFailed({ErrorCode::kUnavailable, "gone"});
  EXPECT_FALSE(log.Report().runtime_outage->never_answered);
}

TEST(Conditions, RuntimeThatDoesNotAnswerIsOutAfterSomeSeconds) {
  Conditions log;
  log.RuntimeAsked();
  const auto now = system_clock::now();
  EXPECT_FALSE(log.Report(now).runtime_outage);
  const auto outage = log.Report(now + seconds(4)).runtime_outage;
  ASSERT_TRUE(outage);
  EXPECT_EQ(outage->error, "");
  EXPECT_LE(outage->since, now);
  log.RuntimeAnswered();
  EXPECT_FALSE(log.Report(now + seconds(4)).runtime_outage);
}

TEST(Conditions, SignOfAnotherManagerLapsesWhenItIsNotSeenAgain) {
  Conditions log;
  log.SawConflictingManager("it writes", "stop it");
  log.SawConflictingManager("where", "it stands here", "remove it", std::chrono::hours(1));
  log.SawConflictingManager("where", "it stands there", "remove it", std::chrono::hours(1));
  const auto now = system_clock::now();
  log.DropExpired(now + Conditions::kSignLasts / 2);
  EXPECT_EQ(log.Report().conflicting_managers.size(), 2U);
  log.DropExpired(now + Conditions::kSignLasts);
  ASSERT_EQ(log.Report().conflicting_managers.size(), 1U);
  EXPECT_EQ(log.Report().conflicting_managers[0].sign, "it stands there");
  log.ConflictingManagerGone("never seen");
  log.ConflictingManagerGone("where");
  EXPECT_TRUE(log.Report().conflicting_managers.empty());
}

TEST(Conditions, ContainersMadePastUsAreLoggedOnceAndReportedWhileTheyRun) {
  Logged logged;
  Conditions log;
  const Subject web{"c1", {"u1", "app"}, "default/web"};
  const Subject bare{"c2", {"u2", "app"}, ""};
  log.FoundUnmanaged({web});
  log.FoundUnmanaged({web, bare});
  EXPECT_EQ(logged.Take(),
            "warning container app of pod default/web was made past alignd, at the runtime itself: "
            "nothing is granted to it\n"
            "warning container app of pod u2 was made past alignd, at the runtime itself: nothing "
            "is granted to it\n");
  const std::vector<Unmanaged> both = log.Report().unmanaged;
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].container.pod, "default/web");
  EXPECT_LE(both[0].since, both[1].since);
  log.FoundUnmanaged({bare});
  ASSERT_EQ(log.Report().unmanaged.size(), 1U);
  EXPECT_EQ(log.Report().unmanaged[0].since, both[1].since);
  log.FoundUnmanaged({});
  EXPECT_TRUE(log.Report().unmanaged.empty());
  EXPECT_EQ(logged.Take(), "");
}

}  // namespace
}  // namespace alignd::reconcile
