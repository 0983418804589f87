#include "allocation/reservation.h"

#include <gtest/gtest.h>

#include "alignd/admission/admission.h"
#include "alignd/admission/resize.h"
#include "edge/allocation_node.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;

class ReservationTest : public ::testing::Test {
 protected:
  ReservationTest() {
    empty.devices.resources[kGpu] = EightDevices("gpu");
    empty.devices.resources[kNic] = EightDevices("nic");
  }

  admission::NodeState Admitted(const Pod& pod, const admission::NodeState& before) const {
    const auto no_preference = [](const devicemanager::PreferenceQuery&) { return std::nullopt; };
    admission::Admission admission = admission::Admit(node, before, pod, no_preference);
    EXPECT_TRUE(admission.admitted()) << admission.refusal->message;
    return std::move(admission.next);
  }

  const admission::Node node = MakeNode();
  admission::NodeState empty = admission::NodeState::Initial(node);
};

TEST_F(ReservationTest, GivenBackAtOnceLeavesWhatWasBefore) {
  const std::vector<std::pair<std::string, Pod>> cases = {
      {"CPUs and memory", AppPod("pod", 4)},
      {"devices too", AppPod("pod", 2, {{kGpu, "2"}, {kNic, "1"}})},
      {"devices only", MakePod("pod", {App("app", {{kGpu, "1"}})})},
      {"two containers", MakePod("pod", {App("a", {{"cpu", "2"}, {"memory", "1Gi"}}),
                                         App("b", {{"cpu", "4"}, {"memory", "60Gi"}})})},
      {"memory of both NUMA nodes", MakePod("pod", {App("a", {{"cpu", "2"}, {"memory", "80Gi"}})})},
      {"an init container and its heir",
       MakePod("pod", {Init("init", {{"cpu", "4"}, {"memory", "2Gi"}, {kGpu, "2"}}),
                       App("app", {{"cpu", "2"}, {"memory", "1Gi"}, {kGpu, "1"}})})},
  };
  for (const auto& [name, pod] : cases) {
    admission::NodeState state = Admitted(pod, empty);
    EXPECT_NE(state, empty) << name;
    GiveBack(Difference(pod, empty, state), state);
    EXPECT_EQ(state, empty) << name;
  }
}

TEST_F(ReservationTest, GivesBackThePolicyThatAPodHasChosen) {
  KubeletConfig config = node.config;
  config.topology_manager_policy = TopologyManagerPolicy::kNone;
  config.pod_policies = {PodPolicy::kNumaTopologyPolicy};
  const Result<admission::Node> choosing = admission::Node::Make(node.machine, config);
  ASSERT_TRUE(choosing.ok()) << choosing.error().Text();
  const auto admitted = [&](NumaTopologyPolicy policy, const admission::NodeState& before) {
    Pod pod = AppPod("pod", 2);
    pod.policies.numa_topology = policy;
    return admission::Admit(*choosing, before, pod, [](const auto&) { return std::nullopt; }).next;
  };
  const Pod pod = AppPod("pod", 2);
  const admission::NodeState first = admitted(NumaTopologyPolicy::kRestricted, empty);
  admission::NodeState second = admitted(NumaTopologyPolicy::kBestEffort, first);
  ASSERT_NE(first.chosen_policies, second.chosen_policies);
  GiveBack(Difference(pod, first, second), second);
  EXPECT_EQ(second, first);
  GiveBack(Difference(pod, empty, first), second);
  EXPECT_EQ(second, empty);
}

TEST_F(ReservationTest, GivesBackWhatAResizeAddedSince) {
  const Pod pod = AppPod("pod", 2);
  const admission::NodeState admitted = Admitted(pod, empty);
  const admission::ResizeDecision resized = admission::Resize(node, admitted, {"pod", "app"}, 4);
  ASSERT_TRUE(resized.admitted()) << resized.refusal->message;
  admission::NodeState state = resized.next;
  GiveBack(Difference(pod, empty, admitted), state);
  EXPECT_EQ(state, empty);
}

TEST_F(ReservationTest, KeepsWhatOthersGotSince) {
  const Pod first = AppPod("first", 4, {{kGpu, "2"}});
  const Pod second = AppPod("second", 2, {{kGpu, "1"}});
  const admission::NodeState with_first = Admitted(first, empty);
  admission::NodeState state = Admitted(second, with_first);
  const admission::Assignment before = admission::AssignmentOf(node, state, {"second", "app"});
  GiveBack(Difference(first, empty, with_first), state);
  EXPECT_EQ(admission::AssignmentOf(node, state, {"second", "app"}), before);
  EXPECT_TRUE(state.BrokenInvariants(node).empty());
  admission::ReleasePod("second", state);
  EXPECT_EQ(state, empty);
}

TEST_F(ReservationTest, KeepsWhatThePodHeldBefore) {
  const Pod one = MakePod("pod", {App("a", {{"cpu", "2"}, {"memory", "1Gi"}})});
  Pod both = one;
  both.containers.push_back(App("b", {{"cpu", "4"}, {"memory", "1Gi"}, {kGpu, "1"}}));
  const admission::NodeState before = Admitted(one, empty);
  admission::NodeState state = Admitted(both, before);
  GiveBack(Difference(both, before, state), state);
  EXPECT_EQ(state, before);
}

TEST_F(ReservationTest, TakesOnlyTheDeviceFromAContainerThatHadItsCpus) {
  const Pod without = AppPod("pod", 2);
  const Pod with = AppPod("pod", 2, {{kGpu, "1"}});
  const admission::NodeState before = Admitted(without, empty);
  admission::NodeState state = Admitted(with, before);
  EXPECT_NE(state.devices.Find({"pod", "app"}, kGpu), nullptr);
  GiveBack(Difference(with, before, state), state);
  EXPECT_EQ(state, before);
}

TEST_F(ReservationTest, LeavesTheCpusOfAnInitContainerToTheNextTry) {
  const Container init = Init("init", {{"cpu", "4"}, {"memory", "1Gi"}});
  const Pod first = MakePod("pod", {init});
  const Pod both =
      MakePod("pod", {init, App("app", {{"cpu", "4"}, {"memory", "1Gi"}, {kGpu, "1"}})});
  const admission::NodeState before = Admitted(first, empty);
  admission::NodeState state = Admitted(both, before);
  const CpuSet inherited = *state.cpu.Find({"pod", "app"});
  EXPECT_EQ(inherited, *before.cpu.Find({"pod", "init"}));
  GiveBack(Difference(both, before, state), state);
  EXPECT_EQ(state.cpu, before.cpu);
  EXPECT_EQ(*Admitted(both, state).cpu.Find({"pod", "app"}), inherited);
}

// A resize of a container of a pod, beside changes of others.
class ResizeReservationTest : public ReservationTest {
 protected:
  const ContainerKey key{"pod", "app"};
  const admission::NodeState before = Admitted(AppPod("pod", 2), empty);

  admission::NodeState Resized(const admission::NodeState& from, int64_t count) const {
    admission::ResizeDecision decision = admission::Resize(node, from, key, count);
    EXPECT_TRUE(decision.admitted()) << decision.refusal->message;
    return std::move(decision.next);
  }
};

TEST_F(ResizeReservationTest, LeadsToTheNewStateOrBackToTheOldOne) {
  const admission::NodeState grown = Resized(before, 6);
  const admission::NodeState shrunk = Resized(grown, 3);
  const std::pair<admission::NodeState, admission::NodeState> cases[] = {
      {before, grown}, {grown, shrunk}, {shrunk, Resized(shrunk, 2)}};
  for (const auto& [from, to] : cases) {
    const Reservation reservation = ResizeOf(key, from, to);
    admission::NodeState reserved = from;
    ReserveInPlace(reservation, reserved);
    EXPECT_EQ(*reserved.cpu.Find(key), *from.cpu.Find(key) | *to.cpu.Find(key));
    EXPECT_TRUE(reserved.BrokenInvariants(node).empty());
    admission::NodeState completed = reserved;
    Complete(reservation, completed);
    EXPECT_EQ(completed, to);
    admission::NodeState given_back = reserved;
    GiveBack(reservation, given_back);
    EXPECT_EQ(given_back, from);
  }
}

TEST_F(ResizeReservationTest, KeepsWhatOthersGotSince) {
  for (const bool completes : {true, false}) {
    const admission::NodeState grown = Resized(before, 6);
    const Reservation reservation = ResizeOf(key, before, grown);
    admission::NodeState state = before;
    ReserveInPlace(reservation, state);
    state = Admitted(AppPod("other", 4), state);
    const CpuSet other = *state.cpu.Find({"other", "app"});
    completes ? Complete(reservation, state) : GiveBack(reservation, state);
    EXPECT_EQ(*state.cpu.Find({"other", "app"}), other);
    EXPECT_EQ(state.cpu.Find(key)->Count(), completes ? 6 : 2);
    EXPECT_TRUE(state.BrokenInvariants(node).empty());
    admission::ReleasePod("other", state);
    admission::ReleasePod("pod", state);
    EXPECT_EQ(state.cpu, empty.cpu);
  }
}

TEST_F(ResizeReservationTest, DoesNothingOnceThePodIsReleased) {
  const admission::NodeState grown = Resized(before, 6);
  const Reservation reservation = ResizeOf(key, before, grown);
  admission::NodeState state = before;
  ReserveInPlace(reservation, state);
  admission::ReleasePod("pod", state);
  for (const bool completes : {true, false}) {
    completes ? Complete(reservation, state) : GiveBack(reservation, state);
    EXPECT_EQ(state, empty);
  }
}

}  // namespace
}  // namespace alignd::allocation
