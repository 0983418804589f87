// Why a container cannot have the devices that the kubelet counted for it.
#pragma once

#include <optional>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/checkpoint/binding_checkpoint.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "allocation/binding_modes.h"
#include "allocation/counted_devices.h"

namespace alignd::allocation {

// The resource has no plugin, or none that lists the id, so that the kubelet cannot have been told
// of it; or no other device may be given (kStrict), and this one is sick or somebody else's.
// Containers that hold the resource are not looked at.
std::optional<Refusal> RefuseKubeletAllocated(const admission::NodeState& state, const Pod& pod,
                                              const KubeletAllocatedPod& counted,
                                              const checkpoint::Bindings& bindings,
                                              const BindingModes& modes);

// What to add to the policy's refusal of a pod some of whose devices may be no others (kStrict):
// which these are, where they lie, and whether it would fit with others. Empty if it has none such.
std::string ExplainKubeletAllocated(const admission::Node& node, const admission::NodeState& state,
                                    const Pod& pod, const KubeletAllocatedPod& counted,
                                    const checkpoint::Bindings& bindings,
                                    const BindingModes& modes);

}  // namespace alignd::allocation
