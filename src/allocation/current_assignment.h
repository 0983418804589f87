// What a container that is requested again is assigned already.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "allocation/admission_request.h"
#include "allocation/cpu_resizes.h"
#include "allocation/outcome.h"

namespace alignd::allocation {

// The pod as it is decided about: as on this node, and in this state. What a pod was begun with
// stays: a pod that has CPUs or memory as a whole keeps its containers' parts, also if a source of
// requests describes it otherwise now, and a container without a part then runs in the shared pool.
// A pod whose containers have CPUs or memory of the node is not assigned them as a whole as well.
Pod AsDecided(const admission::Node& node, const admission::NodeState& state, Pod pod);

// Whether the pod's CPUs and memory as a whole, if it has them, and the parts of its containers
// that exist are the same in both states.
bool KeepsItsParts(const admission::NodeState& before, const admission::NodeState& after,
                   const std::string& pod_uid);

// The assignments of the pod's containers in this state.
Allocated AssignmentsOf(const admission::Node& node, const admission::NodeState& state,
                        const Pod& pod);

// True if nothing has to be decided: the container is assigned exclusive CPUs, memory blocks and
// devices with an answer, as far as it is entitled to them, or asks for none. After a crash between
// two state files a container may have only some of it.
bool HasAllItRequests(const admission::Node& node, const admission::NodeState& state,
                      const Pod& pod, const Container& container);

// `pod` is estimated from CRI, which shows 256 CPUs where a container requests more. Those that
// stay on one NUMA node with more request that.
void KeepLargeShares(const admission::NodeState& state, Pod& pod);

// Whether nothing has to be decided for the wanted container, or without one for any container of
// the pod. `admitted`: containers whose assignment was saved since alignd started. `pending`: the
// pod is being admitted, so that `state` contains its reservation.
bool IsDecided(const admission::Node& node, const admission::NodeState& state,
               const AdmissionRequest& request, const std::set<ContainerKey>& admitted,
               bool pending);

// Whether each container is assigned devices of each resource that the kubelet allocated to it.
bool HasDevicesOf(const admission::NodeState& state, const std::string& pod_uid,
                  const KubeletAllocatedPod& allocated);

// Whether the container is entitled to exclusive CPUs, or to CPUs of its pod, and has none; or if
// it is not known whether those that it has are its own; or if it asks to stay on one NUMA node and
// does not.
bool LacksItsCpus(const admission::Node& node, const admission::NodeState& state, const Pod& pod,
                  const Container& container);

// Whether the container requests devices of a resource that alignd knows, and is assigned none.
bool LacksDevices(const admission::NodeState& state, const Pod& pod, const Container& container);

}  // namespace alignd::allocation
