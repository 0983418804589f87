// Shared CPUs in place of exclusive ones, as a pod asks for them (CpuSharing), where the node's
// configuration lets pods choose. Private to the core.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"
#include "core/admission/own_cpus.h"

namespace alignd::admission {

// Sets Container::shares_cpus of all containers.
void MarkSharing(const Node& node, Pod& pod);

// Why it cannot be followed. nullopt: no reason. `pod` has something to align.
std::optional<Objection> ObjectionToSharing(const Node& node, const NodeState& state,
                                            const Pod& pod);

// A part of it, which is also for pods without anything to align: the label asks for exclusive
// CPUs, and a container gets none (LacksExclusiveCpus).
std::optional<Objection> ObjectionToLabel(const Node& node, const NodeState& state, const Pod& pod);

// What becomes of the annotations and the label, one text for each.
void DescribeSharing(const Node& node, const Pod& pod, std::vector<std::string>& texts);

// Whether the container has shared CPUs because its namespace says so: neither an annotation nor
// the label says anything of it.
bool SharesByDefault(const Node& node, const Pod& pod, const Container& container);

}  // namespace alignd::admission
