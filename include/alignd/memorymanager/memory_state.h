// The assignment of memory: free and reserved bytes per NUMA node, blocks per container.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "alignd/base/shared_map.h"
#include "alignd/pod/pod.h"

namespace alignd::memorymanager {

// Bytes of one memory type on one NUMA node.
struct MemoryTable {
  uint64_t total = 0;
  uint64_t system_reserved = 0;
  uint64_t allocatable = 0;
  uint64_t reserved = 0;  // by containers
  uint64_t free = 0;

  friend bool operator==(const MemoryTable&, const MemoryTable&) = default;
};

struct NumaMemory {
  int number_of_assignments = 0;
  std::map<std::string, MemoryTable> tables;  // by type: `memory`, `hugepages-2Mi`
  std::vector<int> cells;                     // ids of the group the node is in, itself included

  friend bool operator==(const NumaMemory&, const NumaMemory&) = default;
};

// The memory of one type that a container is assigned on a set of NUMA nodes.
struct Block {
  std::vector<int> numa_affinity;  // NUMA node ids, ascending
  std::string type;
  uint64_t size = 0;  // bytes

  friend bool operator==(const Block&, const Block&) = default;
};

// The name of a huge page type: `hugepages-2Mi` for 2097152 bytes.
// Source: kubernetes pkg/apis/core/v1/helper/helpers.go, HugePageResourceName.
std::string HugePageType(uint64_t page_bytes);

// A value. NUMA nodes are named by id, as in memory_manager_state. Later containers of a pod can
// reuse the blocks of its init containers; that is not stored. No pod has an empty map.
struct MemoryState {
  std::map<int, NumaMemory> machine;  // by NUMA node id
  // pod UID -> container name -> blocks, sorted by type; none if the container requests no memory.
  SharedMap<std::string, std::map<std::string, std::vector<Block>>> assignments;
  // pod UID -> the blocks assigned to the pod as a whole, sorted by type: they alone are reserved
  // on the nodes, its containers' blocks are parts of them. Only of pods with pod-level resources,
  // with the feature gate PodLevelResourceManagers.
  SharedMap<std::string, std::vector<Block>> pods = {};

  // The container's blocks, or null.
  const std::vector<Block>* Find(const ContainerKey& key) const;

  // The blocks that the pod has reserved on the nodes: those of the pod as a whole, or of its
  // containers.
  std::vector<Block> BookedFor(const std::string& pod_uid) const;

  friend bool operator==(const MemoryState&, const MemoryState&) = default;
};

}  // namespace alignd::memorymanager
