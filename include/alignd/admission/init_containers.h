// What init containers hold once they have run to their end.
#pragma once

#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

// The container starts, so the init containers before it (not sidecars) have ended. They lose their
// memory. If it is no init container itself, none of them can run again in this sandbox: what they
// hold and no other container of the pod reuses returns to the shared pool. A pod whose containers
// do not have all their CPUs yet keeps them for these.
// Differs: the kubelet keeps the CPUs of ended init containers for the pod's life.
void ContainerStarts(const Node& node, const Pod& pod, const std::string& container,
                     NodeState& state);

// The pod's sandbox was made anew and its init containers run once more, before the others: they
// may have the CPUs that those hold. Nothing happens while a container of the pod lacks its CPUs.
void LendToInitContainers(const Node& node, const Pod& pod, NodeState& state);

}  // namespace alignd::admission
