// Pods that are planned, whatever node they are planned on.
#include <algorithm>

#include "alignd/config/kubelet_config.h"
#include "alignd/placement/planned_node.h"
#include "alignd/pod/resource_name.h"

namespace alignd::placement {

namespace {

bool DependsBySpec(const Pod& pod) {
  if (pod.policies.shared_on_one_node || !pod.policies.shared_fault.empty()) return true;
  if (HasPodLevelResources(pod) || QosOf(pod) == QosClass::kGuaranteed) return true;
  return std::ranges::any_of(pod.containers, [](const Container& container) {
    return std::ranges::any_of(container.resources.limits, [](const auto& limit) {
      return MayBeDevice(limit.first) && limit.second.Sign() > 0;
    });
  });
}

}  // namespace

bool DependsOnNumaNodes(const PlannedPod& pod) {
  return !pod.annotation_conflict.empty() || DependsBySpec(pod.pod);
}

bool DependsOnNumaNodes(const PlannedPod& pod, const KubeletConfig& config) {
  return !pod.annotation_conflict.empty() || DependsOnNumaNodes(pod.pod, config);
}

bool DependsOnNumaNodes(const Pod& pod, const KubeletConfig& config) {
  return DependsBySpec(pod) || DefaultPoliciesFor(config, pod.name_space).shared_on_one_node;
}

bool DependsOnNode(const PlannedPod& pod, const KubeletConfig& config) {
  // Without exclusive CPUs, the node refuses it (admission::LacksExclusiveCpus).
  const bool must_have_cpus =
      LabelShares(pod.pod.policies.sharing) == false &&
      PodPoliciesFor(config, pod.pod.name_space).contains(PodPolicy::kQosClass);
  return must_have_cpus || DependsOnNumaNodes(pod, config);
}

Pod PodOn(const KubeletConfig& config, const PlannedPod& planned) {
  Pod pod = planned.pod;
  pod.stated_qos = QosOf(pod);
  if (config.shared_pool_handlers.Contains(planned.runtime_handler)) {
    pod.shared_pool_handler = planned.runtime_handler;
  }
  return pod;
}

PlannedPod WithoutNames(PlannedPod pod) {
  pod.pod.uid.clear();
  pod.pod.name.clear();
  pod.owner.clear();
  pod.is_pending = false;  // it asks for the same before and after its start
  return pod;
}

}  // namespace alignd::placement
