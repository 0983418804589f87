// Annotations that say what the spec says, where a node concludes something else from the sizes of
// the pod in CRI. The answers of such a node to these pods are in annotation_source_test.cc.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "alignd/placement/fleet_node.h"
#include "alignd/placement/planned_node.h"
#include "annotated_pods.h"

namespace alignd::placement {
namespace {

constexpr char kOwnAnnotation[] = "alignd.io/resources";
constexpr char kIntel[] = "intel.com/resources";

struct SpecText {
  std::string init;  // each: name, and the resources without their braces
  std::string apps;
};

std::string ContainerText(const std::string& name, const std::string& resources,
                          const std::string& more = "") {
  return R"({"name":")" + name + R"(","image":"i")" + more + R"(,"resources":{)" + resources + "}}";
}

std::string SidecarText(const std::string& name, const std::string& resources) {
  return ContainerText(name, resources, R"(,"restartPolicy":"Always")");
}

std::string RequestsCpu(const std::string& amount) {
  return R"("requests":{"cpu":")" + amount + R"("})";
}

std::string LimitsText(const std::string& cpus, const std::string& memory) {
  return R"("limits":{"cpu":")" + cpus + R"(","memory":")" + memory + R"("})";
}

constexpr char kOneGpu[] = R"("limits":{"a.com/gpu":"1"})";

// An entry of an annotation.
std::string EntryText(const std::string& name, const std::string& resources) {
  return R"(")" + name + R"(":{)" + resources + "}";
}

PlannedPod Annotated(const std::string& annotation, const std::string& text, const SpecText& spec) {
  std::string quoted;
  for (const char c : text) quoted += c == '"' ? std::string("\\\"") : std::string(1, c);
  return PlannedFrom(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{")" +
                     annotation + R"(":")" + quoted + R"("}},"spec":{"initContainers":[)" +
                     spec.init + R"(],"containers":[)" + spec.apps + "]}}");
}

std::string ByKinds(const std::string& init, const std::string& apps) {
  return R"({"initContainers":{)" + init + R"(},"containers":{)" + apps + "}}";
}

// Without alignment; the only GPU is on NUMA node 0.
PlannedNode SizedNode() {
  FleetNode described = NodeWith(1);
  described.config =
      R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0","memoryManagerPolicy":"None"})";
  described.input.description.devices["a.com/gpu"].resize(1);
  Result<PlannedNode> node = MakePlannedNode(described);
  EXPECT_TRUE(node.ok()) << node.error().Text();
  return *std::move(node);
}

struct SizedCase {
  std::string annotation;
  std::string text;
  SpecText spec;
  std::string says;
};

// By the spec alone, each of these pods fits.
void ExpectUndecided(const SizedCase& c) {
  SCOPED_TRACE(c.text);
  PlannedPod pod = Annotated(c.annotation, c.text, c.spec);
  EXPECT_EQ(pod.annotation_conflict.substr(0, pod.annotation_conflict.find("; a node")),
            "annotation " + c.annotation + c.says);
  const PlannedNode node = SizedNode();
  EXPECT_EQ(node.Ask(pod).outcome, Outcome::kUndecided);
  pod.annotation_conflict.clear();
  pod.annotated.reset();
  pod.without_devices.reset();
  EXPECT_EQ(node.Ask(pod).outcome, Outcome::kFits);
}

// It takes init containers that the sizes allow to be sidecars for sidecars.
TEST(AnnotatedSizes, OfIntelAreUndecidedIfTheyGiveAContainerAnotherKind) {
  const std::vector<SizedCase> cases = {
      {kIntel,
       ByKinds(EntryText("init", kOneGpu), EntryText("app", kOneGpu)),
       {ContainerText("init", kOneGpu), ContainerText("app", kOneGpu)},
       " does not say whether init container init is a sidecar, as alignd.io/resources does"},
      {kIntel,
       ByKinds(EntryText("init", R"("limits":{"cpu":"1","a.com/gpu":"1"})"),
               EntryText("app", kOneGpu)),
       {ContainerText("init", R"("limits":{"cpu":"1","a.com/gpu":"1"})"),
        ContainerText("app", kOneGpu)},
       " does not say whether init container init is a sidecar, as alignd.io/resources does"},
      // What the annotation does not name, `log`, is as much as an init container needs.
      {kIntel,
       ByKinds(EntryText("init", RequestsCpu("1")), EntryText("app", RequestsCpu("2"))),
       {ContainerText("init", RequestsCpu("1")),
        ContainerText("app", RequestsCpu("2")) + "," + ContainerText("log", RequestsCpu("1"))},
       " does not say whether init container init is a sidecar, as alignd.io/resources does"},
      {kIntel,
       ByKinds("", EntryText("app", LimitsText("2", "64Mi")) + "," +
                       EntryText("init", LimitsText("2", "64Mi"))),
       {ContainerText("init", LimitsText("2", "64Mi")),
        ContainerText("app", LimitsText("2", "64Mi"))},
       " has another kind of container for init than the spec"},
      {kIntel,
       ByKinds(
           EntryText("i", LimitsText("1", "64Mi")) + "," + EntryText("b", LimitsText("1", "64Mi")),
           EntryText("a", LimitsText("1", "64Mi"))),
       {ContainerText("i", LimitsText("1", "64Mi")),
        ContainerText("a", LimitsText("1", "64Mi")) + "," +
            ContainerText("b", LimitsText("1", "64Mi"))},
       ": does not say which of the init containers b, i are sidecars"},
  };
  for (const SizedCase& c : cases) ExpectUndecided(c);
}

// In another order, more is needed at the same time than the kubelet has allocated.
TEST(AnnotatedSizes, AreUndecidedIfTheOrderOfInitContainersMakesThemMore) {
  const std::string init = R"("init":true,)";
  const std::string sidecar = R"("init":true,"restartPolicy":"Always",)";
  ExpectUndecided({kOwnAnnotation,
                   "{" + EntryText("s", sidecar + RequestsCpu("1")) + "," +
                       EntryText("i", init + RequestsCpu("4")) + "," +
                       EntryText("app", RequestsCpu("1")) + "}",
                   {ContainerText("i", RequestsCpu("4")) + "," + SidecarText("s", RequestsCpu("1")),
                    ContainerText("app", RequestsCpu("1"))},
                   ": the pod's requests.cpu are 5000m (5120 shares), but its sandbox is created "
                   "with 4096 shares"});
}

TEST(AnnotatedSizes, AreContradictedByHugePagesThatTheKubeletHasNotAllocated) {
  const auto pages = [](const std::string& amount) {
    return R"("requests":{"memory":"1Mi"},"limits":{"hugepages-2Mi":")" + amount + R"("})";
  };
  const PlannedPod pod =
      Annotated(kOwnAnnotation,
                "{" + EntryText("s", R"("init":true,"restartPolicy":"Always",)" + pages("2Mi")) +
                    "," + EntryText("i", R"("init":true,)" + pages("4Mi")) + "," +
                    EntryText("app", RequestsCpu("1")) + "}",
                {ContainerText("i", pages("4Mi")) + "," + SidecarText("s", pages("2Mi")),
                 ContainerText("app", RequestsCpu("1"))});
  EXPECT_TRUE(
      pod.annotation_conflict.starts_with("annotation alignd.io/resources: the pod's "
                                          "limits.hugepages-2Mi are 6291456 bytes, but its cgroup "
                                          "may have 4194304"))
      << pod.annotation_conflict;
}

// The smallest quota is that of 10m.
TEST(AnnotatedSizes, AreUndecidedIfAContainerThatIsNotNamedIsEstimatedAsMore) {
  const std::string app = LimitsText("2", "1Gi");
  ExpectUndecided(
      {kOwnAnnotation,
       "{" + EntryText("app", app) + "}",
       {"", ContainerText("app", app) + "," + ContainerText("log", LimitsText("5m", "64Mi"))},
       ": the pod's requests.cpu are 2010m (2058 shares), but its sandbox is created "
       "with 2053 shares; it does not name container log"});
  EXPECT_EQ(Annotated(kOwnAnnotation, "{" + EntryText("app", app) + "}",
                      {"", ContainerText("app", app) + "," +
                               ContainerText("log", LimitsText("10m", "64Mi"))})
                .annotation_conflict,
            "");
}

// A resize changes the spec, not the annotation. The node has concluded the kinds before.
TEST(AnnotatedSizes, OfAResizedPodAreThoseOfItsStart) {
  const PlannedPod pod = Annotated(
      kIntel, ByKinds(EntryText("i", RequestsCpu("1")), EntryText("app", RequestsCpu("1"))),
      {ContainerText("i", RequestsCpu("3")), ContainerText("app", RequestsCpu("1"))});
  EXPECT_NE(pod.annotation_conflict, "");
  ASSERT_TRUE(pod.annotated.has_value());
  EXPECT_EQ(pod.annotated->containers.at(0).name, "i");
  EXPECT_EQ(pod.annotated->containers.at(0).kind, ContainerKind::kInit);
}

TEST(AnnotatedSizes, AreNoConflictIfTheyShowTheKindsOfTheSpec) {
  const std::string two = LimitsText("2", "64Mi");
  const std::string one = LimitsText("1", "64Mi");
  // `i` cannot be a sidecar of 2 CPUs beside `app`.
  EXPECT_EQ(
      Annotated(kIntel,
                ByKinds(EntryText("i", two) + "," + EntryText("s", one), EntryText("app", two)),
                {ContainerText("i", two) + "," + SidecarText("s", one), ContainerText("app", two)})
          .annotation_conflict,
      "");
  EXPECT_EQ(
      Annotated(kIntel,
                ByKinds(EntryText("s", one) + "," + EntryText("t", one), EntryText("app", two)),
                {SidecarText("s", one) + "," + SidecarText("t", one), ContainerText("app", two)})
          .annotation_conflict,
      "");
  // The kind of a container that requests nothing does not matter.
  EXPECT_EQ(Annotated(kIntel, ByKinds(EntryText("i", ""), EntryText("app", RequestsCpu("1"))),
                      {ContainerText("i", ""), ContainerText("app", RequestsCpu("1"))})
                .annotation_conflict,
            "");
}

}  // namespace
}  // namespace alignd::placement
