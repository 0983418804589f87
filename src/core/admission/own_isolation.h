// CPUs that the kernel isolates, for containers that ask for such CPUs or for others
// (kPreferIsolated), where the node's configuration lets pods choose. Private to the core.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/node.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/pod/pod.h"
#include "core/admission/own_cpus.h"

namespace alignd::admission {

// Whether a container with exclusive CPUs asks for isolated ones, or for others, and the node lets
// it choose.
bool AsksForIsolation(const Node& node, const Pod& pod);

using CpusByContainer = std::map<std::string, CpuSet, std::less<>>;

// What the containers that have exclusive CPUs stay away from: all but isolated CPUs, or these.
// Empty: no container asks, or the machine has none.
CpusByContainer CpusToAvoid(const Node& node, const cpumanager::StaticPolicy& policy,
                            const Pod& pod);

// Lets them stay away from these CPUs. If all of them stay away from the same ones, the hints of
// the pod as a whole know it.
void AvoidByContainer(const Pod& pod, const CpusByContainer& avoided,
                      cpumanager::StaticPolicy& policy);

// Whether a container whose CPUs were on the NUMA nodes of its affinity now has others: the hints
// of a pod as a whole do not know what single containers stay away from.
bool LeavesAffinity(const Node& node, const Pod& pod, const Admission& before,
                    const Admission& after);

// Why the annotations cannot be followed. nullopt: no reason. `pod` has something to align.
std::optional<Objection> ObjectionToIsolation(const Node& node, const Pod& pod);

// What becomes of them.
void DescribeIsolation(const Node& node, const Pod& pod, std::vector<std::string>& texts);

}  // namespace alignd::admission
