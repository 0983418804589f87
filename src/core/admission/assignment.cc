#include "alignd/admission/assignment.h"

#include <set>

#include "alignd/admission/shared_pool.h"

namespace alignd::admission {

Assignment AssignmentOf(const Node& node, const NodeState& state, const ContainerKey& key) {
  Assignment assignment;
  if (const CpuSet* exclusive = state.cpu.Find(key)) assignment.exclusive = *exclusive;
  assignment.cpuset = assignment.exclusive;
  if (assignment.exclusive.empty() && !state.cpu.withheld.contains(key)) {
    assignment.cpuset = SharedCpus(node, state);
  }
  if (const auto* blocks = state.memory.Find(key)) {
    std::set<int> nodes;
    for (const memorymanager::Block& block : *blocks) {
      nodes.insert(block.numa_affinity.begin(), block.numa_affinity.end());
    }
    assignment.memory_nodes.assign(nodes.begin(), nodes.end());
  }
  if (const auto devices = state.devices.allocations.find(key);
      devices != state.devices.allocations.end()) {
    assignment.devices = devices->second;
  }
  return assignment;
}

}  // namespace alignd::admission
