// Random pods on random nodes: what is decided from described hints is what the kubelet decides
// from listed ones.
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
  const int lives = Iterations(300);
  for (int life = 0; life < lives; ++life) {
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
        ASSERT_EQ(MergeWithin({.dense_nodes = 0}, policy.numa(), lists, policy.rules()).hint,
                  MergeWithin({.dense_nodes = 15}, policy.numa(), lists, policy.rules()).hint);
      }
    }
  }
}

// The search may give up on wide sets and with the rules of kubelet 1.20, seldom: see MergeLimits.
bool MayGiveUp(const topologymanager::Policy& policy, const Merged& merged) {
  return policy.rules().as_1_20 || 4 * merged.hint.affinity->Count() > policy.numa().all().Count();
}

TEST(AdmissionProperty, TheSearchDoesNotGiveUpOnMachinesAsTheyAre) {
  Random random;
  const int lives = Iterations(20);
  for (int life = 0; life < lives; ++life) {
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
        ASSERT_TRUE(merged.exact || MayGiveUp(policy, merged))
            << shape << " closest " << policy.rules().prefer_closest << " 1.20 "
            << policy.rules().as_1_20;
      }
    }
  }
}

}  // namespace
}  // namespace alignd::admission
