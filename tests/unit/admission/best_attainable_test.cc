// The topology policy best-attainable: as restricted, but only as far as the empty node aligns.
#include <gtest/gtest.h>

#include <string>

#include "alignd/admission/admission.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/resize.h"
#include "alignd/admission/why_not.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

using devicemanager::kGpu;

// Two NUMA nodes with four CPUs each; CPU 0 is reserved. One GPU, on NUMA node 0.
class BestAttainableTest : public testing::Test {
 protected:
  static Node NodeWith(TopologyManagerPolicy policy,
                       TopologyManagerScope scope = TopologyManagerScope::kContainer,
                       const std::string& machine = "socket:2 numa:1 core:4") {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.topology_manager_policy = policy;
    config.topology_manager_scope = scope;
    Result<Node> node = Node::Make(MakeMachine(machine), config);
    EXPECT_TRUE(node.ok()) << node.error().message;
    return *std::move(node);
  }

  static NodeState EmptyOf(const Node& node) {
    NodeState state = NodeState::Initial(node);
    state.devices.resources[kGpu] = devicemanager::Registered({{"g0", {0}}});
    return state;
  }

  static Pod CpuPod(const std::string& uid, const std::string& cpus) {
    return MakePod(uid, {App("app", {{"cpu", cpus}, {"memory", "64Mi"}})});
  }

  static Pod GpuPod(const std::string& uid, const std::string& cpus) {
    return MakePod(uid, {App("app", {{"cpu", cpus}, {"memory", "64Mi"}, {kGpu, "1"}})});
  }

  static Admission Decide(const Node& node, const NodeState& state, const Pod& pod) {
    return Admit(node, state, pod, devicemanager::NoPreference);
  }

  const Node restricted_ = NodeWith(TopologyManagerPolicy::kRestricted);
  const Node attainable_ = NodeWith(TopologyManagerPolicy::kBestAttainable);
};

TEST_F(BestAttainableTest, AdmitsAPodThatNoEmptyNodeWouldAlign) {
  // Six CPUs need both NUMA nodes, and the GPU is on one.
  const Pod whole = GpuPod("whole", "6");
  EXPECT_FALSE(Decide(restricted_, EmptyOf(restricted_), whole).admitted());
  const Admission admission = Decide(attainable_, EmptyOf(attainable_), whole);
  ASSERT_TRUE(admission.admitted());
  EXPECT_EQ(admission.assignments.at("app").exclusive.Count(), 6);
  ASSERT_EQ(admission.decisions.size(), 1U);
  EXPECT_FALSE(admission.decisions[0].affinity->preferred);
}

TEST_F(BestAttainableTest, RefusesAPodThatTheEmptyNodeWouldAlign) {
  const Admission first = Decide(attainable_, EmptyOf(attainable_), CpuPod("first", "2"));
  ASSERT_TRUE(first.admitted());
  const Admission second = Decide(attainable_, first.next, CpuPod("second", "3"));
  ASSERT_TRUE(second.admitted());
  // One CPU is free on each NUMA node: with no other pod, both would be on one.
  const Admission late = Decide(attainable_, second.next, CpuPod("late", "2"));
  ASSERT_FALSE(late.admitted());
  EXPECT_EQ(late.refusal->reason, "TopologyAffinityError");
  EXPECT_EQ(late.refused_at, (RefusalPoint{"app", RefusedBy::kTopology}));
  NodeState after = second.next;
  ReleasePod("first", after);
  EXPECT_TRUE(Decide(attainable_, after, CpuPod("late", "2")).admitted());
}

TEST_F(BestAttainableTest, DevicesWithoutLocalCpusAreAdmitted) {
  const std::string machine = "socket:1 numa:1 core:4 cpuless=1";
  const Node restricted =
      NodeWith(TopologyManagerPolicy::kRestricted, TopologyManagerScope::kContainer, machine);
  const Node attainable =
      NodeWith(TopologyManagerPolicy::kBestAttainable, TopologyManagerScope::kContainer, machine);
  NodeState state = NodeState::Initial(restricted);
  state.devices.resources[kGpu] =
      devicemanager::Registered({{"g0", {restricted.machine.NumaId(1)}}});
  EXPECT_FALSE(Decide(restricted, state, GpuPod("p", "2")).admitted());
  EXPECT_TRUE(Decide(attainable, state, GpuPod("p", "2")).admitted());
}

TEST_F(BestAttainableTest, TheContainersBeforeTakeTheirPartOfTheEmptyNode) {
  const Pod pod = MakePod("p", {App("one", {{"cpu", "3"}, {"memory", "64Mi"}}),
                                App("two", {{"cpu", "2"}, {"memory", "64Mi"}}),
                                App("last", {{"cpu", "2"}, {"memory", "64Mi"}})});
  const NodeState empty = EmptyOf(attainable_);
  // One of the three is on both NUMA nodes, or two of them share one: whatever best-effort does on
  // the empty node is what can be attained.
  const Node best_effort = NodeWith(TopologyManagerPolicy::kBestEffort);
  const Admission expected = Decide(best_effort, empty, pod);
  ASSERT_TRUE(expected.admitted());
  const Admission admission = Decide(attainable_, empty, pod);
  ASSERT_TRUE(admission.admitted());
  EXPECT_EQ(admission.next, expected.next);
}

TEST_F(BestAttainableTest, WithPodScopeTheContainersAreAlignedTogether) {
  const Node node = NodeWith(TopologyManagerPolicy::kBestAttainable, TopologyManagerScope::kPod);
  const Pod pod = MakePod("p", {App("one", {{"cpu", "3"}, {"memory", "64Mi"}, {kGpu, "1"}}),
                                App("two", {{"cpu", "3"}, {"memory", "64Mi"}})});
  EXPECT_TRUE(Decide(node, EmptyOf(node), pod).admitted());
  const Pod small = MakePod("s", {App("one", {{"cpu", "1"}, {"memory", "64Mi"}, {kGpu, "1"}}),
                                  App("two", {{"cpu", "1"}, {"memory", "64Mi"}})});
  const Admission first = Decide(node, EmptyOf(node), CpuPod("first", "2"));
  ASSERT_TRUE(first.admitted());
  const Admission late = Decide(node, first.next, small);
  ASSERT_FALSE(late.admitted());
  EXPECT_EQ(late.refused_at, (RefusalPoint{"one", RefusedBy::kTopology}));
}

TEST_F(BestAttainableTest, AnUnhealthyDeviceIsNotWaitedFor) {
  NodeState state = EmptyOf(attainable_);
  state.devices.resources[kGpu] = devicemanager::Registered({{"g0", {0}}, {"g1", {1}}});
  const Admission first = Decide(attainable_, state, CpuPod("first", "3"));
  ASSERT_TRUE(first.admitted());
  ASSERT_TRUE(first.assignments.at("app").exclusive.Intersects(*CpuSet::Parse("1-3")));
  state = first.next;
  // The CPUs of NUMA node 0 are taken, and so is the way to its GPU.
  state.devices.resources[kGpu].devices.at("g1").healthy = false;
  const Pod pod = GpuPod("p", "4");
  EXPECT_EQ(Decide(attainable_, state, pod).admitted(),
            Decide(attainable_, EmptyOf(attainable_), pod).admitted());
}

TEST_F(BestAttainableTest, AManagerRefusesWhatTheNodeDoesNotHave) {
  const Admission admission = Decide(attainable_, EmptyOf(attainable_), CpuPod("p", "9"));
  ASSERT_FALSE(admission.admitted());
  EXPECT_EQ(admission.refused_at, (RefusalPoint{"app", RefusedBy::kCpus}));
}

TEST_F(BestAttainableTest, AResizeGoesAsFarAsItWouldWithoutOtherPods) {
  const ContainerKey key{"p", "app"};
  const Admission own = Decide(attainable_, EmptyOf(attainable_), GpuPod("p", "3"));
  ASSERT_TRUE(own.admitted());
  // The GPU is on NUMA node 0, which has no more CPUs.
  EXPECT_FALSE(Resize(restricted_, own.next, key, 5).admitted());
  EXPECT_TRUE(Resize(attainable_, own.next, key, 5).admitted());
  const Admission two = Decide(attainable_, EmptyOf(attainable_), GpuPod("p", "2"));
  ASSERT_TRUE(two.admitted());
  const Admission other = Decide(attainable_, two.next, CpuPod("other", "1"));
  ASSERT_TRUE(other.admitted());
  // Without the other pod, three CPUs of NUMA node 0 would be enough.
  NodeState crowded = other.next;
  const CpuSet of_other = *crowded.cpu.Find({"other", "app"});
  if (attainable_.machine.NumaOf(of_other) == NumaMask::Of(0)) {
    EXPECT_FALSE(Resize(attainable_, crowded, key, 3).admitted());
  } else {
    EXPECT_TRUE(Resize(attainable_, crowded, key, 3).admitted());
  }
}

TEST_F(BestAttainableTest, ARefusalOfAStockPolicySaysThatNoSuchPodIsEverAdmitted) {
  const Pod pod = GpuPod("whole", "6");
  const auto help = [&](const Node& node, const Pod& asking) {
    const NodeState state = EmptyOf(node);
    const Admission admission = Decide(node, state, asking);
    EXPECT_FALSE(admission.admitted());
    const std::string text = Explain(node, state, asking, *admission.refusal).message;
    return text.substr(text.find(kWhatWouldHelp) + kWhatWouldHelp.size());
  };
  EXPECT_EQ(help(restricted_, pod),
            "it does not fit even on the empty node: reduce its requests; topologyManagerPolicy "
            "restricted never admits a pod of this shape on this machine, and best-attainable "
            "admits it on the empty node; topologyManagerPolicy best-effort would admit it now, "
            "without this alignment");
  const Node single = NodeWith(TopologyManagerPolicy::kSingleNumaNode);
  EXPECT_NE(help(single, CpuPod("wide", "5"))
                .find("; topologyManagerPolicy single-numa-node never admits a pod of this shape "
                      "on this machine, and restricted admits it on the empty node"),
            std::string::npos);
  // No policy admits it: the alignment is not the cause.
  EXPECT_EQ(help(restricted_, CpuPod("huge", "9")),
            "it does not fit even on the empty node: reduce its requests");
}

TEST_F(BestAttainableTest, WhyNotNamesTheStrictestPolicyThatAdmitsThePodNow) {
  const auto change = [](const Node& node, const Pod& pod) {
    const WhyNot why = FindChanges(
        node, EmptyOf(node), pod, /*unknown=*/{}, [](const std::string& uid) { return uid; },
        [] { return true; });
    EXPECT_FALSE(why.changes.empty());
    EXPECT_EQ(why.changes.back().kind, ChangeKind::kChangePolicy);
    return why.changes.back().what;
  };
  EXPECT_EQ(change(restricted_, GpuPod("whole", "6")),
            "set topologyManagerPolicy best-attainable: the pod is then admitted without this "
            "alignment");
  EXPECT_EQ(change(NodeWith(TopologyManagerPolicy::kSingleNumaNode), CpuPod("wide", "5")),
            "set topologyManagerPolicy restricted: the pod is then admitted without this "
            "alignment");
}

// CPUs that containers of other pods only request of the shared pool do not count as missing.
TEST_F(BestAttainableTest, ResizesAsIfOtherPodsRequestedNoSharedCpus) {
  const Node node = NodeWith(TopologyManagerPolicy::kBestAttainable,
                             TopologyManagerScope::kContainer, "socket:2 numa:1 core:8");
  NodeState state = Decide(node, EmptyOf(node), CpuPod("x", "4")).next;
  ASSERT_EQ(state.cpu.HeldBy("x").ToString(), "1-4");
  state.cpu.shares[{"other", "app"}] = {.numa_id = 0, .millis = 3000};
  const ResizeDecision late = Resize(node, state, {"x", "app"}, 6);
  ASSERT_FALSE(late.admitted());
  EXPECT_NE(late.refusal->message.find("does not allow the resulting NUMA nodes"),
            std::string::npos)
      << late.refusal->message;
  ReleasePod("other", state);
  EXPECT_EQ(Resize(node, state, {"x", "app"}, 6).after.ToString(), "1-6");
}

}  // namespace
}  // namespace alignd::admission
