#include "alignd/admission/grant.h"

#include <set>

#include "alignd/admission/shared_pool.h"

namespace alignd::admission {

Assignment AssignmentOf(const Node& node, const NodeState& state, const ContainerKey& key) {
  Assignment grant;
  if (const CpuSet* exclusive = state.cpu.Find(key)) grant.exclusive = *exclusive;
  grant.cpuset = grant.exclusive.empty() ? SharedCpus(node, state) : grant.exclusive;
  if (const auto* blocks = state.memory.Find(key)) {
    std::set<int> nodes;
    for (const memorymanager::Block& block : *blocks) {
      nodes.insert(block.numa_affinity.begin(), block.numa_affinity.end());
    }
    grant.memory_nodes.assign(nodes.begin(), nodes.end());
  }
  if (const auto held = state.devices.allocations.find(key);
      held != state.devices.allocations.end()) {
    grant.devices = held->second;
  }
  return grant;
}

}  // namespace alignd::admission
