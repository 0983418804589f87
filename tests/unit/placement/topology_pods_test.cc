// Which pods are in a NodeResourceTopology object: those that start, end, crash or are resized.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "object_texts.h"

namespace alignd::placement {
namespace {

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
TEST(TopologyPods, APodThatCrashesAgainAndAgainIsCounted) {
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
  EXPECT_TRUE(
      HasPart(asked({"a"}, {steady, small("b", {kRuns})}), "the fingerprint of the object"));
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

// The node refuses it again and again, so that the object never has it.
TEST(TopologyPods, APodThatItsLabelKeepsFromStartingIsCounted) {
  const std::string config =
      R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","topologyManagerPolicy":)"
      R"("single-numa-node","podPolicies":["qosClass"]})";
  const auto asked = [&](const Json& resources, const std::string& amount) {
    Json labelled = BoundJson("b", "Pending");
    labelled["metadata"]["labels"]["koordinator.sh/qosClass"] = "LSR";
    labelled["spec"]["containers"][0]["resources"] = resources;
    Json object = ForeignObject();
    SetFingerprint({"a"}, object);
    return ObjectAnswer(
        NodeFromObjects({object, NodeJsonOf("w1"), BoundJson("a"), labelled}, config),
        {{"cpu", amount}, {"memory", "1Gi"}});
  };
  const Json burstable = {{"requests", {{"cpu", "4"}}}};
  EXPECT_EQ(asked(burstable, "10"), "fits");
  EXPECT_TRUE(HasPart(asked(burstable, "12"), "Insufficient cpu")) << asked(burstable, "12");
  const Json fraction = {{"limits", {{"cpu", "500m"}, {"memory", "1Gi"}}}};
  EXPECT_EQ(asked(fraction, "10"), "fits");
}

// A node that follows the annotation gives it two GPUs, and one that follows the spec none.
TEST(TopologyPods, APodThatStartsWithAContradictingAnnotationLeavesOpenWhatDependsOnIt) {
  Json object = ForeignObject();
  SetFingerprint({"a"}, object);
  Json hidden = BoundJson("hidden", "Pending");
  hidden["metadata"]["annotations"]["alignd.io/resources"] =
      R"({"app":{"limits":{"nvidia.com/gpu":2}}})";
  hidden["spec"]["containers"][0].erase("resources");
  std::map<std::string, std::string> cpus = {{"cpu", "4"}, {"memory", "1Gi"}};
  std::map<std::string, std::string> gpus = cpus;
  gpus["nvidia.com/gpu"] = "1";
  const auto asked = [&](const std::vector<Json>& pods,
                         const std::map<std::string, std::string>& amounts) {
    std::vector<Json> objects = pods;
    objects.push_back(object);
    objects.push_back(NodeJsonOf("w1"));
    return ObjectAnswer(NodeFromObjects(objects), amounts);
  };
  const Json steady = BoundJson("a");
  EXPECT_EQ(asked({steady}, gpus), "fits");
  EXPECT_EQ(asked({steady}, cpus), "fits");
  EXPECT_EQ(asked({steady, hidden}, cpus), "fits");
  EXPECT_TRUE(HasPart(asked({steady, hidden}, gpus), "undecided: ")) << "it may have them";
  // So is where another one is that starts.
  const Json other = BoundJson("b", "Pending");
  EXPECT_TRUE(HasPart(asked({steady, other, hidden}, cpus), "undecided: "));
  EXPECT_TRUE(HasPart(asked({steady, hidden, other}, cpus), "undecided: "));
  // Its own CPUs are where its devices are.
  hidden["metadata"]["annotations"]["alignd.io/resources"] =
      R"({"app":{"limits":{"cpu":2,"memory":"1Gi","nvidia.com/gpu":2}}})";
  hidden["spec"]["containers"][0]["resources"] = {{"limits", {{"cpu", "2"}, {"memory", "1Gi"}}}};
  EXPECT_EQ(asked({steady, hidden}, cpus), "fits");
  cpus["cpu"] = "10";
  EXPECT_TRUE(HasPart(asked({steady, hidden}, cpus), "how the node takes pod default/hidden"));
  cpus["cpu"] = "11";
  EXPECT_TRUE(HasPart(asked({steady, hidden}, cpus), "refused: "));
}

// The second init container takes a CPU of the first one or another one, which the object does not
// say. With the option, a container counts the free cores, without those that it may reuse.
TEST(TopologyPods, WithFullPcpusOnlyWhatTwoInitContainersShareIsUndecided) {
  FleetNode described;
  described.name = "w1";
  described.input.description.machine = MakeMachine("socket:2 numa:1 core:3");
  described.config = R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0",)"
                     R"("cpuManagerPolicyOptions":{"full-pcpus-only":"true"}})";
  const Result<PlannedNode> node = MakePlannedNode(described);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  Json as_node = NodeJsonOf("w1");
  as_node["status"]["capacity"]["cpu"] = "6";
  as_node["status"]["allocatable"]["cpu"] = "5";
  const Json object =
      Json::parse(noderesourcetopology::ObjectJson("w1", node->node(), node->state(), {}, {}));
  const Result<PlannedNode> known = NodeFromObjects({object, as_node}, "");
  ASSERT_TRUE(known.ok()) << known.error().Text();
  const auto cpus = [](const std::string& count) {
    return std::map<std::string, std::string>{{"cpu", count}, {"memory", "64Mi"}};
  };
  PlannedPod pod;
  pod.pod = MakePod("p", {Init("i", cpus("3")), App("a", cpus("2"))});
  EXPECT_EQ(known->Ask(pod).outcome, Outcome::kFits);
  pod.pod = MakePod("p", {Init("i", cpus("3")), Init("j", cpus("1")), App("a", cpus("2"))});
  const Verdict verdict = known->Ask(pod);
  EXPECT_EQ(verdict.outcome, Outcome::kUndecided);
  EXPECT_TRUE(HasPart(verdict.refusal->message, "pod default/p has init containers"));
}

// What it is assigned when it starts again can be missing in the object.
TEST(TopologyPods, APodWithCpusOfItsOwnThatCrashesIsUndecided) {
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
TEST(TopologyPods, ManyPodsThatCrashAreInTheObjectTogether) {
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
TEST(TopologyPods, APodThatIsResizedIsCountedWithTheLargerAmounts) {
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
TEST(TopologyPods, APodWithCpusOfItsOwnThatIsResizedIsUndecided) {
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
TEST(TopologyPods, ARunningPodContradictsAnObjectOfAnEmptyNode) {
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

TEST(TopologyPods, APageOfAListIsRefused) {
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
TEST(TopologyPods, WhatChangesWhileTheObjectsAreReadIsNotInThem) {
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

}  // namespace
}  // namespace alignd::placement
