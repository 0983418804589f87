// Shows where pods would be placed on a node.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/pod/pod.h"
#include "alignd/scenario/scenario.h"

namespace alignd::cli {

// Admits the pods one after the other and prints the placement of each container, what is free on
// each NUMA node, and why a pod does not fit; with `explain`, also how NUMA nodes were chosen. Exit
// status 1 if one does not fit. `format`: as of AddOutputOption; json and yaml always explain.
// Errors: the configuration cannot manage the node.
Result<int> PlanPods(const scenario::NodeDescription& node, const KubeletConfig& config,
                     const std::vector<Pod>& pods, bool explain, const std::string& format,
                     std::ostream& out);

}  // namespace alignd::cli
