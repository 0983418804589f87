#include "core/memorymanager/memory_groups.h"

#include <algorithm>

namespace alignd::memorymanager {
namespace {

// The sum of one column over the nodes; 0 for a node without such a table.
uint64_t SumOf(uint64_t MemoryTable::*column, const Machine& machine, const MemoryState& state,
               NumaMask nodes, const std::string& type) {
  uint64_t sum = 0;
  for (const int position : nodes) {
    const NumaMemory& node = state.machine.at(machine.NumaId(position));
    if (const auto table = node.tables.find(type); table != node.tables.end()) {
      sum += table->second.*column;
    }
  }
  return sum;
}

uint64_t ReusableBytes(const MemoryState& state, const Pod& pod, const std::vector<int>& nodes,
                       const std::string& type) {
  uint64_t bytes = 0;
  for (const Container& container : pod.containers) {
    if (container.kind != ContainerKind::kInit) continue;
    const std::vector<Block>* blocks = state.Find({pod.uid, container.name});
    if (blocks == nullptr) continue;
    for (const Block& block : *blocks) {
      if (block.type == type && block.numa_affinity == nodes) bytes += block.size;
    }
  }
  return bytes;
}

}  // namespace

bool GroupsAllow(const Machine& machine, const MemoryState& state, NumaMask nodes) {
  const std::vector<int> ids = machine.NumaIds(nodes);
  return std::ranges::all_of(ids, [&](int id) {
    const NumaMemory& node = state.machine.at(id);
    return node.number_of_assignments == 0 || node.cells == ids;
  });
}

bool HaveAllocatable(const Machine& machine, const MemoryState& state, NumaMask nodes,
                     const MemoryRequest& request) {
  return std::ranges::all_of(request, [&](const auto& wanted) {
    return SumOf(&MemoryTable::allocatable, machine, state, nodes, wanted.first) >= wanted.second;
  });
}

bool HaveFree(const Machine& machine, const MemoryState& state, NumaMask nodes,
              const MemoryRequest& request) {
  return std::ranges::all_of(request, [&](const auto& wanted) {
    return SumOf(&MemoryTable::free, machine, state, nodes, wanted.first) >= wanted.second;
  });
}

bool HaveFreeOrReusable(const Machine& machine, const MemoryState& state, const Pod& pod,
                        NumaMask nodes, const MemoryRequest& request) {
  const std::vector<int> ids = machine.NumaIds(nodes);
  return std::ranges::all_of(request, [&](const auto& wanted) {
    return SumOf(&MemoryTable::free, machine, state, nodes, wanted.first) +
               ReusableBytes(state, pod, ids, wanted.first) >=
           wanted.second;
  });
}

uint64_t TakeFromInitContainers(const Pod& pod, const std::vector<int>& nodes,
                                const std::string& type, uint64_t bytes, MemoryState& state) {
  if (!state.assignments.contains(pod.uid)) return 0;
  auto& of_pod = state.assignments[pod.uid];
  uint64_t taken = 0;
  for (const Container& container : pod.containers) {
    if (container.kind != ContainerKind::kInit) continue;
    const auto blocks = of_pod.find(container.name);
    if (blocks == of_pod.end()) continue;
    for (Block& block : blocks->second) {
      if (block.type != type || block.numa_affinity != nodes) continue;
      const uint64_t piece = std::min(block.size, bytes - taken);
      block.size -= piece;
      taken += piece;
    }
  }
  return taken;
}

uint64_t Book(const std::vector<int>& nodes, const std::string& type, uint64_t bytes,
              std::map<int, NumaMemory>& machine) {
  for (const int id : nodes) {
    NumaMemory& node = machine.at(id);
    ++node.number_of_assignments;
    node.cells = nodes;
    const auto table = node.tables.find(type);
    if (table == node.tables.end()) continue;
    const uint64_t piece = std::min(table->second.free, bytes);
    table->second.free -= piece;
    table->second.reserved += piece;
    bytes -= piece;
  }
  return bytes;
}

void GiveBack(const Block& block, std::map<int, NumaMemory>& machine) {
  uint64_t bytes = block.size;
  for (const int id : block.numa_affinity) {
    NumaMemory& node = machine.at(id);
    if (--node.number_of_assignments == 0) node.cells = {id};
    const auto table = node.tables.find(block.type);
    if (table == node.tables.end()) continue;
    const uint64_t piece = std::min(table->second.reserved, bytes);
    table->second.reserved -= piece;
    table->second.free += piece;
    bytes -= piece;
  }
}

}  // namespace alignd::memorymanager
