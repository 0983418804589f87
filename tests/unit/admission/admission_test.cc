#include "alignd/admission/admission.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/explanation.h"
#include "alignd/admission/shared_pool.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

using devicemanager::NoPreference;

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
  const Pod pod = AppPod("p", {{"cpu", "3"}, {"memory", "64Mi"}});
  const Admission first = Admit(node, NodeState::Initial(node), pod, NoPreference);
  const Admission again = Admit(node, first.next, pod, NoPreference);
  ASSERT_TRUE(again.admitted());
  EXPECT_TRUE(again.assignments == first.assignments);
  EXPECT_TRUE(again.next == first.next);
}

// The kubelet forgets neither after a refusal nor after a removal what later containers of the pod
// could have reused, and looks for it when the same UID comes again.
TEST(AdmitTest, AUidThatComesAgainReusesNothing) {
  const Node node = TwoNodes(TopologyManagerPolicy::kBestEffort);
  NodeState initial = NodeState::Initial(node);
  devicemanager::Resource& gpus = initial.devices.resources["vendor.com/gpu"];
  gpus.registered = true;
  for (const auto& [id, numa] : {std::pair{"a", 0}, {"b", 0}, {"c", 1}}) {
    gpus.devices[id].numa = {numa};
  }
  const Pod again =
      MakePod("p", {App("app", {{"cpu", "4"}, {"memory", "64Mi"}, {"vendor.com/gpu", "1"}})});
  const Admission fresh = Admit(node, initial, again, NoPreference);
  ASSERT_TRUE(fresh.admitted());
  EXPECT_EQ(fresh.assignments.at("app").exclusive.ToString(), "4-7");

  const auto with_app = [](const std::string& cpus) {
    return MakePod("p", {Init("warm", {{"cpu", "3"}, {"memory", "64Mi"}, {"vendor.com/gpu", "2"}}),
                         App("app", {{"cpu", cpus}, {"memory", "64Mi"}, {"vendor.com/gpu", "1"}})});
  };
  const Admission refused = Admit(node, initial, with_app("8"), NoPreference);
  ASSERT_FALSE(refused.admitted());
  EXPECT_TRUE(refused.next == initial);
  EXPECT_TRUE(Admit(node, refused.next, again, NoPreference).next == fresh.next);

  NodeState removed = Admit(node, initial, with_app("1"), NoPreference).next;
  EXPECT_FALSE(removed == initial);
  ReleasePod("p", removed);
  EXPECT_TRUE(removed == initial);
  EXPECT_TRUE(Admit(node, removed, again, NoPreference).next == fresh.next);
}

// The order of the kubelet's start: reservedSystemCPUs, then the managers in their order.
TEST(NodeTest, NamesTheFirstErrorOfTheKubeletsStart) {
  const auto error_of = [](const KubeletConfig& config, std::vector<int> distances) {
    std::vector<NumaNode> nodes = {
        {.id = 0, .memory_bytes = 1 << 30, .hugepages = {}, .distances = std::move(distances)}};
    const Machine machine =
        MachineOrDie(Machine::Make({{.cpu = 0}, {.cpu = 1, .core = 1}}, std::move(nodes)), "");
    const Result<Node> node = Node::Make(machine, config);
    return node.ok() ? "" : node.error().message;
  };
  KubeletConfig config;
  config.cpu_manager_policy_options["full-pcpus-only"] = "true";
  config.reserved_system_cpus = "0-9";
  config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  config.topology_manager_policy_options["prefer-closest-numa-nodes"] = "true";
  config.topology_manager_policy_options["unheard-of"] = "true";
  EXPECT_EQ(error_of(config, {}), "reserved-cpus: 0-9 is not a subset of online-cpus: 0-1");
  config.reserved_system_cpus = "0-";
  EXPECT_TRUE(error_of(config, {}).starts_with("unable to parse reserved-cpus list: "));
  config.reserved_system_cpus = "0";
  EXPECT_EQ(error_of(config, {}), "unknown Topology Manager Policy option: \"unheard-of\"");
  config.topology_manager_policy_options.erase("unheard-of");
  EXPECT_EQ(error_of(config, {}),
            "cannot discover NUMA topology: error getting NUMA distances from cadvisor");
  const std::string none =
      "new none policy error: None policy: received unsupported options=map["
      "full-pcpus-only:true]";
  EXPECT_EQ(error_of(config, {10}), none);
  // Distances are read for this option only, and no option is read with policy none.
  config.topology_manager_policy_options["prefer-closest-numa-nodes"] = "false";
  EXPECT_EQ(error_of(config, {}), none);
  config.topology_manager_policy_options["prefer-closest-numa-nodes"] = "true";
  config.topology_manager_policy = TopologyManagerPolicy::kNone;
  EXPECT_EQ(error_of(config, {}), none);
  config.cpu_manager_policy_options.clear();
  EXPECT_EQ(error_of(config, {}), "");
}

TEST(AssignmentTest, AContainerWithoutExclusiveCpusGetsTheDefaultSet) {
  const Node node = TwoNodes(TopologyManagerPolicy::kNone);
  const Admission admission =
      Admit(node, NodeState::Initial(node), AppPod("p", {{"cpu", "500m"}, {"memory", "64Mi"}}),
            NoPreference);
  ASSERT_TRUE(admission.admitted());
  EXPECT_TRUE(admission.assignments.at("app").exclusive.empty());
  EXPECT_EQ(admission.assignments.at("app").cpuset.ToString(), "0-7");
}

TEST(SharedPoolTest, ThoseThatLoseCpusComeFirst) {
  const Node node = TwoNodes(TopologyManagerPolicy::kNone);
  const Admission admission = Admit(node, NodeState::Initial(node),
                                    AppPod("p", {{"cpu", "1"}, {"memory", "64Mi"}}), NoPreference);
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
  const Pod pod = AppPod("p", {{"cpu", "5"}, {"memory", "64Mi"}});
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
            "single-numa-node never admits a pod of this shape on this machine, and restricted "
            "admits it on the empty node; topologyManagerPolicy "
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
