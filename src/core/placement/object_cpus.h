// The CPUs of a NodeResourceTopology object. Private to the core.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/machine/machine.h"
#include "alignd/placement/topology_object.h"
#include "core/placement/object_config.h"

namespace alignd::placement {

// CPUs that have the amounts of the object. Their ids are not those of the node. A value.
struct ObjectCpus {
  std::vector<Cpu> all;  // a socket per zone
  CpuSet reserved;
  CpuSet assigned;  // to containers
  // What containers that stay on one NUMA node request there, in thousandths of a CPU, by NUMA node
  // id. What backs it is not of `assigned`. Without an entry: there are none.
  std::map<int, int64_t> shared_millis;
  // Why nothing can be decided about exclusive CPUs, and about shared ones of one NUMA node; empty:
  // it can.
  std::string unknown;
  std::string unknown_shares;
};

// Errors: kInvalidArgument: a zone without `cpu`, no CPU, too many; no reserved ones, although the
// CPU manager needs some; as ReadBacking.
Result<ObjectCpus> MakeObjectCpus(const TopologyObject& object, const ObjectConfig& config);

}  // namespace alignd::placement
