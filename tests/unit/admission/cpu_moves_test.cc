#include "alignd/admission/cpu_moves.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/assignment.h"
#include "alignd/admission/assignment_mark.h"
#include "alignd/admission/resize.h"
#include "alignd/admission/transition.h"
#include "alignd/cpumanager/static_policy.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

CpuSet MoveCpus(const char* text) { return *CpuSet::Parse(text); }

// CPUs 0-7 and 8-15 on two NUMA nodes; CPU 0 is reserved. `p` has CPUs 1-3, `q` 4-5.
class CpuMovesTest : public testing::Test {
 protected:
  CpuMovesTest() {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
    node = *Node::Make(MakeMachine("socket:2 numa:1 core:8"), config);
    state = NodeState::Initial(*node);
    Add("p", "3");
    Add("q", "2");
  }

  void Add(const std::string& uid, const std::string& cpus) {
    Admission admission = Admit(*node, state, AppPod(uid, {{"cpu", cpus}, {"memory", "64Mi"}}),
                                devicemanager::NoPreference);
    ASSERT_TRUE(admission.admitted());
    state = std::move(admission.next);
  }

  void Step(MoveStep step) {
    Result<NodeState> next = AfterStep(step, *node, state, moves);
    ASSERT_TRUE(next.ok()) << next.error().Text();
    state = *std::move(next);
    EXPECT_EQ(state.BrokenInvariants(*node), std::vector<std::string>{});
  }
  std::string Error() const {
    const Result<NodeState> next = AfterStep(MoveStep::kReserve, *node, state, moves);
    return next.ok() ? "" : next.error().message;
  }
  // "assigned: on the CPUs to run on".
  std::string Of(const std::string& uid) const {
    const ContainerKey key{uid, "app"};
    const CpuSet* const assigned = state.cpu.Find(key);
    return (assigned == nullptr ? "none" : assigned->ToString()) + ": on " +
           AssignmentOf(*node, state, key).exclusive.ToString();
  }

  std::optional<Node> node;
  NodeState state;
  std::vector<CpuMove> moves = {{{"p", "app"}, MoveCpus("1-3"), MoveCpus("2-3,6")}};
};

TEST_F(CpuMovesTest, BothSidesAreTheContainersUntilItHasMoved) {
  const NodeState before = state;
  Step(MoveStep::kReserve);
  EXPECT_EQ(Of("p"), "1-3,6: on 1-3");
  EXPECT_EQ(state.cpu.default_set.ToString(), "0,7-15");
  EXPECT_EQ(state.cpu.OriginalOf({"p", "app"}).ToString(), "1-3");
  Step(MoveStep::kGo);
  EXPECT_EQ(Of("p"), "1-3,6: on 2-3,6");
  Step(MoveStep::kEnd);
  EXPECT_EQ(Of("p"), "2-3,6: on 2-3,6");
  EXPECT_EQ(state.cpu.default_set.ToString(), "0-1,7-15");
  EXPECT_TRUE(state.cpu.originals.empty());
  EXPECT_TRUE(state.cpu.moving.empty());
  EXPECT_EQ(Of("q"), "4-5: on 4-5");
  EXPECT_EQ(state.affinities, before.affinities);
}

TEST_F(CpuMovesTest, ItGoesBackAtAnyTime) {
  const NodeState before = state;
  Step(MoveStep::kReserve);
  Step(MoveStep::kGiveBack);
  EXPECT_EQ(state, before);
  Step(MoveStep::kReserve);
  Step(MoveStep::kGo);
  Step(MoveStep::kReturn);
  EXPECT_EQ(Of("p"), "1-3,6: on 1-3");
  Step(MoveStep::kGiveBack);
  EXPECT_EQ(state, before);
}

// After a restart, it is not known where the containers are to run.
TEST_F(CpuMovesTest, AContainerThatIsCreatedMeanwhileIsMarkedWithTheCpusThatItRunsOn) {
  const ContainerKey key{"p", "app"};
  for (const auto& [step, cpus] : {std::pair{MoveStep::kReserve, "1-3"},
                                   {MoveStep::kGo, "2-3,6"},
                                   {MoveStep::kReturn, "1-3"}}) {
    Step(step);
    const AssignmentMark mark = MarkOf(state, key);
    EXPECT_EQ(mark.cpus.ToString(), cpus);
    EXPECT_EQ(mark.Original(), mark.cpus);
  }
}

TEST_F(CpuMovesTest, ARestartKeepsBothSides) {
  const NodeState before = state;
  Step(MoveStep::kReserve);
  Step(MoveStep::kGo);
  state.cpu.moving.clear();
  EXPECT_EQ(Of("p"), "1-3,6: on 1-3,6");
  EXPECT_EQ(Unfinished(state, moves), moves);
  Step(MoveStep::kReturn);
  Step(MoveStep::kGiveBack);
  EXPECT_EQ(state, before);
  EXPECT_TRUE(Unfinished(state, moves).empty());
}

TEST_F(CpuMovesTest, OnlyFreeCpusAreReserved) {
  moves[0].after = MoveCpus("2-4");
  EXPECT_NE(Error().find("CPUs 4 are not free any more"), std::string::npos) << Error();
  moves[0].after = MoveCpus("0,2-3");
  EXPECT_NE(Error().find("CPUs 0 are not free any more"), std::string::npos) << Error();
  moves[0] = {{"p", "app"}, MoveCpus("1-2"), MoveCpus("6-7")};
  EXPECT_NE(Error().find("it has other CPUs now"), std::string::npos) << Error();
  moves[0] = {{"gone", "app"}, MoveCpus("1-2"), MoveCpus("6-7")};
  EXPECT_NE(Error().find("it has other CPUs now"), std::string::npos) << Error();
  // Two containers do not get the same CPUs.
  moves = {{{"p", "app"}, MoveCpus("1-3"), MoveCpus("2-3,6")},
           {{"q", "app"}, MoveCpus("4-5"), MoveCpus("5-6")}};
  EXPECT_NE(Error().find("CPUs 6 are not free any more"), std::string::npos) << Error();
  // Nor one that another one leaves.
  moves[1].after = MoveCpus("1,5");
  EXPECT_NE(Error().find("CPUs 1 are not free any more"), std::string::npos) << Error();
  moves = {moves[0], moves[0]};
  EXPECT_FALSE(Error().empty());
}

TEST_F(CpuMovesTest, AContainerThatEndsIsLeftOut) {
  Step(MoveStep::kReserve);
  Step(MoveStep::kGo);
  ReleasePod("p", state);
  EXPECT_TRUE(state.cpu.moving.empty());
  const NodeState released = state;
  Step(MoveStep::kReturn);
  Step(MoveStep::kEnd);
  Step(MoveStep::kGiveBack);
  EXPECT_EQ(state, released);
  EXPECT_EQ(state.cpu.default_set.ToString(), "0-3,6-15");
}

TEST_F(CpuMovesTest, OfflineCpusAreNotRunOn) {
  Step(MoveStep::kReserve);
  Step(MoveStep::kGo);
  cpumanager::SetOffline(MoveCpus("6"), state.cpu);
  EXPECT_EQ(Of("p"), "1-3,6: on 2-3");
  cpumanager::SetOffline(MoveCpus("2-3,6"), state.cpu);
  EXPECT_EQ(Of("p"), "1-3,6: on 1");  // rather than none
}

TEST_F(CpuMovesTest, AResizedContainerKeepsHowFarItCanShrink) {
  ResizeDecision grown = Resize(*node, state, {"q", "app"}, 3);
  ASSERT_TRUE(grown.admitted());
  state = std::move(grown.next);
  const NodeState before = state;
  ASSERT_EQ(Of("q"), "4-6: on 4-6");
  moves = {{{"q", "app"}, MoveCpus("4-6"), MoveCpus("6-8")}};
  Step(MoveStep::kReserve);
  EXPECT_EQ(state.cpu.OriginalOf({"q", "app"}).ToString(), "4-5");
  Step(MoveStep::kGiveBack);
  EXPECT_EQ(state, before);
  Step(MoveStep::kReserve);
  Step(MoveStep::kEnd);
  EXPECT_EQ(state.cpu.OriginalOf({"q", "app"}).Count(), 2);
  // CPU 8 is on another NUMA node: the stored affinity says so.
  EXPECT_EQ(state.affinities.at({"q", "app"}).affinity, node->machine.NumaOf(MoveCpus("6-8")));
}

TEST_F(CpuMovesTest, MovesAreThoseOfThePlan) {
  KubeletConfig config = node->config;
  config.reserved_system_cpus = "0-1";
  const Node after = *Node::Make(node->machine, config);
  const Transition plan = PlanTransition(*node, after, state, MayMove::kIfNeeded);
  EXPECT_EQ(MovesIn(plan), moves);
}

// Containers of the shared pool that stay on one NUMA node, beside containers that move. Two NUMA
// nodes with four CPUs each; CPU 0 is reserved.
class MovesBesideSharesTest : public testing::Test {
 protected:
  static Node NodeWith(const std::string& reserved) {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = reserved;
    config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
    config.topology_manager_scope = TopologyManagerScope::kPod;
    config.pod_policies = {PodPolicy::kSharedNumaNode};
    Result<Node> node = Node::Make(MakeMachine("socket:2 numa:1 core:4"), config);
    EXPECT_TRUE(node.ok()) << node.error().Text();
    return *std::move(node);
  }

  void Assign(const std::string& uid, const char* cpus) {
    state_.cpu.assignments[uid]["app"] = MoveCpus(cpus);
    state_.cpu.default_set -= MoveCpus(cpus);
  }

  // The CPUs of `uid` after the change, or why it is refused.
  std::string After(const std::string& reserved, const std::string& uid) {
    const Transition plan = PlanTransition(before_, NodeWith(reserved), state_, MayMove::kIfNeeded);
    std::string why;
    for (const std::string& fault : plan.faults) why += fault + "\n";
    for (const ContainerTransition& container : plan.containers) why += container.why + "\n";
    if (!plan.IsAdmitted()) return why;
    EXPECT_EQ(plan.next.cpu.shares, state_.cpu.shares);
    return plan.next.cpu.HeldBy(uid).ToString();
  }

  const Node before_ = NodeWith("0");
  NodeState state_ = NodeState::Initial(before_);
};

// A container of the pod itself: it is placed with the one that moves, as it has a device.
TEST_F(MovesBesideSharesTest, AMoveLeavesTheCpusOfItsOwnPod) {
  Assign("p", "4-6");
  state_.cpu.shares[{"p", "log"}] = {.numa_id = 1, .millis = 500};
  state_.devices.resources[devicemanager::kGpu] = devicemanager::Registered({{"g1", {1}}});
  state_.devices.allocations[{"p", "log"}][devicemanager::kGpu] = {{{1, {"g1"}}}, ""};
  EXPECT_EQ(After("0,4", "p"), "1,5-6");
}

// Until the move ends, the container has its old CPUs as well, so these do not back the requests.
TEST_F(MovesBesideSharesTest, AMoveTakesCpusThatOthersNeedNotEvenForAMoment) {
  Assign("x", "5-7");
  Assign("y", "2-3");
  state_.cpu.shares[{"s", "app"}] = {.numa_id = 1, .millis = 1000};
  EXPECT_EQ(After("0,5", "x"), "1,6-7");
}

}  // namespace
}  // namespace alignd::admission
