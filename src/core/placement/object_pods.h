// Which pods of a node are in the amounts of its NodeResourceTopology object. Private to the core.
#pragma once

#include <string>
#include <vector>

#include "alignd/placement/manifest.h"
#include "alignd/placement/topology_nodes.h"
#include "alignd/placement/topology_object.h"
#include "core/placement/object_config.h"

namespace alignd::placement {

// A value.
struct ObjectPods {
  std::vector<PlannedPod> counted;   // the amounts have their assignments
  std::vector<PlannedPod> arriving;  // the amounts do not have them yet
  // Why it is not known, and nothing can be decided; empty: it is known.
  std::string unknown;
};

// By the object's fingerprint. If nothing can be decided with the configuration anyway, all pods
// are counted.
ObjectPods PodsInObject(const TopologyObject& object, const std::vector<BoundPod>& pods,
                        const ObjectConfig& config);

}  // namespace alignd::placement
