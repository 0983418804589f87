// Random pods on random nodes, whose configuration then changes at random. Each plan is compared
// with simple rules about each CPU and each container.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/cpu_moves.h"
#include "alignd/admission/transition.h"
#include "core/crowded_node.h"

namespace alignd::admission {
namespace {

struct TransitionTally {
  int admitted = 0;
  int refused = 0;
  int moved = 0;
};

// Any changeable settings, as a configuration with which alignd would start.
Node RandomChange(const Node& before, Random& random) {
  for (;;) {
    KubeletConfig config = before.config;
    if (random.OnceIn(2)) {
      CpuSet reserved = random.SomeOf(before.machine.cpus()).Lowest(random.Number(1, 4));
      if (reserved.empty()) reserved.Add(before.machine.cpus().First());
      config.reserved_system_cpus = reserved.ToString();
    }
    if (random.OnceIn(2)) {
      const KubeletConfig other = RandomConfig(random);
      config.topology_manager_policy = other.topology_manager_policy;
      config.topology_manager_scope = other.topology_manager_scope;
      config.topology_manager_policy_options = other.topology_manager_policy_options;
    }
    if (random.OnceIn(3)) {
      config.cpu_manager_policy_options.clear();
      config.cpu_manager_policy_options["strict-cpu-reservation"] =
          random.OnceIn(2) ? "true" : "false";
    }
    if (random.OnceIn(3)) {
      const std::string amount = std::to_string(random.Number(1, 3)) + "Gi";
      config.system_reserved = Amounts({{"memory", amount}});
      config.reserved_memory = {
          {.numa_node = before.machine.NumaId(0), .limits = Amounts({{"memory", amount}})}};
    }
    if (random.OnceIn(20)) config.cpu_manager_policy = CpuManagerPolicy::kNone;
    if (config.cpu_manager_policy == CpuManagerPolicy::kNone) {
      config.cpu_manager_policy_options.clear();
    }
    Result<Node> node = Node::Make(before.machine, config);
    if (node.ok()) return *std::move(node);
  }
}

bool SameTopology(const KubeletConfig& a, const KubeletConfig& b) {
  return a.topology_manager_policy == b.topology_manager_policy &&
         a.topology_manager_scope == b.topology_manager_scope &&
         a.topology_manager_policy_options == b.topology_manager_policy_options;
}

void CheckContainer(const Node& before, const Node& after, const NodeState& state,
                    const Transition& transition, const ContainerTransition& container) {
  const CpuSet& was = container.before.exclusive;
  const CpuSet& is = container.after.exclusive;
  ASSERT_EQ(is.Count(), was.Count());
  ASSERT_EQ(container.after.memory_nodes, container.before.memory_nodes);
  ASSERT_EQ(container.after.devices, container.before.devices);
  const CpuSet reserved = after.cpu ? after.cpu->reserved : CpuSet();
  ASSERT_FALSE(is.Intersects(reserved));
  if (container.fate == Fate::kStays) {
    ASSERT_EQ(is, was);
    return;
  }
  ASSERT_EQ(container.fate, Fate::kMoves);
  ASSERT_FALSE(container.why.empty());
  ASSERT_NE(is, was);
  ASSERT_FALSE((is - was).Intersects(before.cpu->reserved));
  const bool by_reservation = was.Intersects(reserved);
  const bool by_pod = after.config.topology_manager_scope == TopologyManagerScope::kPod;
  if (SameTopology(before.config, after.config) && !by_pod) {
    ASSERT_TRUE(by_reservation);
  }
  for (const ContainerTransition& other : transition.containers) {
    if (other.key == container.key) continue;
    ASSERT_FALSE(is.Intersects(other.before.exclusive)) << other.key.pod_uid;
    ASSERT_FALSE(is.Intersects(other.after.exclusive)) << other.key.pod_uid;
  }
  ASSERT_TRUE(state.cpu.Find(container.key) != nullptr);
}

void CheckTransition(const Node& before, const Node& after, const NodeState& state,
                     const Transition& transition, TransitionTally& tally) {
  if (!transition.IsAdmitted()) {
    ++tally.refused;
    ASSERT_EQ(transition.next, state);
    ASSERT_EQ(transition.faults, std::vector<std::string>{});
    int refused = 0;
    for (const ContainerTransition& container : transition.containers) {
      if (container.fate != Fate::kRefused) continue;
      ++refused;
      ASSERT_FALSE(container.why.empty());
    }
    ASSERT_GT(refused, 0);
    return;
  }
  ++tally.admitted;
  tally.moved += transition.HasMoves() ? 1 : 0;
  ASSERT_EQ(transition.next.BrokenInvariants(after), std::vector<std::string>{});
  ASSERT_EQ(transition.next.devices, state.devices);
  ASSERT_EQ(transition.next.memory.assignments, state.memory.assignments);
  for (const ContainerTransition& container : transition.containers) {
    CheckContainer(before, after, state, transition, container);
    if (testing::Test::HasFatalFailure()) return;
    const bool alone = after.config.topology_manager_scope == TopologyManagerScope::kContainer;
    if (after.config.topology_manager_policy == TopologyManagerPolicy::kSingleNumaNode && alone &&
        !SameTopology(before.config, after.config)) {
      ASSERT_LE(after.machine.NumaOf(container.after.exclusive).Count(), 1);
      NumaMask nodes = after.machine.NumaOf(container.before.exclusive);
      for (const int id : container.before.memory_nodes)
        nodes = nodes | after.machine.MaskOfIds({id});
      const bool was_aligned = nodes.Count() <= 1 && container.before.devices.empty() &&
                               !container.before.exclusive.Intersects(after.cpu->reserved);
      ASSERT_TRUE(!was_aligned || container.fate == Fate::kStays);
    }
  }
}

// The moves of the plan can be made before the change, and nothing is left to move then.
void CheckMoves(const Node& before, const Node& after, const NodeState& state,
                const Transition& transition) {
  const std::vector<CpuMove> moves = MovesIn(transition);
  if (moves.empty()) return;
  NodeState moved = state;
  for (const MoveStep step : {MoveStep::kReserve, MoveStep::kGo, MoveStep::kEnd}) {
    Result<NodeState> next = AfterStep(step, before, moved, moves);
    ASSERT_TRUE(next.ok()) << next.error().Text();
    ASSERT_EQ(next->BrokenInvariants(before), std::vector<std::string>{});
    for (const CpuMove& move : moves) {
      ASSERT_EQ(*next->cpu.Find(move.key), step == MoveStep::kEnd ? move.after : move.Both());
    }
    if (step == MoveStep::kGo) {
      NodeState back = *AfterStep(MoveStep::kGiveBack, before, *next, moves);
      back.cpu.originals = state.cpu.originals;  // an entry may be left out that says nothing
      back.cpu.reusable = state.cpu.reusable;
      ASSERT_EQ(back.cpu, state.cpu);
    }
    moved = *std::move(next);
  }
  const Transition then = PlanTransition(before, after, moved, MayMove::kNever);
  ASSERT_TRUE(then.IsAdmitted());
  ASSERT_EQ(then.next.cpu.assignments, transition.next.cpu.assignments);
  ASSERT_EQ(then.next.cpu.default_set, transition.next.cpu.default_set);
}

TEST(TransitionProperty, NoCpuHasTwoOwnersAndWhatMayStayStays) {
  Random random;
  TransitionTally tally;
  const int rounds = Iterations(300);
  for (int round = 0; round < rounds; ++round) {
    CrowdedNode crowded = CrowdedNode::Make(RandomMachine(random), random, random.Number(0, 2));
    for (int step = 0, last = random.Number(1, 8); step < last; ++step) {
      crowded.Step(step, random);
    }
    for (int change = 0; change < 4; ++change) {
      const Node after = RandomChange(crowded.node, random);
      const Transition never = PlanTransition(crowded.node, after, crowded.state, MayMove::kNever);
      ASSERT_FALSE(never.HasMoves());
      CheckTransition(crowded.node, after, crowded.state, never, tally);
      if (testing::Test::HasFatalFailure()) return;
      Transition moved = PlanTransition(crowded.node, after, crowded.state, MayMove::kIfNeeded);
      CheckTransition(crowded.node, after, crowded.state, moved, tally);
      if (testing::Test::HasFatalFailure()) return;
      if (never.IsAdmitted()) {
        ASSERT_EQ(moved.next, never.next);
      }
      if (!moved.IsAdmitted()) continue;
      CheckMoves(crowded.node, after, crowded.state, moved);
      if (testing::Test::HasFatalFailure()) return;
      const Transition again = PlanTransition(after, after, moved.next, MayMove::kNever);
      ASSERT_TRUE(again.IsAdmitted());
      ASSERT_EQ(again.next, moved.next);
      crowded.node = after;
      crowded.state = std::move(moved.next);
      if (!crowded.node.cpu) break;
      crowded.Step(100 + change, random);
    }
  }
  if (rounds >= 300) {
    EXPECT_GT(tally.admitted, 100);
    EXPECT_GT(tally.refused, 100);
    EXPECT_GT(tally.moved, 20);
  }
}

}  // namespace
}  // namespace alignd::admission
