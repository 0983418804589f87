// On which NUMA nodes pods are placed: apart from others by singleNUMANodeExclusive, and by
// numaAllocateStrategy, against definitions.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/own_policy.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/numa_spread_oracle.h"
#include "core/pod_builder.h"
#include "core/random_machine.h"

namespace alignd::admission {
namespace {

Node NumaNodeOf(const Machine& machine, TopologyManagerPolicy policy,
                NumaAllocateStrategy strategy) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = std::to_string(machine.cpus().First());
  config.topology_manager_policy = policy;
  config.numa_allocate_strategy = strategy;
  config.pod_policies = {PodPolicy::kNumaTopologyPolicy};
  Result<Node> node = Node::Make(machine, config);
  EXPECT_TRUE(node.ok()) << node.error().Text();
  return *std::move(node);
}

NodeState StateOfOthers(const Node& node, Random& random) {
  NodeState state = NodeState::Initial(node);
  for (int i = random.Number(0, 3); i > 0; --i) {
    const CpuSet free = state.cpu.default_set - node.cpu->reserved;
    const CpuSet cpus = random.SomeOf(free).Lowest(random.Number(1, 4));
    if (cpus.empty()) continue;
    state.cpu.default_set -= cpus;
    state.cpu.assignments["other-" + std::to_string(i)]["app"] = cpus;
  }
  return state;
}

Pod NumaPodOf(int cpus) {
  return MakePod("p", {App("app", {{"cpu", std::to_string(cpus)}, {"memory", "64Mi"}})});
}

// A NUMA node is offered if no pod of several has CPUs there. Which one of these, is as without.
TEST(OwnNumaProperty, APodOfOneNumaNodeIsOnOneWithoutPodsOfSeveral) {
  Random random;
  int refused = 0;
  for (int run = 0; run < Iterations(500); ++run) {
    const Machine machine = RandomMachine(random);
    const Node node =
        NumaNodeOf(machine, TopologyManagerPolicy::kSingleNumaNode, NumaAllocateStrategy::kNone);
    const NodeState state = StateOfOthers(node, random);
    const int count = random.Number(1, 4);
    Pod pod = NumaPodOf(count);
    pod.policies.keeps_numa_apart = true;
    const Admission admission = Admit(node, state, pod, devicemanager::NoPreference);
    int first = -1;
    for (int position = 0; position < machine.numa_count() && first < 0; ++position) {
      const CpuSet& here = machine.CpusInNuma(position);
      bool is_shared = false;
      for (const auto& [uid, containers] : state.cpu.assignments) {
        const CpuSet& cpus = containers.at("app");
        is_shared = is_shared || (cpus.Intersects(here) && !here.Contains(cpus));
      }
      const CpuSet free = (state.cpu.default_set - node.cpu->reserved) & here;
      if (!is_shared && free.Count() >= count) first = position;
    }
    ASSERT_EQ(admission.admitted(), first >= 0);
    if (!admission.admitted()) {
      ++refused;
      continue;
    }
    const CpuSet& cpus = admission.assignments.at("app").exclusive;
    EXPECT_EQ(cpus.Count(), count);
    EXPECT_TRUE(machine.CpusInNuma(first).Contains(cpus)) << cpus.ToString();
  }
  EXPECT_GT(refused, 20);
}

TEST(OwnNumaProperty, TheStrategyTakesTheFullestOrTheEmptiestNumaNode) {
  Random random;
  for (int run = 0; run < Iterations(500); ++run) {
    const Machine machine = RandomMachine(random);
    const bool most = random.OnceIn(2);
    const auto policy = random.OneOf<TopologyManagerPolicy>(
        {TopologyManagerPolicy::kSingleNumaNode, TopologyManagerPolicy::kRestricted,
         TopologyManagerPolicy::kBestEffort, TopologyManagerPolicy::kNone});
    const Node node =
        NumaNodeOf(machine, policy,
                   most ? NumaAllocateStrategy::kFullestNode : NumaAllocateStrategy::kEmptiestNode);
    const Node plain = NumaNodeOf(machine, policy, NumaAllocateStrategy::kNone);
    const NodeState state = StateOfOthers(node, random);
    const int count = random.Number(1, 4);
    const Admission chosen = Admit(node, state, NumaPodOf(count), devicemanager::NoPreference);
    const Admission as_kubelet = Admit(plain, state, NumaPodOf(count), devicemanager::NoPreference);
    ASSERT_EQ(chosen.admitted(), as_kubelet.admitted());
    if (!chosen.admitted()) continue;
    const auto free_in = [&](int position) {
      return ((state.cpu.default_set - node.cpu->reserved) & machine.CpusInNuma(position)).Count();
    };
    int best = -1;
    for (int position = 0; position < machine.numa_count(); ++position) {
      const int free = free_in(position);
      if (free < count) continue;
      if (best < 0 || (most ? free < best : free > best)) best = free;
    }
    const CpuSet& cpus = chosen.assignments.at("app").exclusive;
    EXPECT_TRUE(chosen.next.BrokenInvariants(node).empty());
    if (best < 0) {
      EXPECT_EQ(cpus, as_kubelet.assignments.at("app").exclusive);
      continue;
    }
    const NumaMask on = machine.NumaOf(cpus);
    ASSERT_EQ(on.Count(), 1) << cpus.ToString();
    EXPECT_EQ(free_in(*on.begin()), best);
  }
}

// The most of these NUMA nodes that can share as many CPUs evenly.
int MostNodesSharing(const std::vector<int>& free_cpus, int count) {
  int nodes = std::min(count, static_cast<int>(free_cpus.size()));
  while (nodes > 0) {
    if (cpumanager::FindNumaSpreadByTryingAll(
            free_cpus, {.count = count, .group = 1, .fewest_nodes = nodes, .most_nodes = nodes})) {
      break;
    }
    --nodes;
  }
  return nodes;
}

// On as many NUMA nodes as possible of those that the topology policy has chosen, in equal parts;
// whether the pod is admitted, and with which NUMA nodes, is as without.
TEST(OwnNumaProperty, TheStrategyDistributesOverAsManyNumaNodesAsPossible) {
  Random random;
  int several = 0;
  for (int run = 0; run < Iterations(500); ++run) {
    const Machine machine = RandomMachine(random);
    const auto policy = random.OneOf<TopologyManagerPolicy>(
        {TopologyManagerPolicy::kSingleNumaNode, TopologyManagerPolicy::kRestricted,
         TopologyManagerPolicy::kNone, TopologyManagerPolicy::kNone});
    const Node node = NumaNodeOf(machine, policy, NumaAllocateStrategy::kAllNodes);
    const Node plain = NumaNodeOf(machine, policy, NumaAllocateStrategy::kNone);
    EXPECT_EQ(node.cpu->reserved, plain.cpu->reserved);
    const NodeState state = StateOfOthers(node, random);
    const int count = random.Number(1, 8);
    const Admission chosen = Admit(node, state, NumaPodOf(count), devicemanager::NoPreference);
    const Admission as_kubelet = Admit(plain, state, NumaPodOf(count), devicemanager::NoPreference);
    ASSERT_EQ(chosen.admitted(), as_kubelet.admitted());
    EXPECT_EQ(chosen.decisions, as_kubelet.decisions);
    if (!chosen.admitted()) continue;
    EXPECT_TRUE(chosen.next.BrokenInvariants(node).empty());
    CpuSet offered = state.cpu.default_set - node.cpu->reserved;
    if (policy != TopologyManagerPolicy::kNone && chosen.decisions[0].affinity->affinity) {
      offered = offered & machine.CpusInNuma(*chosen.decisions[0].affinity->affinity);
    }
    std::vector<int> free_cpus;
    for (int position = 0; position < machine.numa_count(); ++position) {
      const int free = offered.CountCommon(machine.CpusInNuma(position));
      if (free > 0) free_cpus.push_back(free);
    }
    const CpuSet& cpus = chosen.assignments.at("app").exclusive;
    EXPECT_EQ(cpus.Count(), count);
    const int nodes = machine.NumaOf(cpus).Count();
    const int most = MostNodesSharing(free_cpus, count);
    if (most == 0) {  // no NUMA nodes can give equal parts
      EXPECT_EQ(cpus, as_kubelet.assignments.at("app").exclusive);
      continue;
    }
    EXPECT_EQ(nodes, most) << cpus.ToString() << " of " << offered.ToString();
    several += nodes > 1 ? 1 : 0;
  }
  EXPECT_GT(several, 50);
}

}  // namespace
}  // namespace alignd::admission
