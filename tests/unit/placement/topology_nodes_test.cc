// Nodes from the objects of a cluster: what is read, what is refused, and what stays undecided.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "object_texts.h"

namespace alignd::placement {
namespace {

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

// The object does not say which CPUs are free.
TEST(TopologyNodes, PodsThatAskForMoreOfTheirCpusThanTheirNumberAreUndecided) {
  Json object = ForeignObject();
  SetFingerprint({}, object);
  const Result<PlannedNode> node = NodeFromObjects(
      {object, NodeJsonOf("w1")},
      R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","topologyManagerPolicy":)"
      R"("single-numa-node","podPolicies":["cpuBindPolicy","cpuExclusivePolicy",)"
      R"("resourceStatus"]})");
  ASSERT_TRUE(node.ok()) << node.error().Text();
  const auto asked = [&](const PodPolicies& policies) {
    PlannedPod pod;
    pod.pod = AppPod("asked", {{"cpu", "4"}, {"memory", "1Gi"}});
    pod.pod.policies = policies;
    return node->Ask(pod).outcome;
  };
  EXPECT_EQ(asked({}), Outcome::kFits);
  EXPECT_EQ(asked({.preferred_bind = CpuBindPolicy::kFullPcpus}), Outcome::kFits);
  EXPECT_EQ(asked({.preferred_bind = CpuBindPolicy::kSpreadByPcpus}), Outcome::kFits);
  EXPECT_EQ(asked({.required_bind = CpuBindPolicy::kFullPcpus}), Outcome::kUndecided);
  EXPECT_EQ(asked({.cpuset = CpuSet{1, 2, 3, 4}}), Outcome::kUndecided);
}

// It fits where it fits without the preference. Where it is then, the object does not say.
TEST(TopologyNodes, AfterAPodThatPrefersCertainCpusLaterPodsAreUndecided) {
  Json object = ForeignObject();
  SetFingerprint({}, object);
  Result<PlannedNode> node = NodeFromObjects(
      {object, NodeJsonOf("w1")},
      R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","topologyManagerPolicy":)"
      R"("single-numa-node","podPolicies":["cpuExclusivePolicy"]})");
  ASSERT_TRUE(node.ok()) << node.error().Text();
  const auto pod_of = [](int containers, const std::string& cpus, bool prefers) {
    PlannedPod pod;
    pod.pod = AppPod("asked", {{"cpu", cpus}, {"memory", "1Gi"}});
    for (int i = 1; i < containers; ++i) {
      pod.pod.containers.push_back(pod.pod.containers[0]);
      pod.pod.containers.back().name = "app-" + std::to_string(i);
    }
    if (prefers) pod.pod.policies.exclusive = CpuExclusivePolicy::kPcpuLevel;
    return pod;
  };
  EXPECT_EQ(node->Ask(pod_of(1, "11", true)).outcome, Outcome::kRefused);
  EXPECT_EQ(node->Ask(pod_of(3, "6", false)).outcome, Outcome::kRefused);
  EXPECT_EQ(node->Ask(pod_of(3, "6", true)).outcome, Outcome::kUndecided);
  EXPECT_EQ(node->Place(pod_of(1, "4", true)).outcome, Outcome::kFits);
  PlannedPod later = pod_of(1, "4", false);
  later.pod.name = later.pod.uid = "later";
  const Verdict verdict = node->Ask(later);
  EXPECT_EQ(verdict.outcome, Outcome::kUndecided);
  EXPECT_TRUE(HasPart(verdict.refusal->message, "pod default/asked prefers certain CPUs"))
      << verdict.refusal->message;
}

// The pod of that name is another one.
TEST(TopologyNodes, OtherPodsThanTheFingerprintOfTheirUidsAreUndecided) {
  Json object = ForeignObject();
  SetFingerprint({"a"}, object);
  const auto answer = [&](const std::string& uid) {
    Json with = object;
    with["attributes"].push_back(
        {{"name", "alignd.io/podUIDsFingerprint"},
         {"value", *noderesourcetopology::UidFingerprint({{"default", "a", "uid-a"}})}});
    Json pod = BoundJson("a");
    pod["metadata"]["uid"] = uid;
    return ObjectAnswer(NodeFromObjects({with, NodeJsonOf("w1"), pod}),
                        {{"cpu", "1"}, {"memory", "1Gi"}});
  };
  EXPECT_EQ(answer("uid-a"), "fits");
  EXPECT_TRUE(HasPart(answer("uid-b"), "the fingerprint of the object is not that of the pods"))
      << answer("uid-b");
}

// Of NUMA nodes with as many free CPUs, the strategy chooses by the free CPUs of their sockets,
// which are not in the object.
TEST(TopologyNodes, AfterAChoiceBySocketsLaterPodsAreUndecided) {
  Json object = ForeignObject();
  for (Json& zone : object["zones"]) zone.erase("costs");
  Json& cpu = object["zones"][1]["resources"][0];
  cpu["capacity"] = cpu["allocatable"] = cpu["available"] = "5";
  object["zones"].push_back(object["zones"][1]);
  object["zones"][2]["name"] = "node-2";
  SetFingerprint({}, object);
  const auto after_one = [&](const std::string& strategy) {
    Result<PlannedNode> node = NodeFromObjects(
        {object, NodeJsonOf("w1", "6")},
        R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","topologyManagerPolicy":)"
        R"("single-numa-node")" +
            strategy + "}");
    EXPECT_TRUE(node.ok()) << node.error().Text();
    PlannedPod pod;
    pod.pod = AppPod("first", {{"cpu", "2"}, {"memory", "1Gi"}});
    pod.pod.name = "first";
    EXPECT_EQ(node->Place(pod).outcome, Outcome::kFits);
    return ObjectAnswer(node, {{"cpu", "5"}, {"memory", "1Gi"}});
  };
  const std::string strategy = R"(,"numaAllocateStrategy":"MostAllocated")";
  EXPECT_EQ(after_one(""), "fits");
  EXPECT_TRUE(HasPart(after_one(strategy), "undecided: Undecided: cpu: numaAllocateStrategy"))
      << after_one(strategy);
  object["zones"][0]["resources"][0]["available"] = "2";
  object["zones"][1]["resources"][0]["available"] = "4";
  EXPECT_EQ(after_one(strategy), "fits") << "no two have as many";
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

// The deprecated form of the policy, in place of attributes.
TEST(TopologyNodes, ComparesTheOlderFormOfThePolicy) {
  const auto answer_with = [](const std::string& name) {
    Json object = ForeignObject();
    object["attributes"] = Json::array();
    object["topologyPolicies"] = Json::array({name, "BestEffort"});
    SetFingerprint({"a"}, object);
    return ObjectAnswer(NodeFromObjects({object, NodeJsonOf("w1"), BoundJson("a")}),
                        {{"cpu", "1"}, {"memory", "1Gi"}});
  };
  EXPECT_EQ(answer_with("SingleNUMANodeContainerLevel"), "fits");
  EXPECT_EQ(answer_with("Unnamed"), "fits");
  for (const char* const policy :
       {"None", "BestEffort", "BestEffortPodLevel", "BestEffortContainerLevel", "Restricted",
        "RestrictedPodLevel", "RestrictedContainerLevel"}) {
    EXPECT_TRUE(HasPart(answer_with(policy), "attribute topologyManagerPolicy is \"")) << policy;
  }
  EXPECT_TRUE(HasPart(answer_with("SingleNUMANodePodLevel"),
                      "attribute topologyManagerScope is \"pod\", and the KubeletConfiguration has "
                      "topologyManagerScope \"container\""));
  // Of koordlet, "None" says nothing of the kubelet's policy.
  Json object = ForeignObject();
  object["attributes"] = Json::array();
  object["topologyPolicies"] = Json::array({"None"});
  object["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "Koordinator";
  SetFingerprint({"a"}, object);
  EXPECT_EQ(ObjectAnswer(NodeFromObjects({object, NodeJsonOf("w1"), BoundJson("a")}),
                         {{"cpu", "1"}, {"memory", "1Gi"}}),
            "fits");
  // Attributes say more.
  object = ForeignObject();
  object["topologyPolicies"] = Json::array({"None"});
  SetFingerprint({"a"}, object);
  EXPECT_EQ(ObjectAnswer(NodeFromObjects({object, NodeJsonOf("w1"), BoundJson("a")}),
                         {{"cpu", "1"}, {"memory", "1Gi"}}),
            "fits");
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

// It is not the configuration that is wrong.
TEST(TopologyNodes, NamesTheAttributeOfAligndThatCannotBe) {
  const auto error_with = [](const std::string& policy, const std::string& options) {
    Json object = ForeignObject();
    object["attributes"] = Json::array({{{"name", "topologyManagerPolicy"}, {"value", policy}},
                                        {{"name", "alignd.io/policyOptions"}, {"value", options}}});
    return ObjectAnswer(NodeFromObjects({object, NodeJsonOf("w1")}), {{"cpu", "1"}});
  };
  const std::string remedy =
      "let alignd-events --topology write the object; if the alignd of that node is newer than "
      "this program, upgrade this program";
  for (const auto& [answer, attribute] :
       {std::pair(error_with("restricted", R"({"cpuManagerPolicyOptions":7})"),
                  "alignd.io/policyOptions: cpuManagerPolicyOptions"),
        std::pair(error_with("restricted", R"({"unknownField":7})"),
                  "alignd.io/policyOptions: unknownField"),
        std::pair(error_with("no-policy", "{}"), "topologyManagerPolicy: "),
        std::pair(error_with("restricted", R"({"topologyManagerPolicy":"no-policy"})"),
                  "alignd.io/policyOptions: topologyManagerPolicy: ")}) {
    EXPECT_TRUE(HasPart(answer, std::string("NodeResourceTopology w1: attribute ") + attribute))
        << answer;
    EXPECT_TRUE(HasPart(answer, remedy)) << answer;
  }
}

// A resource that no device plugin serves, as the configuration of the node has it: only the
// scheduler counts it. The configuration of the planner does not say it.
TEST(TopologyNodes, AnObjectOfAligndSaysWhatIsNoDevice) {
  const auto answer = [](const std::string& not_devices, const std::string& licences) {
    FleetNode described;
    described.name = "w1";
    described.input.description.machine = MakeMachine("socket:2 numa:1 core:10");
    described.config = R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0")" + not_devices +
                       R"(,"memoryManagerPolicy":"None","topologyManagerPolicy":"restricted"})";
    const Result<PlannedNode> node = MakePlannedNode(described);
    EXPECT_TRUE(node.ok()) << node.error().Text();
    Json as_node = NodeJsonOf("w1");
    as_node["status"]["allocatable"].erase("nvidia.com/gpu");
    as_node["status"]["allocatable"]["example.com/licence"] = "5";
    const Json object =
        Json::parse(noderesourcetopology::ObjectJson("w1", node->node(), node->state(), {}, {}));
    return ObjectAnswer(NodeFromObjects({object, as_node}, ""),
                        {{"cpu", "4"}, {"memory", "1Gi"}, {"example.com/licence", licences}});
  };
  const std::string stated = R"(,"notDevices":["example.com/licence"])";
  EXPECT_EQ(answer(stated, "5"), "fits");
  EXPECT_TRUE(HasPart(answer(stated, "6"), "Insufficient example.com/licence"));
  EXPECT_TRUE(HasPart(answer("", "5"), "undecided: ")) << answer("", "5");
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
