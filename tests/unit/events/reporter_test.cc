// What is sent to the API server, and when.
#include "events/reporter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace alignd::events {
namespace {

using control::v1::GetStatusResponse;
using std::chrono::seconds;

class ReporterTest : public ::testing::Test {
 protected:
  // Started an hour ago, with nothing to report.
  ReporterTest() {
    report_.set_started_unix_ms(0);
    report_.set_time_unix_ms(3'600'000);
  }

  void Look() { reporter_.Look(now_); }
  // The calls since the last time.
  std::vector<std::string> Calls() { return std::exchange(calls_, {}); }

  control::v1::PendingPod& Refuse(const std::string& pod) {
    control::v1::PendingPod& added = *report_.add_pending();
    added.set_pod("ns/" + pod);
    added.set_pod_uid("uid-" + pod);
    added.set_state("refused");
    added.set_reason("TopologyAffinityError");
    added.set_message("no");
    added.set_last_unix_ms(1000);
    added.set_times(1);
    return added;
  }
  void Assign(const std::string& pod, const std::string& cpus = "1-2") {
    control::v1::ContainerAssignment& added = *report_.add_containers();
    added.set_pod("ns/" + pod);
    added.set_pod_uid("uid-" + pod);
    added.set_container("app");
    added.set_exclusive_cpus(cpus);
  }

  GetStatusResponse report_;
  bool alignd_runs_ = true;
  EventSender::Clock::time_point now_{seconds(1000)};
  std::vector<int> answers_;  // the next ones; then 201
  int connections_ = 0;
  std::vector<std::string> calls_;  // "POST pod" or "PATCH pod"
  Reporter reporter_{"node-1",
                     [this]() -> Result<GetStatusResponse> {
                       if (alignd_runs_) return report_;
                       return Error{ErrorCode::kUnavailable, "alignd does not answer"};
                     },
                     [this]() -> Result<ApiCall> {
                       ++connections_;
                       return ApiCall([this](const std::string& method, const std::string& path,
                                             const std::string& body) -> Result<ApiAnswer> {
                         const std::string prefix = "/api/v1/namespaces/ns/events";
                         EXPECT_TRUE(path.starts_with(prefix)) << path;
                         const std::string& from = method == "PATCH" ? path : body;
                         const size_t end = from.find(".alignd-");
                         const size_t begin = from.find_last_of("\"/", end) + 1;
                         calls_.push_back(method + " " + from.substr(begin, end - begin));
                         if (answers_.empty()) return ApiAnswer{201, "{}"};
                         const int status = answers_.front();
                         answers_.erase(answers_.begin());
                         if (status == 0) return Error{ErrorCode::kUnavailable, "no connection"};
                         if (status == 1) return ApiAnswer{403, "NamespaceTerminating"};
                         if (status == 2) return ApiAnswer{403, "exceeded quota: events"};
                         if (status == 403)
                           return ApiAnswer{403, "user u cannot create resource \"events\""};
                         return ApiAnswer{status, "why"};
                       });
                     }};
};

using Strings = std::vector<std::string>;

TEST_F(ReporterTest, SendsEachEventOnceAndRepetitionsOnceAMinute) {
  Look();
  EXPECT_EQ(connections_, 0);  // nothing to send
  Refuse("a");
  Look();
  EXPECT_EQ(Calls(), Strings{"POST a"});
  Look();
  EXPECT_EQ(Calls(), Strings{});
  report_.mutable_pending(0)->set_last_unix_ms(2000);
  report_.mutable_pending(0)->set_times(2);
  Look();
  EXPECT_EQ(Calls(), Strings{});
  now_ += seconds(60);
  Look();
  EXPECT_EQ(Calls(), Strings{"PATCH a"});
  now_ += seconds(60);
  Look();
  EXPECT_EQ(Calls(), Strings{});  // nothing new
  EXPECT_EQ(connections_, 2);
}

TEST_F(ReporterTest, ChangesWhatExistsAndCreatesWhatIsGone) {
  Refuse("a");
  answers_ = {409, 200};
  Look();
  EXPECT_EQ(Calls(), (Strings{"POST a", "PATCH a"}));
  report_.mutable_pending(0)->set_last_unix_ms(2000);
  now_ += seconds(60);
  answers_ = {404, 201};
  Look();
  EXPECT_EQ(Calls(), (Strings{"PATCH a", "POST a"}));
}

TEST_F(ReporterTest, AssignmentsOfBeforeAreNotNew) {
  Assign("old");
  Look();
  EXPECT_EQ(Calls(), Strings{});
  Assign("new");
  Look();
  EXPECT_EQ(Calls(), Strings{"POST new"});
  // alignd was started anew: the names of pods appear one after the other.
  report_.set_started_unix_ms(3'590'000);
  Assign("restored");
  Look();
  EXPECT_EQ(Calls(), Strings{});
  report_.set_time_unix_ms(3'700'000);
  Look();
  EXPECT_EQ(Calls(), Strings{});
  // Another assignment of the same container is reported.
  report_.mutable_containers(1)->set_exclusive_cpus("5-6");
  now_ += seconds(60);
  Look();
  EXPECT_EQ(Calls(), Strings{"PATCH new"});
}

// A quota, a policy or a webhook of one namespace is no reason to keep the Events of the others.
TEST_F(ReporterTest, WhatTheApiServerRefusesIsTriedAgainMuchLater) {
  for (const int refusal : {422, 1, 2, 500}) {
    SCOPED_TRACE(refusal);
    report_.clear_pending();
    now_ += std::chrono::hours(1);
    Look();
    Refuse("a");
    Refuse("b");
    answers_ = {refusal};
    Look();
    EXPECT_EQ(Calls(), (Strings{"POST a", "POST b"}));
    now_ += EventSender::kAfterRefusal - seconds(1);
    Look();
    EXPECT_EQ(Calls(), Strings{});
    now_ += seconds(1);
    Look();
    EXPECT_EQ(Calls(), Strings{"POST a"});
  }
}

TEST_F(ReporterTest, ConditionsThatLastAreRepeatedEvery30Minutes) {
  control::v1::Condition& condition = *report_.add_conditions();
  condition.set_type("UnmanagedContainer");
  condition.set_pod("ns/a");
  condition.set_pod_uid("uid-a");
  Look();
  EXPECT_EQ(Calls(), Strings{"POST a"});
  for (int minute = 1; minute < 30; ++minute) {
    now_ += seconds(60);
    condition.set_last_unix_ms(minute);
    Look();
    EXPECT_EQ(Calls(), Strings{}) << minute;
  }
  condition.set_message("another");
  Look();
  EXPECT_EQ(Calls(), Strings{"PATCH a"});
  now_ += std::chrono::minutes(30);
  condition.set_last_unix_ms(99);
  Look();
  EXPECT_EQ(Calls(), Strings{"PATCH a"});
}

TEST_F(ReporterTest, AnApiServerThatFailsIsLeftAloneForAWhile) {
  for (const char* const pod : {"a", "b", "c", "d"}) Refuse(pod);
  answers_ = {500, 503, 500};
  Look();
  EXPECT_EQ(Calls(), (Strings{"POST a", "POST b", "POST c"}));
  now_ += seconds(1);
  Look();
  EXPECT_EQ(Calls(), Strings{});
  now_ += seconds(1);
  Look();
  EXPECT_EQ(Calls(), Strings{"POST d"});
}

TEST_F(ReporterTest, WaitsLongerAndLongerForAnApiServerThatDoesNotAccept) {
  Refuse("a");
  Refuse("b");
  // Of these, 404: the path does not exist.
  for (const int status : {0, 404, 429, 401, 403}) answers_.push_back(status);
  seconds waited{0};
  for (const seconds wait : {seconds(2), seconds(4), seconds(8), seconds(16), seconds(32)}) {
    Look();
    EXPECT_EQ(Calls(), Strings{"POST a"}) << "after " << waited.count() << " s";
    now_ += wait - seconds(1);
    Look();
    EXPECT_EQ(Calls(), Strings{});
    now_ += seconds(1);
    waited += wait;
  }
  Look();
  EXPECT_EQ(Calls(), (Strings{"POST a", "POST b"}));
}

TEST_F(ReporterTest, GoesOnOnceAligndAnswersAgain) {
  alignd_runs_ = false;
  Refuse("a");
  Look();
  alignd_runs_ = true;
  Look();
  EXPECT_EQ(Calls(), Strings{});
  now_ += seconds(2);
  Look();
  EXPECT_EQ(Calls(), Strings{"POST a"});
}

TEST_F(ReporterTest, SendsAFewAtATimeAndForgetsWhatIsGone) {
  for (int i = 0; i < 60; ++i) Refuse("p" + std::to_string(i));
  Look();
  EXPECT_EQ(Calls().size(), EventSender::kEventsAtOnce);
  Look();
  EXPECT_EQ(Calls().size(), EventSender::kEventsAtOnce);
  Look();
  EXPECT_EQ(Calls().size(), 60 - 2 * EventSender::kEventsAtOnce);
  report_.clear_pending();
  now_ += seconds(60);
  Look();
  Refuse("p0");
  Look();
  EXPECT_EQ(Calls(), Strings{"POST p0"});
}

}  // namespace
}  // namespace alignd::events
