// Pods that are kept apart by singleNUMANodeExclusive, and NUMA nodes by numaAllocateStrategy.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "alignd/admission/admission.h"
#include "alignd/admission/own_policy.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

using Strategy = NumaAllocateStrategy;

// Three NUMA nodes with four CPUs each; CPU 0 is reserved.
class OwnNumaTest : public testing::Test {
 protected:
  static Node NodeOf(TopologyManagerPolicy policy, Strategy strategy = Strategy::kNone) {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.topology_manager_policy = policy;
    config.numa_allocate_strategy = strategy;
    config.pod_policies = {PodPolicy::kNumaTopologyPolicy, PodPolicy::kCpuExclusivePolicy};
    Result<Node> node = Node::Make(MakeMachine("socket:3 numa:1 core:4"), config);
    EXPECT_TRUE(node.ok()) << node.error().Text();
    return *std::move(node);
  }

  static NodeState StateWith(const Node& node,
                             const std::vector<std::pair<std::string, std::string>>& pods) {
    NodeState state = NodeState::Initial(node);
    for (const auto& [uid, cpus] : pods) {
      state.cpu.assignments[uid]["app"] = *CpuSet::Parse(cpus);
      state.cpu.default_set -= *CpuSet::Parse(cpus);
    }
    return state;
  }

  static Pod Asking(int cpus, bool is_required = true) {
    Pod pod = MakePod("p", {App("app", {{"cpu", std::to_string(cpus)}, {"memory", "64Mi"}})});
    pod.policies.keeps_numa_apart = is_required;
    return pod;
  }

  static std::string CpusIn(const Node& node, const NodeState& state, const Pod& pod) {
    const Admission admission = Admit(node, state, pod, devicemanager::NoPreference);
    if (admission.refusal) return admission.refusal->reason;
    return admission.assignments.at("app").exclusive.ToString();
  }

  const Node single_ = NodeOf(TopologyManagerPolicy::kSingleNumaNode);
  const Node restricted_ = NodeOf(TopologyManagerPolicy::kRestricted);
  const Node best_effort_ = NodeOf(TopologyManagerPolicy::kBestEffort);
};

TEST_F(OwnNumaTest, APodOfOneNumaNodeStaysOffPodsOfSeveral) {
  const NodeState state = StateWith(single_, {{"wide", "1,4"}});
  EXPECT_EQ(CpusIn(single_, state, Asking(2, false)), "2-3");
  EXPECT_EQ(CpusIn(single_, state, Asking(2)), "8-9");
  const NodeState full = StateWith(single_, {{"wide", "1,4"}, {"narrow", "8-10"}});
  EXPECT_EQ(CpusIn(single_, full, Asking(1)), "11");  // beside a pod of one NUMA node
  const Admission refused = Admit(single_, full, Asking(2), devicemanager::NoPreference);
  ASSERT_TRUE(refused.refusal);
  EXPECT_EQ(refused.refusal->fault,
            "the pod asks for singleNUMANodeExclusive Required of annotation "
            "scheduling.koordinator.sh/numa-topology-spec, and it would be on NUMA node 0 alone, "
            "where pods of several NUMA nodes have CPUs: wide");
  EXPECT_EQ(refused.next, full);
}

TEST_F(OwnNumaTest, APodOfSeveralNumaNodesStaysOffPodsOfOne) {
  EXPECT_EQ(CpusIn(restricted_, StateWith(restricted_, {{"narrow", "1"}}), Asking(5)), "4-8");
  EXPECT_EQ(CpusIn(restricted_, StateWith(restricted_, {{"wide", "4,8"}}), Asking(5)), "1-3,5-6");
  const NodeState state = StateWith(restricted_, {{"a", "1"}, {"b", "4"}});
  EXPECT_EQ(CpusIn(restricted_, state, Asking(5, false)), "2-3,5-7");
  const Admission refused = Admit(restricted_, state, Asking(5), devicemanager::NoPreference);
  ASSERT_TRUE(refused.refusal);
  EXPECT_EQ(refused.refusal->reason, kPodPolicyError);
}

TEST_F(OwnNumaTest, WithBestEffortItIsPreferred) {
  EXPECT_EQ(CpusIn(best_effort_, StateWith(best_effort_, {{"wide", "1,4"}}), Asking(2)), "8-9");
  const NodeState state = StateWith(best_effort_, {{"wide", "1,4,8"}});
  EXPECT_EQ(CpusIn(best_effort_, state, Asking(2)), "2-3");
}

TEST_F(OwnNumaTest, APodKeepsWhatItHasAndIsNotKeptApartFromItself) {
  const NodeState state = StateWith(single_, {{"p", "1"}, {"wide", "2,4"}});
  EXPECT_EQ(CpusIn(single_, state, Asking(1)), "1");
  const NodeState alone = StateWith(restricted_, {{"p", "1"}});
  Pod pod = Asking(1);
  pod.containers.push_back(App("log", {{"cpu", "1"}, {"memory", "64Mi"}}));
  EXPECT_TRUE(Admit(restricted_, alone, pod, devicemanager::NoPreference).admitted());
}

TEST_F(OwnNumaTest, NeedsATopologyPolicyAndTheOperator) {
  const Node none = NodeOf(TopologyManagerPolicy::kNone);
  const NodeState state = StateWith(none, {{"wide", "1,4"}});
  EXPECT_EQ(CpusIn(none, state, Asking(2)), "2-3");
  EXPECT_EQ(DescribePodPolicy(none, Asking(2)),
            "singleNUMANodeExclusive Required of annotation "
            "scheduling.koordinator.sh/numa-topology-spec has no effect: the pod has no topology "
            "policy");
  Pod own = Asking(2);
  own.policies.numa_topology = NumaTopologyPolicy::kSingleNumaNode;
  EXPECT_EQ(CpusIn(none, state, own), "8-9");
  Pod other = Asking(2);
  other.name_space = "other";
  KubeletConfig config = single_.config;
  config.namespace_policies = {{{"other"}, {}}};
  const Result<Node> node = Node::Make(single_.machine, config);
  ASSERT_TRUE(node.ok());
  EXPECT_EQ(CpusIn(*node, state, other), "2-3");
}

TEST_F(OwnNumaTest, TheStrategyChoosesAmongNumaNodesThatSuitEqually) {
  const auto cpus_with = [](TopologyManagerPolicy policy, Strategy strategy, int cpus) {
    const Node node = NodeOf(policy, strategy);
    // 2, 1 and 3 CPUs are free.
    const NodeState state = StateWith(node, {{"a", "1"}, {"b", "4-6"}, {"c", "8"}});
    return CpusIn(node, state, Asking(cpus, false));
  };
  for (const auto policy : {TopologyManagerPolicy::kSingleNumaNode, TopologyManagerPolicy::kNone}) {
    EXPECT_EQ(cpus_with(policy, Strategy::kFullestNode, 1), "7");
    EXPECT_EQ(cpus_with(policy, Strategy::kFullestNode, 2), "2-3");
    EXPECT_EQ(cpus_with(policy, Strategy::kEmptiestNode, 1), "9");
    EXPECT_EQ(cpus_with(policy, Strategy::kEmptiestNode, 3), "9-11");
  }
  EXPECT_EQ(cpus_with(TopologyManagerPolicy::kSingleNumaNode, Strategy::kNone, 1), "2");
  EXPECT_EQ(cpus_with(TopologyManagerPolicy::kBestEffort, Strategy::kEmptiestNode, 6),
            cpus_with(TopologyManagerPolicy::kBestEffort, Strategy::kNone, 6));
}

// What a pod asks for comes before the order.
TEST_F(OwnNumaTest, ThePodsExclusivePolicyComesBeforeTheStrategy) {
  const Node node = NodeOf(TopologyManagerPolicy::kSingleNumaNode, Strategy::kFullestNode);
  NodeState state = StateWith(node, {{"b", "4-6"}});
  state.chosen_policies["b"] = PodPolicies{.exclusive = CpuExclusivePolicy::kNumaNodeLevel};
  Pod pod = Asking(1, false);
  EXPECT_EQ(CpusIn(node, state, pod), "7");
  pod.policies.exclusive = CpuExclusivePolicy::kNumaNodeLevel;
  EXPECT_EQ(CpusIn(node, state, pod), "1");
}

TEST_F(OwnNumaTest, DistributeEvenlyTakesAsManyNumaNodesAsThePolicyAllows) {
  const Node none = NodeOf(TopologyManagerPolicy::kNone, Strategy::kAllNodes);
  const NodeState empty = NodeState::Initial(none);
  EXPECT_EQ(CpusIn(none, empty, Asking(1, false)), "4");
  EXPECT_EQ(CpusIn(none, empty, Asking(3, false)), "1,4,8");
  EXPECT_EQ(CpusIn(none, empty, Asking(6, false)), "1-2,4-5,8-9");
  const NodeState full = StateWith(none, {{"other", "4-7"}});
  EXPECT_EQ(CpusIn(none, full, Asking(4, false)), "1-2,8-9");
  const Node single = NodeOf(TopologyManagerPolicy::kSingleNumaNode, Strategy::kAllNodes);
  EXPECT_EQ(CpusIn(single, empty, Asking(3, false)), "1-3");
  const Node restricted = NodeOf(TopologyManagerPolicy::kRestricted, Strategy::kAllNodes);
  EXPECT_EQ(CpusIn(restricted, empty, Asking(6, false)), "1-6");
}

// Three NUMA nodes with two cores of two CPUs each; one CPU is reserved.
TEST_F(OwnNumaTest, DistributeEvenlyTakesWholeCoresWithFullPcpusOnly) {
  KubeletConfig config = NodeOf(TopologyManagerPolicy::kNone, Strategy::kAllNodes).config;
  config.cpu_manager_policy_options = {{"full-pcpus-only", "true"}};
  const Machine machine = MakeMachine("socket:3 numa:1 core:2 pu:2");
  const auto made = Node::Make(machine, config);
  ASSERT_TRUE(made.ok()) << made.error().Text();
  const auto taken = [&](const NodeState& state, int cpus) {
    const Admission admission =
        Admit(*made, state, Asking(cpus, false), devicemanager::NoPreference);
    return admission.refusal ? CpuSet() : admission.assignments.at("app").exclusive;
  };
  const NodeState empty = NodeState::Initial(*made);
  EXPECT_EQ(CpusIn(*made, empty, Asking(3, false)), "SMTAlignmentError");
  for (const int cpus : {2, 4, 6}) {
    const CpuSet set = taken(empty, cpus);
    EXPECT_EQ(set.Count(), cpus);
    EXPECT_EQ(machine.NumaOf(set).Count(), cpus / 2) << set.ToString();
    for (const CpuGroup& core : machine.cores()) {
      EXPECT_TRUE(!core.cpus.Intersects(set) || set.Contains(core.cpus)) << set.ToString();
    }
  }
  // A NUMA node whose cores are all in use in part has none of them.
  const CpuSet second = machine.CpusInNuma(NumaMask::Of(1));
  NodeState state = empty;
  for (const CpuGroup& core : machine.cores()) {
    if (!second.Contains(core.cpus)) continue;
    const CpuSet one = core.cpus.Lowest(1);
    state.cpu.assignments["other"]["app" + one.ToString()] = one;
    state.cpu.default_set -= one;
  }
  const CpuSet beside = taken(state, 4);
  EXPECT_EQ(beside.Count(), 4);
  EXPECT_FALSE(beside.Intersects(second)) << beside.ToString();
}

TEST_F(OwnNumaTest, DistributeEvenlyExcludesOtherOrdersOfCpus) {
  for (const char* const option :
       {"distribute-cpus-across-cores", "prefer-align-cpus-by-uncorecache"}) {
    KubeletConfig config = single_.config;
    config.numa_allocate_strategy = Strategy::kAllNodes;
    config.cpu_manager_policy_options = {{option, "true"}};
    const Result<Node> node = Node::Make(single_.machine, config);
    ASSERT_FALSE(node.ok());
    EXPECT_EQ(node.error().Text(),
              "numaAllocateStrategy: DistributeEvenly cannot be used with option " +
                  std::string(option) + " of cpuManagerPolicyOptions; remove one of them");
  }
}

}  // namespace
}  // namespace alignd::admission
