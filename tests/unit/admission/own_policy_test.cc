// Pods that ask for a topology policy by annotation.
#include "alignd/admission/own_policy.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/resize.h"
#include "alignd/admission/transition.h"
#include "alignd/admission/why_not.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

using Policy = TopologyManagerPolicy;
using Asked = std::optional<NumaTopologyPolicy>;

// Two NUMA nodes with four CPUs each; CPU 0 is reserved.
class OwnPolicyTest : public testing::Test {
 protected:
  static KubeletConfig ConfigOf(Policy policy, bool is_on = true) {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.topology_manager_policy = policy;
    if (is_on) config.pod_policies = {PodPolicy::kNumaTopologyPolicy};
    return config;
  }

  static Node NodeOf(const KubeletConfig& config) {
    Result<Node> node = Node::Make(MakeMachine("socket:2 numa:1 core:4"), config);
    EXPECT_TRUE(node.ok()) << node.error().Text();
    return *std::move(node);
  }

  static Node NodeOf(Policy policy, bool is_on = true) { return NodeOf(ConfigOf(policy, is_on)); }

  static Pod Asking(const std::string& uid, Asked policy, const std::string& cpus) {
    Pod pod = MakePod(uid, {App("app", {{"cpu", cpus}, {"memory", "64Mi"}})});
    pod.policies.numa_topology = policy;
    return pod;
  }

  static Admission Decide(const Node& node, const NodeState& state, const Pod& pod) {
    return Admit(node, state, pod, devicemanager::NoPreference);
  }

  static Admission Decide(const Node& node, const Pod& pod) {
    return Decide(node, NodeState::Initial(node), pod);
  }

  static WhyNot ChangesFor(const Node& node, const Pod& pod) {
    return FindChanges(
        node, NodeState::Initial(node), pod, {}, [](const std::string& uid) { return uid; },
        [] { return true; });
  }

  const Node none_ = NodeOf(Policy::kNone);
  // One NUMA node has 4 CPUs at most, and node 0 has 3 for pods.
  const Pod wide_ = Asking("wide", NumaTopologyPolicy::kSingleNumaNode, "5");
};

// The table of docs/concepts.md: what a pod gets of 5 CPUs, which need both NUMA nodes, under the
// policy that applies.
TEST_F(OwnPolicyTest, AppliesOnlyWhereTheNodeHasNone) {
  const std::vector<Policy> of_node = {Policy::kNone, Policy::kBestEffort, Policy::kBestAttainable,
                                       Policy::kRestricted, Policy::kSingleNumaNode};
  const std::vector<Asked> of_pod = {std::nullopt, NumaTopologyPolicy::kBestEffort,
                                     NumaTopologyPolicy::kRestricted,
                                     NumaTopologyPolicy::kSingleNumaNode};
  for (const Policy policy : of_node) {
    const Node node = NodeOf(policy);
    for (const Asked& asked : of_pod) {
      const std::string place = std::string(ToString(policy)) + " " +
                                (asked ? std::string(ToString(*asked)) : std::string("absent"));
      const bool is_allowed =
          !asked || policy == Policy::kNone || ManagerPolicyOf(*asked) == policy;
      const Policy applied = asked ? ManagerPolicyOf(*asked) : policy;
      const Admission small = Decide(node, Asking("small", asked, "1"));
      EXPECT_EQ(small.admitted(), is_allowed) << place;
      if (!is_allowed) {
        EXPECT_EQ(small.refusal->reason, kPodPolicyError) << place;
        EXPECT_EQ(small.next, NodeState::Initial(node)) << place;
        continue;
      }
      // What the node with that policy of its own decides, without any annotation.
      const Node plain = NodeOf(applied, /*is_on=*/false);
      for (const char* const cpus : {"1", "3", "5"}) {
        const Admission own = Decide(node, Asking("p", asked, cpus));
        const Admission other = Decide(plain, Asking("p", std::nullopt, cpus));
        EXPECT_EQ(own.refusal, other.refusal) << place;
        EXPECT_EQ(own.decisions, other.decisions) << place;
        EXPECT_EQ(own.assignments, other.assignments) << place;
      }
    }
  }
}

TEST_F(OwnPolicyTest, IsIgnoredUnlessTheOperatorAllowsIt) {
  for (const Policy policy : {Policy::kNone, Policy::kBestEffort, Policy::kSingleNumaNode}) {
    const Node off = NodeOf(policy, /*is_on=*/false);
    Pod plain = wide_;
    plain.policies = {};
    Pod faulty = plain;
    faulty.policies.fault = "annotation x: is wrong";
    const Admission expected = Decide(off, plain);
    for (const Pod& pod : {wide_, faulty}) {
      const Admission ignored = Decide(off, pod);
      EXPECT_EQ(ignored.refusal, expected.refusal);
      EXPECT_EQ(ignored.decisions, expected.decisions);
      EXPECT_EQ(ignored.next, expected.next);
      EXPECT_EQ(ignored.assignments, expected.assignments);
      EXPECT_EQ(DescribePodPolicy(off, pod),
                "annotation scheduling.koordinator.sh/numa-topology-spec is ignored: podPolicies "
                "does not have numaTopologyPolicy");
    }
    EXPECT_EQ(DescribePodPolicy(off, plain), "");
    // What alignd does not support changes nothing, and is named.
    plain.policies.unsupported = {"memory-type.resource-policy.nri.io"};
    EXPECT_EQ(Decide(off, plain).assignments, expected.assignments);
    EXPECT_EQ(DescribePodPolicy(off, plain),
              "annotation memory-type.resource-policy.nri.io is not supported");
    faulty.policies.unsupported = plain.policies.unsupported;
    EXPECT_EQ(DescribePodPolicy(off, faulty),
              "annotation scheduling.koordinator.sh/numa-topology-spec is ignored: podPolicies "
              "does not have numaTopologyPolicy; annotation memory-type.resource-policy.nri.io is "
              "not supported");
  }
}

TEST_F(OwnPolicyTest, AFaultyAnnotationIsRefusedWithItsRemedy) {
  Pod pod = Asking("p", std::nullopt, "1");
  pod.policies.fault = "annotation x: is wrong";
  const NodeState state = NodeState::Initial(none_);
  const Admission refused = Decide(none_, state, pod);
  ASSERT_FALSE(refused.admitted());
  EXPECT_EQ(refused.refusal->reason, kPodPolicyError);
  EXPECT_EQ(refused.refusal->message,
            "annotation x: is wrong. What would help: correct the annotation, for example "
            "{\"numaTopologyPolicy\": \"SingleNUMANode\"}, or remove it");
  EXPECT_EQ(Explain(none_, state, pod, *refused.refusal), *refused.refusal);
  EXPECT_FALSE(FitsWithoutOthers(none_, state, pod));
}

// The daemon does not decide about a pod to which nothing is assigned: it is admitted whatever its
// annotation says.
TEST_F(OwnPolicyTest, APodWithoutAnythingToAlignIsAdmittedWhateverItsAnnotationSays) {
  KubeletConfig with_memory = ConfigOf(Policy::kRestricted);
  with_memory.memory_manager_policy = MemoryManagerPolicy::kStatic;
  with_memory.eviction_hard_memory = "";
  with_memory.system_reserved = Amounts({{"memory", "512Mi"}});
  with_memory.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", "512Mi"}})}};
  KubeletConfig shared_cpus = ConfigOf(Policy::kRestricted);
  shared_cpus.cpu_manager_policy = CpuManagerPolicy::kNone;
  struct Case {
    std::string name;
    Node node;
    std::string cpus;
    bool is_guaranteed = true;
    std::string resource = "";  // of devices
    bool is_refused = false;
  };
  const std::vector<Case> cases = {
      {.name = "a part of a CPU", .node = NodeOf(Policy::kRestricted), .cpus = "500m"},
      {.name = "Burstable",
       .node = NodeOf(Policy::kRestricted),
       .cpus = "2",
       .is_guaranteed = false},
      {.name = "no CPU manager", .node = NodeOf(shared_cpus), .cpus = "2"},
      {.name = "a device of no plugin",
       .node = NodeOf(Policy::kRestricted),
       .cpus = "500m",
       .resource = "other.com/dev"},
      {.name = "CPUs", .node = NodeOf(Policy::kRestricted), .cpus = "2", .is_refused = true},
      {.name = "memory", .node = NodeOf(with_memory), .cpus = "500m", .is_refused = true},
      {.name = "a device",
       .node = NodeOf(Policy::kRestricted),
       .cpus = "500m",
       .is_guaranteed = false,
       .resource = "a.com/dev",
       .is_refused = true},
  };
  for (const Case& each : cases) {
    NodeState state = NodeState::Initial(each.node);
    state.devices.resources["a.com/dev"].registered = true;
    state.devices.resources["a.com/dev"].devices["dev-1"].numa = {0};
    Pod other = Asking("p", NumaTopologyPolicy::kSingleNumaNode, each.cpus);
    if (!each.is_guaranteed) other.containers[0].resources.limits.clear();
    if (!each.resource.empty()) {
      other.containers[0].resources.requests[each.resource] = Quantity(1);
      other.containers[0].resources.limits[each.resource] = Quantity(1);
    }
    Pod faulty = other;
    faulty.policies = {.numa_topology = std::nullopt, .fault = "annotation x: is wrong"};
    for (const Pod& pod : {other, faulty}) {
      const Admission admission = Decide(each.node, state, pod);
      EXPECT_EQ(admission.admitted(), !each.is_refused) << each.name;
      if (admission.refusal) {
        EXPECT_EQ(admission.refusal->reason, kPodPolicyError) << each.name;
      }
    }
  }
}

TEST_F(OwnPolicyTest, AnotherPolicyThanTheNodesIsRefusedWithBoth) {
  const Node node = NodeOf(Policy::kBestEffort);
  const WhyNot why = ChangesFor(node, wide_);
  ASSERT_TRUE(why.refusal);
  EXPECT_EQ(why.refusal->message,
            "the pod asks for numaTopologyPolicy SingleNUMANode of annotation "
            "scheduling.koordinator.sh/numa-topology-spec, and this node decides with "
            "topologyManagerPolicy best-effort. What would help: remove numaTopologyPolicy from "
            "the annotation: the node's policy then applies; or run the pod on a node with "
            "topologyManagerPolicy none or single-numa-node");
  ASSERT_EQ(why.changes.size(), 1U);
  EXPECT_EQ(why.changes[0].kind, ChangeKind::kChangePolicy);
  EXPECT_EQ(why.changes[0].what, why.refusal->remedy);
}

TEST_F(OwnPolicyTest, ARefusalSaysWhosePolicyItIsAndWhichWouldHelp) {
  const NodeState state = NodeState::Initial(none_);
  const Admission refused = Decide(none_, state, wide_);
  ASSERT_FALSE(refused.admitted());
  EXPECT_EQ(refused.refusal->reason, "TopologyAffinityError");
  const std::string message = Explain(none_, state, wide_, *refused.refusal).message;
  EXPECT_NE(message.find("app: 5 exclusive CPUs; numaTopologyPolicy SingleNUMANode of annotation "
                         "scheduling.koordinator.sh/numa-topology-spec. Free"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("topologyManagerPolicy best-effort would admit it now, without this "
                         "alignment; its policy is its own: numaTopologyPolicy SingleNUMANode"),
            std::string::npos)
      << message;
  const WhyNot why = ChangesFor(none_, wide_);
  ASSERT_FALSE(why.changes.empty());
  EXPECT_EQ(why.changes.back().what,
            "write numaTopologyPolicy Restricted into annotation "
            "scheduling.koordinator.sh/numa-topology-spec: the pod is then admitted without this "
            "alignment");
  Pod weaker = wide_;
  weaker.policies.numa_topology = NumaTopologyPolicy::kRestricted;
  EXPECT_TRUE(Decide(none_, weaker).admitted());
}

// A resize does not know the pod's annotation: the state does.
TEST_F(OwnPolicyTest, AResizeKeepsThePolicyOfThePod) {
  for (const Asked& asked : {Asked(), Asked(NumaTopologyPolicy::kSingleNumaNode)}) {
    const NodeState state = Decide(none_, Asking("p", asked, "3")).next;
    EXPECT_EQ(state.chosen_policies.contains("p"), asked.has_value());
    const ResizeDecision wider = Resize(none_, state, {"p", "app"}, 5);
    EXPECT_EQ(wider.admitted(), !asked);
    if (asked) {
      for (const char* const part :
           {"topologyManagerPolicy single-numa-node does not allow",
            "; the pod has its policy by annotation scheduling.koordinator.sh/"}) {
        EXPECT_NE(wider.refusal->message.find(part), std::string::npos) << wider.refusal->message;
      }
    }
    NodeState released = state;
    ReleasePod("p", released);
    EXPECT_TRUE(released.chosen_policies.empty());
    EXPECT_FALSE(PodsIn(released).contains("p"));
  }
}

TEST_F(OwnPolicyTest, APolicyWhoseAnnotationIsGoneNoLongerApplies) {
  const NodeState state = Decide(none_, Asking("p", NumaTopologyPolicy::kSingleNumaNode, "1")).next;
  ASSERT_TRUE(OwnPolicy(none_, state, "p"));
  Pod plain = MakePod("p", {App("other", {{"cpu", "1"}, {"memory", "64Mi"}})});
  const NodeState next = Decide(none_, state, plain).next;
  EXPECT_FALSE(OwnPolicy(none_, next, "p"));
  EXPECT_NE(next.cpu.Find({"p", "app"}), nullptr);
}

// The annotations of a running pod say what it asks for, not under which policy it was admitted.
TEST_F(OwnPolicyTest, ARestartLearnsOnlyPoliciesThatTheAssignmentsSatisfy) {
  const Asked single = NumaTopologyPolicy::kSingleNumaNode;
  for (const TopologyManagerScope scope :
       {TopologyManagerScope::kContainer, TopologyManagerScope::kPod}) {
    KubeletConfig config = ConfigOf(Policy::kNone);
    config.topology_manager_scope = scope;
    const Node node = NodeOf(config);
    config.pod_policies.clear();
    const Node off = NodeOf(config);
    // While pods cannot choose: `wide` gets 5 CPUs, on both NUMA nodes; 2 CPUs are left.
    NodeState state = Decide(off, NodeState::Initial(off), Asking("wide", single, "5")).next;
    ASSERT_EQ(off.machine.NumaOf(*state.cpu.Find({"wide", "app"})).Count(), 2);
    state = Decide(off, state, Asking("small", single, "1")).next;
    ASSERT_TRUE(state.chosen_policies.empty());
    const PodPolicies asked_single{.numa_topology = single};
    const std::map<std::string, PodPolicies> asked = {
        {"wide", asked_single}, {"small", asked_single}, {"unknown", asked_single}};
    const NodeState next = WithPolicies(node, state, asked);
    EXPECT_EQ(OwnPolicy(node, next, "small"), single);
    EXPECT_FALSE(OwnPolicy(node, next, "wide"));
    EXPECT_FALSE(next.chosen_policies.contains("unknown"));
    EXPECT_EQ(next.cpu, state.cpu);
    // 5 CPUs need both NUMA nodes.
    const PodPolicies restricted{.numa_topology = NumaTopologyPolicy::kRestricted};
    EXPECT_TRUE(OwnPolicy(node, WithPolicies(node, state, {{"wide", restricted}}), "wide"));
    EXPECT_EQ(WithPolicies(off, state, asked), state);
    // Nothing holds `wide` to what it was never admitted with.
    config.pod_policies = {PodPolicy::kNumaTopologyPolicy};
    config.topology_manager_scope = scope == TopologyManagerScope::kPod
                                        ? TopologyManagerScope::kContainer
                                        : TopologyManagerScope::kPod;
    EXPECT_TRUE(PlanTransition(node, NodeOf(config), next, MayMove::kNever).IsAdmitted());
    EXPECT_TRUE(Resize(node, next, {"wide", "app"}, 6).admitted());
  }
}

// The memory manager has an entry of each container of a Guaranteed pod, also without memory. The
// class of a running pod is not known.
TEST_F(OwnPolicyTest, ABurstablePodWithADeviceHasTheSameAssignmentsAfterARestart) {
  KubeletConfig config = ConfigOf(Policy::kNone);
  config.memory_manager_policy = MemoryManagerPolicy::kStatic;
  config.eviction_hard_memory = "";
  config.system_reserved = Amounts({{"memory", "512Mi"}});
  config.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", "512Mi"}})}};
  const Node node = NodeOf(config);
  Pod pod = Asking("p", NumaTopologyPolicy::kSingleNumaNode, "500m");
  pod.containers[0].resources.limits = Amounts({{devicemanager::kGpu, "1"}});
  pod.containers[0].resources.requests[devicemanager::kGpu] = Quantity(1);
  NodeState state = NodeState::Initial(node);
  state.devices = devicemanager::StateWith(devicemanager::Registered({{"g0", {1}}}));
  state = Decide(node, state, pod).next;
  ASSERT_EQ(state.memory.Find({"p", "app"}), nullptr);
  state.chosen_policies.clear();
  const PodPolicies single{.numa_topology = NumaTopologyPolicy::kSingleNumaNode};
  EXPECT_TRUE(OwnPolicy(node, WithPolicies(node, state, {{"p", single}}), "p"));
  config.topology_manager_policy = Policy::kSingleNumaNode;
  EXPECT_TRUE(PlanTransition(node, NodeOf(config), state, MayMove::kNever).IsAdmitted());
}

TEST_F(OwnPolicyTest, AChangeOfTheConfigurationKeepsThePolicyOfThePod) {
  // CPUs 1-3 are on NUMA node 0, where CPU 1 becomes reserved; node 1 has 3 free CPUs, or 2.
  for (const bool has_place : {true, false}) {
    NodeState state = NodeState::Initial(none_);
    state = Decide(none_, state, Asking("p", NumaTopologyPolicy::kSingleNumaNode, "3")).next;
    state = Decide(none_, state, Asking("other", {}, has_place ? "1" : "2")).next;
    const CpuSet before = *state.cpu.Find({"p", "app"});
    ASSERT_EQ(before.ToString(), "1-3");
    KubeletConfig config = ConfigOf(Policy::kNone);
    config.reserved_system_cpus = "0-1";
    const Node after = NodeOf(config);
    const Transition moved = PlanTransition(none_, after, state, MayMove::kIfNeeded);
    ASSERT_EQ(moved.IsAdmitted(), has_place);
    if (!has_place) continue;
    const CpuSet now = *moved.next.cpu.Find({"p", "app"});
    EXPECT_EQ(after.machine.NumaOf(now).Count(), 1) << now.ToString();
    EXPECT_FALSE(now.Contains(CpuSet{1}));
    EXPECT_TRUE(OwnPolicy(after, moved.next, "p"));
  }
}

// The running pod stays where the node's new policy admits it, although a new pod with this
// annotation is refused there.
TEST_F(OwnPolicyTest, ANewPolicyOfTheNodeRefusesNoRunningPodForItsAnnotation) {
  const Pod pod = Asking("p", NumaTopologyPolicy::kSingleNumaNode, "3");
  const NodeState state = Decide(none_, pod).next;
  const Node restricted = NodeOf(Policy::kRestricted);
  const Transition change = PlanTransition(none_, restricted, state, MayMove::kNever);
  EXPECT_TRUE(change.IsAdmitted());
  EXPECT_EQ(change.next.cpu.assignments, state.cpu.assignments);
  const Transition back = PlanTransition(restricted, none_, change.next, MayMove::kNever);
  EXPECT_TRUE(back.IsAdmitted());
  EXPECT_TRUE(OwnPolicy(none_, back.next, "p"));
}

TEST_F(OwnPolicyTest, ChoosableSingleNumaNodeExcludesAlignBySocket) {
  KubeletConfig config = ConfigOf(Policy::kNone);
  config.cpu_manager_policy_options["align-by-socket"] = "true";
  const Result<Node> node = Node::Make(MakeMachine("socket:2 numa:1 core:4"), config);
  ASSERT_FALSE(node.ok());
  EXPECT_NE(node.error().Text().find("align-by-socket"), std::string::npos);
  config.cpu_manager_policy_options.clear();
  config.topology_manager_policy_options["max-allowable-numa-nodes"] = "x";
  EXPECT_FALSE(Node::Make(MakeMachine("socket:2 numa:1 core:4"), config).ok());
  config.pod_policies.clear();  // with policy none, a kubelet reads no options
  EXPECT_TRUE(Node::Make(MakeMachine("socket:2 numa:1 core:4"), config).ok());
}

}  // namespace
}  // namespace alignd::admission
