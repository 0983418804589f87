// What a NodeResourceTopology object says of containers of the shared pool that stay on one NUMA
// node. Private to the core.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "alignd/base/result.h"
#include "alignd/noderesourcetopology/zones.h"
#include "alignd/placement/topology_object.h"
#include "core/placement/object_config.h"

namespace alignd::placement {

// A value.
struct ObjectBacking {
  std::map<int, noderesourcetopology::Backing> zones;  // by NUMA node id; all or none
  // What such containers request on each NUMA node that has some, in thousandths of a CPU.
  std::map<int, int64_t> millis;
  // Why nothing can be decided about pods that ask for it; empty: it can. `zones` is empty then.
  std::string unknown;
};

// `free`: of the object, with full-pcpus-only.
// Errors: kInvalidArgument: an attribute is missing, cannot be read, or contradicts the amounts.
Result<ObjectBacking> ReadBacking(const TopologyObject& object, const ObjectConfig& config,
                                  const std::optional<noderesourcetopology::FreeCores>& free);

}  // namespace alignd::placement
