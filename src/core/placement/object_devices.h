// The devices of a NodeResourceTopology object. Private to the core.
#pragma once

#include <map>
#include <set>
#include <string>

#include "alignd/base/result.h"
#include "alignd/placement/node_input.h"
#include "alignd/placement/topology_object.h"
#include "alignd/scenario/scenario.h"

namespace alignd::placement {

// Devices that have the amounts of the object, by resource. Their ids are not those of the node. A
// value.
struct ObjectDevices {
  std::map<std::string, scenario::DeviceList> all;
  std::map<std::string, std::set<std::string>> assigned;  // ids; to containers
  // Resources of which only the sum by NUMA node is known: one device may be in several sums.
  std::set<std::string> summed;
  // Resource -> why it is not known where its devices are.
  std::map<std::string, std::string> unlocated;
};

// `node`: the Node of the object.
// Errors: kInvalidArgument: the attribute with the groups of devices cannot be read, or a group has
// more than the zones that it is in.
Result<ObjectDevices> MakeObjectDevices(const TopologyObject& object, const NodeObject& node);

}  // namespace alignd::placement
