#include "alignd/admission/transition.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/resize.h"
#include "alignd/cpumanager/static_policy.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

constexpr char kTransitionGpu[] = "a.com/gpu";

// Two NUMA nodes with eight single-threaded cores each: CPUs 0-7 and 8-15. CPU 0 is reserved.
class TransitionTest : public testing::Test {
 protected:
  TransitionTest() {
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
  }

  void Start(const char* machine = "socket:2 numa:1 core:8") {
    node = NodeWith(MakeMachine(machine), config);
    state = NodeState::Initial(*node);
  }

  static Node NodeWith(const Machine& machine, const KubeletConfig& settings) {
    Result<Node> made = Node::Make(machine, settings);
    if (!made.ok()) BadMachineText("NodeWith", made.error().message);
    return *std::move(made);
  }

  void Add(const std::string& uid, const std::map<std::string, std::string>& amounts) {
    Admission admission = Admit(*node, state, AppPod(uid, amounts), devicemanager::NoPreference);
    ASSERT_TRUE(admission.admitted()) << admission.refusal->message;
    state = std::move(admission.next);
  }

  void AddCpus(const std::string& uid, const std::string& cpus) {
    Add(uid, {{"cpu", cpus}, {"memory", "64Mi"}});
  }

  // `change` edits the configuration.
  Transition Plan(const std::function<void(KubeletConfig&)>& change,
                  MayMove may_move = MayMove::kIfNeeded) {
    KubeletConfig changed = config;
    change(changed);
    after = NodeWith(node->machine, changed);
    Transition transition = PlanTransition(*node, *after, state, may_move);
    if (transition.IsAdmitted()) {
      EXPECT_EQ(transition.next.BrokenInvariants(*after), std::vector<std::string>{});
    } else {
      EXPECT_TRUE(transition.next == state);
    }
    return transition;
  }

  // "p/app: 1-4 -> 8-11 (CPUs 1 become reserved)", one for each container that does not stay.
  static std::vector<std::string> Changes(const Transition& transition) {
    std::vector<std::string> changes = transition.faults;
    for (const ContainerTransition& container : transition.containers) {
      if (container.fate == Fate::kStays) continue;
      changes.push_back(container.key.pod_uid + "/" + container.key.container + ": " +
                        container.before.exclusive.ToString() +
                        (container.fate == Fate::kMoves
                             ? " -> " + container.after.exclusive.ToString()
                             : " refused") +
                        " (" + container.why + ")");
    }
    return changes;
  }

  using Lines = std::vector<std::string>;

  KubeletConfig config;
  std::optional<Node> node;
  std::optional<Node> after;
  NodeState state;
};

TEST_F(TransitionTest, NoChangeLeavesTheStateAsItIs) {
  Start();
  AddCpus("p", "4");
  const Transition transition = Plan([](KubeletConfig&) {});
  EXPECT_TRUE(transition.IsAdmitted());
  EXPECT_FALSE(transition.HasMoves());
  ASSERT_EQ(transition.containers.size(), 1u);
  EXPECT_EQ(transition.containers[0].before.exclusive.ToString(), "1-4");
  EXPECT_EQ(transition.containers[0].after.exclusive.ToString(), "1-4");
  EXPECT_EQ(transition.next.cpu, state.cpu);
  EXPECT_EQ(transition.next.affinities, state.affinities);
}

TEST_F(TransitionTest, ReservedCpusGrowOutOfFreeOnes) {
  Start();
  AddCpus("p", "4");
  const Transition transition =
      Plan([](KubeletConfig& c) { c.reserved_system_cpus = "0,8"; }, MayMove::kNever);
  EXPECT_EQ(Changes(transition), Lines{});
  EXPECT_EQ(transition.shared_before.ToString(), "0,5-15");
  EXPECT_EQ(transition.shared_after.ToString(), "0,5-15");
  EXPECT_TRUE(transition.IsAdmitted());
}

TEST_F(TransitionTest, StrictReservationTakesReservedCpusFromTheSharedPool) {
  Start();
  AddCpus("p", "4");
  const Transition strict = Plan(
      [](KubeletConfig& c) { c.cpu_manager_policy_options["strict-cpu-reservation"] = "true"; },
      MayMove::kNever);
  EXPECT_TRUE(strict.IsAdmitted());
  EXPECT_EQ(strict.shared_after.ToString(), "5-15");
}

TEST_F(TransitionTest, AContainerLeavesCpusThatBecomeReserved) {
  Start();
  AddCpus("p", "4");
  AddCpus("q", "2");
  const auto reserve = [](KubeletConfig& c) { c.reserved_system_cpus = "0-1"; };
  EXPECT_EQ(Changes(Plan(reserve, MayMove::kNever)),
            Lines{"p/app: 1-4 refused (CPUs 1 become reserved; running containers do not move: "
                  "delete or resize its pod, then repeat the change)"});
  const Transition transition = Plan(reserve);
  EXPECT_EQ(Changes(transition), Lines{"p/app: 1-4 -> 2-4,7 (CPUs 1 become reserved)"});
  EXPECT_EQ(transition.next.cpu.default_set.ToString(), "0-1,8-15");
}

TEST_F(TransitionTest, NoContainerMovesToWhatAnotherOneLeaves) {
  Start("socket:1 numa:1 core:8");
  AddCpus("p", "2");
  AddCpus("q", "2");
  AddCpus("r", "1");
  // p has 1-2, q 3-4, r 5; 6-7 are free. p and q must leave one CPU each.
  const Transition transition = Plan([](KubeletConfig& c) { c.reserved_system_cpus = "1,3"; });
  EXPECT_TRUE(transition.IsAdmitted());
  const CpuSet p = *transition.next.cpu.Find({"p", "app"});
  const CpuSet q = *transition.next.cpu.Find({"q", "app"});
  EXPECT_FALSE(p.Intersects(*state.cpu.Find({"q", "app"}))) << p.ToString();
  EXPECT_FALSE(q.Intersects(*state.cpu.Find({"p", "app"}))) << q.ToString();
}

TEST_F(TransitionTest, WhatDoesNotFitIsRefusedAndNothingChanges) {
  Start("socket:1 numa:1 core:8");
  AddCpus("p", "4");
  AddCpus("q", "3");
  const Transition transition = Plan([](KubeletConfig& c) { c.reserved_system_cpus = "0-1"; });
  EXPECT_FALSE(transition.IsAdmitted());
  ASSERT_EQ(transition.containers.size(), 2u);
  EXPECT_EQ(transition.containers[0].fate, Fate::kRefused);
  EXPECT_EQ(transition.containers[0].why.rfind("CPUs 1 become reserved; it fits nowhere else: ", 0),
            0u)
      << transition.containers[0].why;
  EXPECT_EQ(transition.containers[1].fate, Fate::kStays);
}

TEST_F(TransitionTest, AStricterPolicyMovesWhatItWouldNotAdmit) {
  Start();
  AddCpus("a", "6");  // 1-6
  AddCpus("b", "8");  // 8-15
  AddCpus("c", "1");  // 7
  ReleasePod("a", state);
  AddCpus("d", "6");
  ReleasePod("b", state);
  ReleasePod("c", state);
  // d is on node 0 only: nothing moves. A container on both nodes has to.
  const auto single = [](KubeletConfig& c) {
    c.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  };
  EXPECT_EQ(Changes(Plan(single)), Lines{});
  state.cpu.assignments["e"]["app"] = *CpuSet::Parse("7-9");
  state.cpu.default_set -= *CpuSet::Parse("7-9");
  EXPECT_EQ(Changes(Plan(single)),
            Lines{"e/app: 7-9 -> 8-10 (topologyManagerPolicy single-numa-node does not admit CPUs "
                  "7-9 on NUMA nodes 0,1)"});
}

TEST_F(TransitionTest, WithScopePodThePodIsTogether) {
  Start();
  const Pod pod = MakePod("p", {App("a", {{"cpu", "5"}, {"memory", "64Mi"}}),
                                App("b", {{"cpu", "3"}, {"memory", "64Mi"}})});
  Admission admission = Admit(*node, state, pod, devicemanager::NoPreference);
  ASSERT_TRUE(admission.admitted());
  state = std::move(admission.next);
  ASSERT_EQ(state.cpu.Find({"p", "b"})->ToString(), "8-10");
  const Transition transition = Plan([](KubeletConfig& c) {
    c.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
    c.topology_manager_scope = TopologyManagerScope::kPod;
  });
  EXPECT_TRUE(transition.IsAdmitted());
  EXPECT_EQ(transition.next.cpu.HeldBy("p").ToString(), "8-15");
  // None gets CPUs of another one: b has 8-10 before and after.
  EXPECT_EQ(transition.next.cpu.Find({"p", "a"})->ToString(), "11-15");
  EXPECT_EQ(transition.next.cpu.Find({"p", "b"})->ToString(), "8-10");
}

TEST_F(TransitionTest, ContainersOfOnePodThatAreFullCoresDoNotExchangeCpus) {
  config.topology_manager_scope = TopologyManagerScope::kPod;
  config.cpu_manager_policy_options["full-pcpus-only"] = "true";
  Start("socket:1 numa:1 core:4 thread:2");
  const Pod pod = MakePod("p", {App("a", {{"cpu", "2"}, {"memory", "64Mi"}}),
                                App("b", {{"cpu", "2"}, {"memory", "64Mi"}})});
  Admission admission = Admit(*node, state, pod, devicemanager::NoPreference);
  ASSERT_TRUE(admission.admitted());
  state = std::move(admission.next);
  const CpuSet a = *state.cpu.Find({"p", "a"});
  const CpuSet b = *state.cpu.Find({"p", "b"});
  // The first core of a becomes reserved, and one core is free.
  const Transition transition =
      Plan([&](KubeletConfig& c) { c.reserved_system_cpus = "0," + a.ToString(); });
  ASSERT_TRUE(transition.IsAdmitted()) << Changes(transition).front();
  EXPECT_FALSE(transition.next.cpu.Find({"p", "a"})->Intersects(a | b));
  EXPECT_EQ(*transition.next.cpu.Find({"p", "b"}), b);
}

// Its CPUs could only go to the other NUMA node.
TEST_F(TransitionTest, AContainerDoesNotLeaveTheNumaNodeOfItsMemory) {
  config.memory_manager_policy = MemoryManagerPolicy::kStatic;
  config.eviction_hard_memory = "";
  config.system_reserved = Amounts({{"memory", "512Mi"}});
  config.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", "512Mi"}})}};
  Start("socket:2 numa:1 core:8 memory-gib=8");
  Add("p", {{"cpu", "7"}, {"memory", "1Gi"}});
  ASSERT_EQ(state.cpu.Find({"p", "app"})->ToString(), "1-7");
  const Transition transition = Plan([](KubeletConfig& c) { c.reserved_system_cpus = "0-1"; });
  EXPECT_FALSE(transition.IsAdmitted());
  EXPECT_NE(transition.containers[0].why.find(
                "its memory would stay on another NUMA node than its CPUs "),
            std::string::npos)
      << transition.containers[0].why;
}

TEST_F(TransitionTest, DevicesAndMemoryStayAndHoldTheContainer) {
  config.memory_manager_policy = MemoryManagerPolicy::kStatic;
  config.eviction_hard_memory = "";
  config.system_reserved = Amounts({{"memory", "512Mi"}});
  config.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", "512Mi"}})}};
  Start("socket:2 numa:1 core:8 memory-gib=8");
  state.devices.resources[kTransitionGpu] = devicemanager::Registered({{"g0", {0}}});
  AddCpus("first", "7");  // all of node 0
  Add("p", {{"cpu", "2"}, {"memory", "1Gi"}, {kTransitionGpu, "1"}});
  ASSERT_EQ(state.cpu.Find({"p", "app"})->ToString(), "8-9");
  const auto single = [](KubeletConfig& c) {
    c.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  };
  const Transition transition = Plan(single);
  EXPECT_FALSE(transition.IsAdmitted());
  const ContainerTransition& container = transition.containers[1];
  EXPECT_EQ(container.fate, Fate::kRefused);
  EXPECT_NE(container.why.find("CPUs 8-9 on NUMA node 1, a.com/gpu of NUMA node 0, memory of "),
            std::string::npos)
      << container.why;
}

TEST_F(TransitionTest, DevicesOfAPluginThatIsAwayStillHoldTheContainer) {
  Start();
  state.devices.resources[kTransitionGpu] = devicemanager::Registered({{"g1", {1}}});
  Add("p", {{"cpu", "2"}, {"memory", "64Mi"}, {kTransitionGpu, "1"}});
  ASSERT_EQ(state.cpu.Find({"p", "app"})->ToString(), "8-9");
  state.devices.resources.erase(kTransitionGpu);
  state.cpu.assignments["p"]["app"] = *CpuSet::Parse("6-7");
  state.cpu.default_set = *CpuSet::Parse("0-5,8-15");
  EXPECT_EQ(Changes(Plan([](KubeletConfig& c) {
              c.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
            })),
            Lines{"p/app: 6-7 -> 8-9 (topologyManagerPolicy single-numa-node does not admit CPUs "
                  "6-7 on NUMA node 0, a.com/gpu of NUMA node 1)"});
}

TEST_F(TransitionTest, MemoryThatBecomesReservedIsNotTakenFromContainers) {
  config.memory_manager_policy = MemoryManagerPolicy::kStatic;
  config.eviction_hard_memory = "";
  config.system_reserved = Amounts({{"memory", "1Gi"}});
  config.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", "1Gi"}})}};
  config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  Start("socket:2 numa:1 core:8 memory-gib=8");
  Add("p", {{"cpu", "2"}, {"memory", "5Gi"}});
  const auto reserve = [](const char* amount) {
    return [amount](KubeletConfig& c) {
      c.system_reserved = Amounts({{"memory", amount}});
      c.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", amount}})}};
    };
  };
  const Transition fits = Plan(reserve("3Gi"));
  EXPECT_EQ(Changes(fits), Lines{});
  EXPECT_EQ(fits.next.memory.machine.at(0).tables.at("memory").free, 0u);
  EXPECT_EQ(Changes(Plan(reserve("4Gi"))),
            Lines{"p/app: 1-2 refused (its 5368709120 bytes of memory do not fit on their NUMA "
                  "nodes beside the new reservations; memory does not move)"});
}

TEST_F(TransitionTest, ManagersCanBeSwitchedOnAndOffWhileTheyHaveNothing) {
  Start();
  const auto off = [](KubeletConfig& c) {
    c.cpu_manager_policy = CpuManagerPolicy::kNone;
    c.reserved_system_cpus = "";
  };
  const Transition empty = Plan(off);
  EXPECT_TRUE(empty.IsAdmitted());
  EXPECT_EQ(empty.notes.size(), 1u);
  AddCpus("p", "2");
  EXPECT_EQ(
      Changes(Plan(off)),
      Lines{"p/app: 1-2 refused (it has exclusive CPUs, and cpuManagerPolicy none has none)"});

  config.cpu_manager_policy = CpuManagerPolicy::kNone;
  config.reserved_system_cpus = "";
  Start();
  const Transition on = Plan([](KubeletConfig& c) {
    c.cpu_manager_policy = CpuManagerPolicy::kStatic;
    c.reserved_system_cpus = "0";
  });
  EXPECT_TRUE(on.IsAdmitted());
  EXPECT_EQ(on.shared_before.ToString(), "");
  EXPECT_EQ(on.shared_after.ToString(), "0-15");
}

TEST_F(TransitionTest, CompatibilityAndMachineDoNotChangeWhileAligndRuns) {
  Start();
  const Transition release = Plan([](KubeletConfig& c) { c.compatibility = Compatibility::k1_36; });
  EXPECT_EQ(
      release.faults,
      Lines{"compatibility changes from 1.37 to 1.36: restart alignd with the other release"});
  EXPECT_EQ(Plan([](KubeletConfig& c) { c.annotated_extended_resources = false; }).faults,
            Lines{"annotatedExtendedResources changes: restart alignd"});
  const Node other = NodeWith(MakeMachine("socket:1 numa:1 core:8"), config);
  EXPECT_FALSE(PlanTransition(*node, other, state, MayMove::kIfNeeded).IsAdmitted());
}

TEST_F(TransitionTest, AResizedContainerKeepsHowFarItCanShrink) {
  Start();
  AddCpus("p", "2");
  ResizeDecision grown = Resize(*node, state, {"p", "app"}, 4);
  ASSERT_TRUE(grown.admitted());
  state = std::move(grown.next);
  const Transition transition = Plan([](KubeletConfig& c) { c.reserved_system_cpus = "0-2"; });
  ASSERT_TRUE(transition.IsAdmitted());
  EXPECT_TRUE(transition.HasMoves());
  EXPECT_EQ(transition.next.cpu.OriginalOf({"p", "app"}).Count(), 2);
  EXPECT_EQ(transition.next.cpu.Find({"p", "app"})->Count(), 4);
}

// Two running containers claim CPU 5 of each other, as after an adoption.
TEST_F(TransitionTest, WithheldCpusStayWithheld) {
  Start("socket:1 numa:1 core:8");
  AddCpus("p", "2");  // 1-2
  cpumanager::Withhold({"x", "app"}, *CpuSet::Parse("4-5"), state.cpu);
  cpumanager::Withhold({"y", "app"}, *CpuSet::Parse("5-6"), state.cpu);
  ASSERT_EQ(state.cpu.default_set.ToString(), "0,3,7");
  const Transition strict = Plan(
      [](KubeletConfig& c) { c.cpu_manager_policy_options["strict-cpu-reservation"] = "true"; },
      MayMove::kNever);
  EXPECT_TRUE(strict.IsAdmitted());
  EXPECT_EQ(strict.shared_after.ToString(), "3,7");
  EXPECT_EQ(strict.next.cpu.Withheld().ToString(), "4-6");
  // p would have to leave both of its CPUs; no other CPU than 3 and 7 is free.
  EXPECT_EQ(Changes(Plan([](KubeletConfig& c) { c.reserved_system_cpus = "0-2"; })),
            Lines{"p/app: 1-2 -> 3,7 (CPUs 1-2 become reserved)"});
}

TEST_F(TransitionTest, WithheldCpusDoNotBecomeReservedOrShared) {
  Start("socket:1 numa:1 core:8");
  cpumanager::Withhold({"x", "app"}, *CpuSet::Parse("4-5"), state.cpu);
  const Transition reserved = Plan([](KubeletConfig& c) { c.reserved_system_cpus = "0,5"; });
  EXPECT_FALSE(reserved.IsAdmitted());
  EXPECT_EQ(reserved.faults,
            Lines{"running containers claim CPUs 5 of each other, so these are withheld, and they "
                  "cannot become reserved: delete the pods that the condition AssignmentUnknown "
                  "names"});
  const Transition none = Plan([](KubeletConfig& c) {
    c.cpu_manager_policy = CpuManagerPolicy::kNone;
    c.reserved_system_cpus = "";
  });
  EXPECT_FALSE(none.IsAdmitted());
  ASSERT_EQ(none.faults.size(), 1u);
  EXPECT_EQ(none.faults[0].rfind("running containers claim CPUs 4-5 of each other, ", 0), 0u)
      << none.faults[0];
}

TEST_F(TransitionTest, CpusThatContainersOfAPodHaveTogetherDoNotMove) {
  Start();
  AddCpus("p", "2");
  state.cpu.assignments["p"]["init"] = *CpuSet::Parse("1");
  EXPECT_EQ(Changes(Plan([](KubeletConfig& c) { c.reserved_system_cpus = "0,2"; })),
            Lines{"p/app: 1-2 refused (CPUs 2 become reserved; containers of its pod have CPUs "
                  "together (one is an ended init container))"});
}

}  // namespace
}  // namespace alignd::admission
