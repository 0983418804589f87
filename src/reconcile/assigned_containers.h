// Which containers the assignments belong to, and which of these containers have ended.
#pragma once

#include <functional>
#include <set>

#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"
#include "reconcile/container_registry.h"

namespace alignd::reconcile {

// Every container that is assigned CPUs, memory or devices.
std::set<ContainerKey> AssignedContainers(const admission::NodeState& state);

// The assigned containers that do not run, and all of whose CPUs and devices running containers of
// their pod have too: they are init containers that have ended, and whose resources are reused. The
// state keeps their entries, as the kubelet's does. A container that waits for its next start (the
// kubelet's back-off) shares its resources with no running container and is not among them.
// `is_left_out`: containers that do not count as running. Null: there are none.
std::set<ContainerKey> ReusedContainers(
    const admission::NodeState& state, const ContainerRegistry& registry,
    const std::function<bool(const ContainerKey&)>& is_left_out = nullptr);

}  // namespace alignd::reconcile
