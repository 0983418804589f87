#include "core/placement/running_pod.h"

#include <utility>

#include "alignd/admission/pod_level.h"
#include "core/admission/own_cpus.h"
#include "core/admission/own_defaults.h"
#include "core/admission/own_sharing.h"
#include "core/admission/shared_node.h"

namespace alignd::placement {

std::string NameOf(const Pod& pod) { return pod.name_space + "/" + pod.name; }

PlannedPod AsItRuns(const admission::Node& node, const admission::NodeState& state,
                    PlannedPod pod) {
  const Pod managed = admission::OnThisNode(node, PodOn(node.config, pod));
  const bool lacks_cpus = admission::ObjectionToLabel(node, state, managed).has_value();
  if (admission::ObjectionToSharedNode(node, managed)) pod = WithoutShare(node, std::move(pod));
  if (lacks_cpus) pod.pod.policies.sharing.qos_class.clear();
  return pod;
}

PlannedPod WithoutShare(const admission::Node& node, PlannedPod pod) {
  pod.pod.policies.shared_on_one_node = false;
  pod.pod.policies.shared_fault.clear();
  pod.pod = admission::WithDefaults(node, std::move(pod.pod), [](PlacementPolicies& defaults) {
    defaults.shared_on_one_node = false;
  });
  return pod;
}

bool IsRefusedByLabel(const admission::Node& node, const admission::NodeState& state,
                      const PlannedPod& pod) {
  const Pod managed = admission::OnThisNode(node, PodOn(node.config, pod));
  return !admission::HasExclusiveCpus(node, managed) &&
         admission::ObjectionToLabel(node, state, managed).has_value();
}

}  // namespace alignd::placement
