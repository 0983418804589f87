// Containers of the shared pool that stay on one NUMA node: hints, the choice of the NUMA node, and
// what refuses a pod that asks for it. Private to the module.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "alignd/topologymanager/hint.h"
#include "core/admission/own_cpus.h"

namespace alignd::admission {

// The resource of these hints.
inline constexpr char kSharedCpus[] = "shared cpu";

// Whether the node assigns memory to the containers of the pod on the NUMA node on which they stay,
// whatever the QoS class of the pod.
bool StaysWithMemory(const Node& node, const Pod& pod);

// One preferred hint for each NUMA node whose CPUs back what the container requests, beside what
// others request there. The NUMA node that it has, if it has one. Empty if it does not ask for one.
topologymanager::HintsByResource SharedNodeHints(const Node& node, const NodeState& state,
                                                 const Pod& pod, const Container& container);

// The same for all such containers of the pod together, on one NUMA node, beside the exclusive CPUs
// that its other containers are still to be assigned.
topologymanager::HintsByResource PodSharedNodeHints(const Node& node, const NodeState& state,
                                                    const Pod& pod);

// Gives the container its share of a NUMA node: of the affinity, if one of its NUMA nodes has
// enough; else of any other, unless `must_align`. Of several, the one that other containers of the
// pod have, or else the one with most left, or else the first. If the node assigns the container's
// memory, it is to have that there as well, or has it there. A container that has a share keeps it.
// Returns the refusal: UnexpectedAdmissionError, or TopologyAffinityError with `must_align`.
std::optional<Refusal> AllocateSharedNode(const Node& node, const Pod& pod,
                                          const Container& container,
                                          const topologymanager::TopologyHint& affinity,
                                          bool must_align, NodeState& state);

// The NUMA node on which the container stays, for the choice of its memory. nullopt: on none, or
// its memory is not assigned.
std::optional<topologymanager::TopologyHint> SharedNodeOf(const Node& node, const NodeState& state,
                                                          const Pod& pod,
                                                          const Container& container);

// Refuses the container if its memory is not on that NUMA node alone, but is to be.
std::optional<Refusal> RefuseMemoryElsewhere(const Node& node, const NodeState& state,
                                             const Pod& pod, const Container& container,
                                             const topologymanager::TopologyHint& own);

// Why the pod cannot have what it asks for on this node, whatever is free. `pod` has something to
// align, and is as the node manages it (OnThisNode).
std::optional<Objection> ObjectionToSharedNode(const Node& node, const Pod& pod);

// What becomes of the annotation, if the pod has it.
void DescribeSharedNode(const Node& node, const Pod& pod, std::vector<std::string>& texts);

// After a change to a configuration under which no pods can ask for it, no container has a share. A
// note says so if one had.
void EndSharesWithPolicy(const Node& after, NodeState& next, std::vector<std::string>& notes);

// One for each NUMA node on which a change of the configuration leaves too few CPUs for what
// containers that stay there request. What is missing before the change is not due to it.
void AddFaultsOfShares(const Node& before, const NodeState& given, const Node& after,
                       const NodeState& next, std::vector<std::string>& faults);

// The node for a decision about containers that move from the CPUs `own`: until the move ends, they
// have these and the new ones, so other CPUs are held back for containers that stay on one NUMA
// node, if there are enough.
Node HoldingBackBeside(const Node& node, const NodeState& state, const CpuSet& own);

// The same as AddFaultsOfShares of containers that move: the first such NUMA node, or nullopt.
std::optional<int> FindTooFewBacking(const Node& node, const NodeState& given,
                                     const NodeState& next);

}  // namespace alignd::admission
