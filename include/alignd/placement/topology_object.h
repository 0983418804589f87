// NodeResourceTopology objects, as alignd and other exporters write them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/noderesourcetopology/zones.h"

namespace alignd::placement {

// A value.
struct TopologyObject {
  std::string name;                                                // of the Node
  std::vector<noderesourcetopology::Zone> zones;                   // ascending by NUMA node id
  std::map<std::string, std::string> attributes;                   // of the object
  std::map<int, std::map<std::string, std::string>> of_zone = {};  // by NUMA node id
  // Of its pods, if it has one that covers all of them.
  std::string fingerprint = {};
};

// Reads a NodeResourceTopology (v1alpha2).
// Errors: kInvalidArgument with the object, the field, its value, and what to do: another version,
// a zone that is not named after a NUMA node, an amount that is not a whole number or larger than
// the one before it (available, allocatable, capacity).
Result<TopologyObject> ReadTopologyObject(std::string_view json);

}  // namespace alignd::placement
