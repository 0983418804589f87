// Annotations with resources that contradict the spec of their pod.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/noderesourcetopology/object.h"
#include "alignd/placement/fleet_node.h"
#include "alignd/placement/manifest.h"
#include "alignd/placement/planned_node.h"
#include "alignd/placement/topology_nodes.h"
#include "core/machine_builder.h"

namespace alignd::placement {
namespace {

constexpr char kGpuApp[] = R"({"limits":{"cpu":"2","memory":"1Gi","a.com/gpu":1}})";

// A pod with `app`, which has these resources, and `side`.
std::string AnnotatedPodText(const std::string& annotation, const std::string& text,
                             const std::string& more_spec = "",
                             const std::string& resources = kGpuApp) {
  std::string quoted;
  for (const char c : text) quoted += c == '"' ? std::string("\\\"") : std::string(1, c);
  return R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{")" + annotation +
         R"(":")" + quoted + R"("}},"spec":{)" + more_spec +
         R"("containers":[{"name":"app","image":"i","resources":)" + resources +
         R"(},{"name":"side","image":"i","resources":{"requests":{"cpu":"500m"}}}]}})";
}

PlannedPod PlannedFrom(const std::string& object) {
  Manifests manifests;
  EXPECT_TRUE(ReadManifest(object, "f", manifests).ok());
  const auto pods = ExpandPods(manifests, std::nullopt);
  EXPECT_TRUE(pods.ok() && pods->size() == 1) << object;
  return pods.ok() && pods->size() == 1 ? pods->front() : PlannedPod{};
}

std::string ConflictOf(const std::string& annotation, const std::string& text,
                       const std::string& more_spec = "") {
  const std::string conflict =
      PlannedFrom(AnnotatedPodText(annotation, text, more_spec)).annotation_conflict;
  return conflict.substr(0, conflict.find("; a node"));
}

constexpr char kOwnAnnotation[] = "alignd.io/resources";
constexpr char kIntel[] = "intel.com/resources";
constexpr char kKoordinator[] = "node.koordinator.sh/extended-resource-spec";
constexpr char kAppEntry[] =
    R"("app":{"limits":{"cpu":"2000m","memory":"1024Mi","a.com/gpu":"1"}})";

TEST(AnnotationConflict, NoneWhereBothSayTheSame) {
  const std::string both = std::string("{") + kAppEntry + R"(,"side":{"requests":{"cpu":"0.5"}}})";
  EXPECT_EQ(ConflictOf("example.com/other", "{"), "");
  EXPECT_EQ(ConflictOf(kOwnAnnotation, both), "");
  EXPECT_EQ(ConflictOf(kIntel, R"({"containers":)" + both + "}"), "");
  EXPECT_EQ(ConflictOf(kKoordinator, R"({"containers":{"app":{"limits":{"a.com/gpu":"1"},)"
                                     R"("requests":{"a.com/gpu":"1"}}}})"),
            "");
  // It names what its webhook knows; a node adds that to the rest.
  EXPECT_EQ(ConflictOf(kKoordinator, R"({"containers":{}})"), "");
}

// Of a container that is not named, a node estimates the resources.
TEST(AnnotationConflict, NoneIfAContainerWithoutDevicesIsNotNamed) {
  const std::string burstable =
      R"({"limits":{"cpu":"2","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}})";
  EXPECT_EQ(
      PlannedFrom(AnnotatedPodText(kOwnAnnotation, R"({"app":)" + burstable + "}", "", burstable))
          .annotation_conflict,
      "");
}

TEST(AnnotationConflict, NamesBothSides) {
  struct Case {
    const char* annotation;
    std::string text;
    std::string says;
  };
  const std::vector<Case> cases = {
      {kOwnAnnotation, "{", "annotation alignd.io/resources: not JSON"},
      {kOwnAnnotation, R"({"app":{"limits":{"cpu":"3","memory":"1Gi","a.com/gpu":1}}})",
       "has 3 as app.requests.cpu, the spec has 2"},
      {kOwnAnnotation, R"({"app":{"limits":{"cpu":"2","memory":"1Gi"}}})",
       "has 0 as app.requests.a.com/gpu, the spec has 1"},
      {kOwnAnnotation,
       R"({"app":{"limits":{"cpu":"2","memory":"1Gi","a.com/gpu":1,"b.com/nic":2}}})",
       "has 2 as app.requests.b.com/nic, the spec has 0"},
      {kOwnAnnotation,
       std::string("{") + kAppEntry +
           R"(,"side":{"requests":{"cpu":"500m"},"limits":{"cpu":"1"}}})",
       "has 1 as side.limits.cpu, the spec has 0"},
      {kOwnAnnotation, R"({"ap":{}})", "names container ap, the spec has none"},
      {kOwnAnnotation, R"({")" + std::string(1000, 'x') + R"(":{}})",
       "annotation alignd.io/resources does not state what the spec states"},
      {kOwnAnnotation,
       R"({"side":{"requests":{"cpu":"500m"},"init":true},)" + std::string(kAppEntry) + "}",
       "another kind of container for side"},
      {kOwnAnnotation,
       std::string("{") + kAppEntry + R"(,"spec.resources":{"limits":{"cpu":"4"}}})",
       "spec.requests.cpu, the spec has 0"},
      {kIntel, R"({"containers":{"app":{"limits":{"cpu":"1"}}}})",
       "annotation intel.com/resources"},
      {kIntel, R"({"app":{}})", "annotation intel.com/resources: app: is not known"},
      {kKoordinator, R"({"containers":{"side":{"requests":{"a.com/gpu":"2"}}}})",
       "has 2 as side.requests.a.com/gpu, the spec has 0"},
      {kKoordinator, R"({"containers":{"app":{"requests":{"a.com/gpu":"2"}}}})",
       "has 2 as app.requests.a.com/gpu, the spec has 1"},
      // A node compares the class with that of the cgroup parent.
      {kOwnAnnotation, std::string("{") + kAppEntry + "}",
       "makes the pod Guaranteed, the spec Burstable"},
      {kOwnAnnotation, R"({"side":{"requests":{"cpu":"500m"}}})",
       "has 0 as app.requests.a.com/gpu, the spec has 1"},
  };
  for (const Case& c : cases) {
    const std::string conflict = ConflictOf(c.annotation, c.text);
    EXPECT_NE(conflict.find(c.says), std::string::npos) << c.text << ": " << conflict;
  }
  EXPECT_NE(ConflictOf(kOwnAnnotation,
                       std::string("{") + kAppEntry + R"(,"side":{"requests":{"cpu":"500m"}}})",
                       R"("resources":{"limits":{"cpu":"4"},"requests":{"cpu":"4"}},)")
                .find("has 0 as spec.requests.cpu, the spec has 4"),
            std::string::npos);
}

// A node takes the first annotation that is there.
TEST(AnnotationConflict, OnlyTheFirstAnnotationCounts) {
  Manifests manifests;
  ASSERT_TRUE(
      ReadManifest(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":)"
                   R"({"alignd.io/resources":"{\"app\":{}}","intel.com/resources":"{"}},)"
                   R"("spec":{"containers":[{"name":"app","image":"i"}]}})",
                   "f", manifests)
          .ok());
  EXPECT_EQ(manifests.workloads.at(0).pod.annotation_conflict, "");
}

// A BestEffort pod would go to any node.
TEST(AnnotationConflict, NoNodeCanBeSaidToTakeThePod) {
  const std::string object =
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":)"
      R"({"alignd.io/resources":"{\"app\":{\"limits\":{\"a.com/gpu\":2}}}"}},)"
      R"("spec":{"containers":[{"name":"app","image":"i"}]}})";
  PlannedPod pod = PlannedFrom(object);
  EXPECT_NE(pod.annotation_conflict, "");
  EXPECT_TRUE(DependsOnNumaNodes(pod));
  const Result<PlannedNode> node = PlannedNode::Make(
      {{MakeMachine("socket:2 numa:1 core:4"), {}, {}}, std::nullopt, {}, {}, {}}, {}, 110, {});
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_EQ(node->Ask(pod).outcome, Outcome::kUndecided);
  pod.annotation_conflict.clear();
  EXPECT_EQ(node->Ask(pod).outcome, Outcome::kFits);
  EXPECT_FALSE(DependsOnNumaNodes(pod));
  const Result<PlannedPod> one = ReadOnePod(object, "f");
  ASSERT_FALSE(one.ok());
  EXPECT_NE(one.error().message.find("undecided: annotation alignd.io/resources"),
            std::string::npos)
      << one.error().message;
}

// Else, one such pod would make its node undecided for all others, for as long as it exists.
TEST(AnnotationConflict, NoneOfAPodThatIsOnANode) {
  std::string object = AnnotatedPodText(kOwnAnnotation, "{", R"("nodeName":"n",)");
  EXPECT_NE(PlannedFrom(object).annotation_conflict, "");  // a manifest
  object.replace(object.find(R"("name":"p")"), 10, R"("name":"p","uid":"u")");
  EXPECT_EQ(PlannedFrom(object).annotation_conflict, "");
  EXPECT_TRUE(PlannedFrom(object).annotated.has_value());  // for the time until it has started
}

// The names and limits of the containers that a node has that follows the annotation.
std::string AnnotatedBy(const std::string& annotation, const std::string& text,
                        const std::string& more_spec = "") {
  const PlannedPod pod = PlannedFrom(AnnotatedPodText(annotation, text, more_spec));
  if (!pod.annotated) return "as the spec";
  std::string all;
  for (const Container& container : pod.annotated->containers) {
    all += (all.empty() ? "" : " ") + container.name;
    if (container.kind == ContainerKind::kSidecar) all += "(sidecar)";
    for (const auto& [name, amount] : container.resources.limits) {
      all += "," + name + "=" + amount.ToString();
    }
  }
  all += pod.annotated->pod_level ? " pod-level" : "";
  return all + (pod.annotated->is_partial ? " partial" : "");
}

TEST(AnnotationConflict, HasThePodAsTheAnnotationStatesIt) {
  EXPECT_EQ(AnnotatedBy(kOwnAnnotation,
                        std::string("{") + kAppEntry + R"(,"side":{"requests":{"cpu":"500m"}}})"),
            "as the spec");
  EXPECT_EQ(AnnotatedBy(kOwnAnnotation, "{"), "");
  // In the order of the annotation; of a container that it does not name, CRI shows all but
  // devices.
  EXPECT_EQ(AnnotatedBy(kOwnAnnotation, R"({"side":{"limits":{"cpu":"1"}}})"),
            "side,cpu=1 app,cpu=2,memory=1Gi partial");
  EXPECT_EQ(AnnotatedBy(kOwnAnnotation, R"({"app":{"limits":{"cpu":"3"}},"side":{}})"),
            "app,cpu=3 side");
  EXPECT_EQ(
      AnnotatedBy(kOwnAnnotation,
                  R"({"app":{"limits":{"cpu":"3"}},"spec.resources":{"limits":{"cpu":"4"}}})"),
      "app,cpu=3 side pod-level partial");
  // The text has no sidecars.
  EXPECT_EQ(
      AnnotatedBy(kIntel, R"({"initContainers":{"log":{}},"containers":{"app":{}}})",
                  R"("initContainers":[{"name":"log","image":"i","restartPolicy":"Always"}],)"),
      "log(sidecar) app side partial");
  EXPECT_EQ(AnnotatedBy(kKoordinator, R"({"containers":{"side":{"limits":{"b.com/nic":"2"},)"
                                      R"("requests":{"b.com/nic":"2"}}}})"),
            "app,cpu=2,memory=1Gi side,b.com/nic=2 partial");
}

// Two NUMA nodes of 4 CPUs; CPU 0 is reserved. `devices`: on each NUMA node.
FleetNode NodeWith(int devices) {
  FleetNode node;
  node.name = "n";
  node.config = R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","memoryManagerPolicy":)"
                R"("None","topologyManagerPolicy":"single-numa-node"})";
  node.input = {{MakeMachine("socket:2 numa:1 core:4"), {}, {}}, std::nullopt, {}, {}, {}};
  for (int i = 0; i < 2 * devices; ++i) {
    devicemanager::Device device;
    device.numa = {i % 2};
    node.input.description.devices["a.com/gpu"].emplace_back("gpu-" + std::to_string(i), device);
  }
  return node;
}

// `amount` as requests of CPUs and of devices.
PlannedPod PodOf(const std::string& name, const std::string& cpus, const std::string& gpus) {
  const std::string gpu = gpus == "0" ? "" : R"(,"a.com/gpu":)" + gpus;
  return PlannedFrom(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
                     R"("},"spec":{"containers":[{"name":"app","image":"i","resources":)" +
                     R"({"limits":{"cpu":")" + cpus + R"(","memory":"64Mi")" + gpu + "}}}]}}");
}

// BestEffort by its spec; with the GPUs by its annotation.
PlannedPod AnnotatedGpus(const std::string& gpus, bool is_bound) {
  const std::string bound = is_bound ? R"("uid":"u",)" : "";
  return PlannedFrom(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a",)" + bound +
                     R"("annotations":{"alignd.io/resources":"{\"app\":{\"limits\":{)"
                     R"(\"a.com/gpu\":)" +
                     gpus + R"(}}}"}},"spec":{)" + (is_bound ? R"("nodeName":"n",)" : "") +
                     R"("containers":[{"name":"app","image":"i"}]}})");
}

// One such pod is no reason to answer nothing.
TEST(AnnotationConflict, LeavesOpenOnlyWhatDependsOnIt) {
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
TEST(AnnotationConflict, IsRefusedIfAllReadingsAre) {
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
TEST(AnnotationConflict, AfterThreeSuchPodsNothingIsDecided) {
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
  EXPECT_EQ(node->Ask(PodOf("one", "1", "0")).outcome, Outcome::kUndecided);
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
TEST(AnnotationConflict, OfAPodThatIsDecidedInPartsNothingIsKnown) {
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
  EXPECT_TRUE(node->has_undecided());
  EXPECT_EQ(node->Ask(PodOf("q", "3", "0")).outcome, Outcome::kUndecided);
  EXPECT_EQ(node->Ask(PodOf("large", "8", "0")).outcome, Outcome::kRefused);
  // One that is bound has at most what it requests.
  in_parts.annotation_conflict.clear();
  described.arriving = {in_parts};
  const Result<PlannedNode> starting = MakePlannedNode(described);
  ASSERT_TRUE(starting.ok()) << starting.error().Text();
  EXPECT_EQ(starting->Ask(PodOf("q", "3", "0")).outcome, Outcome::kUndecided);
  EXPECT_EQ(starting->Ask(PodOf("gpu", "500m", "1")).outcome, Outcome::kUndecided);
  EXPECT_EQ(starting->Ask(PodOf("shared", "500m", "0")).outcome, Outcome::kFits);
}

TEST(AnnotationConflict, OfAPodThatStartsLeavesOpenOnlyWhatDependsOnIt) {
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

// Which CPUs it has is not known, and it can have a device that the scheduler does not count.
TEST(AnnotationConflict, DevicesThatOnlyTheAnnotationHasAreOpenIfThePlaceOfThePodIs) {
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
  EXPECT_TRUE(verdict.refusal->message.ends_with("ask again when a newer object has that pod"))
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
TEST(AnnotationConflict, TheOrderOfPodsMattersOnlyIfOneOfTheirReadingsUsesNumaNodes) {
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

}  // namespace
}  // namespace alignd::placement
