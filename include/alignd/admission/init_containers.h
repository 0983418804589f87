// The resources of ended init containers.
#pragma once

#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

// The container starts, so the init containers before it (not sidecars) have ended. Their memory is
// released, unless it is the pod's as a whole. If an app container starts, no init container runs
// again in this sandbox. Their CPUs that no other container of the pod reuses then return to the
// shared pool. If a container of the pod does not have its CPUs yet, the CPUs stay reserved for it.
// Differs: the kubelet keeps the CPUs of ended init containers until the pod ends.
void ContainerStarts(const Node& node, const Pod& pod, const std::string& container,
                     NodeState& state);

// The pod has a new sandbox, and its init containers run again before the other containers. They
// can reuse the CPUs of the app containers. Does nothing if a container of the pod does not have
// its CPUs yet.
void LendToInitContainers(const Node& node, const Pod& pod, NodeState& state);

}  // namespace alignd::admission
