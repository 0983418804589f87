// Whether a container that comes again has all it asks for already, or asks for what it cannot have
// in its pod's life.
#pragma once

#include <optional>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"

namespace alignd::allocation {

// True if nothing is left to decide: the container has exclusive CPUs, memory blocks and answered
// devices as far as it is entitled to them, or asks for nothing that is given away. After a crash
// between two state files a container may have some of it only.
bool HasAllItRequests(const admission::Node& node, const admission::NodeState& state,
                      const Pod& pod, const Container& container);

// Whether the container is entitled to exclusive CPUs and has none.
bool LacksItsCpus(const admission::Node& node, const admission::NodeState& state, const Pod& pod,
                  const Container& container);

// Why a container that has exclusive CPUs cannot have another number of them: `asked` ("4.5 CPUs").
Refusal ResizeRefusal(const ContainerKey& key, const CpuSet& exclusive, const std::string& asked);

// The refusal of a container of the pod, the `wanted` one alone if it is among them, that comes
// again for another number of exclusive CPUs than it has. nullopt: there is none.
// Differs: the kubelet gives it what it had before, or refuses it by its topology policy.
std::optional<Refusal> RefuseResize(const admission::NodeState& state, const Pod& pod,
                                    const std::string& wanted);

}  // namespace alignd::allocation
