// One replica at a time leads, whatever the API server answers.
#include "extender/leader_elector.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "edge/fake_leases.h"

namespace alignd::extender {
namespace {

using testing::FakeLeases;

using namespace std::chrono_literals;
using Spec = nlohmann::json;

// Replicas on one clock, and the API server.
class LeaderElectorTest : public ::testing::Test {
 protected:
  std::unique_ptr<LeaderElector> Replica(const std::string& identity) {
    return std::make_unique<LeaderElector>(
        LeaderElector::Settings{.identity = identity},
        [this]() -> Result<apiserver::ApiCall> {
          ++connections_;
          return apiserver::ApiCall(
              [this](const std::string& method, const std::string& path, const std::string& body) {
                return Answer(method, path, body);
              });
        },
        LeaderElector::Clocks{
            .boot = [this] { return now_; },
            .wall = [] { return std::chrono::system_clock::time_point(1'700'000'000s); }});
  }
  static std::string Why(const LeaderElector& elector) {
    const auto leading = elector.LeadingNow();
    return leading.ok() ? "" : leading.error().Text();
  }
  // The replica leads for the first time.
  void Lead(LeaderElector& elector) {
    elector.Step();
    for (int i = 0; i < 8 && !elector.LeadingNow().ok(); ++i) {
      now_ += 2s;
      elector.Step();
    }
    ASSERT_EQ(Why(elector), "");
  }

  // Of one call: before it reaches the API server, or with another answer than its own.
  std::optional<apiserver::ApiAnswer> instead_;
  bool loses_requests_ = false;
  bool loses_answers_ = false;
  LeaderElector::Time now_{1000s};
  FakeLeases leases_{"kube-system"};
  std::vector<std::string> calls_;
  int connections_ = 0;

 private:
  Result<apiserver::ApiAnswer> Answer(const std::string& method, const std::string& path,
                                      const std::string& body) {
    calls_.push_back(method + " " + path);
    const Error lost{ErrorCode::kUnavailable, "no answer", "look"};
    if (loses_requests_) return lost;
    if (instead_) return *instead_;
    const FakeLeases::Answer answer = leases_.Call(method, path, body);
    if (loses_answers_) return lost;
    return apiserver::ApiAnswer{.status = answer.status, .body = answer.body};
  }
};

TEST_F(LeaderElectorTest, CreatesTheLeaseAndRenewsIt) {
  const auto a = Replica("a");
  EXPECT_NE(Why(*a).find("has not been read yet"), std::string::npos) << Why(*a);
  a->Step();
  const std::string path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
  EXPECT_EQ(calls_, (std::vector<std::string>{"GET " + path + "/alignd-extender", "POST " + path}));
  EXPECT_EQ(leases_.Spec(), (Spec{{"holderIdentity", "a"},
                                  {"leaseDurationSeconds", 15},
                                  {"leaseTransitions", 0},
                                  {"acquireTime", "2023-11-14T22:13:20.000000Z"},
                                  {"renewTime", "2023-11-14T22:13:20.000000Z"}}));
  // A Lease that was deleted may have had a leader.
  EXPECT_NE(Why(*a).find("leads in 15 s"), std::string::npos) << Why(*a);
  Lead(*a);
  EXPECT_GE(now_, LeaderElector::Time(1015s));
  EXPECT_FALSE(a->LeadingNow()->is_handed_over);
  calls_.clear();
  const std::string renewed = leases_.Spec()["renewTime"];
  const auto pause = a->Step();
  EXPECT_GE(pause, 2s);
  EXPECT_LE(pause, 2400ms);
  EXPECT_EQ(calls_, std::vector<std::string>{"PUT " + path + "/alignd-extender"});
  // The clock of the machine stands still; the others see a change all the same.
  EXPECT_GT(leases_.Spec()["renewTime"].get<std::string>(), renewed);
  EXPECT_EQ(leases_.Spec()["acquireTime"], "2023-11-14T22:13:20.000000Z");
  EXPECT_EQ(a->GetCounts().terms, 1U);
}

TEST_F(LeaderElectorTest, LeadsUntilTheRenewDeadlineAfterTheLastRenewalWasSent) {
  const auto a = Replica("a");
  Lead(*a);
  a->Step();
  const auto renewed = now_;
  loses_requests_ = true;
  for (int i = 0; i < 4; ++i) {
    now_ += 2s;
    a->Step();
  }
  EXPECT_TRUE(a->LeadingAt(renewed + 10s - 1ns).ok());
  EXPECT_FALSE(a->LeadingAt(renewed + 10s).ok());
  now_ = renewed + 10s;
  EXPECT_NE(Why(*a).find("could not renew the Lease"), std::string::npos) << Why(*a);
  // It is still the same term: no other replica has had the Lease.
  loses_requests_ = false;
  a->Step();
  EXPECT_EQ(a->LeadingNow()->term, 1U);
}

TEST_F(LeaderElectorTest, FollowsUntilTheLeaseHasNotChangedForItsDuration) {
  const auto a = Replica("a");
  const auto b = Replica("b");
  Lead(*a);
  leases_.Edit("leaseDurationSeconds", 20);
  b->Step();
  const auto seen = now_;
  EXPECT_NE(Why(*b).find("NotLeader: a has the Lease kube-system/alignd-extender"),
            std::string::npos)
      << Why(*b);
  now_ = seen + 20s - 1ns;
  b->Step();
  EXPECT_EQ(leases_.Spec()["holderIdentity"], "a");
  now_ = seen + 20s;
  b->Step();
  EXPECT_EQ(Why(*b), "");
  EXPECT_FALSE(b->LeadingNow()->is_handed_over);
  EXPECT_EQ(leases_.Spec()["holderIdentity"], "b");
  EXPECT_EQ(leases_.Spec()["leaseTransitions"], 1);
  EXPECT_EQ(leases_.Spec()["leaseDurationSeconds"], 15);
  EXPECT_EQ(b->GetCounts().transitions, 1);
  // The former leader's next write is refused: it reads, and follows.
  a->Step();
  EXPECT_NE(Why(*a).find("b has the Lease"), std::string::npos) << Why(*a);
  EXPECT_EQ(a->GetCounts().failures, 0U);
}

TEST_F(LeaderElectorTest, TakesAReleasedLeaseAtOnce) {
  const auto a = Replica("a");
  const auto b = Replica("b");
  Lead(*a);
  b->Step();
  a->Resign();
  EXPECT_NE(Why(*a).find("this replica ends"), std::string::npos) << Why(*a);
  EXPECT_TRUE(a->Release().ok());
  EXPECT_EQ(leases_.Spec()["holderIdentity"], "");
  EXPECT_EQ(leases_.Spec()["leaseDurationSeconds"], 1);
  b->Step();
  EXPECT_EQ(Why(*b), "");
  EXPECT_TRUE(b->LeadingNow()->is_handed_over);
  EXPECT_EQ(leases_.Spec()["leaseTransitions"], 1);
}

// After a failure, what it has of the Lease is not known.
TEST_F(LeaderElectorTest, ReadsTheLeaseToReleaseIt) {
  const auto a = Replica("a");
  Lead(*a);
  loses_answers_ = true;
  a->Step();
  a->Resign();
  EXPECT_FALSE(a->Release().ok());
  EXPECT_EQ(leases_.Spec()["holderIdentity"], "a");
  loses_answers_ = false;
  const auto released = a->Release();
  EXPECT_TRUE(released.ok()) << released.error().Text();
  EXPECT_EQ(leases_.Spec()["holderIdentity"], "");
}

TEST_F(LeaderElectorTest, DoesNotSayThatItReleasesTheLeaseOfAnother) {
  const auto a = Replica("a");
  const auto b = Replica("b");
  Lead(*a);
  b->Step();
  now_ += 15s;
  b->Step();
  const auto released = a->Release();
  ASSERT_FALSE(released.ok());
  a->Step();
  EXPECT_NE(a->Release().error().Text().find(
                "release Lease kube-system/alignd-extender: this replica does not have it; see its "
                "holder: kubectl -n kube-system get lease alignd-extender"),
            std::string::npos)
      << a->Release().error().Text();
  EXPECT_EQ(leases_.Spec()["holderIdentity"], "b");
  // Nor does it take the Lease any more.
  now_ += 60s;
  a->Step();
  a->Step();
  EXPECT_EQ(leases_.Spec()["holderIdentity"], "b");
  leases_.Delete();
  a->Step();
  EXPECT_FALSE(a->Release().ok());
  EXPECT_TRUE(leases_.Spec().is_null());
}

// Behind it, there can be a leader: a replica that gets the Lease from this one leads at once.
TEST_F(LeaderElectorTest, DoesNotReleaseALeaseThatItHasJustCreated) {
  const auto a = Replica("a");
  a->Step();
  EXPECT_FALSE(a->Release().ok());
  EXPECT_EQ(leases_.Spec()["holderIdentity"], "a");
}

// The leader leads for its own time, whatever a user has written into the Lease.
TEST_F(LeaderElectorTest, DoesNotTakeALeaseBeforeItsOwnLeaseDuration) {
  const auto a = Replica("a");
  const auto b = Replica("b");
  Lead(*a);
  leases_.Edit("leaseDurationSeconds", 1);
  b->Step();
  const auto seen = now_;
  now_ = seen + 15s - 1ns;
  b->Step();
  EXPECT_EQ(leases_.Spec()["holderIdentity"], "a");
  now_ = seen + 15s;
  b->Step();
  EXPECT_EQ(leases_.Spec()["holderIdentity"], "b");
}

TEST_F(LeaderElectorTest, ALeaderWaitsForNoLongerThanItsPeriod) {
  const auto a = Replica("a");
  Lead(*a);
  instead_ = {.status = 429, .retry_after = 12s};
  EXPECT_LE(a->Step(), 2400ms);
  EXPECT_TRUE(a->LeadingNow().ok());
  now_ += 10s;
  EXPECT_EQ(a->Step(), 12s);
  instead_->retry_after = std::chrono::seconds::max();
  EXPECT_EQ(a->Step(), 15s);
}

// The API server refuses more than an int32.
TEST_F(LeaderElectorTest, TakesALeaseWithAsManyTransitionsAsThereCanBe) {
  leases_.AddReleased("alignd-extender");
  leases_.Edit("leaseTransitions", 2147483647);
  const auto a = Replica("a");
  a->Step();
  EXPECT_EQ(Why(*a), "");
  EXPECT_EQ(leases_.Spec()["leaseTransitions"], 2147483647);
}

// A holder that was deleted by hand may still lead.
TEST_F(LeaderElectorTest, DoesNotTakeALeaseWhoseHolderWasDeletedByHand) {
  const auto a = Replica("a");
  const auto b = Replica("b");
  Lead(*a);
  leases_.Edit("holderIdentity", "");
  b->Step();
  EXPECT_TRUE(a->LeadingNow().ok());
  EXPECT_NE(Why(*b).find("no replica has the Lease"), std::string::npos) << Why(*b);
  a->Step();
  EXPECT_FALSE(a->LeadingNow().ok());
  now_ += 15s;
  b->Step();
  EXPECT_EQ(Why(*b), "");
}

TEST_F(LeaderElectorTest, LeadsLaterIfTheLeaseWasDeleted) {
  const auto a = Replica("a");
  const auto b = Replica("b");
  Lead(*a);
  a->Step();
  leases_.Delete();
  b->Step();
  EXPECT_EQ(leases_.Spec()["holderIdentity"], "b");
  EXPECT_TRUE(a->LeadingNow().ok());
  EXPECT_NE(Why(*b).find("NewLeader: "), std::string::npos) << Why(*b);
  a->Step();
  EXPECT_FALSE(a->LeadingNow().ok());
}

// The write can have been received all the same.
TEST_F(LeaderElectorTest, ReadsTheLeaseAfterALostAnswer) {
  const auto a = Replica("a");
  const auto b = Replica("b");
  Lead(*a);
  b->Step();
  a->Resign();
  EXPECT_TRUE(a->Release().ok());
  loses_answers_ = true;
  b->Step();  // its read is lost
  EXPECT_EQ(leases_.Spec()["holderIdentity"], "");
  loses_answers_ = false;
  b->Step();
  loses_answers_ = true;
  now_ += 2s;
  b->Step();
  now_ += 2s;
  loses_answers_ = false;
  calls_.clear();
  b->Step();
  EXPECT_TRUE(calls_.at(0).starts_with("GET ")) << calls_.at(0);
  EXPECT_EQ(b->LeadingNow()->term, 1U);
  EXPECT_TRUE(b->LeadingNow()->is_handed_over);
}

// Of a takeover, which it is known from the time in the Lease.
TEST_F(LeaderElectorTest, KnowsItsOwnTakeoverWhoseAnswerWasLost) {
  const auto a = Replica("a");
  Lead(*a);
  a->Resign();
  EXPECT_TRUE(a->Release().ok());
  // The read is answered, the write is not.
  int calls = 0;
  LeaderElector b(
      {.identity = "b"},
      [&]() -> Result<apiserver::ApiCall> {
        return apiserver::ApiCall([&](const std::string& method, const std::string& path,
                                      const std::string& body) -> Result<apiserver::ApiAnswer> {
          const FakeLeases::Answer answer = leases_.Call(method, path, body);
          if (++calls == 2) return Error{ErrorCode::kUnavailable, "no answer", ""};
          return apiserver::ApiAnswer{.status = answer.status, .body = answer.body};
        });
      },
      {.boot = [this] { return now_; }});
  b.Step();
  EXPECT_EQ(leases_.Spec()["holderIdentity"], "b");
  EXPECT_FALSE(b.LeadingNow().ok());
  b.Step();
  ASSERT_EQ(Why(b), "");
  EXPECT_TRUE(b.LeadingNow()->is_handed_over);
}

// It created the Lease, behind which there can be a leader; it does not know by which of its
// writes.
TEST_F(LeaderElectorTest, LeadsLaterIfItsLeaseWasCreatedByALateRequest) {
  std::string late;
  LeaderElector a(
      {.identity = "a"},
      [&]() -> Result<apiserver::ApiCall> {
        return apiserver::ApiCall([&](const std::string& method, const std::string& path,
                                      const std::string& body) -> Result<apiserver::ApiAnswer> {
          if (method == "POST" && late.empty()) {
            late = body;
            return Error{ErrorCode::kUnavailable, "no answer", ""};
          }
          if (method == "POST") (void)leases_.Call(method, path, late);
          const FakeLeases::Answer answer = leases_.Call(method, path, body);
          return apiserver::ApiAnswer{.status = answer.status, .body = answer.body};
        });
      },
      {.boot = [this] { return now_; }});
  a.Step();
  a.Step();
  EXPECT_EQ(leases_.Spec()["holderIdentity"], "a");
  EXPECT_NE(Why(a).find("NewLeader: "), std::string::npos) << Why(a);
}

TEST_F(LeaderElectorTest, SaysWhatToDo) {
  const auto a = Replica("a");
  // /readyz shows it.
  const auto expect = [&](apiserver::ApiAnswer answer, const std::string& text) {
    instead_ = std::move(answer);
    const uint64_t failures = a->GetCounts().failures;
    const int connections = connections_;
    const auto pause = a->Step();
    EXPECT_EQ(a->GetCounts().failures, failures + 1);
    EXPECT_NE(Why(*a).find(text), std::string::npos) << Why(*a);
    a->Step();
    EXPECT_GT(connections_, connections) << "the credential may be renewed";
    return pause;
  };
  EXPECT_LE(expect({.status = 403, .body = R"({"message":"forbidden"})"},
                   "answers 403: forbidden; allow the credential to get, create and update"),
            2400ms);
  EXPECT_LE(expect({.status = 401}, "renew the token"), 2400ms);
  EXPECT_EQ(expect({.status = 429, .retry_after = 7s}, "answers 429"), 7s);
  EXPECT_EQ(expect({.status = 503, .retry_after = 3600s}, "answers 503"), 15s);
  EXPECT_LE(expect({.status = 200, .body = "{}"}, "it has no resourceVersion; delete the Lease"),
            2400ms);
  EXPECT_LE(expect({.status = 200,
                    .body = R"({"metadata":{"resourceVersion":"1"},"spec":)"
                            R"({"leaseDurationSeconds":"x"}})"},
                   "leaseDurationSeconds or leaseTransitions is no number"),
            2400ms);
  // Of the namespace, when the Lease is created.
  instead_.reset();
  FakeLeases other("other");
  std::swap(leases_, other);
  a->Step();
  EXPECT_NE(Why(*a).find("create the namespace kube-system, or give another with "
                         "--leader-elect-resource-namespace"),
            std::string::npos)
      << Why(*a);
}

TEST(LeaseText, KeepsWhatElseTheLeaseHas) {
  const auto lease =
      ParseLease(R"({"metadata":{"resourceVersion":"7","labels":{"a":"b"}},)"
                 R"("spec":{"holderIdentity":null,"strategy":"x","leaseTransitions":3}})");
  ASSERT_TRUE(lease.ok()) << lease.error().Text();
  EXPECT_EQ(lease->holder, "");
  EXPECT_EQ(lease->transitions, 3);
  const auto changed = Spec::parse(ChangedLease(
      *lease, {.holder = "h", .duration = 15s, .transitions = 4, .acquired = "", .renewed = ""}));
  EXPECT_EQ(changed["metadata"], (Spec{{"resourceVersion", "7"}, {"labels", {{"a", "b"}}}}));
  EXPECT_EQ(changed["spec"]["strategy"], "x");
  EXPECT_EQ(changed["spec"]["holderIdentity"], "h");
  for (const char* const text :
       {"", "[]", R"({"metadata":{}})", R"({"metadata":{"resourceVersion":"1"},"spec":[]})",
        R"({"metadata":{"resourceVersion":"1"},"spec":{"leaseTransitions":99999999999}})",
        R"({"metadata":{"resourceVersion":"1"},"spec":{"holderIdentity":1}})"}) {
    EXPECT_FALSE(ParseLease(text).ok()) << text;
  }
}

TEST(LeaseText, WritesTimesAsTheApiServer) {
  using Clock = std::chrono::system_clock;
  EXPECT_EQ(MicroTime(Clock::time_point(1'700'000'000s + 42us)), "2023-11-14T22:13:20.000042Z");
}

TEST(NewIdentity, DiffersForEachProcess) {
  const auto first = NewIdentity();
  const auto second = NewIdentity();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(*first, *second);
  EXPECT_EQ(first->size() - first->rfind('_'), 33U);
}

}  // namespace
}  // namespace alignd::extender
