// Annotations with resources that contradict the spec of their pod.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/placement/planned_node.h"
#include "annotated_pods.h"
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

// A node would take an unnamed one for an app that requests as much as CRI shows.
TEST(AnnotationConflict, IfANodeCannotEstimateAContainerThatIsNotNamed) {
  const std::string app = std::string("{") + kAppEntry;
  const std::string init =
      R"("initContainers":[{"name":"init","image":"i","resources":{"limits":{"cpu":"1"}}}],)";
  EXPECT_EQ(ConflictOf(kOwnAnnotation, app + R"(,"side":{"requests":{"cpu":"0.5"}}})", init),
            "annotation alignd.io/resources does not name init container init");
  const std::string plain = R"("initContainers":[{"name":"init","image":"i"}],)";
  EXPECT_EQ(ConflictOf(kOwnAnnotation, app + R"(,"side":{"requests":{"cpu":"0.5"}}})", plain), "");
  const std::string whole =
      R"("resources":{"requests":{"cpu":"4","memory":"2Gi"},"limits":{"cpu":"4","memory":"2Gi"}})";
  EXPECT_EQ(ConflictOf(kOwnAnnotation, app + R"(,"spec.)" + whole.substr(1) + "}", whole + ","),
            "annotation alignd.io/resources does not name container side of a pod with pod-level "
            "resources");
}

// Of a BestEffort pod, Koordinator's annotation is all that a node knows of its devices.
TEST(AnnotationConflict, IfKoordinatorLeavesOutADeviceOfABestEffortPod) {
  const auto conflict = [](const std::string& containers) {
    const std::string gpu = R"({"limits":{"a.com/gpu":1}})";
    const PlannedPod pod =
        PlannedFrom(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{")" +
                    std::string(kKoordinator) + R"(":"{\"containers\":)" + containers +
                    R"(}"}},"spec":{"containers":[{"name":"a","image":"i","resources":)" + gpu +
                    R"(},{"name":"b","image":"i","resources":)" + gpu + "}]}}");
    return pod.annotation_conflict.substr(0, pod.annotation_conflict.find("; a node"));
  };
  const std::string gpu = R"({\"limits\":{\"a.com/gpu\":1},\"requests\":{\"a.com/gpu\":1}})";
  EXPECT_EQ(conflict(R"({\"a\":)" + gpu + R"(,\"b\":)" + gpu + "}"), "");
  EXPECT_EQ(conflict(R"({\"a\":)" + gpu + "}"),
            "annotation node.koordinator.sh/extended-resource-spec has 0 as b.requests.a.com/gpu, "
            "the spec has 1");
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
  ASSERT_TRUE(one.ok()) << one.error().Text();
  EXPECT_TRUE(UndecidedByAnnotation(node->node(), node->state(), *one)
                  .starts_with("annotation alignd.io/resources"));
}

// Where it starts, either can hold. It is no reason that the node is undecided for all others.
TEST(AnnotationConflict, AlsoOfAPodThatIsOnANode) {
  std::string object = AnnotatedPodText(kOwnAnnotation, "{", R"("nodeName":"n",)");
  object.replace(object.find(R"("name":"p")"), 10, R"("name":"p","uid":"u")");
  EXPECT_NE(PlannedFrom(object).annotation_conflict, "");
  EXPECT_TRUE(PlannedFrom(object).annotated.has_value());
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

// What a node has that ignores extended resources in annotations.
std::string WithoutDevicesBy(const std::string& annotation, const std::string& text,
                             const std::string& resources = kGpuApp) {
  const PlannedPod pod = PlannedFrom(AnnotatedPodText(annotation, text, "", resources));
  if (!pod.without_devices) return "as the spec";
  std::string all = pod.without_devices->text.substr(0, 40);
  for (const Container& container : pod.without_devices->annotated.containers) {
    all += "|" + container.name;
    for (const auto& [name, amount] : container.resources.limits) {
      all += "," + name + "=" + amount.ToString();
    }
  }
  return all + (pod.without_devices->annotated.is_partial ? " partial" : "");
}

TEST(AnnotationConflict, OfANodeThatIgnoresDevicesOfAnnotations) {
  const std::string side = R"(,"side":{"requests":{"cpu":"0.5"}}})";
  EXPECT_EQ(WithoutDevicesBy("example.com/other", "{"), "as the spec");
  EXPECT_EQ(WithoutDevicesBy(kOwnAnnotation, std::string("{") + kAppEntry + side),
            "|app,cpu=2,memory=1Gi|side");
  // The devices are no contradiction there.
  EXPECT_EQ(
      WithoutDevicesBy(kOwnAnnotation,
                       R"({"app":{"limits":{"cpu":"2","memory":"1Gi","a.com/gpu":7}})" + side),
      "|app,cpu=2,memory=1Gi|side");
  EXPECT_EQ(
      WithoutDevicesBy(kOwnAnnotation,
                       R"({"app":{"limits":{"cpu":"3","memory":"1Gi","a.com/gpu":1}})" + side),
      "annotation alignd.io/resources has 3 as |app,cpu=3,memory=1Gi|side");
  EXPECT_EQ(WithoutDevicesBy(kOwnAnnotation, "{"), "annotation alignd.io/resources: not JSON");
  // Koordinator's has nothing but devices.
  EXPECT_EQ(
      WithoutDevicesBy(kKoordinator, R"({"containers":{"side":{"requests":{"a.com/gpu":"2"}}}})"),
      "as the spec");
  const std::string plain = R"({"limits":{"cpu":"2","memory":"1Gi"}})";
  EXPECT_EQ(WithoutDevicesBy(kOwnAnnotation,
                             R"({"app":{"limits":{"cpu":"2","memory":"1Gi","a.com/gpu":7}})" + side,
                             plain),
            "as the spec");
}

}  // namespace
}  // namespace alignd::placement
