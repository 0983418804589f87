#include "alignd/admission/admission.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/explanation.h"
#include "alignd/admission/shared_pool.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

std::optional<std::vector<std::string>> NoPreference(const devicemanager::PreferenceQuery&) {
  return std::nullopt;
}

// Two NUMA nodes with four single-threaded cores each; CPU 0 is reserved.
Node TwoNodes(TopologyManagerPolicy policy) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  config.topology_manager_policy = policy;
  Result<Node> node = Node::Make(MakeMachine("socket:2 numa:1 core:4 thread:1"), config);
  EXPECT_TRUE(node.ok()) << node.error().message;
  return *std::move(node);
}

Pod Asking(const std::string& uid, const std::string& cpus) {
  return MakePod(uid, {App("app", {{"cpu", cpus}, {"memory", "64Mi"}})});
}

TEST(AdmitTest, ARefusedPodIsAssignedNothing) {
  const Node node = TwoNodes(TopologyManagerPolicy::kBestEffort);
  const NodeState state = NodeState::Initial(node);
  // The first container fits, the second does not.
  const Pod pod = MakePod("p", {App("a", {{"cpu", "3"}, {"memory", "64Mi"}}),
                                App("b", {{"cpu", "5"}, {"memory", "64Mi"}})});
  const Admission admission = Admit(node, state, pod, NoPreference);
  ASSERT_FALSE(admission.admitted());
  EXPECT_EQ(admission.refusal->reason, "UnexpectedAdmissionError");
  EXPECT_TRUE(admission.next == state);
  EXPECT_TRUE(admission.assignments.empty());
  ASSERT_EQ(admission.decisions.size(), 2U);
  EXPECT_EQ(admission.decisions[0].container, "a");
}

TEST(AdmitTest, ContainersAreDecidedInOrderEachOnTheStateOfTheLast) {
  const Node node = TwoNodes(TopologyManagerPolicy::kSingleNumaNode);
  const Pod pod = MakePod("p", {App("a", {{"cpu", "2"}, {"memory", "64Mi"}}),
                                App("b", {{"cpu", "2"}, {"memory", "64Mi"}})});
  const Admission admission = Admit(node, NodeState::Initial(node), pod, NoPreference);
  ASSERT_TRUE(admission.admitted());
  EXPECT_EQ(admission.assignments.at("a").exclusive.ToString(), "1-2");
  EXPECT_EQ(admission.assignments.at("b").exclusive.ToString(), "4-5");
}

TEST(AdmitTest, AdmittingAgainGivesTheSame) {
  const Node node = TwoNodes(TopologyManagerPolicy::kRestricted);
  const Pod pod = Asking("p", "3");
  const Admission first = Admit(node, NodeState::Initial(node), pod, NoPreference);
  const Admission again = Admit(node, first.next, pod, NoPreference);
  ASSERT_TRUE(again.admitted());
  EXPECT_TRUE(again.assignments == first.assignments);
  EXPECT_TRUE(again.next == first.next);
}

TEST(GrantTest, AContainerWithoutExclusiveCpusGetsTheDefaultSet) {
  const Node node = TwoNodes(TopologyManagerPolicy::kNone);
  const Admission admission =
      Admit(node, NodeState::Initial(node), Asking("p", "500m"), NoPreference);
  ASSERT_TRUE(admission.admitted());
  EXPECT_TRUE(admission.assignments.at("app").exclusive.empty());
  EXPECT_EQ(admission.assignments.at("app").cpuset.ToString(), "0-7");
}

TEST(SharedPoolTest, ThoseThatLoseCpusComeFirst) {
  const Node node = TwoNodes(TopologyManagerPolicy::kNone);
  const Admission admission = Admit(node, NodeState::Initial(node), Asking("p", "1"), NoPreference);
  ASSERT_TRUE(admission.admitted());  // CPU 1 is no longer in the shared pool
  const auto cpus = [](const char* list) { return *CpuSet::Parse(list); };
  const std::vector<RunningContainer> running = {
      {"gains", {"q", "a"}, cpus("2-3")},
      {"stays", {"q", "b"}, cpus("0,2-7")},
      {"loses", {"q", "c"}, cpus("0-7")},
      {"exclusive", {"p", "app"}, cpus("1")},
  };
  const std::vector<CpuSetChange> changes = CpuSetChanges(node, admission.next, running);
  EXPECT_EQ(changes,
            (std::vector<CpuSetChange>{{"loses", cpus("0,2-7")}, {"gains", cpus("0,2-7")}}));
}

TEST(ExplainTest, NamesTheRequestTheFreeResourcesAndWhatWouldHelp) {
  const Node node = TwoNodes(TopologyManagerPolicy::kSingleNumaNode);
  const Pod pod = Asking("p", "5");
  const NodeState state = NodeState::Initial(node);
  const Admission admission = Admit(node, state, pod, NoPreference);
  ASSERT_FALSE(admission.admitted());
  const Refusal explained = Explain(node, state, pod, *admission.refusal);
  EXPECT_EQ(explained.reason, "TopologyAffinityError");
  EXPECT_EQ(explained.message,
            "Resources cannot be allocated with Topology locality. Requested: app: 5 exclusive "
            "CPUs. Free: NUMA node 0: 3 of 4 CPUs (1-3); NUMA node 1: 4 of 4 CPUs (4-7). What "
            "would help: "
            "it does not fit even on the empty node: reduce its requests; topologyManagerPolicy "
            "best-effort would admit it now, without this alignment");
}

TEST(ExplainTest, NamesTheProblemOfTheDevices) {
  constexpr char kGpu[] = "a.com/gpu";
  const Node node = TwoNodes(TopologyManagerPolicy::kBestEffort);
  NodeState state = NodeState::Initial(node);
  const Pod pod = MakePod("p", {App("app", {{"cpu", "1"}, {"memory", "64Mi"}, {kGpu, "2"}})});
  EXPECT_EQ(DescribeRequest(node, state, pod),
            "app: 1 exclusive CPU, 2 a.com/gpu (no device plugin has registered it with alignd)");
  const auto help = [&] {
    const std::string text = Explain(node, state, pod, {"R", "m"}).message;
    return text.substr(text.find("What would help: ") + 17);
  };
  state.devices.resources[kGpu] = {.devices = {{"g0", {false, {0}}}, {"g1", {false, {1}}}}};
  EXPECT_EQ(help(), "the device plugin of a.com/gpu is not registered: check its pod");
  state.devices.resources[kGpu].registered = true;
  EXPECT_EQ(help(),
            "2 of 2 a.com/gpu are unhealthy or their device plugin is disconnected: check the "
            "devices and the plugin's pod");
  // Every device is healthy; the pod requests too many.
  state.devices.resources[kGpu].devices = {{"g0", {true, {0}}}};
  EXPECT_EQ(help(), "it does not fit even on the empty node: reduce its requests");
}

}  // namespace
}  // namespace alignd::admission
