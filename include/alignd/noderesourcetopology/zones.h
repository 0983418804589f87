// What a NodeResourceTopology object says about the NUMA nodes: their resources, the costs between
// them, and the groups that the memory manager has made of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"

namespace alignd::noderesourcetopology {

// An amount of one resource: CPUs, bytes or devices.
struct Amount {
  uint64_t capacity = 0;  // all that there is
  // Without what is reserved for the system, CPUs that are offline, and unhealthy devices.
  uint64_t allocatable = 0;
  uint64_t available = 0;  // allocatable, and assigned to no container

  friend bool operator==(const Amount&, const Amount&) = default;
};

// One NUMA node.
struct Zone {
  int numa_id = 0;
  // By name: `cpu`, `memory`, `hugepages-2Mi`, `nvidia.com/gpu`. A device that is at several NUMA
  // nodes is in each of their zones; one without a NUMA node is in none.
  std::map<std::string, Amount> resources;
  // NUMA node id and SLIT distance, this node included, ascending by id. Empty: the distances are
  // not known.
  std::vector<std::pair<int, int>> costs;

  friend bool operator==(const Zone&, const Zone&) = default;
};

// Devices of one resource that are not at exactly one NUMA node of the machine. A zone's amounts
// cannot say that they are one device, or that they are there at all.
struct DeviceGroup {
  std::string resource;
  std::vector<int64_t> numa_ids;  // ascending, as the plugin reported them; empty: none
  Amount amount;

  friend bool operator==(const DeviceGroup&, const DeviceGroup&) = default;
};

// NUMA nodes on which memory is assigned together. A node without assigned memory is in no group.
struct MemoryGroup {
  std::vector<int> numa_ids;  // ascending; one: containers with memory of this node alone
  std::map<std::string, Amount> memory;  // bytes by type, of all nodes of the group together

  friend bool operator==(const MemoryGroup&, const MemoryGroup&) = default;
};

// One zone per NUMA node, ascending by id.
//
// Available CPUs can be assigned exclusively. What containers of the shared pool request is not
// subtracted, as in the kubelet's managers and in the exporters that read them, except for
// containers that stay on the NUMA node (cpumanager/node_shares.h), in whole CPUs. With policy none
// of the CPU or the memory manager, nothing is assigned by NUMA node: all of it is available.
std::vector<Zone> Zones(const admission::Node& node, const admission::NodeState& state);

// Ascending by their first node. Empty with memoryManagerPolicy None.
std::vector<MemoryGroup> MemoryGroups(const admission::Node& node,
                                      const admission::NodeState& state);

// Ascending by resource and NUMA nodes. Empty: every device is at one NUMA node.
std::vector<DeviceGroup> DeviceGroups(const admission::Node& node,
                                      const admission::NodeState& state);

// What full-pcpus-only needs to know about the cores.
struct FreeCores {
  int cpus_per_core = 1;
  std::map<int, uint64_t> cpus;  // by NUMA node id: CPUs of cores that are wholly free

  friend bool operator==(const FreeCores&, const FreeCores&) = default;
};

// nullopt: without full-pcpus-only; cores have different numbers of CPUs or lie in two NUMA nodes;
// or a core without reserved CPUs is assigned or offline in part.
std::optional<FreeCores> FreeCoresOf(const admission::Node& node,
                                     const admission::NodeState& state);

// Containers of the shared pool that stay on the NUMA node (cpumanager/node_shares.h).
struct Backing {
  int64_t millis = 0;  // what they request, in thousandths of a CPU
  // The CPUs that back it, and the available ones, which can.
  uint64_t cpus = 0;
  uint64_t core_cpus = 0;  // of them, those of cores that have no others

  friend bool operator==(const Backing&, const Backing&) = default;
};

// By NUMA node id. Empty: no pods can ask for it.
std::map<int, Backing> BackingOf(const admission::Node& node, const admission::NodeState& state);

}  // namespace alignd::noderesourcetopology
