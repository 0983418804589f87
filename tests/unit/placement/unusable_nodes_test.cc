// Objects of a cluster that cannot be used: they concern their node, and no other one.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "alignd/placement/fit.h"
#include "object_texts.h"

namespace alignd::placement {
namespace {

Json ObjectOf(const std::string& name) {
  Json object = ForeignObject();
  object["metadata"]["name"] = name;
  SetFingerprint({}, object);
  return object;
}

Result<std::vector<FleetNode>> ReadNodes(const std::vector<Json>& objects) {
  const Json list = {{"kind", "List"}, {"apiVersion", "v1"}, {"items", objects}};
  ClusterObjects cluster;
  const Result<bool> added = cluster.Add(list.dump(), "all.json");
  if (!added.ok()) return added.error();
  return cluster.Nodes(kStaticConfig);
}

PlannedPod Asked(const std::string& cpus) {
  PlannedPod pod;
  pod.pod = AppPod("asked", {{"cpu", cpus}, {"memory", "1Gi"}});
  return pod;
}

Result<FitResult> FitOf(const std::vector<Json>& objects, const std::string& cpus,
                        const std::vector<ConfigChange>& changes = {}) {
  const auto nodes = ReadNodes(objects);
  if (!nodes.ok()) return nodes.error();
  FitOptions options;
  options.changes = changes;
  return FitFleet(*nodes, {Asked(cpus)}, options, ForEachInTurn);
}

TEST(UnusableNodes, EachBadObjectConcernsItsNodeOnly) {
  Json unread = ObjectOf("w2");
  unread["zones"][0]["resources"][0]["available"] = "many";
  Json contradicts = ObjectOf("w2");
  contradicts["attributes"][0]["value"] = "restricted";
  Json foreign_machine = NodeJsonOf("w2");
  foreign_machine["status"]["capacity"]["cpu"] = "64";
  Json not_reported = NodeJsonOf("w2");
  not_reported["status"].erase("allocatable");
  Json bad_pod = BoundJson("a");
  bad_pod["spec"]["nodeName"] = "w2";
  bad_pod["apiVersion"] = "v9";
  struct Case {
    std::vector<Json> objects;  // of w2
    std::string reason;
  };
  for (const Case& c : std::vector<Case>{
           {{unread, NodeJsonOf("w2")}, "NodeResourceTopology: zones[0].resources[0].available"},
           {{contradicts, NodeJsonOf("w2")}, "attribute topologyManagerPolicy is \"restricted\""},
           {{ObjectOf("w2"), foreign_machine}, "Node w2 has a capacity of 64 CPUs"},
           {{ObjectOf("w2"), not_reported},
            "Node: status.allocatable: is missing; see the log of the node's kubelet"},
           {{ObjectOf("w2")}, "NodeResourceTopology: there is no Node w2; "},
           {{ObjectOf("w2"), NodeJsonOf("w2"), bad_pod}, "Pod default/a: "}}) {
    std::vector<Json> objects = {ObjectOf("w1"), NodeJsonOf("w1")};
    objects.insert(objects.end(), c.objects.begin(), c.objects.end());
    const Result<FitResult> result = FitOf(objects, "4");
    ASSERT_TRUE(result.ok()) << c.reason << ": " << result.error().Text();
    const FitEntry& entry = result->report.entries.front();
    EXPECT_EQ(entry.placed_on, (std::vector<std::pair<size_t, int64_t>>{{0, 1}})) << c.reason;
    ASSERT_EQ(entry.others.size(), 1U) << c.reason;
    EXPECT_EQ(entry.others[0].group.outcome, Outcome::kUndecided);
    EXPECT_TRUE(HasPart(entry.others[0].group.cause, c.reason)) << entry.others[0].group.cause;
    EXPECT_TRUE(HasPart(entry.others[0].group.cause, "; ")) << "no remedy";
    ASSERT_EQ(result->unusable.size(), 1U) << c.reason;
    EXPECT_EQ(result->unusable[0].first, "w2");
    EXPECT_FALSE(result->unusable[0].second.remedy.empty()) << c.reason;
  }
}

// It may fit there: no refusal of the fleet is sure. Not even the scheduler's sums are known.
TEST(UnusableNodes, APodThatFitsOnNoOtherNodeIsUndecided) {
  Json bad = ObjectOf("w2");
  bad["zones"] = Json::array();
  const auto result = FitOf({ObjectOf("w1"), NodeJsonOf("w1"), bad, NodeJsonOf("w2")}, "500");
  ASSERT_TRUE(result.ok()) << result.error().Text();
  EXPECT_EQ(result->report.admitted, 0);
  EXPECT_EQ(result->report.undecided, 1);
  EXPECT_EQ(result->report.refused(), 0);
}

TEST(UnusableNodes, TheirPodsKeepTheirNames) {
  Json bad = ObjectOf("w1");
  bad["zones"] = Json::array();
  Json pod = BoundJson("asked");
  const auto result = FitOf({bad, NodeJsonOf("w1"), pod, ObjectOf("w2"), NodeJsonOf("w2")}, "4");
  ASSERT_TRUE(result.ok()) << result.error().Text();
  EXPECT_EQ(result->report.refused(), 1);
  EXPECT_TRUE(HasPart(result->report.entries[0].others[0].group.cause, "AlreadyExists"));
}

TEST(UnusableNodes, StayInComparisons) {
  Json bad = ObjectOf("w2");
  bad["zones"] = Json::array();
  const auto result = FitOf({ObjectOf("w1"), NodeJsonOf("w1"), bad, NodeJsonOf("w2")}, "12",
                            {{"policy", "single-numa-node"}});
  ASSERT_TRUE(result.ok()) << result.error().Text();
  ASSERT_EQ(result->comparisons.size(), 1U);
  EXPECT_EQ(result->comparisons[0].nodes, 2U);
  EXPECT_EQ(result->comparisons[0].report.undecided, 1);
  EXPECT_EQ(result->comparisons[0].left_out.size(), 0U);
}

TEST(UnusableNodes, WithoutAnyOtherNodeThereIsNoAnswer) {
  Json bad = ObjectOf("w1");
  bad["zones"] = Json::array();
  const auto result = FitOf({bad, NodeJsonOf("w1")}, "4");
  ASSERT_FALSE(result.ok());
  EXPECT_TRUE(HasPart(result.error().message, "NodeResourceTopology w1: zones: there is none"))
      << result.error().Text();
}

Json UnreadPodJson(const std::string& name) {
  Json pod = BoundJson(name);
  pod["apiVersion"] = "v9";
  return pod;
}

// As one that can be read.
TEST(UnusableNodes, APodThatCannotBeReadIsNotLeftOut) {
  for (const Json& pod : {BoundJson("a"), UnreadPodJson("a")}) {
    ClusterObjects cluster;
    ASSERT_TRUE(cluster.Add(pod.dump(), "pod.json").ok());
    for (const std::set<std::string>& described : {std::set<std::string>{}, {"w1"}}) {
      const auto nodes = cluster.Nodes(kStaticConfig, described);
      ASSERT_FALSE(nodes.ok()) << pod;
      EXPECT_TRUE(HasPart(nodes.error().message, "there are pods of node w1")) << pod;
    }
  }
}

TEST(UnusableNodes, APodThatCannotBeReadKeepsItsNameAndUid) {
  const std::vector<Json> others = {ObjectOf("w1"), NodeJsonOf("w1"), ObjectOf("w2"),
                                    NodeJsonOf("w2")};
  std::vector<Json> objects = others;
  objects.push_back(UnreadPodJson("asked"));
  auto result = FitOf(objects, "4");
  ASSERT_TRUE(result.ok()) << result.error().Text();
  EXPECT_EQ(result->report.refused(), 1);
  EXPECT_TRUE(HasPart(result->report.entries[0].others[0].group.cause, "AlreadyExists"));
  objects.push_back(BoundJson("asked"));
  EXPECT_TRUE(HasPart(ReadNodes(objects).error().Text(), "two pods are named default/asked"));

  objects = others;
  Json same_uid = UnreadPodJson("b");
  same_uid["metadata"]["uid"] = Asked("4").pod.uid;
  objects.push_back(same_uid);
  result = FitOf(objects, "4");
  ASSERT_TRUE(result.ok()) << result.error().Text();
  EXPECT_EQ(result->report.refused(), 1);

  // Without a name, two are not the same.
  objects = others;
  for (const char* const uid : {"uid-1", "uid-2"}) {
    Json nameless = UnreadPodJson("c");
    nameless["metadata"] = {{"uid", uid}};
    objects.push_back(nameless);
  }
  result = FitOf(objects, "4");
  ASSERT_TRUE(result.ok()) << result.error().Text();
  EXPECT_EQ(result->report.admitted, 1);
  EXPECT_EQ(result->unusable.size(), 1U);
}

// So many that a comparison of each with each would take minutes.
TEST(UnusableNodes, AreNotComparedWithEachOther) {
  constexpr size_t kCount = 10'000;
  std::vector<FleetNode> nodes(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    nodes[i].name = "w" + std::to_string(i);
    nodes[i].problem = Error{ErrorCode::kInvalidArgument, "broken", "repair it"};
  }
  nodes.push_back(ReadNodes({ObjectOf("good"), NodeJsonOf("good")})->front());
  const Result<Fleet> fleet = Fleet::Make(nodes, ScoreStrategy::kByLeastAllocated);
  ASSERT_TRUE(fleet.ok()) << fleet.error().Text();
  EXPECT_EQ(fleet->problems().size(), kCount);
}

// Nodes with one problem are one group.
TEST(UnusableNodes, TheReasonHasNoName) {
  std::vector<Json> objects = {ObjectOf("w1"), NodeJsonOf("w1")};
  for (const char* const name : {"w2", "w3", "w4"}) {
    Json bad = ObjectOf(name);
    bad["zones"] = Json::array();
    objects.push_back(bad);
    objects.push_back(NodeJsonOf(name));
  }
  const auto result = FitOf(objects, "4");
  ASSERT_TRUE(result.ok()) << result.error().Text();
  ASSERT_EQ(result->report.entries[0].others.size(), 1U);
  EXPECT_EQ(result->report.entries[0].others[0].group.nodes.size(), 3U);
}

// Only a list of all objects shows that a node has gone.
TEST(UnusableNodes, ObjectsWithoutNodeCanBeRemoved) {
  const Json list = {{"kind", "List"},
                     {"apiVersion", "v1"},
                     {"items", {ObjectOf("w1"), NodeJsonOf("w1"), ObjectOf("w2")}}};
  ClusterObjects cluster;
  ASSERT_TRUE(cluster.Add(list.dump(), "all.json").ok());
  EXPECT_EQ(cluster.RemoveWithoutNode(), std::vector<std::string>{"w2"});
  EXPECT_EQ(cluster.Names(), std::set<std::string>{"w1"});
  EXPECT_EQ(cluster.RemoveWithoutNode(), std::vector<std::string>{});
}

}  // namespace
}  // namespace alignd::placement
