// Nodes from the objects of a cluster: what is read, what is refused, and what stays undecided.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "alignd/noderesourcetopology/object.h"
#include "alignd/placement/cluster_objects.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::placement {
namespace {

using Json = nlohmann::json;

// Two NUMA nodes of 10 CPUs, CPU 0 reserved; as Node Feature Discovery writes it.
Json ForeignObject() {
  return Json::parse(R"({
    "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
    "metadata": {"name": "w1"}, "topologyPolicies": ["SingleNUMANodeContainerLevel"],
    "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"},
                   {"name": "topologyManagerScope", "value": "container"}],
    "zones": [
      {"name": "node-0", "type": "Node", "costs": [{"name": "node-0", "value": 10},
                                                   {"name": "node-1", "value": 21}],
       "resources": [{"name": "cpu", "capacity": "10", "allocatable": "9", "available": "5"},
                     {"name": "memory", "capacity": "8Gi", "allocatable": "7Gi",
                      "available": "7Gi"},
                     {"name": "nvidia.com/gpu", "capacity": "2", "allocatable": "2",
                      "available": "1"}]},
      {"name": "node-1", "type": "Node", "costs": [{"name": "node-0", "value": 21},
                                                   {"name": "node-1", "value": 10}],
       "resources": [{"name": "cpu", "capacity": "10", "allocatable": "10", "available": "10"},
                     {"name": "memory", "capacity": "8Gi", "allocatable": "7Gi",
                      "available": "7Gi"},
                     {"name": "nvidia.com/gpu", "capacity": "2", "allocatable": "2",
                      "available": "2"}]}]})");
}

Json NodeJsonOf(const std::string& name, const std::string& gpus = "4") {
  return {{"kind", "Node"},
          {"apiVersion", "v1"},
          {"metadata", {{"name", name}}},
          {"status",
           {{"capacity", {{"cpu", "20"}}},
            {"allocatable",
             {{"cpu", "19"}, {"memory", "14Gi"}, {"pods", "110"}, {"nvidia.com/gpu", gpus}}}}}};
}

// A Guaranteed pod that is bound to w1.
Json BoundJson(const std::string& name, const std::string& phase = "Running") {
  const Json amounts = {{"cpu", "4"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "1"}};
  return {{"kind", "Pod"},
          {"apiVersion", "v1"},
          {"metadata", {{"name", name}, {"namespace", "default"}, {"uid", "uid-" + name}}},
          {"spec",
           {{"nodeName", "w1"},
            {"containers",
             {{{"name", "app"}, {"resources", {{"limits", amounts}, {"requests", amounts}}}}}}}},
          {"status", {{"phase", phase}}}};
}

void SetFingerprint(const std::vector<std::string>& pods, Json& object) {
  std::vector<noderesourcetopology::PodName> names;
  for (const std::string& pod : pods) names.emplace_back("default", pod);
  object["attributes"].push_back({{"name", "nodeTopologyPodsFingerprint"},
                                  {"value", noderesourcetopology::PodFingerprint(names)}});
}

constexpr const char* kStaticConfig =
    R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","topologyManagerPolicy":)"
    R"("single-numa-node"})";

Result<PlannedNode> NodeFromObjects(const std::vector<Json>& objects,
                                    const std::string& config = kStaticConfig) {
  const Json list = {{"kind", "List"}, {"apiVersion", "v1"}, {"items", objects}};
  ClusterObjects cluster;
  const Result<bool> added = cluster.Add(list.dump(), "all.json");
  if (!added.ok()) return added.error();
  const Result<std::vector<FleetNode>> nodes = cluster.Nodes(config);
  if (!nodes.ok()) return nodes.error();
  return MakePlannedNode(nodes->front());
}

// "fits", "refused: MESSAGE" or "undecided: MESSAGE".
std::string ObjectAnswer(const Result<PlannedNode>& node,
                         const std::map<std::string, std::string>& amounts) {
  if (!node.ok()) return "error: " + node.error().Text();
  PlannedPod pod;
  pod.pod = AppPod("asked", amounts);
  const Verdict verdict = node->Ask(pod);
  std::string text(ToString(verdict.outcome));
  if (verdict.refusal) text += ": " + verdict.refusal->reason + ": " + verdict.refusal->message;
  return text;
}

bool HasPart(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(TopologyNodes, AForeignObjectWithItsPodsIsEnough) {
  Json object = ForeignObject();
  SetFingerprint({"a"}, object);
  const Result<PlannedNode> node = NodeFromObjects({object, NodeJsonOf("w1"), BoundJson("a")});
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_EQ(node->requested().total().at("cpu"), Quantity(4));
  EXPECT_EQ(ObjectAnswer(node, {{"cpu", "10"}, {"memory", "1Gi"}}), "fits");
  EXPECT_EQ(ObjectAnswer(node, {{"cpu", "5"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "2"}}), "fits");
  EXPECT_EQ(ObjectAnswer(node, {{"cpu", "5"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "3"}}),
            "refused: TopologyAffinityError: Resources cannot be allocated with Topology locality");
  EXPECT_EQ(ObjectAnswer(node, {{"cpu", "11"}, {"memory", "1Gi"}}),
            "refused: TopologyAffinityError: Resources cannot be allocated with Topology locality");
  EXPECT_TRUE(HasPart(ObjectAnswer(node, {{"cpu", "16"}, {"memory", "1Gi"}}), "Insufficient cpu"));
}

// The scheduler's sums, and what is free, are not known of pods on their way.
TEST(TopologyNodes, OtherPodsThanTheFingerprintHasAreUndecided) {
  Json object = ForeignObject();
  SetFingerprint({"a"}, object);
  for (const std::vector<Json>& objects :
       std::vector<std::vector<Json>>{{object, NodeJsonOf("w1")},
                                      {object, NodeJsonOf("w1"), BoundJson("a"), BoundJson("b")}}) {
    EXPECT_TRUE(
        HasPart(ObjectAnswer(NodeFromObjects(objects), {{"cpu", "1"}, {"memory", "1Gi"}}),
                "undecided: Undecided: the fingerprint of the object is not that of the pods"))
        << ObjectAnswer(NodeFromObjects(objects), {{"cpu", "1"}, {"memory", "1Gi"}});
  }
  EXPECT_TRUE(
      HasPart(ObjectAnswer(NodeFromObjects({ForeignObject(), NodeJsonOf("w1"), BoundJson("a")}),
                           {{"cpu", "1"}, {"memory", "1Gi"}}),
              "the object has no fingerprint of all pods"));
  // What the sums refuse, they refuse without more.
  EXPECT_TRUE(HasPart(
      ObjectAnswer(NodeFromObjects({object, NodeJsonOf("w1")}), {{"cpu", "20"}, {"memory", "1Gi"}}),
      "refused: Unschedulable: Insufficient cpu"));
}

// Pods without a container are not in the object: they are placed on what it has.
TEST(TopologyNodes, PodsThatStartAreAddedToTheObject) {
  Json object = ForeignObject();
  SetFingerprint({"a"}, object);
  const Result<PlannedNode> node =
      NodeFromObjects({object, NodeJsonOf("w1"), BoundJson("a"), BoundJson("b", "Pending")});
  EXPECT_EQ(ObjectAnswer(node, {{"cpu", "10"}, {"memory", "1Gi"}}), "fits");
  // An exporter that has sums only does not say which devices are alike.
  EXPECT_TRUE(HasPart(
      ObjectAnswer(node, {{"cpu", "1"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "1"}}),
      "undecided: Undecided: nvidia.com/gpu: some of its devices may be on several NUMA nodes, or "
      "on none. Which ones pod default/b has is the node's choice"));
}

// The node admits them in the order in which they arrive, which no object shows.
TEST(TopologyNodes, DifferentPodsThatStartTogetherAreUndecided) {
  Json object = ForeignObject();
  SetFingerprint({}, object);
  const auto with_second = [&](const Json& second) {
    const Json first = BoundJson("b", "Pending");
    const auto take_gpu = [](Json pod) {
      Json& container = pod["spec"]["containers"][0];
      if (!container.contains("resources")) return pod;
      for (Json& amounts : container["resources"]) amounts.erase("nvidia.com/gpu");
      return pod;
    };
    return ObjectAnswer(
        NodeFromObjects({object, NodeJsonOf("w1"), take_gpu(first), take_gpu(second)}),
        {{"cpu", "1"}, {"memory", "1Gi"}});
  };
  Json second = BoundJson("c", "Pending");
  EXPECT_EQ(with_second(second), "fits");
  second["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "2";
  second["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2";
  EXPECT_TRUE(HasPart(with_second(second), "pods default/b and default/c are starting, and differ"))
      << with_second(second);
  // It depends on no NUMA node.
  second["spec"]["containers"][0].erase("resources");
  EXPECT_EQ(with_second(second), "fits");
}

TEST(TopologyNodes, APodInTheObjectThatStillStartsIsUndecided) {
  Json object = ForeignObject();
  SetFingerprint({"a"}, object);
  Json pod = BoundJson("a", "Pending");
  EXPECT_EQ(ObjectAnswer(NodeFromObjects({object, NodeJsonOf("w1"), pod}),
                         {{"cpu", "1"}, {"memory", "1Gi"}}),
            "fits");
  pod["spec"]["containers"].push_back({{"name", "second"}});
  EXPECT_TRUE(HasPart(ObjectAnswer(NodeFromObjects({object, NodeJsonOf("w1"), pod}),
                                   {{"cpu", "1"}, {"memory", "1Gi"}}),
                      "pod default/a is starting"));
}

// `state` of the containers of the pod, as the kubelet reports it.
Json WithStates(Json pod, const std::vector<Json>& states) {
  for (size_t i = 0; i < states.size(); ++i) {
    const std::string name = "c" + std::to_string(i);
    if (pod["spec"]["containers"].size() <= i) pod["spec"]["containers"].push_back({});
    pod["spec"]["containers"][i]["name"] = name;
    pod["status"]["containerStatuses"].push_back({{"name", name}, {"state", states[i]}});
  }
  return pod;
}

const Json kBackOff = {{"waiting", {{"reason", "CrashLoopBackOff"}}}};
const Json kFailed = {{"terminated", {{"exitCode", 1}}}};
const Json kCompleted = {{"terminated", {{"exitCode", 0}}}};
const Json kRuns = {{"running", {{"startedAt", "2026-01-01T00:00:00Z"}}}};

// Between two starts, no container of the pod is on the node: the object may lack it.
TEST(TopologyNodes, APodThatCrashesAgainAndAgainIsCounted) {
  const std::map<std::string, std::string> four = {{"cpu", "4"}, {"memory", "1Gi"}};
  const auto asked = [&](const std::vector<std::string>& in_object, const std::vector<Json>& pods) {
    std::vector<Json> objects = pods;
    objects.push_back(NodeJsonOf("w1"));
    objects.push_back(ForeignObject());
    SetFingerprint(in_object, objects.back());
    return ObjectAnswer(NodeFromObjects(objects), four);
  };
  const auto small = [](const std::string& name, const std::vector<Json>& states) {
    Json pod = BoundJson(name);
    pod["spec"]["containers"][0]["resources"] = {{"requests", {{"cpu", "8"}}}};
    return WithStates(pod, states);
  };
  const Json steady = WithStates(BoundJson("a"), {kRuns});
  for (const Json& state : {kBackOff, kFailed, kCompleted}) {
    EXPECT_EQ(asked({"a"}, {steady, small("b", {state})}), "fits") << state;
    EXPECT_EQ(asked({"a", "b"}, {steady, small("b", {state})}), "fits") << state;
  }
  // Each for itself.
  EXPECT_TRUE(HasPart(asked({"a", "c"}, {steady, small("b", {kBackOff}), small("c", {kFailed})}),
                      "Insufficient cpu"))
      << "both are counted";
  EXPECT_TRUE(HasPart(asked({"a"}, {steady, small("b", {kRuns})}), "the fingerprint of the object"));
  // One that ends for good is not started again.
  Json once = WithStates(BoundJson("b"), {kRuns, kCompleted});
  once["spec"]["restartPolicy"] = "OnFailure";
  EXPECT_EQ(asked({"b"}, {once}), "fits");
  EXPECT_TRUE(HasPart(asked({}, {once}), "the fingerprint of the object"));
  once["status"]["containerStatuses"][1]["state"] = kFailed;
  EXPECT_TRUE(HasPart(asked({"b"}, {once}), "a container of pod default/b does not run"));
  once["spec"]["restartPolicy"] = "Never";
  EXPECT_EQ(asked({"b"}, {once}), "fits");
  // So are sidecars, and no other init containers.
  Json sidecar = WithStates(BoundJson("b"), {kRuns});
  sidecar["spec"]["initContainers"] = Json::array({{{"name", "side"}}});
  sidecar["status"]["initContainerStatuses"] =
      Json::array({{{"name", "side"}, {"state", kCompleted}}});
  EXPECT_EQ(asked({"b"}, {sidecar}), "fits");
  sidecar["spec"]["initContainers"][0]["restartPolicy"] = "Always";
  EXPECT_TRUE(HasPart(asked({"b"}, {sidecar}), "a container of pod default/b does not run"));
}

// What it is assigned when it starts again can be missing in the object.
TEST(TopologyNodes, APodWithCpusOfItsOwnThatCrashesIsUndecided) {
  for (const bool is_in : {true, false}) {
    Json object = ForeignObject();
    SetFingerprint(is_in ? std::vector<std::string>{"a"} : std::vector<std::string>{}, object);
    const Json pod = WithStates(BoundJson("a"), {kBackOff});
    EXPECT_TRUE(HasPart(ObjectAnswer(NodeFromObjects({object, NodeJsonOf("w1"), pod}),
                                     {{"cpu", "1"}, {"memory", "1Gi"}}),
                        "undecided: Undecided: a container of pod default/a does not run"));
  }
}

// All subsets of many pods would take long: they are in the object together, or not.
TEST(TopologyNodes, ManyPodsThatCrashAreInTheObjectTogether) {
  std::vector<Json> objects = {NodeJsonOf("w1")};
  std::vector<std::string> all;
  for (int i = 0; i < 20; ++i) {
    all.push_back("p" + std::to_string(i));
    Json pod = BoundJson(all.back());
    pod["spec"]["containers"][0].erase("resources");
    objects.push_back(WithStates(pod, {kBackOff}));
  }
  const auto asked = [&](const std::vector<std::string>& in_object) {
    std::vector<Json> with = objects;
    with.push_back(ForeignObject());
    SetFingerprint(in_object, with.back());
    return ObjectAnswer(NodeFromObjects(with), {{"cpu", "1"}, {"memory", "1Gi"}});
  };
  EXPECT_EQ(asked(all), "fits");
  EXPECT_EQ(asked({}), "fits");
  EXPECT_TRUE(HasPart(asked({"p0"}), "the fingerprint of the object"));
}

// As the scheduler: the larger one of spec and status, as long as the node has not resized the pod.
TEST(TopologyNodes, APodThatIsResizedIsCountedWithTheLargerAmounts) {
  Json object = ForeignObject();
  SetFingerprint({"a"}, object);
  const auto asked = [&](const Json& pod, const std::string& cpus) {
    return ObjectAnswer(NodeFromObjects({object, NodeJsonOf("w1"), pod}),
                        {{"cpu", cpus}, {"memory", "1Gi"}});
  };
  Json pod = BoundJson("a");
  pod["spec"]["containers"][0]["resources"] = {{"requests", {{"cpu", "2"}}}};
  EXPECT_EQ(asked(pod, "10"), "fits");
  Json& status = pod["status"]["containerStatuses"][0];
  status = {{"name", "app"},
            {"state", kRuns},
            {"allocatedResources", {{"cpu", "2"}}},
            {"resources", {{"requests", {{"cpu", "2"}}}}}};
  EXPECT_EQ(asked(pod, "10"), "fits");
  for (const char* const pointer : {"/allocatedResources/cpu", "/resources/requests/cpu"}) {
    Json resized = pod;
    resized["status"]["containerStatuses"][0][Json::json_pointer(pointer)] = "9500m";
    EXPECT_TRUE(HasPart(asked(resized, "10"), "Insufficient cpu")) << pointer;
  }
  // What the node can never do does not count.
  pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "18";
  EXPECT_TRUE(HasPart(asked(pod, "10"), "Insufficient cpu"));
  pod["status"]["conditions"] =
      Json::array({{{"type", "PodResizePending"}, {"reason", "Deferred"}, {"status", "True"}}});
  EXPECT_TRUE(HasPart(asked(pod, "10"), "Insufficient cpu"));
  pod["status"]["conditions"][0]["reason"] = "Infeasible";
  EXPECT_EQ(asked(pod, "10"), "fits");
  status["resources"]["requests"]["cpu"] = "many";
  EXPECT_TRUE(HasPart(asked(pod, "1"), "pod default/a of the node cannot be read: status of app"))
      << asked(pod, "1");
}

// Which CPUs it has just now is not in the object.
TEST(TopologyNodes, APodWithCpusOfItsOwnThatIsResizedIsUndecided) {
  Json object = ForeignObject();
  SetFingerprint({"a"}, object);
  const auto asked = [&](const Json& pod) {
    return ObjectAnswer(NodeFromObjects({object, NodeJsonOf("w1"), pod}),
                        {{"cpu", "1"}, {"memory", "1Gi"}});
  };
  Json pod = BoundJson("a");
  pod["status"]["containerStatuses"] =
      Json::array({{{"name", "app"},
                    {"state", kRuns},
                    {"allocatedResources", {{"cpu", "4"}}},
                    {"resources", {{"requests", {{"cpu", "4"}}}}}}});
  EXPECT_EQ(asked(pod), "fits");
  Json larger = pod;
  larger["status"]["containerStatuses"][0]["allocatedResources"]["cpu"] = "6";
  EXPECT_TRUE(HasPart(asked(larger), "undecided: Undecided: pod default/a is resized in place"));
  Json growing = pod;
  growing["status"]["conditions"] =
      Json::array({{{"type", "PodResizeInProgress"}, {"status", "True"}}});
  EXPECT_TRUE(HasPart(asked(growing), "undecided: Undecided: pod default/a is resized in place"));
}

// It runs with CPUs, memory or devices of its own: the object is not of this node as it is.
TEST(TopologyNodes, ARunningPodContradictsAnObjectOfAnEmptyNode) {
  Json object = ForeignObject();
  for (Json& zone : object["zones"]) {
    for (Json& resource : zone["resources"]) resource["available"] = resource["allocatable"];
  }
  const auto asked = [&](const Json& pod) {
    return ObjectAnswer(NodeFromObjects({object, NodeJsonOf("w1"), pod}),
                        {{"cpu", "1"}, {"memory", "1Gi"}});
  };
  const std::string contradicts = "undecided: Undecided: pod default/a runs, and the object has no";
  EXPECT_TRUE(HasPart(asked(BoundJson("a")), contradicts));
  EXPECT_EQ(asked(BoundJson("a", "Pending")), "fits");
  Json pod = BoundJson("a");
  for (Json& amounts : pod["spec"]["containers"][0]["resources"]) amounts.erase("cpu");
  EXPECT_TRUE(HasPart(asked(pod), contradicts)) << "a device";
  for (Json& amounts : pod["spec"]["containers"][0]["resources"]) amounts.erase("nvidia.com/gpu");
  EXPECT_EQ(asked(pod), "fits");
}

TEST(TopologyNodes, APageOfAListIsRefused) {
  for (const Json& metadata :
       std::vector<Json>{{{"continue", "abc"}}, {{"remainingItemCount", 7}}}) {
    const Json list = {{"kind", "PodList"},
                       {"apiVersion", "v1"},
                       {"metadata", metadata},
                       {"items", Json::array()}};
    const Result<bool> added = ClusterObjects().Add(list.dump(), "pods.json");
    ASSERT_FALSE(added.ok());
    EXPECT_TRUE(HasPart(added.error().Text(), "the list ends before its last object"));
    EXPECT_TRUE(HasPart(added.error().remedy, "without the parameter limit"));
  }
  const Json whole = {{"kind", "PodList"},
                      {"apiVersion", "v1"},
                      {"metadata", {{"continue", ""}, {"remainingItemCount", nullptr}}},
                      {"items", Json::array()}};
  EXPECT_TRUE(ClusterObjects().Add(whole.dump(), "pods.json").ok());
}

// The topology object is of the pods as they were before: with fewer containers, or other ones.
TEST(TopologyNodes, WhatChangesWhileTheObjectsAreReadIsNotInThem) {
  const auto asked = [](const std::vector<Json>& before, const std::vector<Json>& after) {
    const auto list_of = [](const std::vector<Json>& objects) {
      return Json{{"kind", "List"}, {"apiVersion", "v1"}, {"items", objects}}.dump();
    };
    Json object = ForeignObject();
    SetFingerprint({"a"}, object);
    ClusterObjects earlier;
    ClusterObjects objects;
    EXPECT_TRUE(earlier.Add(list_of(before), "").ok());
    EXPECT_TRUE(objects.Add(list_of({object, NodeJsonOf("w1")}), "").ok());
    EXPECT_TRUE(objects.Add(list_of(after), "").ok());
    objects.CompareWith(earlier);
    const Result<std::vector<FleetNode>> nodes = objects.Nodes(kStaticConfig);
    return ObjectAnswer(MakePlannedNode(nodes->front()), {{"cpu", "1"}, {"memory", "1Gi"}});
  };
  const Json one = BoundJson("a");
  Json two = one;
  two["spec"]["containers"].push_back({{"name", "second"}});
  EXPECT_EQ(asked({one}, {one}), "fits");
  EXPECT_EQ(asked({two}, {two}), "fits");
  EXPECT_EQ(asked({}, {one}), "fits") << "with its only container it is in the object";
  EXPECT_TRUE(HasPart(asked({}, {two}), "pod default/a is starting"));
  Json pending = two;
  pending["status"]["phase"] = "Pending";
  EXPECT_TRUE(HasPart(asked({pending}, {two}), "pod default/a is starting"));
  Json crashed = one;
  crashed["status"]["containerStatuses"] = Json::array({{{"name", "app"}, {"state", kFailed}}});
  EXPECT_TRUE(HasPart(asked({crashed}, {one}), "a container of pod default/a does not run"));
  Json smaller = one;
  for (Json& amounts : smaller["spec"]["containers"][0]["resources"]) amounts["cpu"] = "2";
  EXPECT_TRUE(HasPart(asked({one}, {smaller}), "pod default/a is resized in place"));
  Json other = one;
  other["metadata"]["uid"] = "another";
  EXPECT_TRUE(HasPart(asked({one}, {other}), "pod default/a has replaced another pod"));
}

TEST(TopologyNodes, ANodeWithoutAnObjectIsRefusedBySumsOrUndecided) {
  const Result<PlannedNode> node = NodeFromObjects({NodeJsonOf("w1"), BoundJson("a")});
  EXPECT_TRUE(HasPart(ObjectAnswer(node, {{"cpu", "16"}, {"memory", "1Gi"}}), "Insufficient cpu"));
  EXPECT_TRUE(HasPart(ObjectAnswer(node, {{"cpu", "1"}, {"memory", "1Gi"}}),
                      "undecided: Undecided: the node has no NodeResourceTopology object"));
}

TEST(TopologyNodes, DevicesThatTheZonesDoNotHaveAreUndecided) {
  Json object = ForeignObject();
  SetFingerprint({}, object);
  const Result<PlannedNode> node = NodeFromObjects({object, NodeJsonOf("w1", "5")});
  EXPECT_EQ(ObjectAnswer(node, {{"cpu", "5"}, {"memory", "1Gi"}}), "fits");
  EXPECT_TRUE(
      HasPart(ObjectAnswer(node, {{"cpu", "5"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "1"}}),
              "the zones have 4 of them allocatable, and Node w1 has 5"));
}

TEST(TopologyNodes, WhatTheOptionsDependOnIsUndecided) {
  Json object = ForeignObject();
  SetFingerprint({}, object);
  const auto with = [](const std::string& more) {
    return R"({"cpuManagerPolicy":"static","topologyManagerPolicy":"single-numa-node",)" + more +
           "}";
  };
  const std::map<std::string, std::string> four = {{"cpu", "4"}, {"memory", "1Gi"}};
  EXPECT_TRUE(HasPart(
      ObjectAnswer(NodeFromObjects({object, NodeJsonOf("w1")},
                                   with(R"("cpuManagerPolicyOptions":{"full-pcpus-only":"true"})")),
                   four),
      "undecided: Undecided: cpu: cpuManagerPolicyOptions has full-pcpus-only"));
  Json used = object;
  used["zones"][0]["resources"][1]["available"] = "6Gi";
  const std::string memory = with(R"("memoryManagerPolicy":"Static")");
  EXPECT_TRUE(HasPart(ObjectAnswer(NodeFromObjects({used, NodeJsonOf("w1")}, memory), four),
                      "the object does not say which NUMA nodes are in one memory group"));
  EXPECT_EQ(ObjectAnswer(NodeFromObjects({object, NodeJsonOf("w1")}, memory), four), "fits")
      << "without assigned memory there is no group";
}

// Devices of several sums cannot be added up for several NUMA nodes.
TEST(TopologyNodes, SumsOfDevicesAreEnoughForOneNodeOnly) {
  Json object = ForeignObject();
  object["attributes"][0]["value"] = "restricted";
  SetFingerprint({}, object);
  const Result<PlannedNode> node =
      NodeFromObjects({object, NodeJsonOf("w1")},
                      R"({"cpuManagerPolicy":"static","topologyManagerPolicy":"restricted"})");
  EXPECT_EQ(ObjectAnswer(node, {{"cpu", "4"}, {"memory", "1Gi"}}), "fits");
  EXPECT_TRUE(
      HasPart(ObjectAnswer(node, {{"cpu", "4"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "1"}}),
              "undecided: Undecided: nvidia.com/gpu: the object has sums"));
}

TEST(TopologyNodes, RefusesObjectsThatCannotBe) {
  struct Case {
    std::string pointer;
    Json value;
    std::string error;
  };
  for (const Case& c : std::vector<Case>{
           {"/apiVersion", "topology.node.k8s.io/v1alpha1",
            "NodeResourceTopology w1: apiVersion: \"topology.node.k8s.io/v1alpha1\" is not read; "},
           {"/metadata/name", "", "NodeResourceTopology: metadata: name: is empty"},
           {"/zones", Json::array(), "NodeResourceTopology w1: zones: there is none"},
           {"/zones/0/type", "Socket", "zones[0]: type \"Socket\" is not Node"},
           {"/zones/0/name", "numa0", "zones[0]: name \"numa0\" is not node- and a number"},
           {"/zones/1/name", "node-0", "zones[1]: a second zone node-0"},
           {"/zones/0/costs/1/name", "node-7", "costs has node-7, which is no zone"},
           {"/zones/0/costs/0/value", -1, "zones[0].costs[0].value: -1 is not"},
           {"/zones/0/resources/0/available", "9500m",
            "zones[0].resources[0].available: \"9500m\" is not a whole number"},
           {"/zones/0/resources/0/available", "10",
            "zones[0].resources[0]: available 10 is more than allocatable 9"},
           {"/zones/0/resources/0/allocatable", "11",
            "zones[0].resources[0]: allocatable 11 is more than capacity 10"},
           {"/zones/0/resources/0/capacity", "1M", "is more than 8192"},
           {"/zones/0/resources/0/name", "memory", "zones[0].resources[1]: a second entry"},
           {"/zones/0/resources/0/name", "cpus", "zone node-0 has no cpu"},
           {"/zones/0/resources/0/allocatable", "10", "always reserves CPUs"},
           {"/zones/0/resources/0/capacity", "12", "Node w1 has a capacity of 20 CPUs"},
           {"/attributes/0/value", "restricted",
            "attribute topologyManagerPolicy is \"restricted\", and the KubeletConfiguration has "
            "topologyManagerPolicy \"single-numa-node\""},
           {"/attributes/1/name", "topologyManagerPolicy", "a second attribute"}}) {
    Json object = ForeignObject();
    object[Json::json_pointer(c.pointer)] = c.value;
    const std::string answer =
        ObjectAnswer(NodeFromObjects({object, NodeJsonOf("w1")}), {{"cpu", "1"}});
    EXPECT_TRUE(answer.starts_with("error: ") && HasPart(answer, c.error)) << c.error << "\n"
                                                                           << answer;
    EXPECT_TRUE(HasPart(answer, "; ")) << "no remedy: " << answer;
  }
}

TEST(TopologyNodes, RefusesAttributesOfAligndThatCannotBe) {
  struct Case {
    std::string name;
    std::string value;
    std::string error;
  };
  for (const Case& c : std::vector<Case>{
           {"alignd.io/policyOptions", "[]", "alignd.io/policyOptions: it is no JSON object"},
           {"alignd.io/policyOptions", "{", "alignd.io/policyOptions: "},
           {"alignd.io/policyOptions", R"({"cpuManagerPolicyOptions":7})",
            "cpuManagerPolicyOptions"},
           {"alignd.io/deviceGroups", R"([{"resource":"cpu"}])", "alignd.io/deviceGroups: "},
           {"alignd.io/deviceGroups",
            R"([{"resource":"nvidia.com/gpu","zones":["node-0"],"capacity":3,"allocatable":0,)"
            R"("available":0}])",
            "it has more than zone node-0"},
           {"alignd.io/memoryGroups", R"([{"memoryNodes":["node-3"]}])",
            "groups[0].memoryNodes[0] is no zone"},
           {"alignd.io/memoryGroups",
            R"([{"memoryNodes":["node-0"]},{"memoryNodes":["node-0","node-1"]}])",
            "node-0 is in two groups"}}) {
    Json object = ForeignObject();
    object["attributes"].push_back({{"name", c.name}, {"value", c.value}});
    const std::string answer = ObjectAnswer(
        NodeFromObjects({object, NodeJsonOf("w1")},
                        R"({"cpuManagerPolicy":"static","memoryManagerPolicy":"Static",)"
                        R"("topologyManagerPolicy":"single-numa-node"})"),
        {{"cpu", "1"}});
    EXPECT_TRUE(answer.starts_with("error: ") && HasPart(answer, c.error)) << c.error << "\n"
                                                                           << answer;
  }
}

TEST(TopologyNodes, RefusesObjectsThatDoNotBelongTogether) {
  EXPECT_TRUE(HasPart(ObjectAnswer(NodeFromObjects({ForeignObject()}), {}),
                      "NodeResourceTopology w1: there is no Node w1"));
  EXPECT_TRUE(HasPart(ObjectAnswer(NodeFromObjects({BoundJson("a")}), {}),
                      "there are pods of node w1, and no"));
  EXPECT_TRUE(HasPart(ObjectAnswer(NodeFromObjects({NodeJsonOf("w1"), NodeJsonOf("w1")}), {}),
                      "two Node objects"));
  EXPECT_TRUE(HasPart(ObjectAnswer(NodeFromObjects({ForeignObject(), ForeignObject()}), {}),
                      "two NodeResourceTopology"));
  EXPECT_TRUE(
      HasPart(ObjectAnswer(NodeFromObjects({NodeJsonOf("w1"), BoundJson("a"), BoundJson("a")}), {}),
              "two pods"));
  EXPECT_TRUE(HasPart(ObjectAnswer(NodeFromObjects({NodeJsonOf("w1"), {{"kind", "Service"}}}), {}),
                      "items[1]: kind \"Service\" is not"));
  EXPECT_TRUE(HasPart(ObjectAnswer(NodeFromObjects({ForeignObject(), NodeJsonOf("w1")}, ""), {}),
                      "there is no KubeletConfiguration of the node"));
  Json pod = BoundJson("a");
  pod["spec"].erase("nodeName");
  EXPECT_TRUE(NodeFromObjects({NodeJsonOf("w1"), pod}).ok()) << "it waits for a node";
  pod["metadata"].erase("uid");
  EXPECT_TRUE(HasPart(ObjectAnswer(NodeFromObjects({NodeJsonOf("w1"), pod}), {}),
                      "spec.nodeName is missing"));
}

}  // namespace
}  // namespace alignd::placement
