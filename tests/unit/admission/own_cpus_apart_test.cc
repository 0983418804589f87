// Pods that ask by annotation what their CPUs stay away from; and what outlasts the admission.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "alignd/admission/resize.h"
#include "alignd/admission/transition.h"
#include "own_cpus_fixture.h"

namespace alignd::admission {
namespace {

TEST_F(OwnCpusTest, PcpuLevelStaysAwayFromTheCoresOfPodsWithTheSamePolicy) {
  constexpr auto kPcpu = CpuExclusivePolicy::kPcpuLevel;
  NodeState state = empty_;
  EXPECT_EQ(Place(node_, state, Avoiding(kPcpu, "a", "2", kSpread)), "1-2");
  // Another policy, and none, are no reason to stay away: the started core is filled first.
  for (const Pod& other : {Avoiding(CpuExclusivePolicy::kNumaNodeLevel, "b", "1"),
                           PodWith("b", "1"), Preferring(kSpread, "b", "1")}) {
    NodeState after = state;
    EXPECT_EQ(Place(node_, after, other), "3");
  }
  EXPECT_EQ(Place(node_, state, Avoiding(kPcpu, "b", "1")), "4");
  EXPECT_EQ(Place(node_, state, Avoiding(kPcpu, "c", "2", kSpread)), "8,10");
  // It is a wish: 8 CPUs need the cores of the others.
  EXPECT_EQ(Place(node_, state, Avoiding(kPcpu, "d", "8")), "3,5-7,12-15");
  ReleasePod("a", state);
  EXPECT_EQ(Place(node_, state, Avoiding(kPcpu, "e", "1")), "1");
}

TEST_F(OwnCpusTest, NumaNodeLevelStaysAwayFromTheNumaNodesOfPodsWithTheSamePolicy) {
  constexpr auto kNuma = CpuExclusivePolicy::kNumaNodeLevel;
  for (const TopologyManagerPolicy policy :
       {TopologyManagerPolicy::kNone, TopologyManagerPolicy::kBestEffort,
        TopologyManagerPolicy::kRestricted, TopologyManagerPolicy::kSingleNumaNode}) {
    KubeletConfig config = ConfigOf();
    config.topology_manager_policy = policy;
    const Node node = NodeOf(config);
    NodeState state = NodeState::Initial(node);
    EXPECT_EQ(Place(node, state, Avoiding(kNuma, "a", "2")), "2-3");
    EXPECT_EQ(Place(node, state, Avoiding(kNuma, "b", "2")), "8-9");
    EXPECT_EQ(Place(node, state, Avoiding(kNuma, "c", "2")), "4-5");  // both have such a pod
    EXPECT_EQ(Place(node, state, PodWith("d", "2")), "6-7");
  }
}

// Neither the alignment nor the number of NUMA nodes gets worse for it.
TEST_F(OwnCpusTest, StayingAwayComesAfterTheAlignment) {
  constexpr auto kNuma = CpuExclusivePolicy::kNumaNodeLevel;
  KubeletConfig config = ConfigOf();
  config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
  const Node node = NodeOf(config);
  NodeState state = NodeState::Initial(node);
  state.devices = devicemanager::StateWith(devicemanager::Registered({{"g0", {0}}}));
  ASSERT_EQ(Place(node, state, Avoiding(kNuma, "a", "2")), "2-3");
  Pod gpu = Avoiding(kNuma, "gpu", "2");
  gpu.containers[0].resources.limits[devicemanager::kGpu] = Quantity(1);
  gpu.containers[0].resources.requests[devicemanager::kGpu] = Quantity(1);
  EXPECT_EQ(Place(node, state, gpu), "4-5");
  // 8 CPUs of NUMA node 1 are free: none of NUMA node 0 is needed.
  NodeState other = empty_;
  ASSERT_EQ(Place(node_, other, PodWith("c", "3")), "1-3");
  ASSERT_EQ(Place(node_, other, Avoiding(kNuma, "b", "8")), "8-15");
  ReleasePod("c", other);
  EXPECT_EQ(Place(node_, other, Avoiding(kNuma, "e", "4")), "2-5");
}

// What a pod stays away from could be its own on an empty node: NUMA node 1 has 8 CPUs.
TEST_F(OwnCpusTest, StayingAwayDoesNotWeakenBestAttainable) {
  KubeletConfig config = ConfigOf();
  config.topology_manager_policy = TopologyManagerPolicy::kBestAttainable;
  const Node node = NodeOf(config);
  NodeState state = NodeState::Initial(node);
  state.cpu.default_set -= CpuSet{2, 4, 8, 10, 12};
  state.cpu.assignments["a"]["app"] = CpuSet{2, 4, 8, 10};
  state.cpu.assignments["other"]["app"] = CpuSet{12};
  state.chosen_policies["a"].exclusive = CpuExclusivePolicy::kPcpuLevel;
  for (const Pod& pod : {PodWith("p", "6"), Avoiding(CpuExclusivePolicy::kPcpuLevel, "p", "6")}) {
    const Admission admission = Decide(node, state, pod);
    ASSERT_FALSE(admission.admitted());
    EXPECT_EQ(admission.refusal->reason, "TopologyAffinityError");
  }
}

// Whatever is known of a pod after a restart, the next pod is answered as before it.
TEST_F(OwnCpusTest, ARestartLearnsThePoliciesOfRunningPods) {
  const Pod full = Requiring(kFull, "full", "2");
  const Pod spread = Avoiding(CpuExclusivePolicy::kPcpuLevel, "spread", "2", kSpread);
  NodeState state = empty_;
  Place(node_, state, full);
  Place(node_, state, spread);
  NodeState restarted = state;
  restarted.chosen_policies.clear();
  const Pod next = Avoiding(CpuExclusivePolicy::kPcpuLevel, "next", "1");
  EXPECT_NE(Decide(node_, restarted, next).next.cpu, Decide(node_, state, next).next.cpu);
  std::map<std::string, PodPolicies> asked = {
      {"full", full.policies}, {"spread", spread.policies}, {"gone", spread.policies}};
  for (auto& [uid, policies] : asked) policies.name_space = "default";
  EXPECT_EQ(WithPolicies(node_, restarted, asked), state);
  for (const auto& [uid, policies] : asked) {
    EXPECT_EQ(HasPolicies(node_, state, uid, policies), uid != "gone");
    EXPECT_FALSE(HasPolicies(node_, restarted, uid, policies));
  }
  // Nothing holds a pod to what it was never admitted with; what it stays away from is no promise.
  PodPolicies other{.name_space = "default",
                    .required_bind = kSpread,
                    .exclusive = CpuExclusivePolicy::kPcpuLevel};
  const NodeState learned = WithPolicies(node_, restarted, {{"full", other}});
  EXPECT_FALSE(HasPolicies(node_, learned, "full", other));
  other.required_bind.reset();
  EXPECT_TRUE(HasPolicies(node_, learned, "full", other));
  KubeletConfig off = ConfigOf();
  off.pod_policies.clear();
  EXPECT_EQ(WithPolicies(NodeOf(off), restarted, asked), restarted);
}

// The containers of the pod together; an ended init container does not count.
TEST_F(OwnCpusTest, ARestartLearnsSpreadingOfAllContainersTogether) {
  const PodPolicies asked{.required_bind = kSpread};
  const auto learns = [&](const CpuSet& a, const CpuSet& b, const CpuSet& reusable) {
    NodeState state = empty_;
    state.cpu.default_set -= a | b;
    state.cpu.assignments["p"] = {{"a", a}, {"b", b}};
    if (!reusable.empty()) state.cpu.reusable["p"] = reusable;
    return HasPolicies(node_, WithPolicies(node_, state, {{"p", asked}}), "p", asked);
  };
  EXPECT_FALSE(learns({2}, {3}, {}));
  EXPECT_TRUE(learns({2}, {4}, {}));
  EXPECT_TRUE(learns({2, 4}, {2, 6}, {}));
  EXPECT_TRUE(learns({2}, {3}, {2}));
}

// It keeps what it had before it asked; nothing holds it to whole cores later.
TEST_F(OwnCpusTest, APolicyThatARunningPodDoesNotSatisfyIsNotKept) {
  NodeState state = empty_;
  ASSERT_EQ(Place(node_, state, PodWith("p", "3")), "1-3");
  const NodeState before = state;
  ASSERT_EQ(Place(node_, state, Requiring(kFull, "p", "3")), "1-3");
  EXPECT_EQ(state, before);
  EXPECT_TRUE(Resize(node_, state, {"p", "app"}, 4).admitted());
  ASSERT_EQ(Place(node_, state, Requiring(kSpread, "q", "2")), "4,6");
  ASSERT_EQ(Place(node_, state, Requiring(kSpread, "q", "2")), "4,6");
  EXPECT_TRUE(HasPolicies(node_, state, "q", {.name_space = "default", .required_bind = kSpread}));
}

// Of such a container, only the memory is assigned.
TEST_F(OwnCpusTest, AContainerWithoutExclusiveCpusDoesNotStandInTheWayOfItsPod) {
  KubeletConfig config = ConfigOf();
  config.pod_policies.insert(PodPolicy::kNumaTopologyPolicy);
  config.memory_manager_policy = MemoryManagerPolicy::kStatic;
  config.eviction_hard_memory = "";
  config.system_reserved = Amounts({{"memory", "512Mi"}});
  config.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", "512Mi"}})}};
  const auto node_of = [](const KubeletConfig& of) {
    Result<Node> node = Node::Make(MakeMachine("socket:2 numa:1 core:4 thread:2 memory-gib=4"), of);
    EXPECT_TRUE(node.ok()) << node.error().Text();
    return *std::move(node);
  };
  const Node node = node_of(config);
  Pod pod = MakePod("p", {App("a", {{"cpu", "2"}, {"memory", "64Mi"}}),
                          App("b", {{"cpu", "500m"}, {"memory", "64Mi"}})});
  pod.policies.required_bind = kFull;
  pod.policies.numa_topology = NumaTopologyPolicy::kSingleNumaNode;
  NodeState state = NodeState::Initial(node);
  ASSERT_EQ(Place(node, state, pod), "2-3");
  const std::map<std::string, PodPolicies> asked = {{"p", pod.policies}};
  NodeState learned = state;
  learned.chosen_policies.clear();
  for (int i = 0; i < 2; ++i) {
    learned = WithPolicies(node, learned, asked);
    EXPECT_TRUE(HasPolicies(node, learned, "p", pod.policies)) << i;
  }
  config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
  const Transition change = PlanTransition(node, node_of(config), state, MayMove::kNever);
  EXPECT_TRUE(change.IsAdmitted());
  EXPECT_EQ(change.next.cpu.assignments, state.cpu.assignments);
}

TEST_F(OwnCpusTest, AResizeKeepsWhatThePodRequires) {
  NodeState state = empty_;
  ASSERT_EQ(Place(node_, state, Requiring(kFull, "full", "2")), "2-3");
  ASSERT_EQ(Place(node_, state, PodWith("one", "1")), "1");
  ASSERT_EQ(Place(node_, state, PodWith("two", "1")), "4");
  const ResizeDecision four = Resize(node_, state, {"full", "app"}, 4);
  ASSERT_TRUE(four.admitted());
  EXPECT_EQ(four.after.ToString(), "2-3,6-7");
  const ResizeDecision three = Resize(node_, state, {"full", "app"}, 3);
  ASSERT_FALSE(three.admitted());
  EXPECT_NE(three.refusal->message.find("requiredCPUBindPolicy FullPCPUs of annotation "
                                        "scheduling.koordinator.sh/resource-spec allows only "
                                        "whole cores (SMT Alignment Error: requested 3 cpus"),
            std::string::npos)
      << three.refusal->message;

  state = empty_;
  ASSERT_EQ(Place(node_, state, Requiring(kSpread, "spread", "2")), "1-2");
  const ResizeDecision wider = Resize(node_, state, {"spread", "app"}, 8);
  ASSERT_TRUE(wider.admitted());
  EXPECT_EQ(wider.after.ToString(), "1-2,4,6,8,10,12,14");
  const ResizeDecision nine = Resize(node_, state, {"spread", "app"}, 9);
  ASSERT_FALSE(nine.admitted());
  EXPECT_NE(nine.refusal->message.find("requiredCPUBindPolicy SpreadByPCPUs"), std::string::npos)
      << nine.refusal->message;
  EXPECT_EQ(nine.next, state);
}

TEST_F(OwnCpusTest, AMovedPodKeepsWhatItRequires) {
  NodeState state = empty_;
  ASSERT_EQ(Place(node_, state, Requiring(kFull, "full", "2")), "2-3");
  ASSERT_EQ(Place(node_, state, PodWith("one", "1")), "1");
  ASSERT_EQ(Place(node_, state, PodWith("two", "1")), "4");
  KubeletConfig config = ConfigOf();
  config.reserved_system_cpus = "0,3";
  const Node after = NodeOf(config);
  const Transition moved = PlanTransition(node_, after, state, MayMove::kIfNeeded);
  ASSERT_TRUE(moved.IsAdmitted());
  EXPECT_EQ(moved.next.cpu.HeldBy("full").ToString(), "6-7");
  EXPECT_TRUE(
      HasPolicies(after, moved.next, "full", {.name_space = "default", .required_bind = kFull}));
  // A running pod stays where an option of the node contradicts what it requires.
  EXPECT_TRUE(PlanTransition(node_, NodeOf(ConfigOf("distribute-cpus-across-cores")), state,
                             MayMove::kNever)
                  .IsAdmitted());
}

TEST_F(OwnCpusTest, APodWithCpusAsAWholeHasThemAsItRequires) {
  KubeletConfig config = ConfigOf();
  config.feature_gates["PodLevelResourceManagers"] = true;
  config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
  config.topology_manager_scope = TopologyManagerScope::kPod;
  const Node node = NodeOf(config);
  NodeState state = NodeState::Initial(node);
  ASSERT_EQ(Place(node, state, PodWith("one", "1")), "1");
  ASSERT_EQ(Place(node, state, PodWith("two", "1")), "2");
  for (const auto& [bind, cpus] : std::map<Bind, std::string>{{kFull, "4-7"}, {kSpread, "3-4,6"}}) {
    const std::string count = bind == kFull ? "4" : "3";
    Pod pod = MakePod("p", {App("a", {{"cpu", "1"}, {"memory", "64Mi"}}), App("b", {})});
    pod.pod_level = Resources{.requests = Amounts({{"cpu", count}, {"memory", "1Gi"}}),
                              .limits = Amounts({{"cpu", count}, {"memory", "1Gi"}})};
    pod.policies.required_bind = bind;
    NodeState with = state;
    EXPECT_EQ(Place(node, with, pod), cpus);
    EXPECT_EQ(with.cpu.pods.at("p").ToString(), cpus);
    NodeState restarted = with;
    restarted.chosen_policies.clear();
    PodPolicies asked = pod.policies;
    asked.name_space = "default";
    EXPECT_EQ(WithPolicies(node, restarted, {{"p", asked}}), with);
  }
}

}  // namespace
}  // namespace alignd::admission
