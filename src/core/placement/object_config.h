// The configuration with which the node of a NodeResourceTopology object decides. Private to the
// core.
#pragma once

#include <map>
#include <string>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/placement/topology_object.h"
#include "alignd/pod/pod.h"
#include "core/json/json_view.h"

namespace alignd::placement {

// What the node reserves for the system.
struct ObjectReservation {
  CpuSet cpus;
  std::map<int, ResourceList> memory;  // bytes by type, by NUMA node id
};

// A value.
struct ObjectConfig {
  // A KubeletConfiguration without what is reserved, which follows from the amounts.
  nlohmann::json kubelet;
  KubeletConfig parsed;  // the same, read
  // With the policy static of the CPU manager, and of the memory manager.
  bool assigns_cpus = false;
  bool assigns_memory = false;
  // Whether pods can ask for shared CPUs of one NUMA node.
  bool shares_nodes = false;
  bool full_cores_only = false;   // option full-pcpus-only
  bool aligns_by_socket = false;  // option align-by-socket
  // Why nothing can be decided with it; empty: it can.
  std::string unknown;
};

// From alignd's attributes of the object; without them, from `given`, a KubeletConfiguration in
// JSON, which must agree with the other attributes. Empty: none is given.
// Errors: kInvalidArgument: the configuration or an attribute cannot be read, they contradict each
// other, or there is neither.
Result<ObjectConfig> ReadObjectConfig(const TopologyObject& object, const std::string& given);

// The KubeletConfiguration with what is reserved, in JSON.
std::string WithReservation(const ObjectConfig& config, const ObjectReservation& reserved);

}  // namespace alignd::placement
