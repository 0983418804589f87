#include "alignd/memorymanager/adoption.h"

#include <algorithm>
#include <utility>

#include "core/memorymanager/memory_groups.h"

namespace alignd::memorymanager {
namespace {

Error NotAdopted(const Block& block, const std::string& why) {
  std::string nodes;
  for (const int id : block.numa_affinity) nodes += (nodes.empty() ? "" : ",") + std::to_string(id);
  return {ErrorCode::kInvalidArgument, std::to_string(block.size) + " bytes of " + block.type +
                                           " on NUMA nodes " + nodes + ": " + why};
}

Result<Done> RequireNodes(const Block& block, const std::map<int, NumaMemory>& machine) {
  bool has_type = false;
  for (const int id : block.numa_affinity) {
    const auto node = machine.find(id);
    if (node == machine.end()) return NotAdopted(block, "a node does not exist");
    has_type = has_type || node->second.tables.contains(block.type);
    if (node->second.number_of_assignments > 0 && node->second.cells != block.numa_affinity) {
      return NotAdopted(block, "other containers use the nodes in another group");
    }
  }
  if (!has_type) return NotAdopted(block, "the nodes have no such memory");
  return Done{};
}

Result<Done> BookAll(const std::vector<Block>& blocks, std::map<int, NumaMemory>& machine) {
  std::map<int, NumaMemory> booked = machine;
  for (const Block& block : blocks) {
    if (const Result<Done> checked = RequireNodes(block, booked); !checked.ok()) return checked;
    if (Book(block.numa_affinity, block.type, block.size, booked) > 0) {
      return NotAdopted(block, "that much is not free");
    }
  }
  machine = std::move(booked);
  return Done{};
}

bool IsPartOf(const std::vector<Block>& whole, const Block& part) {
  return std::ranges::any_of(whole, [&part](const Block& block) {
    return block.type == part.type && block.numa_affinity == part.numa_affinity &&
           block.size >= part.size;
  });
}

}  // namespace

Result<Done> AdoptContainer(const ContainerKey& key, const std::vector<Block>& blocks,
                            MemoryState& state) {
  if (const auto whole = state.pods.find(key.pod_uid); whole != state.pods.end()) {
    for (const Block& block : blocks) {
      if (!IsPartOf(whole->second, block)) return NotAdopted(block, "it is no part of the pod's");
    }
  } else if (const Result<Done> booked = BookAll(blocks, state.machine); !booked.ok()) {
    return booked;
  }
  state.assignments[key.pod_uid][key.container] = blocks;
  return Done{};
}

Result<Done> AdoptPod(const std::string& pod_uid, const std::vector<Block>& blocks,
                      MemoryState& state) {
  if (state.pods.contains(pod_uid)) return Done{};
  if (const Result<Done> booked = BookAll(blocks, state.machine); !booked.ok()) return booked;
  state.pods[pod_uid] = blocks;
  return Done{};
}

}  // namespace alignd::memorymanager
