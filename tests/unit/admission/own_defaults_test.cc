// What the pods of a namespace have by default, without an annotation.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/config_problems.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/own_policy.h"
#include "alignd/admission/resize.h"
#include "alignd/admission/transition.h"
#include "alignd/admission/why_not.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

constexpr PlacementPolicies kSingle{.numa_topology = NumaTopologyPolicy::kSingleNumaNode};
constexpr PlacementPolicies kWhole{.required_bind = CpuBindPolicy::kFullPcpus};
constexpr PlacementPolicies kShared{.prefers_shared_cpus = true};
constexpr PlacementPolicies kOneNode{.shared_on_one_node = true};

// Two NUMA nodes with two cores of two CPUs each; CPU 0 is reserved.
class OwnDefaults : public testing::Test {
 protected:
  static KubeletConfig ConfigWith(const PlacementPolicies& defaults,
                                  const std::set<PodPolicy>& may_choose = {}) {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.namespace_policies = {{{"ml"}, may_choose, defaults}};
    return config;
  }

  static Node NodeOf(const KubeletConfig& config) {
    Result<Node> node = Node::Make(MakeMachine("socket:2 numa:1 core:2 pu:2"), config);
    EXPECT_TRUE(node.ok()) << node.error().Text();
    return *std::move(node);
  }

  static Node NodeWith(const PlacementPolicies& defaults,
                       const std::set<PodPolicy>& may_choose = {}) {
    return NodeOf(ConfigWith(defaults, may_choose));
  }

  static Pod InMl(const std::string& uid, const std::string& cpus) {
    Pod pod = MakePod(uid, {App("app", {{"cpu", cpus}, {"memory", "64Mi"}})});
    pod.name_space = "ml";
    return pod;
  }

  static Pod Elsewhere(Pod pod) {
    pod.name_space = "default";
    return pod;
  }

  static Admission Decide(const Node& node, const Pod& pod) {
    return Admit(node, NodeState::Initial(node), pod, devicemanager::NoPreference);
  }

  // The CPUs of the container, or why the pod is refused.
  static std::string CpusOf(const Node& node, const Pod& pod) {
    const Admission admission = Decide(node, pod);
    if (!admission.admitted()) return admission.refusal->reason;
    const CpuSet* const cpus = admission.next.cpu.Find({pod.uid, "app"});
    return cpus == nullptr ? "shared" : cpus->ToString();
  }

  static std::vector<std::string> ProblemsOf(const KubeletConfig& config) {
    std::vector<std::string> texts;
    for (const ConfigProblem& problem :
         FindProblems(MakeMachine("socket:2 numa:1 core:2 pu:2"), config)) {
      EXPECT_TRUE(problem.error.message.starts_with(problem.field + ": " + problem.value));
      texts.push_back(problem.error.Text());
    }
    return texts;
  }
};

TEST_F(OwnDefaults, ApplyToThePodsOfTheNamespaceOnly) {
  const Node node = NodeWith(kSingle);
  EXPECT_EQ(CpusOf(node, InMl("p", "5")), "TopologyAffinityError");
  EXPECT_EQ(CpusOf(node, Elsewhere(InMl("p", "5"))), "1,4-7");
  EXPECT_EQ(CpusOf(node, InMl("p", "4")), "4-7");
  EXPECT_EQ(DescribePodPolicy(node, InMl("p", "4")),
            "numaTopologyPolicy SingleNUMANode of the defaults of namespace ml");
  EXPECT_EQ(DescribePodPolicy(node, Elsewhere(InMl("p", "4"))), "");
}

TEST_F(OwnDefaults, StandInForAnAnnotationThatIsIgnored) {
  const Node node = NodeWith(kSingle);
  Pod pod = InMl("p", "5");
  pod.policies.numa_topology = NumaTopologyPolicy::kBestEffort;
  pod.policies.spec_fault = "annotation y: is wrong";
  EXPECT_EQ(CpusOf(node, pod), "TopologyAffinityError");
  EXPECT_EQ(DescribePodPolicy(node, pod),
            "annotation scheduling.koordinator.sh/numa-topology-spec is ignored: podPolicies for "
            "namespace ml does not have numaTopologyPolicy; numaTopologyPolicy SingleNUMANode of "
            "the defaults of namespace ml; annotation scheduling.koordinator.sh/resource-spec is "
            "ignored: podPolicies for namespace ml has neither cpuBindPolicy nor "
            "cpuExclusivePolicy");
}

TEST_F(OwnDefaults, AreWeakenedByNoPod) {
  const PlacementPolicies restricted{.numa_topology = NumaTopologyPolicy::kRestricted};
  const Node node = NodeWith(restricted, {PodPolicy::kNumaTopologyPolicy});
  Pod pod = InMl("p", "5");
  EXPECT_EQ(CpusOf(node, pod), "1,4-7");  // no single NUMA node could ever have it
  pod.policies.numa_topology = NumaTopologyPolicy::kSingleNumaNode;
  EXPECT_EQ(CpusOf(node, pod), "TopologyAffinityError");
  pod.policies.numa_topology = NumaTopologyPolicy::kBestEffort;
  const Admission weaker = Decide(node, pod);
  ASSERT_TRUE(weaker.refusal);
  EXPECT_EQ(weaker.refusal->reason, kPodPolicyError);
  EXPECT_EQ(
      weaker.refusal->message,
      "the pod asks for numaTopologyPolicy BestEffort of annotation "
      "scheduling.koordinator.sh/numa-topology-spec, which is weaker than numaTopologyPolicy "
      "Restricted of the defaults of namespace ml. What would help: remove numaTopologyPolicy "
      "from the annotation, or write a policy that is not weaker; or run the pod in another "
      "namespace");
}

TEST_F(OwnDefaults, RequireWholeCoresOfPodsWithExclusiveCpus) {
  const Node node = NodeWith(kWhole, {PodPolicy::kCpuBindPolicy});
  EXPECT_EQ(CpusOf(node, InMl("p", "3")), "SMTAlignmentError");
  EXPECT_EQ(CpusOf(node, InMl("p", "2")), "2-3");
  EXPECT_EQ(CpusOf(node, InMl("p", "1500m")), "shared");  // nothing to lie on cores
  Pod pod = InMl("p", "2");
  pod.policies.preferred_bind = CpuBindPolicy::kSpreadByPcpus;
  EXPECT_EQ(CpusOf(node, pod), "2-3");
  EXPECT_EQ(DescribePodPolicy(node, pod),
            "requiredCPUBindPolicy FullPCPUs of the defaults of namespace ml; "
            "preferredCPUBindPolicy SpreadByPCPUs of annotation "
            "scheduling.koordinator.sh/resource-spec has no effect: the defaults of namespace ml "
            "have requiredCPUBindPolicy");
  pod.policies.required_bind = CpuBindPolicy::kSpreadByPcpus;
  const Admission other = Decide(node, pod);
  ASSERT_TRUE(other.refusal);
  EXPECT_NE(other.refusal->message.find("requiredCPUBindPolicy SpreadByPCPUs of annotation "
                                        "scheduling.koordinator.sh/resource-spec, and has "
                                        "requiredCPUBindPolicy FullPCPUs of the defaults of "
                                        "namespace ml"),
            std::string::npos)
      << other.refusal->message;
  pod.policies.required_bind = CpuBindPolicy::kFullPcpus;
  EXPECT_EQ(CpusOf(node, pod), "2-3");
}

TEST_F(OwnDefaults, GiveSharedCpusUnlessThePodSaysOtherwise) {
  const Node node = NodeWith(kShared, {PodPolicy::kPreferSharedCpus, PodPolicy::kQosClass});
  Pod pod = InMl("p", "2");
  EXPECT_EQ(CpusOf(node, pod), "shared");
  EXPECT_EQ(DescribePodPolicy(node, pod),
            "prefer-shared-cpus true of the defaults of namespace ml: shared CPUs for app");
  const auto says_no = [](Pod asking) {
    ReadSharingAnnotation("prefer-shared-cpus.resource-policy.nri.io", "false",
                          asking.policies.sharing);
    return asking;
  };
  EXPECT_EQ(CpusOf(node, says_no(pod)), "2-3");
  EXPECT_EQ(CpusOf(NodeWith(kShared), says_no(pod)), "shared");
  ReadSharingLabel(kQosClassLabel, "LSR", pod.policies.sharing);
  EXPECT_EQ(CpusOf(node, pod), "2-3");
}

// A container that has exclusive CPUs keeps them when the default comes.
TEST_F(OwnDefaults, GiveSharedCpusToNewContainersOnly) {
  const Node before = NodeWith({});
  const Pod pod = InMl("p", "2");
  const NodeState state = Decide(before, pod).next;
  const Admission again = Admit(NodeWith(kShared), state, pod, devicemanager::NoPreference);
  ASSERT_TRUE(again.admitted());
  EXPECT_EQ(again.next.cpu, state.cpu);
}

TEST_F(OwnDefaults, KeepSharedContainersOnOneNumaNode) {
  const Node node = NodeWith(kOneNode);
  Pod pod = InMl("p", "1500m");
  const Admission admission = Decide(node, pod);
  ASSERT_TRUE(admission.admitted());
  EXPECT_EQ(admission.next.cpu.shares.at({"p", "app"}).numa_id, 1);
  EXPECT_EQ(DescribePodPolicy(node, pod),
            "shared-cpus single-numa-node of the defaults of namespace ml");
  EXPECT_TRUE(Decide(node, Elsewhere(pod)).next.cpu.shares.empty());
  pod.shared_pool_handler = "runsc";
  const Admission virtual_machine = Decide(node, pod);
  ASSERT_TRUE(virtual_machine.refusal);
  EXPECT_EQ(virtual_machine.refusal->message,
            "the pod asks for one NUMA node by shared-cpus single-numa-node of the defaults of "
            "namespace ml, and its processes do not run in the cgroups of its containers: its "
            "runtime handler is runsc. What would help: run the pod in another namespace, or run "
            "the pod with another RuntimeClass");
}

TEST_F(OwnDefaults, AreNamedByARefusalWithTheRemedy) {
  const Node node = NodeWith(kSingle);
  NodeState state = NodeState::Initial(node);
  const Pod wide = InMl("p", "5");
  const Admission refused = Admit(node, state, wide, devicemanager::NoPreference);
  ASSERT_TRUE(refused.refusal);
  const std::string message = Explain(node, state, wide, *refused.refusal).message;
  EXPECT_NE(message.find("; its policy is that of its namespace: numaTopologyPolicy "
                         "SingleNUMANode of the defaults of namespace ml"),
            std::string::npos)
      << message;
  const WhyNot why_not = FindChanges(
      node, state, wide, {}, [](const std::string& uid) { return uid; }, [] { return true; });
  const auto names_default = [](const Change& change) {
    return change.what.find(
               "write numaTopologyPolicy Restricted into the defaults of namespace ml "
               "in namespacePolicies") != std::string::npos;
  };
  EXPECT_TRUE(std::ranges::any_of(why_not.changes, names_default));
}

// A change of the defaults leaves running pods as they are; a policy that they have stays while
// their namespace has one.
TEST_F(OwnDefaults, ChangeForNewPods) {
  const Node none = NodeWith({});
  const Node single = NodeWith(kSingle);
  NodeState wide = Decide(none, InMl("wide", "5")).next;
  const Transition plan = PlanTransition(none, single, wide, MayMove::kNever);
  ASSERT_TRUE(plan.IsAdmitted());
  EXPECT_EQ(plan.next.cpu, wide.cpu);
  EXPECT_FALSE(OwnPolicy(single, plan.next, "wide"));

  const NodeState aligned = Decide(single, InMl("p", "2")).next;
  EXPECT_EQ(OwnPolicy(single, aligned, "p"), NumaTopologyPolicy::kSingleNumaNode);
  const ResizeDecision refused = Resize(single, aligned, {"p", "app"}, 5);
  ASSERT_TRUE(refused.refusal);
  EXPECT_NE(refused.refusal->message.find("the pod has its policy by the defaults of namespace ml"),
            std::string::npos)
      << refused.refusal->message;
  const Node weak = NodeWith({.numa_topology = NumaTopologyPolicy::kBestEffort});
  EXPECT_EQ(OwnPolicy(weak, aligned, "p"), NumaTopologyPolicy::kSingleNumaNode);
  EXPECT_FALSE(OwnPolicy(none, aligned, "p"));
  EXPECT_TRUE(Resize(none, aligned, {"p", "app"}, 5).admitted());
}

// CRI shows the containers of a pod one by one: the defaults can change between two of them.
TEST_F(OwnDefaults, ThatAreWeakerDoNotWeakenAPodThatRuns) {
  const Node single = NodeWith(kSingle);
  const Node weak = NodeWith({.numa_topology = NumaTopologyPolicy::kBestEffort});
  const NodeState first = Decide(single, InMl("p", "2")).next;
  Pod both = InMl("p", "2");
  both.containers.push_back(App("b", {{"cpu", "1"}, {"memory", "64Mi"}}));
  const Admission second = Admit(weak, first, both, devicemanager::NoPreference);
  ASSERT_TRUE(second.admitted()) << second.refusal->message;
  EXPECT_EQ(OwnPolicy(weak, second.next, "p"), NumaTopologyPolicy::kSingleNumaNode);
  EXPECT_TRUE(Resize(weak, second.next, {"p", "app"}, 5).refusal);
  // Another pod has those of now, and so has a pod that had nothing assigned.
  EXPECT_EQ(OwnPolicy(weak, Decide(weak, InMl("q", "2")).next, "q"),
            NumaTopologyPolicy::kBestEffort);
  const NodeState nothing = Decide(single, InMl("p", "500m")).next;
  EXPECT_EQ(OwnPolicy(weak, Admit(weak, nothing, both, devicemanager::NoPreference).next, "p"),
            NumaTopologyPolicy::kBestEffort);
  // A stricter one is kept from now on.
  const NodeState loose = Decide(weak, InMl("p", "2")).next;
  EXPECT_EQ(OwnPolicy(single, Admit(single, loose, both, devicemanager::NoPreference).next, "p"),
            NumaTopologyPolicy::kSingleNumaNode);
}

// The containers that are created later are decided as those that run.
TEST_F(OwnDefaults, ThatComeLaterDoNotRefuseThePodsThatRun) {
  const std::set<PodPolicy> all = {PodPolicy::kNumaTopologyPolicy, PodPolicy::kCpuBindPolicy};
  const Node before = NodeWith({}, all);
  const Node after = NodeWith({.numa_topology = NumaTopologyPolicy::kRestricted,
                               .required_bind = CpuBindPolicy::kFullPcpus},
                              all);
  Pod pod = InMl("p", "2");
  pod.policies.numa_topology = NumaTopologyPolicy::kBestEffort;
  pod.policies.required_bind = CpuBindPolicy::kSpreadByPcpus;
  Pod both = pod;
  both.containers.push_back(App("b", {{"cpu", "1"}, {"memory", "64Mi"}}));
  const auto reason = [&](const NodeState& state, const Pod& asking) {
    const Admission admission = Admit(after, state, asking, devicemanager::NoPreference);
    return admission.refusal ? admission.refusal->reason : "";
  };
  const NodeState running = Decide(before, pod).next;
  EXPECT_EQ(reason(running, both), "");
  EXPECT_EQ(reason(NodeState::Initial(after), both), kPodPolicyError);
  // A pod that has nothing assigned, or was not admitted with it, asks for it only now.
  Pod small = pod;
  small.containers[0] = App("app", {{"cpu", "500m"}, {"memory", "64Mi"}});
  small.policies.required_bind.reset();
  Pod grown = both;
  grown.containers[0] = small.containers[0];
  const NodeState nothing = Decide(before, small).next;
  EXPECT_EQ(reason(nothing, grown), kPodPolicyError);
  const NodeState strict = Decide(after, InMl("p", "2")).next;
  EXPECT_EQ(reason(strict, both), kPodPolicyError);
}

TEST_F(OwnDefaults, OfOneNumaNodeAreNamedWhereTheAnnotationIsNotTheCause) {
  Pod pod = InMl("p", "2");
  pod.containers[0].resources.limits.clear();
  pod.policies.shared_on_one_node = true;
  pod.shared_pool_handler = "runsc";
  const auto remedy = [&](const Node& node) { return Decide(node, pod).refusal->remedy; };
  const std::string elsewhere =
      "run the pod in another namespace, or run the pod with another RuntimeClass";
  EXPECT_EQ(remedy(NodeWith(kOneNode)), elsewhere);
  EXPECT_EQ(remedy(NodeWith(kOneNode, {PodPolicy::kSharedNumaNode})), elsewhere);
  EXPECT_EQ(remedy(NodeWith({}, {PodPolicy::kSharedNumaNode})),
            "remove annotation alignd.io/shared-cpus, or run the pod with another RuntimeClass");
}

TEST_F(OwnDefaults, ExcludeAlignBySocketIfTheyAreSingleNumaNode) {
  const auto problems_with = [](const PlacementPolicies& defaults) {
    KubeletConfig config = ConfigWith(defaults);
    config.cpu_manager_policy_options = {{"align-by-socket", "true"}};
    std::vector<std::string> texts;
    for (const ConfigProblem& problem :
         FindProblems(MakeMachine("socket:2 numa:1 core:2 pu:2"), config)) {
      texts.push_back(problem.error.Text());
    }
    return texts;
  };
  EXPECT_TRUE(problems_with({.numa_topology = NumaTopologyPolicy::kRestricted}).empty());
  EXPECT_EQ(problems_with(kSingle),
            (std::vector<std::string>{
                "new static policy error: align-by-socket is incompatible with numaTopologyPolicy "
                "SingleNUMANode of the "
                "defaults in namespacePolicies; remove align-by-socket, or write another "
                "numaTopologyPolicy into these defaults"}));
}

// After a restart, a pod has the defaults that its assignment satisfies.
TEST_F(OwnDefaults, AreKnownAgainAfterARestart) {
  const Node single = NodeWith(kSingle);
  const NodeState aligned = Decide(single, InMl("p", "2")).next;
  NodeState restarted = aligned;
  restarted.chosen_policies = {};
  const PodPolicies unmarked{.name_space = "ml"};
  EXPECT_EQ(WithPolicies(single, restarted, {{"p", unmarked}}), aligned);
  EXPECT_TRUE(HasPolicies(single, aligned, "p", unmarked));
  const NodeState wide = Decide(NodeWith({}), InMl("p", "5")).next;
  EXPECT_EQ(WithPolicies(single, wide, {{"p", unmarked}}), wide);
  EXPECT_EQ(WithPolicies(single, restarted, {{"p", {.name_space = "default"}}}), restarted);
}

TEST_F(OwnDefaults, MayNotContradictTheNode) {
  KubeletConfig config = ConfigWith(kSingle);
  config.topology_manager_policy = TopologyManagerPolicy::kRestricted;
  EXPECT_EQ(ProblemsOf(config),
            (std::vector<std::string>{
                "namespacePolicies[0].defaults.numaTopologyPolicy: SingleNUMANode contradicts "
                "topologyManagerPolicy restricted; remove numaTopologyPolicy: the policy of the "
                "node applies to all pods; or set topologyManagerPolicy to none or "
                "single-numa-node"}));
  config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  EXPECT_TRUE(ProblemsOf(config).empty());

  config = ConfigWith({.required_bind = CpuBindPolicy::kSpreadByPcpus,
                       .preferred_bind = CpuBindPolicy::kFullPcpus});
  config.cpu_manager_policy_options = {{"full-pcpus-only", "true"}};
  EXPECT_EQ(ProblemsOf(config),
            (std::vector<std::string>{
                "namespacePolicies[0].defaults.requiredCPUBindPolicy: SpreadByPCPUs contradicts "
                "option full-pcpus-only of cpuManagerPolicyOptions; remove requiredCPUBindPolicy: "
                "the option applies to all pods; or remove the option"}));
  config.cpu_manager_policy_options = {{"distribute-cpus-across-cores", "true"}};
  EXPECT_EQ(ProblemsOf(config).size(), 1U);

  config = ConfigWith({.keeps_numa_apart = true});
  EXPECT_EQ(ProblemsOf(config).size(), 1U);
  config.namespace_policies[0].pod_policies = {PodPolicy::kNumaTopologyPolicy};
  EXPECT_TRUE(ProblemsOf(config).empty());
}

TEST_F(OwnDefaults, OfCpusNeedAManagerThatAssignsThem) {
  for (const PlacementPolicies& defaults :
       {kWhole, kShared, kOneNode,
        PlacementPolicies{.exclusive = CpuExclusivePolicy::kPcpuLevel}}) {
    KubeletConfig config = ConfigWith(defaults);
    config.cpu_manager_policy = CpuManagerPolicy::kNone;
    const std::vector<std::string> problems = ProblemsOf(config);
    ASSERT_EQ(problems.size(), 1U);
    EXPECT_NE(problems[0].find("has no effect, because cpuManagerPolicy is none; set "
                               "cpuManagerPolicy to static"),
              std::string::npos)
        << problems[0];
  }
  KubeletConfig config = ConfigWith(kSingle);
  config.cpu_manager_policy = CpuManagerPolicy::kNone;
  EXPECT_TRUE(ProblemsOf(config).empty());  // it aligns devices and memory
}

}  // namespace
}  // namespace alignd::admission
