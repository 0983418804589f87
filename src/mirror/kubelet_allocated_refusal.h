// Why a container cannot get the devices that the kubelet allocated to it.
#pragma once

#include <optional>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/checkpoint/binding_checkpoint.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "mirror/binding_modes.h"
#include "mirror/kubelet_allocated.h"

namespace alignd::mirror {

// The wanted container requests devices that the kubelet allocates, of a registered plugin, and has
// neither ids of the kubelet nor an assignment: the kubelet would allocate the same device for
// another container. A kubelet that admitted the pod before it knew the resource allocates the
// devices when it tries again to create the container.
// Source: kubelet pkg/kubelet/cm/devicemanager/manager.go, GetDeviceRunContainerOptions.
std::optional<Error> WhyUnallocated(const admission::NodeState& state,
                                    const allocation::AdmissionRequest& request);

// The resource has no plugin, or its plugin does not list the id. With kStrict also: the device is
// unhealthy, or assigned to another container. Containers that are assigned devices of the resource
// are not checked.
std::optional<Refusal> RefuseKubeletAllocated(const admission::NodeState& state, const Pod& pod,
                                              const KubeletAllocatedPod& allocated,
                                              const checkpoint::Bindings& bindings,
                                              const BindingModes& modes);

// Text to append to the policy's refusal of a pod with kStrict resources: the devices, their NUMA
// nodes, and whether the pod would fit with other devices. Empty if the pod has no such resource.
std::string ExplainKubeletAllocated(const admission::Node& node, const admission::NodeState& state,
                                    const Pod& pod, const KubeletAllocatedPod& allocated,
                                    const checkpoint::Bindings& bindings,
                                    const BindingModes& modes);

}  // namespace alignd::mirror
