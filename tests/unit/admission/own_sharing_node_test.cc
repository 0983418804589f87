// Pods that ask for shared CPUs in place of exclusive ones, and that their shared containers stay
// on one NUMA node.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "alignd/admission/admission.h"
#include "alignd/admission/adoption.h"
#include "alignd/admission/assignment_mark.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/own_policy.h"
#include "alignd/admission/resize.h"
#include "alignd/admission/transition.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

// Two NUMA nodes with four CPUs each; CPU 0 is reserved.
class OwnSharingNode : public testing::Test {
 protected:
  static KubeletConfig ConfigWith(std::set<PodPolicy> policies) {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.pod_policies = std::move(policies);
    return config;
  }

  static KubeletConfig AllAllowed() {
    return ConfigWith(
        {PodPolicy::kPreferSharedCpus, PodPolicy::kQosClass, PodPolicy::kSharedNumaNode});
  }

  static Node NodeOf(const KubeletConfig& config) {
    Result<Node> node = Node::Make(MakeMachine("socket:2 numa:1 core:4"), config);
    EXPECT_TRUE(node.ok()) << node.error().Text();
    return *std::move(node);
  }

  // Guaranteed. `app` prefers shared CPUs, `log` gets one exclusive CPU.
  static Pod Mixed(const std::string& uid, const std::string& cpus) {
    Pod pod = MakePod(uid, {App("app", {{"cpu", cpus}, {"memory", "64Mi"}}),
                            App("log", {{"cpu", "1"}, {"memory", "64Mi"}})});
    EXPECT_TRUE(ReadSharingAnnotation("prefer-shared-cpus.resource-policy.nri.io/container.app",
                                      "true", pod.policies.sharing));
    pod.policies.shared_on_one_node = true;
    return pod;
  }

  static Pod Exclusive(const std::string& uid, const std::string& cpus) {
    return MakePod(uid, {App("app", {{"cpu", cpus}, {"memory", "64Mi"}})});
  }

  // "app of NUMA node 1 (2000m), log 1": what the containers have, or why the pod is refused.
  std::string Place(const Node& node, const Pod& pod) {
    Admission admission = Admit(node, state_, pod, devicemanager::NoPreference);
    if (!admission.admitted()) return admission.refusal->reason;
    state_ = std::move(admission.next);
    EXPECT_TRUE(state_.BrokenInvariants(node).empty());
    std::string text;
    for (const auto& [name, assignment] : admission.assignments) {
      text += (text.empty() ? "" : ", ") + name + " ";
      if (assignment.share) {
        text += "of NUMA node " + std::to_string(assignment.share->numa_id) + " (" +
                std::to_string(assignment.share->millis) + "m)";
      } else {
        text += assignment.exclusive.empty() ? "anywhere" : assignment.exclusive.ToString();
      }
    }
    return text;
  }

  const Node none_ = NodeOf(AllAllowed());
  NodeState state_ = NodeState::Initial(none_);
};

// Its request is accounted there: these CPUs are not assigned to others.
TEST_F(OwnSharingNode, AWholeNumberOfSharedCpusIsOfOneNumaNode) {
  Pod pod = Mixed("a", "2");
  EXPECT_EQ(DescribeRequest(none_, state_, pod),
            "app: shared CPUs (its pod asks for them), 2000m of one NUMA node; log: 1 exclusive "
            "CPU; annotation prefer-shared-cpus: shared CPUs for app; single-numa-node of "
            "annotation alignd.io/shared-cpus");
  pod.containers.pop_back();
  EXPECT_EQ(DescribePodPolicy(none_, pod),
            "annotation prefer-shared-cpus: shared CPUs for app; single-numa-node of annotation "
            "alignd.io/shared-cpus");
  ASSERT_EQ(Place(none_, Mixed("a", "2")), "app of NUMA node 1 (2000m), log 4");
  EXPECT_EQ(Place(none_, Exclusive("big", "5")), "UnexpectedAdmissionError");
  EXPECT_EQ(Place(none_, Exclusive("fits", "4")), "app 1-3,5");
  Pod labelled = Exclusive("b", "1");
  labelled.policies.shared_on_one_node = true;
  ReadSharingLabel(kQosClassLabel, "LS", labelled.policies.sharing);
  EXPECT_EQ(Place(none_, labelled), "UnexpectedAdmissionError");
  ReleasePod("fits", state_);
  EXPECT_EQ(Place(none_, labelled), "app of NUMA node 0 (1000m)");
}

TEST_F(OwnSharingNode, BothKindsOfCpusOfAPodAlignTogether) {
  KubeletConfig config = AllAllowed();
  config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  config.topology_manager_scope = TopologyManagerScope::kPod;
  const Node node = NodeOf(config);
  EXPECT_EQ(Place(node, Mixed("wide", "4")), "TopologyAffinityError");
  EXPECT_EQ(Place(node, Mixed("a", "3")), "app of NUMA node 1 (3000m), log 4");
  EXPECT_EQ(Place(node, Mixed("b", "2")), "app of NUMA node 0 (2000m), log 1");
  EXPECT_EQ(Place(node, Exclusive("x", "1")), "TopologyAffinityError");
}

TEST_F(OwnSharingNode, EachPolicyNeedsItsOwnPermission) {
  EXPECT_EQ(Place(NodeOf(ConfigWith({PodPolicy::kPreferSharedCpus})), Mixed("a", "2")),
            "app anywhere, log 1");
  EXPECT_EQ(Place(NodeOf(ConfigWith({PodPolicy::kSharedNumaNode})), Mixed("b", "2")),
            "app 2-3, log 4");
}

TEST_F(OwnSharingNode, TheNamespaceDecides) {
  KubeletConfig config = AllAllowed();
  config.namespace_policies = {{{"team-a"}, {PodPolicy::kPreferSharedCpus}}};
  const Node not_there = NodeOf(config);
  Pod in_team = Mixed("a", "2");
  in_team.name_space = "team-a";
  in_team.policies.shared_fault = "annotation s: is wrong";
  EXPECT_EQ(Place(not_there, in_team), "app anywhere, log 1");
  EXPECT_EQ(DescribePodPolicy(not_there, in_team),
            "annotation prefer-shared-cpus: shared CPUs for app; annotation alignd.io/shared-cpus "
            "is ignored: podPolicies for namespace team-a does not have sharedNUMANode");
  in_team.policies.shared_fault.clear();
  in_team.uid = "b";
  std::swap(config.pod_policies, config.namespace_policies[0].pod_policies);
  const Node only_there = NodeOf(config);
  EXPECT_EQ(Place(only_there, in_team), "app of NUMA node 1 (2000m), log 2");
  EXPECT_EQ(Place(only_there, Mixed("c", "2")), "app anywhere, log 3");
}

// A running container stays while pods of any namespace can ask for it.
TEST_F(OwnSharingNode, EndsWithTheLastNamespace) {
  ASSERT_EQ(Place(none_, Mixed("a", "2")), "app of NUMA node 1 (2000m), log 4");
  KubeletConfig config = ConfigWith({});
  config.namespace_policies = {{{"team-a"}, {PodPolicy::kSharedNumaNode}}};
  const Node other = NodeOf(config);
  const Transition stays = PlanTransition(none_, other, state_, MayMove::kNever);
  ASSERT_TRUE(stays.IsAdmitted());
  EXPECT_EQ(stays.next.cpu.shares, state_.cpu.shares);
  EXPECT_TRUE(stays.notes.empty());
  const Transition ends = PlanTransition(other, NodeOf(ConfigWith({})), state_, MayMove::kNever);
  ASSERT_TRUE(ends.IsAdmitted());
  EXPECT_TRUE(ends.next.cpu.shares.empty());
  EXPECT_EQ(ends.notes.size(), 1U);
}

TEST_F(OwnSharingNode, KeepsWhatItHasWhenItIsCreatedAgain) {
  Pod pod = Mixed("a", "2");
  ASSERT_EQ(Place(none_, pod), "app of NUMA node 1 (2000m), log 4");
  const NodeState before = state_;
  EXPECT_EQ(Place(none_, pod), "app of NUMA node 1 (2000m), log 4");
  EXPECT_EQ(state_, before);
  // Without the annotation, it gets exclusive CPUs in place of its share.
  pod.policies.sharing = {};
  EXPECT_EQ(Place(none_, pod), "app 1-2, log 4");
  EXPECT_TRUE(state_.cpu.shares.empty());
  // With it again, it keeps them.
  EXPECT_EQ(Place(none_, Mixed("a", "2")), "app 1-2, log 4");
  EXPECT_TRUE(state_.cpu.shares.empty());
}

TEST_F(OwnSharingNode, IsAdoptedFromItsMarkAndNotResized) {
  ASSERT_EQ(Place(none_, Mixed("a", "2")), "app of NUMA node 1 (2000m), log 4");
  const ContainerKey key{"a", "app"};
  const MarkedContainer running{
      .id = "c1", .key = key, .pod = "default/a", .mark = MarkOf(state_, key)};
  NodeState restarted = state_;
  restarted.cpu.shares.clear();
  KubeletConfig config = ConfigWith({});
  config.namespace_policies = {{{"default"}, AllAllowed().pod_policies}};
  const Node by_namespace = NodeOf(config);
  EXPECT_TRUE(IsIncomplete(by_namespace, restarted, key, running.mark));
  EXPECT_EQ(Adopt(by_namespace, restarted, {}, {running}).next, state_);
  const ResizeDecision resize = Resize(none_, state_, key, 3);
  EXPECT_FALSE(resize.admitted());
  EXPECT_EQ(resize.next, state_);
}

// It is where its exclusive CPUs are, and where its shared containers stay.
TEST_F(OwnSharingNode, CountsAsOnSeveralNumaNodes) {
  KubeletConfig config = AllAllowed();
  config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  config.pod_policies.insert(PodPolicy::kNumaTopologyPolicy);
  const Node node = NodeOf(config);
  ASSERT_EQ(Place(node, Exclusive("x", "2")), "app 1-2");
  Pod pod = Mixed("a", "3");
  ASSERT_EQ(Place(node, pod), "app of NUMA node 1 (3000m), log 3");
  ReleasePod("a", state_);
  pod.policies.keeps_numa_apart = true;
  EXPECT_EQ(Place(node, pod), "app of NUMA node 1 (3000m), log 4");
}

// CPUs that back requests of shared containers are not free.
TEST_F(OwnSharingNode, TheStrategyCountsFreeCpus) {
  KubeletConfig config = AllAllowed();
  config.numa_allocate_strategy = NumaAllocateStrategy::kFullestNode;
  const Node node = NodeOf(config);
  Pod pod = Mixed("a", "2");
  pod.containers.pop_back();
  ASSERT_EQ(Place(node, pod), "app of NUMA node 1 (2000m)");
  EXPECT_EQ(Place(node, Exclusive("x", "1")), "app 4");
}

}  // namespace
}  // namespace alignd::admission
