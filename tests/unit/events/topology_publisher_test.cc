// What is written to the API server, and when, against an API server in memory.
#include "events/topology_publisher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "events/api_text.h"
#include "events/topology_object.h"

namespace alignd::events {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Json = nlohmann::json;
using Calls = std::vector<std::string>;

// The object as alignd would make it.
std::string TopologyWith(const std::string& available, const std::string& fingerprint = "pfp1") {
  return Json{
      {"apiVersion", "topology.node.k8s.io/v1alpha2"},
      {"kind", "NodeResourceTopology"},
      {"metadata",
       {{"name", "n1"}, {"annotations", {{"topology.node.k8s.io/fingerprint", fingerprint}}}}},
      {"topologyPolicies", {"SingleNUMANodePodLevel"}},
      {"attributes", {{{"name", "topologyManagerPolicy"}, {"value", "single-numa-node"}}}},
      {"zones", {{{"name", "node-0"}, {"available", available}}}}}
      .dump();
}

class TopologyPublisherTest : public ::testing::Test {
 protected:
  // One step; the time goes on by the pause that it asks for.
  void Step() { now_ += publisher_.Step(); }
  // Steps until alignd has been asked for another change than it has.
  void Pass(seconds time) {
    for (const auto end = now_ + time; now_ < end;) Step();
  }
  Calls TakeCalls() { return std::exchange(calls_, {}); }
  void Change(const std::string& object) {
    object_ = object;
    version_ += "+";
  }
  std::string AvailableInCluster() const {
    return stored_.is_null() ? "" : stored_["zones"][0]["available"].get<std::string>();
  }

  Result<ApiAnswer> Answer(const std::string& method, const std::string& path,
                           const std::string& body) {
    calls_.push_back(method + (path.starts_with("/api/v1/nodes/") ? " node" : ""));
    if (!answers_.empty()) {
      ApiAnswer next = answers_.front();
      answers_.pop_front();
      if (next.status == -1) return Error{ErrorCode::kUnavailable, "no connection"};
      if (next.status != 0) return next;
    }
    if (method == "PATCH") {
      EXPECT_EQ(path, "/api/v1/nodes/n1");
      marks_.push_back(Json::parse(body)["metadata"]["annotations"]["alignd.io/topology-changed"]);
      return ApiAnswer{200, "{}"};
    }
    if (path == "/api/v1/nodes/n1") {
      return ApiAnswer{200, R"({"metadata":{"name":"n1","uid":"u-1"}})"};
    }
    const std::string all = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";
    EXPECT_EQ(path, method == "POST" ? all : all + "/n1");
    if (method == "GET") return stored_.is_null() ? ApiAnswer{404, "{}"} : Stored(200);
    const Json sent = Json::parse(body);
    if (method == "POST") {
      if (!stored_.is_null()) return ApiAnswer{409, "AlreadyExists"};
      return Store(sent, 201);
    }
    if (stored_.is_null()) return ApiAnswer{404, "{}"};
    if (sent["metadata"]["resourceVersion"] != stored_["metadata"]["resourceVersion"]) {
      return ApiAnswer{409, "Conflict"};
    }
    return Store(sent, 200);
  }
  ApiAnswer Store(Json object, int status) {
    object["metadata"]["resourceVersion"] = std::to_string(++resource_version_);
    stored_ = std::move(object);
    return Stored(status);
  }
  ApiAnswer Stored(int status) const { return ApiAnswer{status, stored_.dump()}; }
  // Another program changes the object.
  void WriteForeign(const Json& changes) {
    Json object = stored_;
    object.merge_patch(changes);
    Store(object, 200);
  }

  TopologyPublisher::Clock::time_point now_{seconds(1000)};
  std::string object_ = TopologyWith("3");
  std::string version_ = "v";
  bool alignd_runs_ = true;
  Json stored_;
  int resource_version_ = 0;
  std::deque<ApiAnswer> answers_;  // the next ones; status 0: as usual, -1: no answer
  Calls calls_;
  std::vector<std::string> marks_;  // of the Node
  int connections_ = 0;
  std::vector<milliseconds> waits_;
  TopologyPublisher publisher_{
      "n1",
      [this](const std::string& known,
             milliseconds wait) -> Result<control::v1::GetTopologyResponse> {
        if (!alignd_runs_) return Error{ErrorCode::kUnavailable, "alignd does not answer"};
        waits_.push_back(wait);
        control::v1::GetTopologyResponse response;
        response.set_version(version_);
        if (known == version_) {
          now_ += wait;
        } else {
          response.set_object(object_);
        }
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

// kube-scheduler does not ask its extenders again for a NodeResourceTopology.
TEST_F(TopologyPublisherTest, MarksTheNodeAfterAWrite) {
  publisher_.WakeScheduler();
  Step();
  EXPECT_EQ(marks_.size(), 0U);  // the extenders may not have the object yet
  Pass(seconds(2));
  ASSERT_EQ(marks_.size(), 1U);
  TakeCalls();
  for (const char* available : {"1", "2", "0"}) {  // within a second
    Change(TopologyWith(available));
    Step();
  }
  EXPECT_EQ(TakeCalls(), (Calls{"PUT", "PUT", "PUT"}));
  Pass(seconds(3));
  EXPECT_GE(marks_.size(), 2U);
  EXPECT_LE(marks_.size(), 3U);
  EXPECT_NE(marks_.front(), marks_.back());
  TakeCalls();
  Pass(seconds(60));
  EXPECT_EQ(TakeCalls(), Calls());
}

TEST(ApiText, IsOneLineWithoutTheObjectOfTheAnswer) {
  EXPECT_EQ(Shown({.status = 401,
                   .body = "{\"kind\":\"Status\",\"message\":\"Unauthorized\",\"code\":401}\n"}),
            "the API server answers 401: Unauthorized");
  EXPECT_EQ(Shown({.status = 502, .body = "<html>\nbad"}).find('\n'), std::string::npos);
  EXPECT_TRUE(
      Shown({.status = 502, .body = "<html>"}).ends_with("the API server answers 502: <html>"));
  EXPECT_LE(Shown({.status = 500, .body = std::string(5000, 'x')}).size(), 512U);
}

TEST_F(TopologyPublisherTest, SaysWhatHasBecomeOfTheObject) {
  EXPECT_EQ(publisher_.Publication().failure(), "");
  EXPECT_EQ(publisher_.Publication().written(), 0U);
  answers_.assign(1, ApiAnswer{500, "broken \xff"});
  Step();
  control::v1::TopologyPublication publication = publisher_.Publication();
  EXPECT_EQ(publication.failure(), "the API server answers 500: broken \\xff");
  EXPECT_NE(publication.remedy(), "");
  EXPECT_EQ(publication.failed(), 1U);
  Pass(seconds(2));
  publication = publisher_.Publication();
  EXPECT_EQ(publication.failure(), "");
  EXPECT_EQ(publication.written(), 1U);
  EXPECT_EQ(publication.failed(), 1U);
  EXPECT_EQ(publication.conflicts(), 0U);
}

// It is repeated, and delays no object.
TEST_F(TopologyPublisherTest, AMarkThatFailsIsRepeated) {
  publisher_.WakeScheduler();
  Step();
  answers_.assign(3, ApiAnswer{403, "nodes \"n1\" is forbidden"});
  Pass(seconds(2));
  EXPECT_EQ(marks_.size(), 0U);
  EXPECT_LT(answers_.size(), 3U);
  answers_.clear();
  TakeCalls();
  Change(TopologyWith("1"));
  Step();
  EXPECT_EQ(TakeCalls().front(), "PUT");
  Pass(seconds(10));
  EXPECT_GE(marks_.size(), 1U);
  EXPECT_EQ(publisher_.counts().failures, 0U);
}

TEST_F(TopologyPublisherTest, MarksNoNodeUnlessItIsWanted) {
  Step();
  Change(TopologyWith("1"));
  Step();
  Pass(seconds(5));
  EXPECT_EQ(marks_.size(), 0U);
}

TEST_F(TopologyPublisherTest, CreatesTheObjectThenUpdatesIt) {
  Step();
  EXPECT_EQ(TakeCalls(), (Calls{"GET", "GET node", "POST"}));
  EXPECT_EQ(stored_["metadata"]["ownerReferences"][0]["uid"], "u-1");
  EXPECT_EQ(stored_["topologyPolicies"], Json::array({"SingleNUMANodePodLevel"}));
  Change(TopologyWith("1"));
  Step();
  EXPECT_EQ(TakeCalls(), Calls{"PUT"});
  EXPECT_EQ(AvailableInCluster(), "1");
  Step();
  EXPECT_EQ(TakeCalls(), Calls{});  // nothing has changed
  EXPECT_EQ(waits_.back(), TopologyPublisher::kAligndWait);
  EXPECT_EQ(publisher_.counts().written, 2U);
}

// The same object with annotations of Koordinator.
std::string WithKoordinator(const std::string& object, const std::string& allocs) {
  Json with = Json::parse(object);
  with["attributes"].push_back({{"name", "alignd.io/koordinatorAnnotations"}, {"value", "true"}});
  with["metadata"]["annotations"]["node.koordinator.sh/pod-cpu-allocs"] = allocs;
  return with.dump();
}

TEST_F(TopologyPublisherTest, KeepsItsAnnotationsForKoordinatorUpToDate) {
  const auto allocs = [&] {
    return stored_["metadata"]["annotations"].value("node.koordinator.sh/pod-cpu-allocs", "none");
  };
  Change(WithKoordinator(TopologyWith("3"), "one"));
  Step();
  EXPECT_EQ(allocs(), "one");
  Change(WithKoordinator(TopologyWith("3"), "two"));
  Step();
  EXPECT_EQ(allocs(), "two");
  // Another program changes them: they are written again. Its own annotations stay.
  WriteForeign({{"metadata",
                 {{"annotations",
                   {{"node.koordinator.sh/pod-cpu-allocs", "koordlet"},
                    {"node.koordinator.sh/cpu-basic-info", "koordlet"}}}}}});
  Pass(TopologyPublisher::kBetweenChecks + seconds(30));
  EXPECT_EQ(allocs(), "two");
  EXPECT_EQ(publisher_.counts().foreign, 1U);
  // Without the option, no old assignments stay.
  Change(TopologyWith("3"));
  Step();
  EXPECT_EQ(allocs(), "none");
  EXPECT_EQ(stored_["metadata"]["annotations"]["node.koordinator.sh/cpu-basic-info"], "koordlet");
}

// The API server would refuse the whole object, and schedulers would decide by an old one.
TEST_F(TopologyPublisherTest, LeavesItsAnnotationsForKoordinatorOutBesideLargeOnesOfOthers) {
  const auto allocs = [&] {
    return stored_["metadata"]["annotations"].value("node.koordinator.sh/pod-cpu-allocs", "none");
  };
  const std::string of_alignd(size_t{240} << 10, 'a');
  Change(WithKoordinator(TopologyWith("3"), of_alignd));
  Step();
  EXPECT_EQ(allocs(), of_alignd);
  WriteForeign(
      {{"metadata", {{"annotations", {{"example.com/large", std::string(15 << 10, 'x')}}}}}});
  Change(WithKoordinator(TopologyWith("2"), of_alignd + "2"));
  Pass(TopologyPublisher::kBetweenChecks + seconds(30));
  EXPECT_EQ(AvailableInCluster(), "2");
  EXPECT_EQ(allocs(), of_alignd + "2");  // they still fit
  WriteForeign(
      {{"metadata", {{"annotations", {{"example.com/large", std::string(16 << 10, 'x')}}}}}});
  Change(WithKoordinator(TopologyWith("1"), of_alignd));
  Pass(TopologyPublisher::kBetweenChecks + seconds(30));
  EXPECT_EQ(AvailableInCluster(), "1");
  EXPECT_EQ(allocs(), "none");
  const uint64_t written = publisher_.counts().written;
  Pass(TopologyPublisher::kBetweenChecks + seconds(30));
  EXPECT_EQ(publisher_.counts().written, written);  // it is as it is to be
  EXPECT_EQ(publisher_.counts().foreign, 0U);
  EXPECT_EQ(publisher_.counts().failures, 0U);
  WriteForeign({{"metadata", {{"annotations", {{"example.com/large", nullptr}}}}}});
  Pass(TopologyPublisher::kBetweenChecks + seconds(30));
  EXPECT_EQ(allocs(), of_alignd);
}

TEST_F(TopologyPublisherTest, LeavesTheAnnotationsOfKoordletAlone) {
  Step();
  WriteForeign(
      {{"metadata", {{"annotations", {{"node.koordinator.sh/pod-cpu-allocs", "koordlet"}}}}}});
  Change(TopologyWith("1"));
  Step();
  EXPECT_EQ(AvailableInCluster(), "1");
  EXPECT_EQ(stored_["metadata"]["annotations"]["node.koordinator.sh/pod-cpu-allocs"], "koordlet");
  EXPECT_EQ(publisher_.counts().foreign, 0U);
}

TEST_F(TopologyPublisherTest, WithoutTheNodeItIsCreatedAllTheSame) {
  answers_ = {{.status = 0}, {.status = 403, .body = "nodes is forbidden"}};
  Step();
  EXPECT_EQ(AvailableInCluster(), "3");
  EXPECT_FALSE(stored_["metadata"].contains("ownerReferences"));
}

// Otherwise it would stay when the Node is deleted.
TEST_F(TopologyPublisherTest, AnObjectThatWasBeforeItsNodeGetsItsOwnerLater) {
  answers_ = {{.status = 0}, {.status = 404, .body = "not found"}};
  Step();
  ASSERT_FALSE(stored_["metadata"].contains("ownerReferences"));
  WriteForeign(
      {{"metadata", {{"ownerReferences", {{{"apiVersion", "v1"}, {"kind", "X"}, {"uid", "x"}}}}}}});
  Pass(TopologyPublisher::kBetweenChecks + seconds(60));
  EXPECT_EQ(publisher_.counts().written, 2U);
  const Json owners = stored_["metadata"]["ownerReferences"];
  ASSERT_EQ(owners.size(), 2U) << "the owner of others stays";
  EXPECT_EQ(owners[1]["kind"], "Node");
  EXPECT_EQ(owners[1]["uid"], "u-1");
  TakeCalls();
  Pass(TopologyPublisher::kBetweenChecks + seconds(60));
  EXPECT_EQ(TakeCalls(), Calls{"GET"}) << "once is enough";
}

// It is not asked for with each write.
TEST_F(TopologyPublisherTest, WithoutTheRightToReadTheNodeItIsAskedForSeldom) {
  answers_ = {{.status = 0}, {.status = 403, .body = "nodes is forbidden"}};
  Step();
  TakeCalls();
  Change(TopologyWith("1"));
  Step();
  EXPECT_EQ(TakeCalls(), Calls{"PUT"});
}

TEST_F(TopologyPublisherTest, AFailureToReadTheNodeIsRepeatedBeforeTheCreation) {
  answers_ = {{.status = 0}, {.status = 429, .body = "busy"},
              {.status = 0}, {.status = 500},
              {.status = 0}, {.status = 503}};
  Pass(seconds(30));
  EXPECT_EQ(publisher_.counts().failures, 3U);
  const Calls calls = TakeCalls();
  EXPECT_EQ(std::ranges::count(calls, "GET node"), 4);
  EXPECT_EQ(std::ranges::count(calls, "POST"), 1);
  EXPECT_EQ(stored_["metadata"]["ownerReferences"][0]["uid"], "u-1");
}

// A credential that the API server does not know is read again at once.
TEST_F(TopologyPublisherTest, AnExpiredTokenDoesNotCostTheOwner) {
  answers_ = {{.status = 0}, {.status = 401, .body = "Unauthorized"}};
  Step();
  EXPECT_EQ(connections_, 2);
  EXPECT_EQ(stored_["metadata"]["ownerReferences"][0]["uid"], "u-1");
}

TEST_F(TopologyPublisherTest, KeepsWhatOthersWriteBesideIt) {
  Step();
  WriteForeign({{"metadata", {{"labels", {{"a", "b"}}}, {"annotations", {{"x", "y"}}}}}});
  TakeCalls();
  Change(TopologyWith("1", "pfp2"));
  Step();
  // The known version is old: it is read again.
  EXPECT_EQ(TakeCalls(), (Calls{"PUT", "GET", "PUT"}));
  EXPECT_EQ(AvailableInCluster(), "1");
  EXPECT_EQ(stored_["metadata"]["labels"]["a"], "b");
  EXPECT_EQ(stored_["metadata"]["annotations"]["x"], "y");
  EXPECT_EQ(stored_["metadata"]["annotations"]["topology.node.k8s.io/fingerprint"], "pfp2");
  EXPECT_EQ(publisher_.counts().conflicts, 1U);
  EXPECT_EQ(publisher_.counts().foreign, 0U);
}

TEST_F(TopologyPublisherTest, CorrectsWhatAnotherExporterWrites) {
  Step();
  WriteForeign({{"attributes", {{{"name", "topologyManagerPolicy"}, {"value", "none"}}}}});
  EXPECT_EQ(PolicyIn(stored_.dump()), "none");
  Pass(TopologyPublisher::kBetweenChecks);
  Step();
  EXPECT_EQ(PolicyIn(stored_.dump()), "single-numa-node");
  EXPECT_EQ(publisher_.counts().foreign, 1U);
}

TEST_F(TopologyPublisherTest, CreatesWhatWasDeleted) {
  Step();
  stored_ = Json();
  TakeCalls();
  Change(TopologyWith("1"));
  Step();
  EXPECT_EQ(TakeCalls(), (Calls{"PUT", "GET", "GET node", "POST"}));
  EXPECT_EQ(AvailableInCluster(), "1");
}

TEST_F(TopologyPublisherTest, TakesOverWhatExistsBeforeItStarts) {
  Store(Json::parse(TopologyWith("9")), 201);
  Step();
  EXPECT_EQ(TakeCalls(), (Calls{"GET", "GET node", "PUT"}));
  EXPECT_EQ(AvailableInCluster(), "3");
  EXPECT_EQ(stored_["metadata"]["ownerReferences"][0]["uid"], "u-1");
  EXPECT_EQ(publisher_.counts().foreign, 0U);
}

// Between the look and the creation, another program has created it.
TEST_F(TopologyPublisherTest, AConflictOfTheCreationIsReadAgain) {
  Store(Json::parse(TopologyWith("9")), 201);
  answers_ = {{.status = 404, .body = "{}"}};
  Step();
  EXPECT_EQ(TakeCalls(), (Calls{"GET", "GET node", "POST", "GET", "GET node", "PUT"}));
  EXPECT_EQ(AvailableInCluster(), "3");
}

TEST_F(TopologyPublisherTest, AnExpiredTokenIsReadAgainAtOnce) {
  Step();
  Change(TopologyWith("1"));
  answers_ = {{.status = 401, .body = "Unauthorized"}};
  const int before = connections_;
  Step();
  EXPECT_EQ(connections_, before + 1);
  EXPECT_EQ(AvailableInCluster(), "1");
  EXPECT_EQ(publisher_.counts().failures, 0U);
}

TEST_F(TopologyPublisherTest, RetryAfterIsObeyedAndOnlyTheNewestObjectIsWritten) {
  Step();
  Change(TopologyWith("2"));
  TakeCalls();
  answers_ = {{.status = 429, .body = "slow down", .retry_after = seconds(7)}};
  Step();
  EXPECT_EQ(TakeCalls(), Calls{"PUT"});
  const auto refused = now_;
  for (const char* const available : {"1", "0", "3", "2", "1"}) {
    Change(TopologyWith(available));
    Step();
  }
  EXPECT_EQ(TakeCalls(), Calls{});
  while (calls_.empty()) Step();
  EXPECT_GE(now_ - refused, seconds(6));
  EXPECT_LE(now_ - refused, seconds(8));
  EXPECT_EQ(AvailableInCluster(), "1");
  EXPECT_EQ(publisher_.counts().written, 2U);
}

TEST_F(TopologyPublisherTest, AnApiServerThatIsAwayIsAskedLessAndLess) {
  for (int i = 0; i < 100; ++i) answers_.push_back({.status = -1});
  Pass(seconds(300));
  // After 1, 2, 4, 8, 16, 30, 30, ... s.
  EXPECT_GE(TakeCalls().size(), 12U);
  EXPECT_LE(publisher_.counts().failures, 16U);
  answers_.clear();
  Pass(TopologyPublisher::kLastPause + seconds(1));
  EXPECT_EQ(AvailableInCluster(), "3");
}

// The answer is lost, not the write: that is no other program.
TEST_F(TopologyPublisherTest, AWriteWithoutAnAnswerIsReadAgain) {
  Step();
  Change(TopologyWith("1"));
  answers_ = {{.status = -1}};
  Step();
  WriteForeign({{"zones", {{{"name", "node-0"}, {"available", "1"}}}}});
  Pass(seconds(2));
  EXPECT_EQ(publisher_.counts().foreign, 0U);
  EXPECT_EQ(AvailableInCluster(), "1");
}

// The page of a proxy, or a list, with status 200, to the first read, a creation and an update.
TEST_F(TopologyPublisherTest, ASuccessThatIsNoObjectIsAFailureAndRepeated) {
  answers_ = {{.status = 200, .body = "<html>"},
              {.status = 0},
              {.status = 0},
              {.status = 201, .body = "[1,2]"}};
  Pass(seconds(20));
  EXPECT_EQ(AvailableInCluster(), "3");
  EXPECT_EQ(publisher_.counts().failures, 2U);
  for (const char* const body : {"[1,2]", "", "\"text\""}) {
    const uint64_t before = publisher_.counts().failures;
    Change(TopologyWith(std::string("1") + body));
    answers_ = {{.status = 200, .body = body}};
    Pass(seconds(10));
    EXPECT_EQ(publisher_.counts().failures, before + 1);
    EXPECT_EQ(AvailableInCluster(), std::string("1") + body);
  }
  EXPECT_EQ(publisher_.counts().foreign, 0U);
}

TEST_F(TopologyPublisherTest, WithoutTheDefinitionItIsTriedOnceAMinute) {
  for (int i = 0; i < 30; ++i) answers_.push_back({.status = 404, .body = "404 page not found"});
  Pass(seconds(150));
  EXPECT_EQ(publisher_.counts().failures, 3U);
  answers_.clear();
  Pass(seconds(61));
  EXPECT_EQ(AvailableInCluster(), "3");
}

TEST_F(TopologyPublisherTest, WithoutAligndTheObjectStaysAsItIs) {
  Step();
  TakeCalls();
  alignd_runs_ = false;
  for (int i = 0; i < 5; ++i) Step();
  EXPECT_EQ(TakeCalls(), Calls{});
  alignd_runs_ = true;
  Change(TopologyWith("0"));
  Step();
  EXPECT_EQ(AvailableInCluster(), "0");
}

// Started again with the same object, alignd would answer when the wait ends.
TEST_F(TopologyPublisherTest, AfterAFailureAligndIsAskedOnceWithoutWaiting) {
  for (int i = 0; i < 3; ++i) Step();
  EXPECT_EQ(waits_.back(), TopologyPublisher::kAligndWait);
  alignd_runs_ = false;
  Step();
  alignd_runs_ = true;
  Step();
  EXPECT_EQ(waits_.back(), milliseconds(0));
  Step();
  EXPECT_EQ(waits_.back(), TopologyPublisher::kAligndWait);
}

}  // namespace
}  // namespace alignd::events
