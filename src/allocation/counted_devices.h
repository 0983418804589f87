// Devices that the kubelet has counted for a container by their ids, and how a decision heeds them.
#pragma once

#include <map>
#include <set>
#include <string>

#include "alignd/admission/admission.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/checkpoint/binding_checkpoint.h"
#include "alignd/devicemanager/device_policy.h"
#include "alignd/pod/pod.h"
#include "allocation/binding_modes.h"

namespace alignd::allocation {

// The ids that the kubelet counted for a container, by resource name.
using KubeletAllocatedIds = std::map<std::string, std::set<std::string>>;
// By container name; containers about which the kubelet has said nothing are not in it.
using KubeletAllocatedPod = std::map<std::string, KubeletAllocatedIds>;

// Whether the binding of each counted resource of the container is of just these ids.
bool IsBound(const checkpoint::Bindings& bindings, const ContainerKey& key,
             const KubeletAllocatedIds& counted);

// Whether that is so of all counted containers of the pod.
bool AreBound(const checkpoint::Bindings& bindings, const std::string& pod_uid,
              const KubeletAllocatedPod& counted);

// Whether each counted container holds devices of each of its counted resources.
bool HasKubeletAllocated(const admission::NodeState& state, const std::string& pod_uid,
                         const KubeletAllocatedPod& counted);

// Whether every container of `counted` is counted the same in `other`.
bool IsPartOf(const KubeletAllocatedPod& counted, const KubeletAllocatedPod& other);

// Which device stands behind each id that is bound in the pod.
checkpoint::Binding BoundInPod(const checkpoint::Bindings& bindings, const std::string& pod_uid,
                               const std::string& resource);

// Decides as admission::Admit does, but first for the counted devices themselves (kPreferred), or
// for those alone (kStrict; RefuseKubeletAllocated has been asked before). An id that is bound in
// the pod already means that its earlier holder has ended: the device that it had under that id is
// used again, as the kubelet does with its init containers.
admission::Admission AdmitKubeletAllocated(const admission::Node& node,
                                           const admission::NodeState& state, const Pod& pod,
                                           const KubeletAllocatedPod& counted,
                                           const checkpoint::Bindings& bindings,
                                           const BindingModes& modes,
                                           const devicemanager::PreferredAllocationFn& preferred);

// Pairs ids with devices: the same with the same, the others in order. As many pairs as the shorter
// side has.
checkpoint::Binding Pair(const std::set<std::string>& counted,
                         const std::set<std::string>& devices);

// The bindings of the pod's counted containers, as far as `state` gives them the devices.
checkpoint::Bindings Bind(const admission::NodeState& state, const std::string& pod_uid,
                          const KubeletAllocatedPod& counted);

}  // namespace alignd::allocation
