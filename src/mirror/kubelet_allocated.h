// How a decision uses the device ids that the kubelet allocated. Pure functions.
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
#include "allocation/admission_request.h"
#include "mirror/binding_modes.h"

namespace alignd::mirror {

using allocation::KubeletAllocatedIds;
using allocation::KubeletAllocatedPod;

// Whether exactly these ids of the container are bound.
bool IsBound(const checkpoint::Bindings& bindings, const ContainerKey& key,
             const KubeletAllocatedIds& allocated);

// Whether that is true of all these containers of the pod.
bool AreBound(const checkpoint::Bindings& bindings, const std::string& pod_uid,
              const KubeletAllocatedPod& allocated);

// The device of each id that is bound in the pod.
checkpoint::Binding BoundInPod(const checkpoint::Bindings& bindings, const std::string& pod_uid,
                               const std::string& resource);

// Decides as admission::Admit does. kPreferred: the devices with the allocated ids are tried first.
// kStrict: no others are tried; RefuseKubeletAllocated has been called before. If an id is bound in
// the pod already, the container that had it has ended: its device is used again, as the kubelet
// does with the devices of init containers.
admission::Admission AdmitKubeletAllocated(const admission::Node& node,
                                           const admission::NodeState& state, const Pod& pod,
                                           const KubeletAllocatedPod& allocated,
                                           const checkpoint::Bindings& bindings,
                                           const BindingModes& modes,
                                           const devicemanager::PreferredAllocationFn& preferred);

// Pairs ids with devices: equal names first, the others in order. As many pairs as the shorter side
// has.
checkpoint::Binding Pair(const std::set<std::string>& ids, const std::set<std::string>& devices);

// The bindings of the pod's containers to the devices that `state` assigns to them.
checkpoint::Bindings Bind(const admission::NodeState& state, const std::string& pod_uid,
                          const KubeletAllocatedPod& allocated);

}  // namespace alignd::mirror
