// The report of a fleet: entries, replicas, comparisons, and its JSON.
#include "alignd/placement/fit.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::placement {
namespace {

FleetNode FitNode(const std::string& name, const std::string& policy = "single-numa-node") {
  FleetNode node;
  node.name = name;
  node.input = {{MakeMachine("socket:2 numa:1 core:10"), {}, {}}, {}, {}, {}, {}};
  node.config = R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0",)"
                R"("topologyManagerPolicy":")" +
                policy + "\"}";
  return node;
}

PlannedPod Replica(const std::string& owner, const std::string& name, const std::string& cpus) {
  PlannedPod planned;
  planned.owner = owner;
  planned.pod = AppPod(name, {{"cpu", cpus}, {"memory", "1Gi"}});
  return planned;
}

Result<FitResult> FitAll(const std::vector<FleetNode>& nodes, const std::vector<PlannedPod>& pods,
                         FitOptions options = {}) {
  return FitFleet(nodes, pods, options, ForEachInTurn);
}

TEST(Fit, PutsReplicasTogether) {
  const std::string owner = "Deployment default/web";
  const auto result = FitAll(
      {FitNode("a"), FitNode("b")},
      {Replica(owner, "web-1", "9"), Replica(owner, "web-2", "9"), Replica(owner, "web-3", "9"),
       Replica(owner, "web-4", "9"), Replica(owner, "web-5", "9"), Replica("", "own", "1")});
  ASSERT_TRUE(result.ok()) << result.error().Text();
  const std::vector<FitEntry>& entries = result->report.entries;
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].name, owner);
  EXPECT_EQ(entries[0].replicas, 5);
  EXPECT_EQ(entries[0].placed, 4);
  EXPECT_EQ(entries[0].placed_on, (std::vector<std::pair<size_t, int64_t>>{{0, 2}, {1, 2}}));
  EXPECT_EQ(entries[0].fitting.size(), 2U);
  EXPECT_TRUE(entries[0].others.empty());
  ASSERT_EQ(entries[0].rest.size(), 1U);
  EXPECT_EQ(entries[0].rest[0].group.cause, "Unschedulable: Insufficient cpu");
  EXPECT_EQ(entries[0].rest[0].example, "Insufficient cpu: 9 requested, 1 of 19 free");
  EXPECT_EQ(entries[1].name, "Pod default/own");
  EXPECT_EQ(entries[1].placed, 1);
  EXPECT_EQ(result->report.pods, 6);
  EXPECT_EQ(result->report.admitted, 5);
  EXPECT_FALSE(result->report.is_complete());
}

// Two nodes with a GPU. The first pod has one by its annotation alone.
TEST(Fit, PodsAfterAContradictingAnnotationAreDecidedIfTheyCanBe) {
  std::vector<FleetNode> nodes = {FitNode("a"), FitNode("b")};
  for (FleetNode& node : nodes) {
    devicemanager::Device device;
    device.numa = {0};
    node.input.description.devices["a.com/gpu"].emplace_back("gpu-0", device);
  }
  PlannedPod hidden;
  hidden.pod = AppPod("hidden", {});
  hidden.annotation_conflict = "annotation x contradicts the spec";
  hidden.annotated = {AppPod("hidden", {{"a.com/gpu", "1"}}).containers};
  PlannedPod with_gpu = Replica("", "first", "1");
  with_gpu.pod = AppPod("first", {{"cpu", "1"}, {"memory", "1Gi"}, {"a.com/gpu", "1"}});
  const auto result =
      FitAll(nodes, {hidden, Replica("", "cpus", "8"), with_gpu, Replica("", "after", "1")});
  ASSERT_TRUE(result.ok()) << result.error().Text();
  const std::vector<FitEntry>& entries = result->report.entries;
  EXPECT_EQ(entries.at(0).undecided, 1);
  EXPECT_EQ(entries.at(1).placed, 1);
  EXPECT_EQ(entries.at(2).undecided, 1);
  EXPECT_EQ(entries.at(3).undecided, 1);  // which node has the one before it is not known
  EXPECT_EQ(result->report.undecided, 3);
  EXPECT_EQ(result->report.admitted, 1);
}

// The pods after it have less on each node.
TEST(Fit, ADaemonSetHasAPodOnEachOfItsNodes) {
  PlannedPod daemon = Replica("DaemonSet default/agent", "agent-x", "2");
  FleetNode tainted = FitNode("c");
  tainted.input.object.emplace().name = "c";
  tainted.input.object->taints = {{"gpu", "yes", "NoSchedule"}};
  FleetNode full = FitNode("d");
  full.running = {Replica("", "large", "9"), Replica("", "larger", "9")};
  const auto result = FitAll({FitNode("a"), FitNode("b"), tainted, full},
                             {daemon, Replica("Deployment default/web", "web-1", "9"),
                              Replica("Deployment default/web", "web-2", "9"),
                              Replica("Deployment default/web", "web-3", "9")});
  ASSERT_TRUE(result.ok()) << result.error().Text();
  const FitEntry& each = result->report.entries.at(0);
  EXPECT_EQ(each.replicas, 3);
  EXPECT_EQ(each.placed, 2);
  EXPECT_EQ(each.refused(), 1);
  EXPECT_EQ(each.placed_on, (std::vector<std::pair<size_t, int64_t>>{{0, 1}, {1, 1}}));
  ASSERT_EQ(each.rest.size(), 1U);
  EXPECT_EQ(each.rest[0].group.nodes, std::vector<size_t>{3});
  // 10 CPUs are on one NUMA node of a and of b each; c has the pod of the taint only.
  EXPECT_EQ(result->report.entries.at(1).placed, 2);
  EXPECT_EQ(result->report.pods, 6);
}

TEST(Fit, APodThatIsBoundGoesNowhereElse) {
  PlannedPod bound = Replica("", "bound", "9");
  bound.node_name = "b";
  PlannedPod lost = Replica("", "lost", "1");
  lost.node_name = "z";
  const auto result = FitAll({FitNode("a"), FitNode("b")},
                             {bound, lost, Replica("", "p", "10"), Replica("", "q", "10")});
  ASSERT_TRUE(result.ok()) << result.error().Text();
  const std::vector<FitEntry>& entries = result->report.entries;
  EXPECT_EQ(entries[0].placed_on, (std::vector<std::pair<size_t, int64_t>>{{1, 1}}));
  ASSERT_EQ(entries[0].others.size(), 1U);
  EXPECT_EQ(entries[0].others[0].group.cause,
            "Unschedulable: the pod is bound to node b (spec.nodeName)");
  EXPECT_EQ(entries[1].placed, 0);
  EXPECT_EQ(entries[1].undecided, 0);
  EXPECT_EQ(entries[2].placed + entries[3].placed, 2);
}

// The name of a directory is no name of a Node.
TEST(Fit, APodIsBoundToTheNameOfTheNodeObject) {
  FleetNode node = FitNode("directory");
  node.input.object = NodeObject{"worker-1", {}, {}, {}, {}};
  node.input.object->allocatable = {
      {"cpu", Quantity(19)}, {"memory", Quantity(int64_t{1} << 36)}, {"pods", Quantity(110)}};
  node.input.object->capacity = {{"cpu", Quantity(20)}};
  PlannedPod bound = Replica("", "bound", "9");
  bound.node_name = "worker-1";
  PlannedPod lost = Replica("", "lost", "1");
  lost.node_name = "directory";
  const auto result = FitAll({node}, {bound, lost, Replica("", "p", "10"), Replica("", "q", "10")});
  ASSERT_TRUE(result.ok()) << result.error().Text();
  const std::vector<FitEntry>& entries = result->report.entries;
  EXPECT_EQ(entries[0].placed, 1);
  EXPECT_EQ(entries[1].placed, 0);
  EXPECT_EQ(entries[2].placed + entries[3].placed, 1);
}

TEST(Fit, FillsTheFleet) {
  FitOptions options;
  options.fill = true;
  const auto result = FitAll({FitNode("a"), FitNode("b"), FitNode("c")},
                             {Replica("", "p", "4"), Replica("", "q", "4")}, options);
  ASSERT_TRUE(result.ok());
  const std::vector<FitEntry>& entries = result->report.entries;
  // 9 and 10 CPUs: two pods on each NUMA node.
  EXPECT_EQ(entries[0].placed, 12);
  EXPECT_TRUE(entries[0].is_complete());
  EXPECT_EQ(entries[1].placed, 0);
  EXPECT_FALSE(entries[1].is_complete());
  ASSERT_EQ(entries[1].rest.size(), 1U);
  EXPECT_EQ(entries[1].rest[0].group.nodes.size(), 3U);
}

// Of a, the NUMA nodes of the devices are not known.
TEST(Fit, CountsUndecidedPodsForThemselves) {
  FleetNode a = FitNode("a");
  a.input.description.devices["a.com/d"] = {{"d0", {true, {0}}}};
  a.input.unlocated_devices["a.com/d"] = "not known";
  PlannedPod pod = Replica("", "p", "1");
  pod.pod.containers[0].resources.requests["a.com/d"] = Quantity(1);
  pod.pod.containers[0].resources.limits["a.com/d"] = Quantity(1);
  auto result = FitAll({a, FitNode("b")}, {pod, Replica("", "q", "30")});
  ASSERT_TRUE(result.ok()) << result.error().Text();
  const FitReport& report = result->report;
  EXPECT_EQ(report.entries[0].undecided, 1);
  EXPECT_EQ(report.entries[0].refused(), 0);
  EXPECT_FALSE(report.entries[0].is_complete());
  // q is refused on both, whatever p takes.
  EXPECT_EQ(report.entries[1].undecided, 0);
  EXPECT_EQ(report.admitted, 0);
  EXPECT_EQ(report.undecided, 1);
  EXPECT_EQ(report.refused(), 1);
  EXPECT_FALSE(report.is_complete());
  const std::string json = FitJson(*result);
  EXPECT_NE(json.find(R"("pods":2,"admitted":0,"refused":1,"undecided":1,)"), std::string::npos)
      << json;
  EXPECT_NE(json.find(R"("refused":[{"outcome":"refused","stage":"scheduler","cause":)"
                      R"("Unschedulable: Insufficient a.com/d","count":1,)"),
            std::string::npos)
      << json;
  EXPECT_NE(json.find(R"("cannot_decide":[{"outcome":"undecided",)"), std::string::npos) << json;

  // A node that can take the pod decides; after as many as fit, the rest is not known.
  FleetNode c = FitNode("c");
  c.input.description.devices["a.com/d"] = {{"d0", {true, {0}}}, {"d1", {true, {0}}}};
  FitOptions options;
  options.fill = true;
  result = FitAll({a, c}, {pod}, options);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->report.entries[0].placed, 2);
  EXPECT_EQ(result->report.entries[0].undecided, 0);
  EXPECT_TRUE(result->report.entries[0].is_rest_undecided);
  EXPECT_TRUE(result->report.is_complete());
  EXPECT_EQ(result->report.entries[0].placed_on, (std::vector<std::pair<size_t, int64_t>>{{1, 2}}));
}

TEST(Fit, DecidesAboutALimitedNumberOfContainers) {
  const std::vector<FleetNode> nodes = {FitNode("a"), FitNode("b"),
                                        FitNode("c", "restricted")};  // a and b are alike
  const std::vector<PlannedPod> pods = {Replica("", "p", "1"), Replica("", "q", "2")};
  for (auto [decidable, fits] : std::vector<std::pair<int64_t, bool>>{{5, true}, {4, false}}) {
    Result<Fleet> fleet = Fleet::Make(nodes, ScoreStrategy::kByLeastAllocated);
    ASSERT_TRUE(fleet.ok());
    EXPECT_EQ(fleet->ContainersToDecide(pods[0]), 2);
    const Result<FitReport> report = Fit(*fleet, pods, /*fill=*/false, decidable);
    EXPECT_EQ(report.ok(), fits);
    if (!report.ok()) {
      EXPECT_EQ(report.error().message,
                "pod default/q: with it, too many containers of pods on nodes are to be decided "
                "about");
      EXPECT_EQ(report.error().remedy, "plan fewer pods, nodes or comparisons at once");
    }
  }
}

TEST(Fit, ExplainsARefusalOfTheKubelet) {
  const auto result = FitAll({FitNode("a")}, {Replica("", "p", "12")});
  ASSERT_TRUE(result.ok());
  const RefusingNodes& refusal = result->report.entries[0].others.at(0);
  EXPECT_EQ(refusal.group.stage, Stage::kKubelet);
  EXPECT_NE(refusal.example.find("NUMA node 0: 9 of 10 CPUs (1-9); NUMA node 1: 10 of 10 CPUs"),
            std::string::npos)
      << refusal.example;
  EXPECT_NE(refusal.example.find("What would help: "), std::string::npos);
}

TEST(Fit, ComparesConfigurations) {
  FitOptions options;
  options.changes = {{"policy", "restricted"},
                     {"policy", "best-effort"},
                     {"reserved-cpus", "0-9"},
                     {"cpu-policy-option", "full-pcpus-only=true"}};
  const auto result =
      FitAll({FitNode("a"), FitNode("b")},
             {Replica("", "p", "12"), Replica("", "q", "10"), Replica("", "r", "10")}, options);
  ASSERT_TRUE(result.ok()) << result.error().Text();
  EXPECT_EQ(result->report.admitted, 2);
  ASSERT_EQ(result->comparisons.size(), 4U);
  EXPECT_EQ(result->comparisons[0].report.admitted, 2);
  EXPECT_EQ(result->comparisons[1].report.admitted, 2);
  EXPECT_EQ(result->comparisons[2].report.admitted, 2);
  EXPECT_EQ(result->comparisons[2].report.entries[0].rest[0].group.stage, Stage::kScheduler);
  options.changes = {{"policy", "strict"}};
  const auto bad = FitAll({FitNode("a")}, {Replica("", "p", "1")}, options);
  ASSERT_FALSE(bad.ok());
  EXPECT_TRUE(bad.error().message.starts_with("comparison policy=strict: ")) << bad.error().message;
  EXPECT_EQ(bad.error().remedy, "compare with a value that is permitted");
}

// The Node object has what can be allocated now.
TEST(Fit, ComparesWithOtherAmountsOfTheNodeObject) {
  FleetNode node = FitNode("a");
  FleetNode with_object = node;
  const int cpus = node.input.description.machine.cpus().Count();
  with_object.input.object.emplace().name = "a";
  with_object.input.object->allocatable =
      Amounts({{"cpu", std::to_string(cpus - 1)}, {"memory", "100Gi"}, {"pods", "110"}});
  PlannedPod shared = Replica("", "p", "1");
  shared.pod.containers[0].resources.limits.clear();
  shared.pod.containers[0].resources.requests["cpu"] = Quantity(cpus - 6);
  PlannedPod gpu = Replica("", "g", "1");
  gpu.pod.containers[0].resources.limits["a.com/x"] = Quantity(2);
  gpu.pod.containers[0].resources.requests["a.com/x"] = Quantity(2);
  FitOptions options;
  options.changes = {{"reserved-cpus", "0-5"}, {"reserved-cpus", "0-6"}, {"device", "a.com/x=2@0"}};
  for (const FleetNode& one : {node, with_object}) {
    const auto result = FitAll({one}, {shared}, options);
    ASSERT_TRUE(result.ok()) << result.error().Text();
    EXPECT_EQ(result->comparisons[0].report.admitted, 1);
    EXPECT_EQ(result->comparisons[1].report.admitted, 0);
    const auto with_gpu = FitAll({one}, {gpu}, options);
    ASSERT_TRUE(with_gpu.ok()) << with_gpu.error().Text();
    EXPECT_EQ(with_gpu->report.admitted, 0);
    EXPECT_EQ(with_gpu->comparisons[2].report.admitted, 1);
  }
}

TEST(Fit, LeavesOutNodesThatCannotHaveTheConfiguration) {
  FleetNode crowded = FitNode("crowded");
  PlannedPod pod = Replica("", "running", "9");
  pod.pod.containers[0].resources.requests["cpu"] = Quantity(10);
  pod.pod.containers[0].resources.limits["cpu"] = Quantity(10);
  crowded.running = {pod};
  FitOptions options;
  options.changes = {{"reserved-cpus", "0-12"}};
  const auto result = FitAll({FitNode("a"), crowded}, {Replica("", "p", "1")}, options);
  ASSERT_TRUE(result.ok()) << result.error().Text();
  const Comparison& comparison = result->comparisons.at(0);
  EXPECT_EQ(comparison.nodes, 1U);
  ASSERT_EQ(comparison.left_out.size(), 1U);
  EXPECT_EQ(comparison.left_out[0].second, std::vector<std::string>{"crowded"});
  EXPECT_TRUE(comparison.left_out[0].first.starts_with("pod default/running, which runs: "))
      << comparison.left_out[0].first;
}

// Two pods that run can be on one NUMA node or on both. A pod that runs and that single-numa-node
// would refuse ended the whole run.
TEST(Fit, LeavesOpenWhatDependsOnWherePodsRun) {
  FleetNode two = FitNode("two");
  two.running = {Replica("", "r1", "4"), Replica("", "r2", "4")};
  FleetNode wide = FitNode("wide");
  wide.running = {Replica("", "w", "12")};
  FitOptions options;
  options.changes = {{"policy", "restricted"}, {"reserved-cpus", "0-1"}};
  const auto result = FitAll({two, wide}, {Replica("", "p", "5"), Replica("", "q", "7")}, options);
  ASSERT_TRUE(result.ok()) << result.error().Text();
  const std::vector<FitEntry>& entries = result->report.entries;
  EXPECT_EQ(entries[0].placed_on, (std::vector<std::pair<size_t, int64_t>>{{0, 1}}));
  EXPECT_EQ(entries[1].placed, 0);
  EXPECT_EQ(entries[1].undecided, 1);
  EXPECT_EQ(result->notes.size(), 2U);
  // restricted admits the pod on both NUMA nodes. Beside more reserved CPUs, nothing does.
  ASSERT_EQ(result->comparisons.size(), 2U);
  EXPECT_TRUE(result->comparisons[0].left_out.empty());
  ASSERT_EQ(result->comparisons[1].left_out.size(), 1U);
  EXPECT_EQ(result->comparisons[1].left_out[0].second, std::vector<std::string>{"wide"});
}

TEST(Fit, IsOneLineOfJson) {
  FitOptions options;
  options.changes = {{"policy", "best-effort"}};
  const auto result = FitAll({FitNode("a"), FitNode("b")},
                             {Replica("", "p", "2"), Replica("", "q", "12")}, options);
  ASSERT_TRUE(result.ok());
  const std::string json = FitJson(*result);
  EXPECT_TRUE(json.starts_with(
      R"({"score":"LeastAllocated","nodes":2,"pods":2,"admitted":1,"refused":1,"undecided":0,)"
      R"("workloads":[{"name":"Pod default/p","wanted":1,"placed":1,"undecided":0,)"
      R"("is_limited":false,"fitting":[{"node":"a","score":87},{"node":"b","score":87}],)"
      R"("refused":[],"cannot_decide":[],"placed_on":[{"node":"a","pods":1}],)"
      R"("assignments":{"app":{"exclusive_cpus":"1-2","cpu_nodes":[0],)"))
      << json;
}

}  // namespace
}  // namespace alignd::placement
