#include "alignd/admission/init_containers.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

using devicemanager::NoPreference;

// Eight CPUs on two NUMA nodes; CPU 0 is reserved.
Node EightCpus() {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  Result<Node> node = Node::Make(MakeMachine("socket:2 numa:1 core:4 thread:1"), config);
  EXPECT_TRUE(node.ok()) << node.error().message;
  return *std::move(node);
}

std::map<std::string, std::string> WholeCpus(int count) {
  return {{"cpu", std::to_string(count)}, {"memory", "64Mi"}};
}

NodeState Admitted(const Node& node, const Pod& pod, const NodeState& state) {
  Admission admission = Admit(node, state, pod, NoPreference);
  EXPECT_TRUE(admission.admitted()) << admission.refusal->message;
  return std::move(admission.next);
}

std::string CpusOf(const NodeState& state, const std::string& container) {
  const CpuSet* cpus = state.cpu.Find({"p", container});
  return cpus == nullptr ? "-" : cpus->ToString();
}

TEST(InitContainers, WhatTheyLeaveReturnsOnceAnAppContainerStarts) {
  const Node node = EightCpus();
  const Pod pod = MakePod("p", {Init("first", WholeCpus(4)), Init("second", WholeCpus(2)),
                                Sidecar("side", WholeCpus(1)), App("app", WholeCpus(1))});
  NodeState state = Admitted(node, pod, NodeState::Initial(node));
  const std::string side = CpusOf(state, "side");
  const std::string app = CpusOf(state, "app");
  for (const char* before : {"first", "second", "side"}) {
    const NodeState unchanged = state;
    ContainerStarts(node, pod, before, state);
    EXPECT_TRUE(state == unchanged) << before;
  }
  ContainerStarts(node, pod, "app", state);
  EXPECT_EQ(CpusOf(state, "first"), "-");
  EXPECT_EQ(CpusOf(state, "second"), "-");
  EXPECT_EQ(CpusOf(state, "side"), side);
  EXPECT_EQ(CpusOf(state, "app"), app);
  EXPECT_EQ(state.cpu.default_set.Count(), 6);
  EXPECT_EQ(state.BrokenInvariants(node), std::vector<std::string>());
}

TEST(InitContainers, KeepTheirCpusForContainersThatHaveNoneYet) {
  const Node node = EightCpus();
  const Pod known = MakePod("p", {Init("init", WholeCpus(2)), App("a", WholeCpus(2))});
  NodeState state = Admitted(node, known, NodeState::Initial(node));
  const NodeState before = state;
  const Pod pod =
      MakePod("p", {Init("init", WholeCpus(2)), App("a", WholeCpus(2)), App("b", WholeCpus(2))});
  ContainerStarts(node, pod, "a", state);
  EXPECT_TRUE(state == before);
}

TEST(InitContainers, MayHaveTheOthersCpusWhenTheyRunOnceMore) {
  const Node node = EightCpus();
  const Pod pod = MakePod("p", {Init("init", WholeCpus(3)), App("app", WholeCpus(3))});
  NodeState state = Admitted(node, pod, NodeState::Initial(node));
  const std::string app = CpusOf(state, "app");
  ContainerStarts(node, pod, "app", state);
  // All other CPUs of the node are assigned to another pod.
  state = Admitted(node, MakePod("q", {App("app", WholeCpus(4))}), state);
  EXPECT_FALSE(Admit(node, state, pod, NoPreference).admitted());
  NodeState lent = state;
  LendToInitContainers(node, pod, lent);
  state = Admitted(node, pod, lent);
  EXPECT_EQ(CpusOf(state, "init"), app);
  EXPECT_EQ(CpusOf(state, "app"), app);
  EXPECT_EQ(state.BrokenInvariants(node), std::vector<std::string>());
  ContainerStarts(node, pod, "app", state);
  EXPECT_EQ(CpusOf(state, "init"), "-");
  EXPECT_EQ(CpusOf(state, "app"), app);
}

TEST(InitContainers, NothingIsLentWhileAContainerLacksItsCpus) {
  const Node node = EightCpus();
  NodeState state =
      Admitted(node, MakePod("p", {App("a", WholeCpus(2))}), NodeState::Initial(node));
  const NodeState before = state;
  LendToInitContainers(
      node,
      MakePod("p", {Init("init", WholeCpus(2)), App("a", WholeCpus(2)), App("b", WholeCpus(2))}),
      state);
  EXPECT_TRUE(state == before);
}

}  // namespace
}  // namespace alignd::admission
