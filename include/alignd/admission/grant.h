// What one container got, ready to be injected.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "alignd/devicemanager/device_state.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

struct Assignment {
  // Exclusive CPUs; empty for a container of the shared pool.
  CpuSet exclusive;
  // What cpuset.cpus is to be: the exclusive CPUs, or the default set. Empty with cpuManagerPolicy
  // none: do not touch.
  CpuSet cpuset;
  // NUMA node ids for cpuset.mems, ascending; empty: do not touch.
  std::vector<int> memory_nodes;
  std::map<std::string, devicemanager::DeviceAllocation> devices;  // by resource name

  friend bool operator==(const Assignment&, const Assignment&) = default;
};

// The grant of a container as the state has it now.
Assignment AssignmentOf(const Node& node, const NodeState& state, const ContainerKey& key);

}  // namespace alignd::admission
