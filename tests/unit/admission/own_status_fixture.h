// A node, and pods of which a scheduler has decided where they run (annotation resource-status).
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "alignd/admission/admission.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/own_policy.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {

// Two NUMA nodes of four cores with two CPUs each (0 and 1, 2 and 3, ...); CPU 0 is reserved.
class OwnStatusTest : public testing::Test {
 protected:
  static constexpr char kStatusText[] = " of annotation scheduling.koordinator.sh/resource-status";

  static KubeletConfig ConfigOf(TopologyManagerPolicy policy = TopologyManagerPolicy::kNone) {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.topology_manager_policy = policy;
    config.pod_policies = {PodPolicy::kResourceStatus};
    return config;
  }

  static KubeletConfig WithMemory(KubeletConfig config) {
    config.memory_manager_policy = MemoryManagerPolicy::kStatic;
    config.eviction_hard_memory = "";
    config.system_reserved = Amounts({{"memory", "512Mi"}});
    config.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", "512Mi"}})}};
    return config;
  }

  static Node NodeOf(const KubeletConfig& config, const std::string& more = "") {
    Result<Node> node =
        Node::Make(MakeMachine("socket:2 numa:1 core:4 thread:2 memory-gib=4 " + more), config);
    EXPECT_TRUE(node.ok()) << node.error().Text();
    return *std::move(node);
  }

  static Pod Decided(const std::string& status, const std::string& cpus,
                     const std::string& memory = "64Mi") {
    Pod pod = MakePod("p", {App("app", {{"cpu", cpus}, {"memory", memory}})});
    ReadPodPolicies(kResourceStatusAnnotation, status, pod.policies);
    EXPECT_EQ(pod.policies.status_fault, "");
    return pod;
  }

  static Admission Decide(const Node& node, const NodeState& state, const Pod& pod) {
    return Admit(node, state, pod, devicemanager::NoPreference);
  }

  // The CPUs of the pod, or why it is refused.
  static std::string CpusOf(const Node& node, const NodeState& state, const Pod& pod) {
    const Admission admission = Decide(node, state, pod);
    if (!admission.admitted()) {
      EXPECT_EQ(admission.next.cpu, state.cpu);
      const Refusal& refusal = *admission.refusal;
      return refusal.reason == kPodPolicyError ? refusal.fault : refusal.reason;
    }
    EXPECT_TRUE(admission.next.BrokenInvariants(node).empty());
    return admission.next.cpu.HeldBy(pod.uid).ToString();
  }

  const Node node_ = NodeOf(ConfigOf());
  const NodeState empty_ = NodeState::Initial(node_);
};

}  // namespace alignd::admission
