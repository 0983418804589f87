// A node, and pods that ask by annotation how their CPUs lie on cores and what they stay away from.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "alignd/admission/admission.h"
#include "alignd/admission/own_policy.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {

// Two NUMA nodes of four cores with two CPUs each (0 and 1, 2 and 3, ...); CPU 0 is reserved.
class OwnCpusTest : public testing::Test {
 protected:
  using Bind = std::optional<CpuBindPolicy>;

  static constexpr Bind kFull = CpuBindPolicy::kFullPcpus;
  static constexpr Bind kSpread = CpuBindPolicy::kSpreadByPcpus;
  static constexpr char kSpecText[] = " of annotation scheduling.koordinator.sh/resource-spec";

  static KubeletConfig ConfigOf(const std::string& option = {}) {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.pod_policies = {PodPolicy::kCpuBindPolicy, PodPolicy::kCpuExclusivePolicy};
    if (!option.empty()) config.cpu_manager_policy_options[option] = "true";
    return config;
  }

  static Node NodeOf(const KubeletConfig& config) {
    Result<Node> node = Node::Make(MakeMachine("socket:2 numa:1 core:4 thread:2"), config);
    EXPECT_TRUE(node.ok()) << node.error().Text();
    return *std::move(node);
  }

  static Pod PodWith(const std::string& uid, const std::string& cpus) {
    return MakePod(uid, {App("app", {{"cpu", cpus}, {"memory", "64Mi"}})});
  }

  static Pod Requiring(Bind bind, const std::string& uid, const std::string& cpus) {
    Pod pod = PodWith(uid, cpus);
    pod.policies.required_bind = bind;
    return pod;
  }

  static Pod Preferring(Bind bind, const std::string& uid, const std::string& cpus) {
    Pod pod = PodWith(uid, cpus);
    pod.policies.preferred_bind = bind;
    return pod;
  }

  static Pod Avoiding(CpuExclusivePolicy exclusive, const std::string& uid, const std::string& cpus,
                      Bind required = {}) {
    Pod pod = Requiring(required, uid, cpus);
    pod.policies.exclusive = exclusive;
    return pod;
  }

  static Admission Decide(const Node& node, const NodeState& state, const Pod& pod) {
    return Admit(node, state, pod, devicemanager::NoPreference);
  }

  // Admits the pod, and returns its CPUs.
  static std::string Place(const Node& node, NodeState& state, const Pod& pod) {
    Admission admission = Decide(node, state, pod);
    if (!admission.admitted()) return admission.refusal->message;
    state = std::move(admission.next);
    EXPECT_TRUE(state.BrokenInvariants(node).empty());
    return state.cpu.HeldBy(pod.uid).ToString();
  }

  // One CPU of each core but the first one is another pod's.
  static NodeState HalfTaken(const Node& node) {
    NodeState state = NodeState::Initial(node);
    const CpuSet half{2, 4, 6, 8, 10, 12, 14};
    state.cpu.default_set -= half;
    state.cpu.assignments["half"]["app"] = half;
    return state;
  }

  const Node node_ = NodeOf(ConfigOf());
  const NodeState empty_ = NodeState::Initial(node_);
};

}  // namespace alignd::admission
