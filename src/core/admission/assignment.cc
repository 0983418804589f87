#include "alignd/admission/assignment.h"

#include <set>

#include "alignd/admission/pod_level.h"
#include "alignd/admission/shared_pool.h"

namespace alignd::admission {

Assignment AssignmentOf(const Node& node, const NodeState& state, const ContainerKey& key) {
  Assignment assignment;
  const CpuSet* const assigned = state.cpu.Find(key);
  if (assigned != nullptr) assignment.offline = *assigned & state.cpu.offline;
  const bool runs_on_its_own = state.cpu.RunsOnItsOwn(key);
  if (runs_on_its_own) {
    assignment.cpuset = state.cpu.RunsOn(key);
  } else if (!state.cpu.withheld.contains(key)) {
    assignment.cpuset = SharedCpus(node, state);
  }
  assignment.shares_pod_cpus = runs_on_its_own && IsolationOf(state, key) == Isolation::kPod;
  if (runs_on_its_own && !assignment.shares_pod_cpus) assignment.exclusive = assignment.cpuset;
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
