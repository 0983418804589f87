// The CPUs of a NodeResourceTopology object. Private to the core.
#pragma once

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
  // Why nothing can be decided about exclusive CPUs; empty: it can.
  std::string unknown;
};

// Errors: kInvalidArgument: a zone without `cpu`, no CPU, too many; no reserved ones, although the
// CPU manager needs some.
Result<ObjectCpus> MakeObjectCpus(const TopologyObject& object, const ObjectConfig& config);

}  // namespace alignd::placement
