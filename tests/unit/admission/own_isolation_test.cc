// Pods that ask for CPUs that the kernel isolates, or for others.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "alignd/admission/admission.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/own_policy.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

// Two NUMA nodes with four CPUs each; CPU 0 is reserved.
struct IsolatedNode {
  std::string isolated = "5-6";
  TopologyManagerPolicy policy = TopologyManagerPolicy::kNone;
  std::string machine = "socket:2 numa:1 core:4";
  std::set<PodPolicy> pods_choose = {PodPolicy::kPreferIsolatedCpus};
  TopologyManagerScope scope = TopologyManagerScope::kContainer;
  std::map<std::string, std::string> options = {};
  NumaAllocateStrategy strategy = NumaAllocateStrategy::kNone;
  std::set<PodPolicy> more = {};

  Node Make() const {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.topology_manager_policy = policy;
    config.topology_manager_scope = scope;
    config.cpu_manager_policy_options = options;
    config.numa_allocate_strategy = strategy;
    config.pod_policies = pods_choose;
    config.pod_policies.insert(more.begin(), more.end());
    Result<Node> node = Node::Make(WithIsolated(MakeMachine(machine), Cpus(isolated)), config);
    EXPECT_TRUE(node.ok()) << node.error().Text();
    return *std::move(node);
  }
};

constexpr char kAll[] = "/pod";
constexpr char kApp[] = "/container.app";

void AskIsolated(Pod& pod, const std::string& scope, const std::string& value) {
  EXPECT_TRUE(ReadScopedAnnotation(kPreferIsolated,
                                   "prefer-isolated-cpus.resource-policy.nri.io" + scope, value,
                                   pod.policies.isolation));
}

Pod OneContainer(int cpus, const std::string& value = "true") {
  Pod pod = MakePod("p", {App("app", {{"cpu", std::to_string(cpus)}, {"memory", "64Mi"}})});
  if (!value.empty()) AskIsolated(pod, kAll, value);
  return pod;
}

Pod TwoContainers(const std::string& scope, int app = 2, int log = 1) {
  Pod pod = MakePod("p", {App("app", {{"cpu", std::to_string(app)}, {"memory", "64Mi"}}),
                          App("log", {{"cpu", std::to_string(log)}, {"memory", "64Mi"}})});
  AskIsolated(pod, scope, "true");
  return pod;
}

// "app 5-6, log 1": the exclusive CPUs.
std::string PlacedOn(const Node& node, const NodeState& state, const Pod& pod) {
  const Admission admission = Admit(node, state, pod, devicemanager::NoPreference);
  if (admission.refusal) return admission.refusal->message;
  EXPECT_TRUE(admission.next.BrokenInvariants(node).empty());
  std::string text;
  for (const auto& [name, assignment] : admission.assignments) {
    text += (text.empty() ? "" : ", ") + name + " " + assignment.exclusive.ToString();
  }
  return text;
}

std::string PlacedOn(const IsolatedNode& described, const Pod& pod) {
  const Node node = described.Make();
  return PlacedOn(node, NodeState::Initial(node), pod);
}

TEST(OwnIsolation, AContainerGetsIsolatedCpusIfTheyAreEnough) {
  EXPECT_EQ(PlacedOn({}, OneContainer(2, "")), "app 1-2");
  EXPECT_EQ(PlacedOn({}, OneContainer(2)), "app 5-6");
  EXPECT_EQ(PlacedOn({}, OneContainer(1)), "app 5");
  EXPECT_EQ(PlacedOn({}, OneContainer(3)), "app 1-3");  // all or none
  EXPECT_EQ(PlacedOn({.isolated = "0-1"}, OneContainer(1)), "app 1");
  EXPECT_EQ(PlacedOn({.isolated = "0-1"}, OneContainer(2)), "app 1-2");  // 0 is reserved
  EXPECT_EQ(PlacedOn({.isolated = ""}, OneContainer(2)), "app 1-2");
}

TEST(OwnIsolation, NoPodIsPlacedWorseForIt) {
  // 3-4 are of two NUMA nodes.
  EXPECT_EQ(PlacedOn({.isolated = "3-4"}, OneContainer(2)), "app 1-2");
  for (const auto policy :
       {TopologyManagerPolicy::kSingleNumaNode, TopologyManagerPolicy::kRestricted,
        TopologyManagerPolicy::kBestEffort}) {
    EXPECT_EQ(PlacedOn({.policy = policy}, OneContainer(2)), "app 5-6");
    EXPECT_EQ(PlacedOn({.isolated = "3-4", .policy = policy}, OneContainer(2)), "app 1-2");
  }
}

TEST(OwnIsolation, FalseIsForOtherCpus) {
  EXPECT_EQ(PlacedOn({.isolated = "1-2"}, OneContainer(2, "")), "app 1-2");
  EXPECT_EQ(PlacedOn({.isolated = "1-2"}, OneContainer(2, "false")), "app 4-5");
  EXPECT_EQ(PlacedOn({.isolated = "1-7"}, OneContainer(2, "false")), "app 1-2");
}

TEST(OwnIsolation, AnAnnotationCanBeForOneContainer) {
  for (const auto policy : {TopologyManagerPolicy::kNone, TopologyManagerPolicy::kSingleNumaNode}) {
    EXPECT_EQ(PlacedOn({.policy = policy}, TwoContainers(kApp)),
              policy == TopologyManagerPolicy::kNone ? "app 5-6, log 4" : "app 5-6, log 1");
    EXPECT_EQ(PlacedOn({.isolated = "5-7", .policy = policy}, TwoContainers(kAll)),
              "app 5-6, log 7");
    // Not enough for both.
    EXPECT_EQ(PlacedOn({.policy = policy}, TwoContainers(kAll)),
              policy == TopologyManagerPolicy::kNone ? "app 5-6, log 4" : "app 5-6, log 1");
    EXPECT_EQ(PlacedOn({.policy = policy}, TwoContainers(kAll, 3, 1)), "app 1-3, log 5");
  }
}

TEST(OwnIsolation, ThePodStaysOnTheNumaNodesOfItsAffinity) {
  const IsolatedNode pod_scope{.policy = TopologyManagerPolicy::kSingleNumaNode,
                               .scope = TopologyManagerScope::kPod};
  EXPECT_EQ(PlacedOn(pod_scope, OneContainer(2)), "app 5-6");
  EXPECT_EQ(PlacedOn(pod_scope, TwoContainers(kApp)), "app 1-2, log 3");
  IsolatedNode on_both = pod_scope;
  on_both.isolated = "2-3,5-6";
  EXPECT_EQ(PlacedOn(on_both, TwoContainers(kApp)), "app 2-3, log 1");
}

TEST(OwnIsolation, OptionsOfTheNodeComeFirst) {
  const IsolatedNode full{.isolated = "3-5",
                          .machine = "socket:2 numa:1 core:4 thread:2",
                          .options = {{"full-pcpus-only", "true"}}};
  EXPECT_EQ(PlacedOn(full, OneContainer(2)), "app 4-5");  // 3 is a part of a core
  EXPECT_EQ(PlacedOn(full, OneContainer(4)), "app 2-5");
  const IsolatedNode fullest{.isolated = "3,6-7", .strategy = NumaAllocateStrategy::kFullestNode};
  EXPECT_EQ(PlacedOn(fullest, OneContainer(1)), "app 3");
  const IsolatedNode emptiest{.isolated = "3,6-7", .strategy = NumaAllocateStrategy::kEmptiestNode};
  EXPECT_EQ(PlacedOn(emptiest, OneContainer(1)), "app 6");
}

TEST(OwnIsolation, TheExclusivePolicyComesFirst) {
  const Node node = IsolatedNode{.more = {PodPolicy::kCpuExclusivePolicy}}.Make();
  NodeState state = NodeState::Initial(node);
  state.cpu.default_set -= Cpus("4");
  state.cpu.assignments["other"]["app"] = Cpus("4");
  state.chosen_policies["other"] = PodPolicies{.exclusive = CpuExclusivePolicy::kNumaNodeLevel};
  Pod pod = OneContainer(2);
  EXPECT_EQ(PlacedOn(node, state, pod), "app 5-6");
  pod.policies.exclusive = CpuExclusivePolicy::kNumaNodeLevel;
  EXPECT_EQ(PlacedOn(node, state, pod), "app 1-2");
}

// In scope pod, the hints do not know which CPUs each container stays away from.
TEST(OwnIsolation, TheExclusivePolicyDoesNotLeaveTheNumaNodeOfThePod) {
  const Node node = IsolatedNode{.isolated = "2-3,6-7",
                                 .policy = TopologyManagerPolicy::kSingleNumaNode,
                                 .machine = "socket:2 numa:1 core:2 pu:2",
                                 .scope = TopologyManagerScope::kPod,
                                 .more = {PodPolicy::kCpuExclusivePolicy}}
                        .Make();
  for (const char* const other : {"1", "2", "3", "5", "6"}) {
    NodeState state = NodeState::Initial(node);
    state.cpu.default_set -= Cpus(other);
    state.cpu.assignments["other"]["app"] = Cpus(other);
    state.chosen_policies["other"] = PodPolicies{.exclusive = CpuExclusivePolicy::kPcpuLevel};
    Pod pod = TwoContainers(kApp, 1, 1);
    AskIsolated(pod, "/container.log", "false");
    pod.policies.exclusive = CpuExclusivePolicy::kPcpuLevel;
    const Admission admission = Admit(node, state, pod, devicemanager::NoPreference);
    ASSERT_TRUE(admission.admitted()) << admission.refusal->message;
    const CpuSet together =
        admission.assignments.at("app").exclusive | admission.assignments.at("log").exclusive;
    EXPECT_EQ(node.machine.NumaOf(together).Count(), 1) << other << ": " << together.ToString();
  }
}

TEST(OwnIsolation, AContainerKeepsWhatItHas) {
  const Node node = IsolatedNode{}.Make();
  NodeState state = NodeState::Initial(node);
  state.cpu.default_set -= Cpus("1-2");
  state.cpu.assignments["p"]["app"] = Cpus("1-2");
  EXPECT_EQ(PlacedOn(node, state, OneContainer(2)), "app 1-2");
}

TEST(OwnIsolation, IsFollowedOnlyIfPodsMayChooseIt) {
  const IsolatedNode off{.pods_choose = {PodPolicy::kPreferSharedCpus}};
  EXPECT_EQ(PlacedOn(off, OneContainer(2)), "app 1-2");
  EXPECT_EQ(PlacedOn(off, OneContainer(2, "maybe")), "app 1-2");
}

TEST(OwnIsolation, WhatCannotBeFollowedIsRefused) {
  EXPECT_EQ(PlacedOn({}, OneContainer(2, "maybe")),
            "annotation prefer-isolated-cpus.resource-policy.nri.io/pod: \"maybe\" is not \"true\" "
            "or \"false\". What would help: correct the annotation, for example "
            "prefer-isolated-cpus.resource-policy.nri.io/container.NAME: \"true\", or remove it");
  Pod other = OneContainer(2, "");
  AskIsolated(other, "/container.log", "true");
  EXPECT_EQ(PlacedOn({}, other),
            "the pod has an annotation prefer-isolated-cpus for container log, and no container of "
            "that name. What would help: correct the name in the annotation, remove the "
            "annotation, or name the container in the annotation with resources, if the pod has "
            "one");
}

TEST(OwnIsolation, IsDescribed) {
  const auto describe = [](const IsolatedNode& node, const Pod& pod) {
    return DescribePodPolicy(node.Make(), pod);
  };
  EXPECT_EQ(describe({}, OneContainer(2, "")), "");
  Pod both = TwoContainers(kApp);
  AskIsolated(both, "/container.log", "false");
  EXPECT_EQ(describe({}, both),
            "annotation prefer-isolated-cpus: isolated CPUs, if they are enough, for app; other "
            "than isolated CPUs, if they are enough, for log");
  EXPECT_EQ(describe({.isolated = ""}, both),
            "annotation prefer-isolated-cpus has no effect: the kernel isolates no CPUs of the "
            "node");
  EXPECT_EQ(describe({.pods_choose = {}}, both),
            "annotation prefer-isolated-cpus is ignored: podPolicies does not have "
            "prefer-isolated-cpus");
  EXPECT_EQ(describe({}, OneContainer(2, "maybe")),
            "annotation prefer-isolated-cpus.resource-policy.nri.io/pod: \"maybe\" is not \"true\" "
            "or \"false\"");
  Pod shared = MakePod("p", {App("app", {{"cpu", "500m"}, {"memory", "64Mi"}})});
  AskIsolated(shared, kAll, "true");
  EXPECT_EQ(describe({}, shared),
            "annotation prefer-isolated-cpus has no effect on the pod's containers");
}

}  // namespace
}  // namespace alignd::admission
