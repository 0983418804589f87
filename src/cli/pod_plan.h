// Shows where pods would be placed on a node.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/placement/manifest.h"
#include "alignd/placement/planned_node.h"

namespace alignd::cli {

// "CPUs 0-3 (NUMA node 0), memory of NUMA node 0, nvidia.com/gpu gpu0 (NUMA node 0)". `cpu_nodes`:
// ids of the NUMA nodes of the exclusive CPUs.
std::string DescribeAssignment(const std::vector<int>& cpu_nodes,
                               const admission::Assignment& assignment);

// The same of a node that is known from an object, without ids: "4 exclusive CPUs (NUMA node 1),
// memory of NUMA node 1, 1 of nvidia.com/gpu".
std::string DescribeAmounts(const std::vector<int>& cpu_nodes,
                            const admission::Assignment& assignment);

// One line: what the answer about a pod does not consider.
void PrintNotConsidered(const std::vector<std::string>& texts, std::ostream& out);

// Places the pods one after the other and prints the placement of each container, why a pod does
// not fit and which stage refuses it, and what is free on each NUMA node, unless the node is known
// from an object; with `explain`, also how NUMA nodes were chosen. `skipped` are objects without
// pods. Exit status 1 if a pod does not fit, or if it cannot be decided. `format`: as of
// AddOutputOption; json and yaml always explain.
int PlanPods(placement::PlannedNode& node, const std::vector<placement::PlannedPod>& pods,
             const std::vector<std::string>& skipped, bool explain, const std::string& format,
             std::ostream& out);

}  // namespace alignd::cli
