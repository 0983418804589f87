// Random pods on random nodes: best-attainable refuses a pod for its alignment exactly if the empty
// node would align it better.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/resize.h"
#include "alignd/topologymanager/policy.h"
#include "core/crowded_node.h"
#include "core/hint_oracle.h"

namespace alignd::admission {
namespace {

using topologymanager::TopologyHint;

Node WithTopologyPolicy(const Node& node, TopologyManagerPolicy policy) {
  KubeletConfig config = node.config;
  config.topology_manager_policy = policy;
  Result<Node> other = Node::Make(node.machine, config);
  if (!other.ok()) BadMachineText("WithTopologyPolicy", other.error().message);
  return *std::move(other);
}

// The same node with each policy, and its state.
struct AttainableOracle {
  Node best_effort;
  Node restricted;
  Node attainable;
  NodeState state;

  NodeState Empty() const {
    NodeState empty = NodeState::Initial(attainable);
    empty.devices.resources = state.devices.resources;
    return empty;
  }

  // The merged hint of each container with best-effort, merged once more as the kubelet does it.
  std::vector<TopologyHint> Merged(const Admission& admission) const {
    std::vector<TopologyHint> merged;
    for (const ContainerDecision& decision : admission.decisions) {
      const topologymanager::Policy& policy = best_effort.topology;
      merged.push_back(topologymanager::MergeByCarrying(
          policy.numa(), topologymanager::AllOf(policy.Lists({decision.hints})), policy.rules()));
    }
    return merged;
  }

  static int NodesOf(const TopologyHint& hint) {
    int nodes = 0;
    if (!hint.affinity) return nodes;
    for ([[maybe_unused]] const int node : *hint.affinity) ++nodes;
    return nodes;
  }

  static bool IsBetter(const TopologyHint& empty, const TopologyHint& now) {
    if (now.preferred) return false;
    return empty.preferred || NodesOf(empty) < NodesOf(now);
  }

  // The first container that the empty node would align better.
  std::optional<size_t> Refused(const Admission& now, const Pod& pod) const {
    const Admission on_empty = Admit(best_effort, Empty(), pod, devicemanager::NoPreference);
    const std::vector<TopologyHint> here = Merged(now);
    const std::vector<TopologyHint> there = Merged(on_empty);
    for (size_t i = 0; i < here.size() && i < there.size(); ++i) {
      if (IsBetter(there[i], here[i])) return i;
    }
    return std::nullopt;
  }
};

struct AttainableTally {
  int aligned = 0;
  int attained = 0;  // admitted, and restricted would refuse
  int refused = 0;   // for the alignment
};

void CheckPod(const AttainableOracle& oracle, const Pod& pod, AttainableTally& tally) {
  const auto decide = [&](const Node& node, const NodeState& state) {
    return Admit(node, state, pod, devicemanager::NoPreference);
  };
  const Admission best_effort = decide(oracle.best_effort, oracle.state);
  const Admission restricted = decide(oracle.restricted, oracle.state);
  const Admission attainable = decide(oracle.attainable, oracle.state);
  if (const std::optional<size_t> refused = oracle.Refused(best_effort, pod)) {
    ++tally.refused;
    ASSERT_FALSE(attainable.admitted());
    ASSERT_EQ(attainable.refused_at,
              (RefusalPoint{pod.containers[*refused].name, RefusedBy::kTopology}));
    ASSERT_FALSE(restricted.admitted());
    return;
  }
  ASSERT_EQ(attainable.admitted(), best_effort.admitted());
  if (!attainable.admitted()) return;
  ++(restricted.admitted() ? tally.aligned : tally.attained);
  ASSERT_EQ(attainable.next, best_effort.next);
  ASSERT_EQ(attainable.assignments, best_effort.assignments);
}

TEST(BestAttainableProperty, RefusesExactlyWhatTheEmptyNodeWouldAlignBetter) {
  Random random;
  const int runs = Iterations(60);
  AttainableTally tally;
  for (int run = 0; run < runs; ++run) {
    CrowdedNode crowded = CrowdedNode::Make(RandomMachine(random), random);
    const bool is_single = crowded.node.topology.kind() == TopologyManagerPolicy::kSingleNumaNode;
    AttainableOracle oracle{
        .best_effort = WithTopologyPolicy(crowded.node, TopologyManagerPolicy::kBestEffort),
        .restricted = WithTopologyPolicy(crowded.node, TopologyManagerPolicy::kRestricted),
        .attainable = WithTopologyPolicy(crowded.node, TopologyManagerPolicy::kBestAttainable),
        .state = crowded.state};
    crowded.node = is_single ? oracle.best_effort : oracle.attainable;
    for (int step = 0; step < 12; ++step) {
      const Pod pod = crowded.NextPod(step, random);
      oracle.state = crowded.state;
      ASSERT_NO_FATAL_FAILURE(CheckPod(oracle, pod, tally)) << Describe(crowded.node.machine);
      Admission admission = Admit(crowded.node, crowded.state, pod, devicemanager::NoPreference);
      if (admission.admitted()) crowded.state = std::move(admission.next);
      // What fits on the empty node is never refused there for its alignment.
      oracle.state = oracle.Empty();
      AttainableTally on_empty;
      ASSERT_NO_FATAL_FAILURE(CheckPod(oracle, pod, on_empty));
      ASSERT_EQ(on_empty.refused, 0);
    }
  }
  if (runs < 60) return;
  EXPECT_GT(tally.aligned, 0);
  EXPECT_GT(tally.attained, 0);
  EXPECT_GT(tally.refused, 0);
}

TEST(BestAttainableProperty, AResizeGoesAsFarAsItWouldWithoutOtherPods) {
  Random random;
  const int runs = Iterations(40);
  int attained = 0;
  int refused = 0;
  for (int run = 0; run < runs; ++run) {
    CrowdedNode crowded = CrowdedNode::Make(RandomMachine(random), random);
    const Node restricted = WithTopologyPolicy(crowded.node, TopologyManagerPolicy::kRestricted);
    crowded.node = WithTopologyPolicy(crowded.node, TopologyManagerPolicy::kBestAttainable);
    for (int step = 0; step < 12; ++step) {
      static_cast<void>(crowded.Step(step, random));
      for (const auto& [uid, containers] : crowded.state.cpu.assignments) {
        for (const auto& [name, cpus] : containers) {
          const ContainerKey key{uid, name};
          const int count = cpus.Count() + random.Number(1, 4);
          NodeState alone = crowded.state;
          for (const std::string& other : PodsIn(crowded.state)) {
            if (other != uid) ReleasePod(other, alone);
          }
          const ResizeDecision now = Resize(crowded.node, crowded.state, key, count);
          const ResizeDecision strict = Resize(restricted, crowded.state, key, count);
          if (strict.admitted()) {
            ASSERT_TRUE(now.admitted());
            ASSERT_EQ(now.after, strict.after);
          } else if (now.admitted()) {
            ++attained;
            ASSERT_FALSE(Resize(restricted, alone, key, count).admitted());
          } else {
            ++refused;
          }
        }
      }
    }
  }
  if (runs < 40) return;
  EXPECT_GT(attained, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace alignd::admission
