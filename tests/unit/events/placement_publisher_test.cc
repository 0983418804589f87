// Which pods are written, and when, against an API server in memory.
#include "events/placement_publisher.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace alignd::events {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Json = nlohmann::json;
using Calls = std::vector<std::string>;

constexpr char kName[] = "kai.scheduler/numa-placement-observed";

class PlacementPublisherTest : public ::testing::Test {
 protected:
  void Step() { now_ += publisher_.Step(); }
  void Pass(seconds time) {
    for (const auto end = now_ + time; now_ < end;) Step();
  }
  void Set(const std::string& uid, const std::string& value, const std::string& name = "web") {
    control::v1::PodPlacement placement;
    placement.set_uid(uid);
    placement.set_name(name);
    placement.set_name_space("ns");
    placement.set_value(value);
    placements_.push_back(placement);
    version_ += "+";
  }
  // The namespaces/names of the calls since the last question.
  Calls TakeCalls() { return std::exchange(calls_, {}); }

  Result<ApiAnswer> Answer(const std::string& method, const std::string& path,
                           const std::string& body) {
    EXPECT_EQ(method, "PATCH");
    calls_.push_back(path);
    if (!answers_.empty()) {
      ApiAnswer next = answers_.front();
      answers_.pop_front();
      if (next.status == -1) return Error{ErrorCode::kUnavailable, "no connection"};
      if (next.status != 0) return next;
    }
    if (is_failing_ && is_failing_(path)) return ApiAnswer{500, "failed calling webhook"};
    pods_[path] = Json::parse(body);
    return ApiAnswer{200, "{}"};
  }

  PlacementPublisher::Clock::time_point now_{seconds(1000)};
  std::vector<control::v1::PodPlacement> placements_;
  std::string version_ = "v";
  bool alignd_runs_ = true;
  std::map<std::string, Json> pods_;  // by path: what was written
  std::deque<ApiAnswer> answers_;     // the next ones; status 0: as usual, -1: no answer
  std::function<bool(const std::string& path)> is_failing_;
  Calls calls_;
  int connections_ = 0;
  std::vector<milliseconds> waits_;
  PlacementPublisher publisher_{
      [this](const std::string& known,
             milliseconds wait) -> Result<control::v1::GetTopologyResponse> {
        if (!alignd_runs_) return Error{ErrorCode::kUnavailable, "alignd does not answer"};
        waits_.push_back(wait);
        control::v1::GetTopologyResponse response;
        response.set_version(version_);
        if (known == version_) {
          now_ += wait;
          return response;
        }
        response.set_object("{}");
        for (const auto& placement : placements_) *response.add_placements() = placement;
        return response;
      },
      [this]() -> Result<ApiCall> {
        ++connections_;
        return ApiCall([this](const auto& method, const auto& path, const auto& body) {
          return Answer(method, path, body);
        });
      },
      [this] { return now_; }};
};

constexpr char kWeb[] = "/api/v1/namespaces/ns/pods/web/status";
constexpr char kOther[] = "/api/v1/namespaces/ns/pods/other/status";

TEST_F(PlacementPublisherTest, WritesEachPodOnceUntilItsPlacementChanges) {
  Step();
  EXPECT_EQ(TakeCalls(), Calls{});
  Set("u1", "one");
  Set("u2", "two", "other");
  Step();
  EXPECT_EQ(TakeCalls(), (Calls{kWeb, kOther}));
  const Json expected = {{"metadata", {{"uid", "u1"}, {"annotations", {{kName, "one"}}}}}};
  EXPECT_EQ(pods_[kWeb], expected);
  Step();
  EXPECT_EQ(TakeCalls(), Calls{});
  EXPECT_EQ(waits_.back(), PlacementPublisher::kAligndWait);
  placements_.clear();
  Set("u1", "changed");
  Set("u2", "two", "other");
  Step();
  EXPECT_EQ(TakeCalls(), Calls{kWeb});
  EXPECT_EQ(pods_[kWeb]["metadata"]["annotations"][kName], "changed");
  EXPECT_EQ(publisher_.counts().written, 3U);
}

// What a scheduler would count is not there anymore.
TEST_F(PlacementPublisherTest, DeletesTheAnnotationOfARunningPodOnce) {
  Set("u1", "one");
  Set("u2", "", "other");  // has never had anything
  Step();
  EXPECT_EQ(TakeCalls(), Calls{kWeb});
  Pass(PlacementPublisher::kBetweenChecks + seconds(30));
  EXPECT_EQ(TakeCalls(), Calls{kWeb});
  placements_.clear();
  Set("u1", "");
  Set("u2", "", "other");
  // The API server may have done what it did not answer.
  answers_ = {{.status = -1}};
  Pass(seconds(30));
  EXPECT_EQ(TakeCalls(), (Calls{kWeb, kWeb}));
  const Json expected = {{"metadata", {{"uid", "u1"}, {"annotations", {{kName, nullptr}}}}}};
  EXPECT_EQ(pods_[kWeb], expected);
  Pass(PlacementPublisher::kBetweenChecks + seconds(30));
  EXPECT_EQ(TakeCalls(), Calls{});
  // It has something again.
  placements_.clear();
  Set("u1", "one");
  Step();
  EXPECT_EQ(pods_[kWeb]["metadata"]["annotations"][kName], "one");
}

// The check in between does not forget that the annotation is there.
TEST_F(PlacementPublisherTest, DeletesTheAnnotationAlsoAfterALongFailure) {
  Set("u1", "one");
  Step();
  placements_.clear();
  Set("u1", "");
  answers_ = {{.status = 503, .retry_after = seconds(300)}, {.status = 503}};
  Pass(PlacementPublisher::kBetweenChecks + seconds(60));
  EXPECT_EQ(pods_[kWeb]["metadata"]["annotations"][kName], nullptr);
}

TEST_F(PlacementPublisherTest, LeavesTheAnnotationOfAPodThatHasEnded) {
  Set("u1", "one");
  Step();
  placements_.clear();
  version_ += "+";
  Pass(PlacementPublisher::kBetweenChecks);
  EXPECT_EQ(TakeCalls(), Calls{kWeb});
}

// Others may have changed the annotation.
TEST_F(PlacementPublisherTest, WritesAllAgainAfterAWhile) {
  Set("u1", "one");
  Step();
  TakeCalls();
  Pass(PlacementPublisher::kBetweenChecks - seconds(30));
  EXPECT_EQ(TakeCalls(), Calls{});
  Pass(seconds(60));
  EXPECT_EQ(TakeCalls(), Calls{kWeb});
}

// Another pod has the name (409 or 422), or none (404): nothing is wrong, and the others are
// written.
TEST_F(PlacementPublisherTest, APodThatHasGoneIsNoFailure) {
  Set("u1", "one");
  Set("u2", "two", "other");
  Set("u3", "three", "static");
  const std::string immutable =
      R"({"kind":"Status","reason":"Invalid","details":{"causes":[{"reason":"FieldValueInvalid",)"
      R"("message":"Invalid value: \"u3\": field is immutable","field":"metadata.uid"}]},"code":422})";
  answers_ = {
      {.status = 409, .body = "Precondition failed: UID in precondition: u1, UID in object"},
      {.status = 404, .body = "not found"},
      {.status = 422, .body = immutable}};
  Step();
  Step();
  EXPECT_EQ(TakeCalls(), (Calls{kWeb, kOther, "/api/v1/namespaces/ns/pods/static/status"}));
  EXPECT_EQ(publisher_.counts().absent, 3U);
  EXPECT_EQ(publisher_.counts().refused, 0U);
  EXPECT_EQ(publisher_.counts().failures, 0U);
}

TEST_F(PlacementPublisherTest, ARefusalOfOnePodDoesNotStopTheOthers) {
  Set("u1", "one");
  Set("u2", "two", "other");
  answers_ = {{.status = 422, .body = "Invalid"}};
  Step();
  EXPECT_EQ(TakeCalls(), (Calls{kWeb, kOther}));
  EXPECT_EQ(publisher_.counts().refused, 1U);
  EXPECT_EQ(publisher_.counts().written, 1U);
}

// By a policy of its namespace.
TEST_F(PlacementPublisherTest, APodThatMayNotBeChangedDoesNotStopTheOthers) {
  Set("u1", "one");
  Set("u2", "two", "other");
  answers_ = {{.status = 403, .body = "admission webhook denied the request"}};
  Step();
  EXPECT_EQ(TakeCalls(), (Calls{kWeb, kOther}));
  EXPECT_EQ(publisher_.counts().refused, 1U);
  EXPECT_EQ(publisher_.counts().failures, 0U);
}

TEST_F(PlacementPublisherTest, RepeatsAWriteThatConflicts) {
  Set("u1", "one");
  answers_ = {{.status = 409, .body = "the object has been modified"}};
  Pass(seconds(5));
  EXPECT_EQ(TakeCalls(), (Calls{kWeb, kWeb}));
  EXPECT_EQ(publisher_.counts().absent, 0U);
  EXPECT_EQ(publisher_.counts().written, 1U);
}

// Each time those with the lowest UIDs.
TEST_F(PlacementPublisherTest, PodsThatFailDoNotKeepOthersWaiting) {
  constexpr int kFailing = 8;
  for (int i = 0; i < kFailing; ++i) {
    Set("u" + std::to_string(i), "one", "failing-" + std::to_string(i));
  }
  Set("u9", "two", "other");
  is_failing_ = [](const std::string& path) { return path.find("failing") != std::string::npos; };
  Pass(seconds(20));
  EXPECT_TRUE(pods_.contains(kOther));
  EXPECT_EQ(publisher_.counts().written, 1U);
  is_failing_ = nullptr;
  Pass(seconds(60));
  EXPECT_EQ(publisher_.counts().written, kFailing + 1U);
}

TEST_F(PlacementPublisherTest, PausesAfterFailuresAndGoesOn) {
  Set("u1", "one");
  for (const ApiAnswer& trouble :
       std::vector<ApiAnswer>{{.status = -1},
                              {.status = 403, .body = "cannot patch resource \"pods/status\""},
                              {.status = 401},
                              {.status = 500}}) {
    answers_.push_back(trouble);
  }
  Pass(seconds(60));
  EXPECT_EQ(TakeCalls().size(), 5U);
  EXPECT_EQ(publisher_.counts().failures, 4U);
  EXPECT_EQ(publisher_.counts().written, 1U);
  EXPECT_EQ(connections_, 5);  // the file may have the next token
}

TEST_F(PlacementPublisherTest, WaitsAsLongAsTheApiServerSays) {
  Set("u1", "one");
  answers_ = {{.status = 429, .retry_after = seconds(90)}};
  Step();
  Pass(seconds(80));
  EXPECT_EQ(TakeCalls(), Calls{kWeb});
  Pass(seconds(20));
  EXPECT_EQ(TakeCalls(), Calls{kWeb});
}

// A name that is none would be another path.
// A failure of one pod came before.
TEST_F(PlacementPublisherTest, WaitsForTheApiServerAlsoAfterAFailureOfOnePod) {
  Set("u1", "one");
  Set("u2", "two", "other");
  Set("u3", "three", "third");
  answers_ = {{.status = 500}, {.status = 429, .retry_after = seconds(90)}};
  Step();
  EXPECT_EQ(TakeCalls(), (Calls{kWeb, kOther}));
  Pass(seconds(80));
  EXPECT_EQ(TakeCalls(), Calls{});
  Pass(seconds(20));
  EXPECT_EQ(TakeCalls().size(), 3U);
}

TEST_F(PlacementPublisherTest, IgnoresWhatCannotBeANameOfAPod) {
  Set("u1", "one", "../secrets");
  Set("u2", "two", "");
  Step();
  EXPECT_EQ(TakeCalls(), Calls{});
}

TEST_F(PlacementPublisherTest, KeepsWhatIsToBeWrittenWhileAligndIsAway) {
  Set("u1", "one");
  answers_ = {{.status = -1}};
  Step();
  alignd_runs_ = false;
  Pass(seconds(5));
  EXPECT_EQ(publisher_.counts().written, 1U);
  alignd_runs_ = true;
  Step();
  EXPECT_EQ(waits_.back(), milliseconds(0));
  Step();
  EXPECT_GT(waits_.back(), milliseconds(0));
}

}  // namespace
}  // namespace alignd::events
