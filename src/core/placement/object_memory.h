// The memory of a NodeResourceTopology object. Private to the core.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/machine/machine.h"
#include "alignd/placement/topology_object.h"
#include "alignd/pod/pod.h"
#include "core/placement/object_config.h"

namespace alignd::placement {

// Members by NUMA node id are empty without the policy static of the memory manager. A value.
struct ObjectMemory {
  std::vector<NumaNode> numa;
  std::map<int, ResourceList> reserved;                      // bytes by type
  std::map<int, std::map<std::string, uint64_t>> available;  // bytes by type
  std::map<int, std::vector<int>> groups;                    // NUMA node ids; absent: in none
  // Why nothing can be decided about pinned memory; empty: it can.
  std::string unknown;
};

// Errors: kInvalidArgument: amounts that are no whole pages, or more than the memory; distances
// from or to other nodes; groups that cannot be read, overlap, or have other NUMA nodes.
Result<ObjectMemory> MakeObjectMemory(const TopologyObject& object, const ObjectConfig& config);

}  // namespace alignd::placement
