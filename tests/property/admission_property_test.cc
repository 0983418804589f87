// Random pods on random nodes: the decision from described hints is the kubelet's decision from
// listed ones.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "alignd/topologymanager/policy.h"
#include "core/crowded_node.h"
#include "core/hint_oracle.h"

namespace alignd::admission {
namespace {

using topologymanager::Hints;
using topologymanager::Merged;
using topologymanager::TopologyHint;

TEST(AdmissionProperty, MergesWhatTheKubeletMerges) {
  Random random;
  const int runs = Iterations(300);
  for (int run = 0; run < runs; ++run) {
    CrowdedNode crowded = CrowdedNode::Make(RandomMachine(random), random);
    const topologymanager::Policy& policy = crowded.node.topology;
    for (int step = 0; step < 12; ++step) {
      const Admission admission = crowded.Step(step, random);
      ASSERT_EQ(crowded.state.BrokenInvariants(crowded.node), std::vector<std::string>{});
      for (const ContainerDecision& decision : admission.decisions) {
        const std::vector<Hints> lists = policy.Lists({decision.hints});
        TopologyHint expected = topologymanager::MergeByCarrying(
            policy.numa(), topologymanager::AllOf(lists), policy.rules());
        if (policy.kind() == TopologyManagerPolicy::kSingleNumaNode &&
            expected.affinity == policy.numa().all()) {
          expected.affinity = std::nullopt;
        }
        ASSERT_EQ(decision.affinity, expected) << Describe(crowded.node.machine);
        const TopologyHint by_search =
            MergeWithin({.table_nodes = 0}, policy.numa(), lists, policy.rules()).hint;
        const TopologyHint by_tables =
            MergeWithin({}, policy.numa(), lists, {policy.rules().prefer_closest, false}).hint;
        ASSERT_EQ(by_search.preferred, by_tables.preferred);
        if (by_tables.preferred) {
          ASSERT_EQ(by_search, by_tables);
        }
      }
    }
  }
}

// The search may end at its limit if the sets are wide or must be the closest ones, and with the
// rules of kubelet 1.20.
bool MayBeInexact(const topologymanager::Policy& policy, const Merged& merged) {
  return policy.rules().as_1_20 || policy.rules().prefer_closest ||
         4 * merged.hint.affinity->Count() > policy.numa().all().Count();
}

TEST(AdmissionProperty, TheSearchIsExactOnMachinesAsTheyAreBuilt) {
  Random random;
  const int runs = Iterations(20);
  for (int run = 0; run < runs; ++run) {
    const std::string shape =
        random.OneOf<std::string>({"socket:4 numa:4 core:8", "socket:8 numa:4 core:4 thread:2",
                                   "socket:8 numa:8 core:4 thread:4", "socket:2 numa:8 core:8",
                                   "socket:2 numa:1 core:72 cpuless=32"});
    CrowdedNode crowded = CrowdedNode::Make(MakeMachine(shape), random);
    const topologymanager::Policy& policy = crowded.node.topology;
    for (int step = 0; step < 30; ++step) {
      for (const ContainerDecision& decision : crowded.Step(step, random).decisions) {
        const std::vector<Hints> lists = policy.Lists({decision.hints});
        const Merged merged = MergeWithin({}, policy.numa(), lists, policy.rules());
        ASSERT_TRUE(merged.exact || MayBeInexact(policy, merged))
            << shape << " closest " << policy.rules().prefer_closest << " 1.20 "
            << policy.rules().as_1_20;
      }
    }
  }
}

}  // namespace
}  // namespace alignd::admission
