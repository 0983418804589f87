// Where pods would land on a node, told for people.
#pragma once

#include <iosfwd>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/pod/pod.h"
#include "alignd/scenario/scenario.h"

namespace alignd::cli {

// Admits the pods one after the other and prints where each container lands, what is left on each
// NUMA node, and why a pod does not fit. Exit status 1 if one does not.
// Errors: the configuration cannot manage the node.
Result<int> PlanPods(const scenario::NodeDescription& node, const KubeletConfig& config,
                     const std::vector<Pod>& pods, std::ostream& out);

}  // namespace alignd::cli
