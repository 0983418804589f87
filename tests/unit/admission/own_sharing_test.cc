// Pods that ask for shared CPUs in place of exclusive ones.
#include <gtest/gtest.h>

#include <string>

#include "alignd/admission/admission.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/own_policy.h"
#include "alignd/admission/pod_level.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

// Two NUMA nodes with four CPUs each; CPU 0 is reserved.
class OwnSharingTest : public testing::Test {
 protected:
  static Node NodeOf(std::set<PodPolicy> policies) {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
    config.pod_policies = std::move(policies);
    Result<Node> node = Node::Make(MakeMachine("socket:2 numa:1 core:4"), config);
    EXPECT_TRUE(node.ok()) << node.error().Text();
    return *std::move(node);
  }

  static Pod Asking(const std::string& annotation, const std::string& qos_class = "") {
    Pod pod = MakePod("p", {App("app", {{"cpu", "2"}, {"memory", "64Mi"}}),
                            App("log", {{"cpu", "1"}, {"memory", "64Mi"}})});
    if (!annotation.empty()) {
      EXPECT_TRUE(ReadSharingAnnotation(annotation, "true", pod.policies.sharing));
    }
    ReadSharingLabel(kQosClassLabel, qos_class, pod.policies.sharing);
    return pod;
  }

  static Admission Decide(const Node& node, const NodeState& state, const Pod& pod) {
    return Admit(node, state, pod, devicemanager::NoPreference);
  }
  static Admission Decide(const Node& node, const Pod& pod) {
    return Decide(node, NodeState::Initial(node), pod);
  }

  // "app 1-2, log 3": the exclusive CPUs.
  static std::string ExclusiveIn(const Admission& admission) {
    if (admission.refusal) return admission.refusal->reason;
    std::string text;
    for (const auto& [name, assignment] : admission.assignments) {
      if (assignment.exclusive.empty()) continue;
      text += (text.empty() ? "" : ", ") + name + " " + assignment.exclusive.ToString();
    }
    return text;
  }

  static constexpr char kAll[] = "prefer-shared-cpus.resource-policy.nri.io";
  static constexpr char kApp[] = "prefer-shared-cpus.resource-policy.nri.io/container.app";
  const Node off_ = NodeOf({});
  const Node on_ = NodeOf({PodPolicy::kPreferSharedCpus, PodPolicy::kQosClass});
};

TEST_F(OwnSharingTest, TheNamedContainersStayInTheSharedPool) {
  EXPECT_EQ(ExclusiveIn(Decide(on_, Asking(kApp))), "log 1");
  EXPECT_EQ(ExclusiveIn(Decide(on_, Asking(kAll))), "");
  EXPECT_EQ(ExclusiveIn(Decide(on_, Asking("", "LS"))), "");
  EXPECT_EQ(ExclusiveIn(Decide(on_, Asking("", "BE"))), "");
  EXPECT_EQ(ExclusiveIn(Decide(on_, Asking("", "LSR"))), "app 1-2, log 3");
  EXPECT_EQ(ExclusiveIn(Decide(on_, Asking(""))), "app 1-2, log 3");
}

TEST_F(OwnSharingTest, IsIgnoredUnlessTheOperatorAllowsIt) {
  EXPECT_EQ(ExclusiveIn(Decide(off_, Asking(kAll, "LS"))), "app 1-2, log 3");
  EXPECT_EQ(ExclusiveIn(Decide(NodeOf({PodPolicy::kQosClass}), Asking(kAll))), "app 1-2, log 3");
  EXPECT_EQ(ExclusiveIn(Decide(NodeOf({PodPolicy::kPreferSharedCpus}), Asking("", "LS"))),
            "app 1-2, log 3");
  Pod faulty = Asking("");
  faulty.policies.sharing.annotations.fault = faulty.policies.sharing.label_fault = "x";
  EXPECT_EQ(ExclusiveIn(Decide(off_, faulty)), "app 1-2, log 3");
}

TEST_F(OwnSharingTest, WhatCannotBeFollowedIsRefused) {
  Pod faulty = Asking("");
  faulty.policies.sharing.annotations.fault = "annotation a: is wrong";
  EXPECT_EQ(Decide(on_, faulty).refusal->fault, "annotation a: is wrong");
  faulty.policies.sharing.annotations.fault.clear();
  faulty.policies.sharing.label_fault = "label l: is wrong";
  EXPECT_EQ(Decide(on_, faulty).refusal->fault, "label l: is wrong");
  Pod misspelt = Asking(std::string(kAll) + "/container.ap");
  EXPECT_EQ(Decide(on_, misspelt).refusal->fault,
            "the pod has an annotation prefer-shared-cpus for container ap, and no container of "
            "that name");
  misspelt.is_complete = false;
  EXPECT_EQ(ExclusiveIn(Decide(on_, misspelt)), "app 1-2, log 3");
}

// What the label asks for and the pod cannot have, also if it has nothing else to align.
TEST_F(OwnSharingTest, ALabelForExclusiveCpusNeedsThem) {
  const auto fault_of = [](const Node& node, const Pod& pod) {
    const Admission refused = Decide(node, pod);
    return refused.refusal ? refused.refusal->fault : "admitted";
  };
  constexpr char kAsks[] = "the pod asks for exclusive CPUs by label koordinator.sh/qosClass LSE, ";
  const std::string none = std::string(kAsks) + "and none of its containers gets them";
  Pod pod = Asking("", "LSE");
  pod.containers = {App("app", {{"cpu", "500m"}, {"memory", "64Mi"}})};
  EXPECT_EQ(fault_of(on_, pod), none);
  EXPECT_EQ(Decide(on_, pod).refusal->reason, kPodPolicyError);
  EXPECT_EQ(fault_of(off_, pod), "admitted");
  pod.containers = {App("app", {{"cpu", "2"}, {"memory", "64Mi"}}),
                    App("log", {{"cpu", "500m"}, {"memory", "64Mi"}})};
  EXPECT_EQ(fault_of(on_, pod), std::string(kAsks) + "and these of its containers get none: log");
  // Burstable, with a whole number and without any; and BestEffort.
  pod.containers = {App("app", {{"cpu", "2"}})};
  EXPECT_EQ(fault_of(on_, pod), none);
  pod.containers = {App("app", {})};
  EXPECT_EQ(fault_of(on_, pod), none);
  // Both at once: the annotation takes what the label asks for.
  EXPECT_EQ(fault_of(on_, Asking(kAll, "LSE")), none);
  EXPECT_EQ(fault_of(on_, Asking(kApp, "LSE")),
            std::string(kAsks) + "and these of its containers get none: app");
  Pod in_machine = Asking("", "LSE");
  in_machine.shared_pool_handler = "kata";
  EXPECT_EQ(fault_of(on_, in_machine),
            std::string(kAsks) + "and containers of runtime handler kata get none");
  KubeletConfig without;
  without.pod_policies = {PodPolicy::kQosClass};
  EXPECT_EQ(
      fault_of(*Node::Make(MakeMachine("socket:1 numa:1 core:4"), without), Asking("", "LSE")),
      std::string(kAsks) + "and this node assigns no CPUs");
}

// As in koordinator, which counts the CPUs of the whole pod.
TEST_F(OwnSharingTest, AnInitContainerThatEndsMayBeWithoutExclusiveCpus) {
  Pod pod = Asking("", "LSR");
  const auto with_first = [&pod, this](const std::string& cpus, ContainerKind kind) {
    Container first = App("first", {{"cpu", cpus}, {"memory", "64Mi"}});
    first.kind = kind;
    pod.containers = {first, App("app", {{"cpu", "2"}, {"memory", "64Mi"}})};
    return ExclusiveIn(Decide(on_, pod));
  };
  EXPECT_EQ(with_first("500m", ContainerKind::kInit), "app 1-2");
  EXPECT_EQ(DescribePodPolicy(on_, pod),
            "label koordinator.sh/qosClass LSR: shared CPUs for first, which a node refuses that "
            "knows the pod from CRI alone");
  EXPECT_EQ(with_first("2500m", ContainerKind::kInit), kPodPolicyError);
  EXPECT_EQ(with_first("500m", ContainerKind::kSidecar), kPodPolicyError);
  // More CPUs than 64 bits have thousandths of: what the label says is not why it is refused.
  for (const std::string cpus : {"10000000000000000", "9223372036854775807"}) {
    pod.containers[0].kind = ContainerKind::kInit;
    pod.containers[1] = App("app", {{"cpu", cpus}, {"memory", "64Mi"}});
    EXPECT_FALSE(Decide(on_, pod).admitted());
    EXPECT_NE(ExclusiveIn(Decide(on_, pod)), kPodPolicyError);
  }
  // Of a pod that is not known as a whole, it can be another container.
  pod.is_complete = false;
  EXPECT_EQ(with_first("500m", ContainerKind::kInit), kPodPolicyError);
}

// CRI shows one container at a time.
TEST_F(OwnSharingTest, ALabelForExclusiveCpusIsFollowedForOneContainerAfterTheOther) {
  Pod pod = Asking("", "LSR");
  pod.stated_qos = QosClass::kGuaranteed;
  pod.is_complete = false;
  pod.containers = {App("app", {{"cpu", "2"}, {"memory", "64Mi"}})};
  const Admission first = Decide(on_, pod);
  EXPECT_EQ(ExclusiveIn(first), "app 1-2");
  pod.containers = {App("debug", {})};
  EXPECT_EQ(ExclusiveIn(Decide(on_, first.next, pod)), "");
  pod.containers = {App("log", {{"cpu", "500m"}, {"memory", "64Mi"}})};
  EXPECT_EQ(ExclusiveIn(Decide(on_, first.next, pod)), kPodPolicyError);
  pod.stated_qos = QosClass::kBurstable;
  pod.containers = {App("log", {})};
  EXPECT_EQ(ExclusiveIn(Decide(on_, pod)), kPodPolicyError);
}

// The node may have been another one when the pod was admitted.
TEST_F(OwnSharingTest, ALabelForExclusiveCpusTakesNothingFromContainersThatHaveThem) {
  NodeState state = Decide(on_, Asking("")).next;
  EXPECT_EQ(ExclusiveIn(Decide(on_, state, Asking(kAll, "LSE"))), "app 1-2, log 3");
}

// A change of the annotation, or of the list, takes nothing from a container that runs.
TEST_F(OwnSharingTest, AContainerKeepsTheCpusThatItHas) {
  const NodeState state = Decide(on_, Asking("")).next;
  const Admission again = Decide(on_, state, Asking(kAll, "LS"));
  EXPECT_EQ(ExclusiveIn(again), "app 1-2, log 3");
  EXPECT_EQ(again.next, state);
  const NodeState shared = Decide(on_, Asking(kApp)).next;
  EXPECT_EQ(ExclusiveIn(Decide(on_, shared, Asking(kAll))), "log 1");
}

TEST_F(OwnSharingTest, ExplainSaysWhatWasFollowed) {
  EXPECT_EQ(DescribeRequest(on_, NodeState::Initial(on_), Asking(kApp)),
            "app: shared CPUs (its pod asks for them); log: 1 exclusive CPU; annotation "
            "prefer-shared-cpus: shared CPUs "
            "for app");
  EXPECT_EQ(DescribePodPolicy(on_, Asking("", "LS")),
            "label koordinator.sh/qosClass LS: shared CPUs");
  EXPECT_EQ(DescribePodPolicy(on_, Asking("", "LSR")), "label koordinator.sh/qosClass LSR");
  EXPECT_EQ(
      DescribePodPolicy(off_, Asking(kApp, "LS")),
      "annotation prefer-shared-cpus is ignored: podPolicies does not have prefer-shared-cpus; "
      "label koordinator.sh/qosClass is ignored: podPolicies does not have qosClass");
}

}  // namespace
}  // namespace alignd::admission
