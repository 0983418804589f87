// What planners answer beside pods whose annotation contradicts their spec.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "alignd/noderesourcetopology/object.h"
#include "alignd/placement/fleet_node.h"
#include "alignd/placement/planned_node.h"
#include "alignd/placement/topology_nodes.h"
#include "annotated_pods.h"

namespace alignd::placement {
namespace {

// The node as its objects show it, which do not have these pods yet.
Result<PlannedNode> FromObjects(const FleetNode& described,
                                const std::vector<PlannedPod>& starting) {
  const Result<PlannedNode> node = MakePlannedNode(described);
  if (!node.ok()) return node.error();
  NodeObject as_node{"n", {}, {}, node->allocatable().amounts, {}};
  as_node.allocatable["pods"] = Quantity(110);
  as_node.capacity["cpu"] = Quantity(8);
  const Result<TopologyObject> object = ReadTopologyObject(
      noderesourcetopology::ObjectJson("n", node->node(), node->state(), {}, {}));
  if (!object.ok()) return object.error();
  std::vector<BoundPod> bound;
  for (const PlannedPod& pod : starting) bound.push_back({.pod = pod, .is_starting = true});
  const Result<FleetNode> made = NodeOfObjects(*object, as_node, bound, "");
  if (!made.ok()) return made.error();
  return MakePlannedNode(*made);
}

// One such pod is no reason to answer nothing.
TEST(PodReadings, LeavesOpenOnlyWhatDependsOnIt) {
  Result<PlannedNode> node = MakePlannedNode(NodeWith(1));
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_EQ(node->Place(AnnotatedGpus("1", false)).outcome, Outcome::kUndecided);
  EXPECT_FALSE(node->has_undecided());
  EXPECT_EQ(node->Place(PodOf("cpus", "2", "0")).outcome, Outcome::kFits);
  // One of two is free in any case.
  EXPECT_EQ(node->Place(PodOf("one", "1", "1")).outcome, Outcome::kFits);
  const Verdict other = node->Place(PodOf("other", "1", "1"));
  EXPECT_EQ(other.outcome, Outcome::kUndecided);
  EXPECT_NE(other.refusal->message.find("how the node takes pod default/a, whose annotation"),
            std::string::npos)
      << other.refusal->message;
  EXPECT_EQ(node->Ask(PodOf("two", "1", "2")).outcome, Outcome::kRefused);
  EXPECT_EQ(node->Ask(PodOf("rest", "3", "0")).outcome, Outcome::kFits);  // beside `other` or not
  EXPECT_EQ(node->Ask(PodOf("large", "4", "0")).outcome, Outcome::kRefused);
  ASSERT_EQ(node->notes().size(), 1U);
  EXPECT_NE(node->notes()[0].find("pod default/a has an annotation"), std::string::npos);
}

// Neither node can take it.
TEST(PodReadings, IsRefusedIfAllReadingsAre) {
  Result<PlannedNode> node = MakePlannedNode(NodeWith(0));
  ASSERT_TRUE(node.ok()) << node.error().Text();
  PlannedPod pod = PodOf("p", "5", "0");  // of 4 in a NUMA node
  pod.annotation_conflict = "x";
  pod.annotated = {pod.pod.containers};
  EXPECT_EQ(node->Ask(pod).outcome, Outcome::kRefused);
  EXPECT_EQ(node->Place(pod).outcome, Outcome::kRefused);
  EXPECT_TRUE(node->notes().empty());
}

// There would be too many ways to take them. Also, the node may have none of them.
TEST(PodReadings, AfterThreeSuchPodsNothingIsDecided) {
  FleetNode described = NodeWith(0);
  described.config = R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0"})";
  Result<PlannedNode> node = MakePlannedNode(described);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  for (const char* const name : {"a", "b", "c"}) {
    EXPECT_FALSE(node->has_undecided());
    PlannedPod pod = PodOf(name, "1", "0");
    pod.annotation_conflict = "x";
    pod.annotated = {PodOf(name, "2", "0").pod.containers};
    EXPECT_EQ(node->Place(pod).outcome, Outcome::kUndecided);
  }
  EXPECT_TRUE(node->has_undecided());
  const Verdict one = node->Ask(PodOf("one", "1", "0"));
  ASSERT_EQ(one.outcome, Outcome::kUndecided);
  EXPECT_EQ(one.refusal->message,
            "pods of the node have annotations with resources that differ from their specs, the "
            "last of them pod default/c: there are too many ways in which the node can take them, "
            "and what they take is not known; make annotation and spec of each equal, or remove "
            "the annotations");
  EXPECT_EQ(node->Ask(PodOf("all", "7", "0")).outcome, Outcome::kUndecided);
  EXPECT_EQ(node->Ask(PodOf("large", "8", "0")).outcome, Outcome::kRefused);
}

// With `app` and `side`, of 2 CPUs each. The annotation has these containers.
PlannedPod PodOfTwo(const std::string& annotation) {
  const std::string resources =
      R"(,"image":"i","resources":{"limits":{"cpu":"2","memory":"1Gi"}}})";
  return PlannedFrom(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"two","annotations":)"
                     R"({"alignd.io/resources":")" +
                     annotation + R"("}},"spec":{"containers":[{"name":"app")" + resources +
                     R"(,{"name":"side")" + resources + "]}}");
}

// The node decides about a container that the annotation does not name when it is created: `app`
// can be on NUMA node 0, where the GPU is, and `side` on NUMA node 1, and 3 CPUs are on none then.
TEST(PodReadings, OfAPodThatIsDecidedInPartsLeaveOpenWhatDependsOnIt) {
  FleetNode described = NodeWith(1);
  described.input.description.devices["a.com/gpu"].resize(1);
  described.config.insert(1, R"("topologyManagerScope":"pod",)");
  const std::string app = R"(\"app\":{\"limits\":{\"cpu\":2,\"memory\":\"1Gi\",\"a.com/gpu\":1}})";
  const std::string side = R"(\"side\":{\"limits\":{\"cpu\":2,\"memory\":\"1Gi\"}})";
  PlannedPod in_parts = PodOfTwo("{" + app + "}");
  const PlannedPod whole = PodOfTwo("{" + app + "," + side + "}");
  Result<PlannedNode> node = MakePlannedNode(described);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  PlannedNode beside_whole = *node;
  EXPECT_EQ(beside_whole.Place(whole).outcome, Outcome::kUndecided);
  EXPECT_FALSE(beside_whole.has_undecided());
  EXPECT_EQ(beside_whole.Ask(PodOf("q", "3", "0")).outcome, Outcome::kFits);
  EXPECT_EQ(node->Ask(in_parts).outcome, Outcome::kUndecided);
  EXPECT_EQ(node->Place(in_parts).outcome, Outcome::kUndecided);
  EXPECT_FALSE(node->has_undecided());
  const Verdict open = node->Ask(PodOf("q", "3", "0"));
  ASSERT_EQ(open.outcome, Outcome::kUndecided);
  EXPECT_EQ(open.refusal->message,
            "the node decides about the containers of pod default/two one by one, as its "
            "annotation does not name all of them: it is not known which CPUs, memory and devices "
            "it has, and whether this pod fits depends on the NUMA nodes that they are on; name "
            "all containers in that annotation");
  EXPECT_EQ(node->Ask(PodOf("gpu", "500m", "1")).outcome, Outcome::kUndecided);
  EXPECT_EQ(node->Ask(PodOf("shared", "500m", "0")).outcome, Outcome::kFits);
  EXPECT_EQ(node->Ask(PodOf("large", "8", "0")).outcome, Outcome::kRefused);
  EXPECT_EQ(node->Ask(PodOf("five", "5", "0")).outcome, Outcome::kRefused);  // on no NUMA node
  // The pod takes up to four of seven CPUs, on each NUMA node up to four.
  FleetNode larger = described;
  larger.input.description.machine = MakeMachine("socket:2 numa:1 core:8");
  Result<PlannedNode> enough = MakePlannedNode(larger);
  ASSERT_TRUE(enough.ok()) << enough.error().Text();
  EXPECT_EQ(enough->Place(in_parts).outcome, Outcome::kUndecided);
  EXPECT_EQ(enough->Ask(PodOf("q", "4", "0")).outcome, Outcome::kFits);
  EXPECT_EQ(enough->Ask(PodOf("q", "5", "0")).outcome, Outcome::kUndecided);
  // One that is bound has at most what it requests.
  described.arriving = {in_parts};
  const Result<PlannedNode> starting = MakePlannedNode(described);
  ASSERT_TRUE(starting.ok()) << starting.error().Text();
  EXPECT_EQ(starting->Ask(PodOf("q", "3", "0")).outcome, Outcome::kUndecided);
  EXPECT_EQ(starting->Ask(PodOf("gpu", "500m", "1")).outcome, Outcome::kUndecided);
  EXPECT_EQ(starting->Ask(PodOf("shared", "500m", "0")).outcome, Outcome::kFits);
}

// The kubelet refuses it before the managers of the node are asked.
TEST(PodReadings, OfAPodOfAnotherSystemIsRefused) {
  FleetNode described = NodeWith(0);
  PlannedPod pod = PodOfTwo(R"({\"app\":{\"limits\":{\"cpu\":2,\"memory\":\"1Gi\"}}})");
  EXPECT_EQ(MakePlannedNode(described)->Ask(pod).outcome, Outcome::kUndecided);
  pod.os = "windows";
  for (const bool is_ignored : {false, true}) {
    if (is_ignored) described.config.insert(1, R"("annotatedExtendedResources":false,)");
    Result<PlannedNode> node = MakePlannedNode(described);
    ASSERT_TRUE(node.ok()) << node.error().Text();
    for (const Verdict& verdict : {node->Ask(pod), node->Place(pod)}) {
      ASSERT_EQ(verdict.outcome, Outcome::kRefused) << verdict.cause;
      EXPECT_EQ(verdict.refusal->reason, "PodOSNotSupported");
    }
    EXPECT_EQ(node->Ask(PodOf("q", "4", "0")).outcome, Outcome::kFits);
  }
}

// On two NUMA nodes with 3 and 4 free CPUs, z has the 3 if it comes first. Otherwise, a and b leave
// none of them to it.
TEST(PodReadings, OfAnAnnotationThatAgreesAreInItsOrder) {
  const auto pod = [](const std::string& name, const std::string& annotation) {
    const auto resources = [](const char* cpus) {
      return std::string(R"(,"image":"i","resources":{"limits":{"cpu":")") + cpus +
             R"(","memory":"64Mi"}}})";
    };
    return PlannedFrom(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
                       R"(","annotations":{"alignd.io/resources":"{)" + annotation +
                       R"(}"}},"spec":{"containers":[{"name":"z")" + resources("3") +
                       R"(,{"name":"a")" + resources("2") + R"(,{"name":"b")" + resources("2") +
                       "]}}");
  };
  const auto entry = [](const std::string& name, const std::string& cpus) {
    return R"(\")" + name + R"(\":{\"limits\":{\"cpu\":)" + cpus + R"(,\"memory\":\"64Mi\"}})";
  };
  const std::string a_and_b = entry("a", "2") + "," + entry("b", "2");
  Result<PlannedNode> node = MakePlannedNode(NodeWith(0));
  ASSERT_TRUE(node.ok()) << node.error().Text();
  const PlannedPod same = pod("p", entry("z", "3") + "," + a_and_b);
  EXPECT_EQ(same.annotated, std::nullopt);
  EXPECT_EQ(node->Ask(same).outcome, Outcome::kFits);
  const PlannedPod other = pod("p", a_and_b + "," + entry("z", "3"));
  EXPECT_EQ(other.annotation_conflict, "");
  const Verdict open = node->Ask(other);
  ASSERT_EQ(open.outcome, Outcome::kUndecided);
  EXPECT_EQ(open.refusal->message.find("the annotation with resources has the containers in "), 0U)
      << open.refusal->message;
  EXPECT_EQ(UndecidedByAnnotation(node->node(), node->state(), other), open.refusal->message);
  // z comes last, too.
  const Verdict partial = node->Ask(pod("p", a_and_b));
  ASSERT_EQ(partial.outcome, Outcome::kUndecided);
  EXPECT_EQ(partial.refusal->message.find("the annotation with resources does not name all"), 0U)
      << partial.refusal->message;
  // On a larger node it fits in both orders. The next pod can depend on where it is.
  FleetNode described = NodeWith(0);
  described.input.description.machine = MakeMachine("socket:2 numa:1 core:6");  // 5 and 6
  Result<PlannedNode> larger = MakePlannedNode(described);
  ASSERT_TRUE(larger.ok()) << larger.error().Text();
  EXPECT_EQ(larger->Place(other).outcome, Outcome::kFits);
  EXPECT_EQ(larger->Ask(PodOf("one", "1", "0")).outcome, Outcome::kFits);
  // In the order of the spec, 4 CPUs of NUMA node 1 are free; in that of the annotation, 1 and 3.
  const Verdict beside = larger->Ask(PodOf("q", "4", "0"));
  ASSERT_EQ(beside.outcome, Outcome::kUndecided);
  EXPECT_NE(beside.refusal->message.find("in which order, and when; remove the annotation"),
            std::string::npos)
      << beside.refusal->message;
}

// Where NUMA nodes do not matter, what is free beside all that the pod requests is free in any
// case.
TEST(PodReadings, OfAPodThatIsDecidedInPartsCountAllThatItRequestsAsTaken) {
  FleetNode described = NodeWith(0);
  described.config =
      R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","memoryManagerPolicy":)"
      R"("None","topologyManagerPolicy":"best-effort"})";
  Result<PlannedNode> node = MakePlannedNode(described);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  const std::string app = R"({\"app\":{\"limits\":{\"cpu\":3,\"memory\":\"1Gi\"}}})";
  EXPECT_EQ(node->Place(PodOfTwo(app)).outcome, Outcome::kUndecided);
  EXPECT_FALSE(node->has_undecided());
  // Of seven CPUs, four are taken by the spec, five by the annotation.
  EXPECT_EQ(node->Ask(PodOf("q", "2", "0")).outcome, Outcome::kFits);
  EXPECT_EQ(node->Ask(PodOf("q", "3", "0")).outcome, Outcome::kUndecided);
}

// Without state files, it is not known which of both the node has followed.
TEST(PodReadings, OfAPodThatRunsLeaveOpenWhatDependsOnIt) {
  FleetNode described = NodeWith(1);
  // By its spec, it has a GPU. By its annotation, it has none.
  PlannedPod runs = PodOf("runs", "2", "1");
  runs.annotated = {PodOf("runs", "2", "0").pod.containers};
  described.running = {runs};
  const Result<PlannedNode> node = MakePlannedNode(described);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_EQ(node->Ask(PodOf("one", "2", "1")).outcome, Outcome::kFits);
  EXPECT_EQ(node->Ask(PodOf("cpus", "3", "0")).outcome, Outcome::kFits);
  // The scheduler counts what the spec requests.
  EXPECT_EQ(node->Ask(PodOf("two", "1", "2")).stage, Stage::kScheduler);
  // By its spec it has no GPU. By its annotation, it has one, beside its CPUs.
  runs = PodOf("runs", "2", "0");
  runs.annotated = {PodOf("runs", "2", "1").pod.containers};
  described.input.description.devices["a.com/gpu"].resize(1);
  described.running = {runs};
  const Result<PlannedNode> hidden = MakePlannedNode(described);
  ASSERT_TRUE(hidden.ok()) << hidden.error().Text();
  EXPECT_EQ(hidden->Ask(PodOf("one", "500m", "1")).outcome, Outcome::kUndecided);
  EXPECT_EQ(hidden->Ask(PodOf("cpus", "3", "0")).outcome, Outcome::kFits);
  // One that has not started can be refused, too.
  PlannedPod starts = PodOf("runs", "4", "0");
  starts.annotated.emplace();
  described.running = {starts};
  EXPECT_EQ(MakePlannedNode(described)->Ask(PodOf("cpus", "3", "0")).outcome, Outcome::kFits);
  starts.is_pending = true;
  starts.node_name = "n";
  described.running = {starts};
  PlannedPod beside = PodOf("beside", "4", "0");
  EXPECT_EQ(MakePlannedNode(described)->Ask(beside).stage, Stage::kScheduler);
  EXPECT_EQ(MakePlannedNode(described)->Ask(PodOf("cpus", "3", "0")).outcome, Outcome::kFits);
}

// Its CPUs are in no container.
TEST(PodReadings, LeaveOpenPodsWithCpusAsAWhole) {
  FleetNode described = NodeWith(0);
  described.config.insert(
      1, R"("topologyManagerScope":"pod","featureGates":{"PodLevelResourceManagers":true},)");
  const auto whole = [](const std::string& cpus) {
    return PlannedFrom(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"whole"},"spec":{)"
                       R"("resources":{"limits":{"cpu":")" +
                       cpus + R"(","memory":"64Mi"}},"containers":[{"name":"app","image":"i"}]}})");
  };
  ASSERT_EQ(MakePlannedNode(described)->Ask(whole("4")).outcome, Outcome::kFits);
  described.running = {PodOf("runs", "2", "0")};
  EXPECT_EQ(MakePlannedNode(described)->Ask(PodOf("q", "4", "0")).outcome, Outcome::kUndecided);
  EXPECT_EQ(MakePlannedNode(described)->Ask(whole("4")).outcome, Outcome::kUndecided);
  EXPECT_EQ(MakePlannedNode(described)->Ask(whole("6")).stage, Stage::kScheduler);
  // On one NUMA node, it matters how many the pod has that is decided in parts.
  described.running.clear();
  described.input.description.machine = MakeMachine("socket:1 numa:1 core:8");
  described.input.description.devices.clear();
  Result<PlannedNode> node = MakePlannedNode(described);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  PlannedPod in_parts = PodOfTwo(R"({\"app\":{\"limits\":{\"cpu\":3,\"memory\":\"1Gi\"}}})");
  EXPECT_EQ(node->Place(in_parts).outcome, Outcome::kUndecided);
  EXPECT_FALSE(node->has_undecided());
  EXPECT_EQ(node->Ask(whole("2")).outcome, Outcome::kFits);
  EXPECT_EQ(node->Ask(whole("3")).outcome, Outcome::kUndecided);
}

TEST(PodReadings, OfAPodThatIsResizedAreUnclear) {
  FleetNode described = NodeWith(1);
  described.input.description.devices["a.com/nic"].resize(16);
  for (size_t i = 0; i < 16; ++i) {
    described.input.description.devices["a.com/nic"][i].first = "nic-" + std::to_string(i);
  }
  // With more NICs by the spec than by the annotation.
  const auto ambiguous = [](const std::string& name, const std::string& cpus) {
    PlannedPod pod = PodOf(name, cpus, "0");
    pod.annotated = {pod.pod.containers};
    pod.pod.containers[0].resources.limits["a.com/nic"] = Quantity(2);
    pod.annotated->containers[0].resources.limits["a.com/nic"] = Quantity(1);
    return pod;
  };
  PlannedPod resized = ambiguous("resized", "2500m");  // and has two exclusive CPUs
  resized.pod.containers[0].resources.limits["a.com/gpu"] = Quantity(1);
  resized.is_resizing = true;
  for (const int others : {0, 4}) {
    described.running.clear();
    for (int i = 0; i < others; ++i) {
      described.running.push_back(ambiguous("r" + std::to_string(i), "100m"));
    }
    described.running.push_back(resized);
    const Result<PlannedNode> node = MakePlannedNode(described);
    ASSERT_TRUE(node.ok()) << node.error().Text();
    EXPECT_EQ(node->Ask(PodOf("q", "4", "0")).outcome, Outcome::kUndecided) << others;
  }
}

// The node knows of no other containers when it decides about the first one.
TEST(PodReadings, OfAPodThatRunsHaveTheContainersOfTheAnnotation) {
  FleetNode described = NodeWith(0);
  described.input.description.devices["a.com/nic"].resize(4);
  for (size_t i = 0; i < 4; ++i) {
    described.input.description.devices["a.com/nic"][i].first = "nic-" + std::to_string(i);
  }
  PlannedPod runs = PodOfTwo("{}");
  runs.annotated = {runs.pod.containers};
  runs.annotated->is_partial = true;  // `side` is not named
  for (const char* const name : {"ghost", "other"}) {
    Container ghost = runs.pod.containers[0];
    ghost.name = name;
    ghost.resources.limits["a.com/nic"] = ghost.resources.requests["a.com/nic"] = Quantity(1);
    runs.annotated->containers.push_back(ghost);
  }
  described.running = {runs};
  const Result<PlannedNode> node = MakePlannedNode(described);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  PlannedPod asked = PodOf("q", "500m", "0");
  Resources& resources = asked.pod.containers[0].resources;
  resources.limits["a.com/nic"] = resources.requests["a.com/nic"] = Quantity(4);
  EXPECT_EQ(node->Ask(asked).outcome, Outcome::kUndecided);
}

// NICs are on no NUMA node. `runs` can be on either.
TEST(PodReadings, SayWhetherNumaNodesOrNumbersAreOpen) {
  FleetNode described = NodeWith(0);
  for (const char* const id : {"nic-0", "nic-1"}) {
    described.input.description.devices["a.com/nic"].emplace_back(id, devicemanager::Device{});
  }
  PlannedPod hidden = PodOf("hidden", "500m", "0");
  hidden.annotated_devices["app"]["a.com/nic"] = Quantity(1);
  described.running = {PodOf("runs", "1", "0"), hidden};
  const Result<PlannedNode> node = MakePlannedNode(described);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  const auto why = [&](const std::string& cpus, int64_t nics) {
    PlannedPod asked = PodOf("q", cpus, "0");
    Resources& resources = asked.pod.containers[0].resources;
    resources.limits["a.com/nic"] = resources.requests["a.com/nic"] = Quantity(nics);
    const Verdict verdict = node->Ask(asked);
    if (verdict.outcome != Outcome::kUndecided) return std::string(ToString(verdict.outcome));
    const std::string& text = verdict.refusal->message;
    const std::string start = "whether this pod fits depends on ";
    const size_t from = text.find(start) + start.size();
    return text.substr(from, text.find(';') - from);
  };
  EXPECT_EQ(why("2", 0), "fits");
  EXPECT_EQ(why("2", 2), "how many devices they are");
  EXPECT_EQ(why("4", 0), "the NUMA nodes that they are on");
  EXPECT_EQ(why("4", 2), "the NUMA nodes that they are on");
}

TEST(PodReadings, OfAPodThatRunsHaveTheSizesOfTheSpec) {
  FleetNode described = NodeWith(0);
  PlannedPod runs = PodOf("runs", "3", "0");
  // The node would have refused it at its start, or takes the sizes of CRI after a resize.
  runs.annotated = {PodOf("runs", "4", "0").pod.containers};
  described.running = {runs};
  const Result<PlannedNode> node = MakePlannedNode(described);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_EQ(node->Ask(PodOf("cpus", "3", "0")).outcome, Outcome::kFits);
  EXPECT_TRUE(std::ranges::none_of(node->notes(), [](const std::string& note) {
    return note.find("annotation") != std::string::npos;
  }));
}

TEST(PodReadings, OfManyPodsThatRunAreUnclearTogether) {
  FleetNode described = NodeWith(2);
  for (const char* const name : {"a", "b", "c", "d"}) {
    PlannedPod runs = PodOf(name, "500m", "0");
    runs.annotated = {PodOf(name, "500m", name == std::string("d") ? "1" : "2").pod.containers};
    runs.annotated_devices["app"]["a.com/gpu"] = Quantity(1);
    described.running.push_back(runs);
  }
  const Result<PlannedNode> node = MakePlannedNode(described);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_FALSE(node->has_undecided());
  EXPECT_EQ(node->Ask(PodOf("gpu", "500m", "1")).outcome, Outcome::kUndecided);
  EXPECT_EQ(node->Ask(PodOf("cpus", "3", "0")).outcome, Outcome::kFits);
  EXPECT_EQ(node->requested().pods(), 4);
}

// With the annotation of its spec, a node that ignores devices takes the pod with or without them.
PlannedPod Webhooked(const std::string& name, const std::string& cpus, const std::string& gpus) {
  return PlannedFrom(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
                     R"(","annotations":{"alignd.io/resources":"{\"app\":{\"limits\":{\"cpu\":\")" +
                     cpus + R"(\",\"memory\":\"64Mi\",\"a.com/gpu\":)" + gpus +
                     R"(}}}"}},"spec":{"containers":[{"name":"app","image":"i","resources":)" +
                     R"({"limits":{"cpu":")" + cpus + R"(","memory":"64Mi","a.com/gpu":)" + gpus +
                     "}}}]}}");
}

TEST(PodReadings, OfANodeThatIgnoresDevicesOfAnnotations) {
  FleetNode described = NodeWith(1);
  described.input.description.devices["a.com/gpu"].resize(1);  // on NUMA node 0, with 3 CPUs
  const std::string follows = described.config;
  described.config.insert(1, R"("annotatedExtendedResources":false,)");
  Result<PlannedNode> node = MakePlannedNode(described);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  // 4 CPUs and the GPU are on no NUMA node together.
  const Verdict open = node->Ask(Webhooked("p", "4", "1"));
  ASSERT_EQ(open.outcome, Outcome::kUndecided);
  EXPECT_NE(open.refusal->message.find("annotatedExtendedResources is false"), std::string::npos)
      << open.refusal->message;
  EXPECT_EQ(node->Ask(Webhooked("p", "5", "1")).outcome, Outcome::kRefused);
  EXPECT_EQ(UndecidedByAnnotation(node->node(), node->state(), Webhooked("p", "5", "1")), "");
  EXPECT_NE(UndecidedByAnnotation(node->node(), node->state(), Webhooked("p", "4", "1")), "");
  EXPECT_EQ(node->Place(Webhooked("p", "3", "1")).outcome, Outcome::kFits);
  ASSERT_EQ(node->notes().size(), 1U);
  EXPECT_NE(node->notes()[0].find("of which the node ignores the extended resources"),
            std::string::npos)
      << node->notes()[0];
  // Beside the GPU or not, the pod is on NUMA node 0.
  EXPECT_EQ(node->Ask(PodOf("cpus", "4", "0")).outcome, Outcome::kFits);
  EXPECT_EQ(node->Ask(PodOf("gpu", "500m", "1")).stage, Stage::kScheduler);
  // What only an annotation has, such a node does not give a pod.
  Result<PlannedNode> beside = MakePlannedNode(described);
  EXPECT_EQ(beside->Place(AnnotatedGpus("1", false)).outcome, Outcome::kFits);
  EXPECT_EQ(beside->Ask(PodOf("gpu", "1", "1")).outcome, Outcome::kFits);
  // One that runs may have got it before alignd was restarted.
  PlannedPod runs = AnnotatedGpus("1", true);
  described.running = {runs};
  EXPECT_EQ(MakePlannedNode(described)->Ask(PodOf("gpu", "1", "1")).outcome, Outcome::kUndecided);
  runs.is_pending = true;
  described.running = {runs};
  EXPECT_EQ(MakePlannedNode(described)->Ask(PodOf("gpu", "1", "1")).outcome, Outcome::kFits);
  described.running = {AnnotatedGpus("1", true)};
  described.config = follows;
  EXPECT_EQ(MakePlannedNode(described)->Ask(PodOf("gpu", "1", "1")).outcome, Outcome::kUndecided);
}

// A webhook can annotate all pods of a node. There are too many ways to take them, and each fits.
TEST(PodReadings, OfManyPodsOfWhichTheNodeIgnoresDevicesLeaveOpenWhatDependsOnThem) {
  FleetNode described = NodeWith(8);
  described.input.description.machine = MakeMachine("socket:2 numa:1 core:16");
  described.config.insert(1, R"("annotatedExtendedResources":false,)");
  Result<PlannedNode> node = MakePlannedNode(described);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(node->Place(Webhooked("w" + std::to_string(i), "2", "1")).outcome, Outcome::kFits)
        << i;
  }
  EXPECT_FALSE(node->has_undecided());
  EXPECT_EQ(node->Ask(PodOf("shared", "500m", "0")).outcome, Outcome::kFits);
  EXPECT_EQ(node->Ask(PodOf("large", "32", "0")).outcome, Outcome::kRefused);
  EXPECT_EQ(node->Ask(PodOf("many", "1", "11")).stage, Stage::kScheduler);  // 6 of 16 are counted
  const Verdict open = node->Ask(PodOf("cpus", "16", "0"));
  ASSERT_EQ(open.outcome, Outcome::kUndecided);
  EXPECT_NE(open.refusal->message.find("remove"), std::string::npos) << open.refusal->message;
}

TEST(PodReadings, NameAllPodsOnWhichAnAnswerCanDepend) {
  FleetNode described = NodeWith(1);
  described.input.description.devices["a.com/gpu"].erase(
      described.input.description.devices["a.com/gpu"].begin());  // on NUMA node 1
  described.config.insert(1, R"("annotatedExtendedResources":false,)");
  Result<PlannedNode> node = MakePlannedNode(described);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_EQ(node->Place(Webhooked("w", "1", "1")).outcome, Outcome::kFits);
  PlannedPod contradicting = PodOf("c", "2", "0");
  contradicting.without_devices =
      AnnotationConflict{"x", {PodOf("c", "4", "0").pod.containers, std::nullopt, false}};
  EXPECT_EQ(node->Place(contradicting).outcome, Outcome::kUndecided);
  const Verdict open = node->Ask(PodOf("q", "3", "0"));
  ASSERT_EQ(open.outcome, Outcome::kUndecided);
  EXPECT_EQ(open.refusal->message,
            "whether this pod fits depends on how the node takes pod default/c, whose annotation "
            "contradicts its spec: as one of both has it, or not at all; pod default/w, of whose "
            "annotation it ignores the extended resources: with devices or without; make "
            "annotation and spec equal, or remove the annotation");
  EXPECT_EQ(node->notes().size(), 2U);
}

// alignd writes it into the object of the node.
TEST(PodReadings, OfANodeOfObjectsThatIgnoresDevicesOfAnnotations) {
  FleetNode described = NodeWith(1);
  described.input.description.devices["a.com/gpu"].resize(1);
  const Result<PlannedNode> follows = FromObjects(described, {});
  ASSERT_TRUE(follows.ok()) << follows.error().Text();
  EXPECT_EQ(follows->Ask(Webhooked("p", "4", "1")).outcome, Outcome::kRefused);
  described.config.insert(1, R"("annotatedExtendedResources":false,)");
  const Result<PlannedNode> ignores = FromObjects(described, {});
  ASSERT_TRUE(ignores.ok()) << ignores.error().Text();
  EXPECT_EQ(ignores->Ask(Webhooked("p", "4", "1")).outcome, Outcome::kUndecided);
  EXPECT_EQ(ignores->Ask(Webhooked("p", "3", "1")).outcome, Outcome::kFits);
}

TEST(PodReadings, AfterAPodWithOrWithoutDevicesOthersDependOnIt) {
  FleetNode described = NodeWith(1);
  described.input.description.devices["a.com/gpu"].erase(
      described.input.description.devices["a.com/gpu"].begin());  // on NUMA node 1
  described.config.insert(1, R"("annotatedExtendedResources":false,)");
  Result<PlannedNode> node = MakePlannedNode(described);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  // With the GPU it is on NUMA node 1, without on NUMA node 0, of 3 CPUs.
  EXPECT_EQ(node->Place(Webhooked("p", "2", "1")).outcome, Outcome::kFits);
  EXPECT_EQ(node->Ask(PodOf("cpus", "2", "0")).outcome, Outcome::kFits);
  const Verdict open = node->Ask(PodOf("cpus", "4", "0"));
  ASSERT_EQ(open.outcome, Outcome::kUndecided);
  EXPECT_NE(open.refusal->message.find("with devices or without"), std::string::npos)
      << open.refusal->message;
}

TEST(PodReadings, OfAPodThatStartsLeavesOpenOnlyWhatDependsOnIt) {
  FleetNode described = NodeWith(1);
  described.arriving = {AnnotatedGpus("1", true)};
  ASSERT_TRUE(described.arriving[0].annotated.has_value());
  const Result<PlannedNode> node = MakePlannedNode(described);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_EQ(node->Ask(PodOf("cpus", "4", "0")).outcome, Outcome::kFits);
  EXPECT_EQ(node->Ask(PodOf("one", "1", "1")).outcome, Outcome::kFits);
  EXPECT_EQ(node->Ask(PodOf("both", "4", "1")).outcome, Outcome::kFits);  // on NUMA node 1
  described.arriving = {AnnotatedGpus("2", true)};  // more than a NUMA node has
  const Result<PlannedNode> stuck = MakePlannedNode(described);
  ASSERT_TRUE(stuck.ok()) << stuck.error().Text();
  EXPECT_EQ(stuck->Ask(PodOf("cpus", "4", "0")).outcome, Outcome::kFits);
  EXPECT_EQ(stuck->Ask(PodOf("one", "1", "1")).outcome, Outcome::kUndecided);
}

// Which CPUs it has is not known, and it can have a device that the scheduler does not count.
TEST(PodReadings, DevicesThatOnlyTheAnnotationHasAreOpenIfThePlaceOfThePodIs) {
  FleetNode described = NodeWith(0);
  described.input.description.devices["a.com/gpu"].emplace_back("gpu", devicemanager::Device{});
  described.config.insert(1, R"("podPolicies":["cpuBindPolicy"],)");
  PlannedPod hidden = PodOf("hidden", "2", "0");
  hidden.pod.policies.required_bind = CpuBindPolicy::kSpreadByPcpus;
  hidden.annotated = {PodOf("hidden", "2", "1").pod.containers};
  const Result<PlannedNode> node = FromObjects(described, {hidden});
  ASSERT_TRUE(node.ok()) << node.error().Text();
  const Verdict verdict = node->Ask(PodOf("q", "500m", "1"));
  ASSERT_EQ(verdict.outcome, Outcome::kUndecided);
  // There are no state files of such a node.
  EXPECT_TRUE(verdict.refusal->message.starts_with(
      "the object does not have the CPUs, memory and devices of pod default/hidden, which starts"))
      << verdict.refusal->message;
  EXPECT_TRUE(verdict.refusal->message.ends_with(
      "depends on how many devices they are; ask again when a newer object has that pod"))
      << verdict.refusal->message;
  EXPECT_EQ(verdict.cause,
            "Undecided: the object does not have what a pod that starts is assigned, and whether "
            "this pod fits depends on it; ask again when a newer object has that pod");
  EXPECT_EQ(node->Ask(PodOf("q", "500m", "0")).outcome, Outcome::kFits);
  hidden.annotated.reset();
  const Result<PlannedNode> known = FromObjects(described, {hidden});
  ASSERT_TRUE(known.ok()) << known.error().Text();
  EXPECT_EQ(known->Ask(PodOf("q", "500m", "1")).outcome, Outcome::kFits);
}

// Burstable pods have no place, whichever of spec and annotation the node follows.
TEST(PodReadings, TheOrderOfPodsMattersOnlyIfOneOfTheirReadingsUsesNumaNodes) {
  const auto starting = [](const std::string& name, const std::string& resource) {
    PlannedPod pod = PlannedFrom(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
                                 R"("},"spec":{"containers":[{"name":"app","image":"i",)"
                                 R"("resources":{"requests":{"cpu":"100m"}}}]}})");
    pod.annotated = {pod.pod.containers};
    Resources& resources = pod.annotated->containers[0].resources;
    resources.requests[resource] = Quantity(1);
    if (resource != "cpu") resources.limits[resource] = Quantity(1);
    return pod;
  };
  const auto outcome = [&](const std::string& of_first) {
    PlannedPod second = starting("b", "cpu");
    second.annotated->containers[0].resources.requests["cpu"] = Quantity(2);
    if (of_first != "cpu")
      second.annotated->containers[0].resources.limits["a.com/gpu"] = Quantity(2);
    const Result<PlannedNode> node = FromObjects(NodeWith(1), {starting("a", of_first), second});
    EXPECT_TRUE(node.ok()) << node.error().Text();
    return node->Ask(PodOf("q", "2", "0")).outcome;
  };
  EXPECT_EQ(outcome("cpu"), Outcome::kFits);
  EXPECT_EQ(outcome("a.com/gpu"), Outcome::kUndecided);
}

// By its annotation, it waits for a GPU, and for CPUs as well.
TEST(PodReadings, NamesAPodThatWaitsAsTheAnnotationHasIt) {
  Result<PlannedNode> node = MakePlannedNode(NodeWith(1));
  ASSERT_TRUE(node.ok()) << node.error().Text();
  for (const char* const name : {"one", "two"}) {
    ASSERT_EQ(node->Place(PodOf(name, "1", "1")).outcome, Outcome::kFits);
  }
  const PlannedPod later = PodOf("later", "1", "0");
  EXPECT_EQ(std::ranges::count(node->NotConsidered(later), "pods that wait (default/b)"), 0);
  const PlannedPod waits = PlannedFrom(
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","annotations":{)"
      R"("alignd.io/resources":"{\"app\":{\"limits\":{\"cpu\":1,\"memory\":\"64Mi\",)"
      R"(\"a.com/gpu\":1}}}"}},"spec":{"containers":[{"name":"app","image":"i","resources":)"
      R"({"limits":{"cpu":1,"memory":"64Mi"}}}]}})");
  EXPECT_EQ(node->Place(waits).outcome, Outcome::kUndecided);
  ASSERT_EQ(node->Ask(later).outcome, Outcome::kFits);
  EXPECT_EQ(std::ranges::count(node->NotConsidered(later), "pods that wait (default/b)"), 1);
}

// The sum of both is larger than an int64_t.
TEST(PodReadings, RefusesAnyAmountOfAnAnnotation) {
  Result<PlannedNode> node = MakePlannedNode(NodeWith(1));
  ASSERT_TRUE(node.ok()) << node.error().Text();
  PlannedPod running = PodOf("runs", "1", "1");
  running.node_name = "n";
  ASSERT_TRUE(node->AddRunning(running).ok());
  ASSERT_TRUE(node->has_guesses());
  const std::string most = R"({\"limits\":{\"a.com/gpu\":9223372036854775807}})";
  const PlannedPod pod = PlannedFrom(
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","annotations":{)"
      R"("alignd.io/resources":"{\"one\":)" +
      most + R"(,\"two\":)" + most +
      R"(}"}},"spec":{"containers":[{"name":"one","image":"i"},{"name":"two","image":"i"}]}})");
  EXPECT_NE(node->Ask(pod).outcome, Outcome::kFits);
  EXPECT_NE(node->Place(pod).outcome, Outcome::kFits);
  EXPECT_NE(node->Ask(PodOf("later", "1", "2")).outcome, Outcome::kFits);
}

// A node that follows the annotation refuses a preference for a container that it does not know.
TEST(PodReadings, LeavesOpenAPreferenceOfAContainerThatTheAnnotationDoesNotName) {
  const auto pod = [](const std::string& named, const std::string& with) {
    return PlannedFrom(
        R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","annotations":{)"
        R"("alignd.io/resources":"{\"one\":{\"limits\":{\"cpu\":1,\"memory\":\"64Mi\"}})" +
        named + R"(}","prefer-shared-cpus.resource-policy.nri.io/container.)" + with +
        R"(":"true"}},"spec":{"containers":[{"name":"one","image":"i","resources":{"limits":)"
        R"({"cpu":1,"memory":"64Mi"}}},{"name":"two","image":"i","resources":{"limits":{"cpu":1,)"
        R"("memory":"64Mi"}}}]}})");
  };
  const std::string two = R"(,\"two\":{\"limits\":{\"cpu\":1,\"memory\":\"64Mi\"}})";
  EXPECT_NE(pod("", "two").annotation_conflict.find(
                "does not name container two, for which the pod has an annotation "
                "prefer-shared-cpus"),
            std::string::npos)
      << pod("", "two").annotation_conflict;
  EXPECT_EQ(pod("", "one").annotation_conflict, "");
  EXPECT_EQ(pod(two, "two").annotation_conflict, "");
}

}  // namespace
}  // namespace alignd::placement
