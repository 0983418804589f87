#include "alignd/admission/assignment_mark.h"

namespace alignd::admission {

AssignmentMark MarkOf(const NodeState& state, const ContainerKey& key, bool is_init) {
  AssignmentMark mark;
  mark.is_init = is_init;
  if (const CpuSet* cpus = state.cpu.Find(key)) {
    mark.cpus = *cpus;
    if (const CpuSet& original = state.cpu.OriginalOf(key); original != *cpus) {
      mark.original = original;
    }
  }
  if (const auto* blocks = state.memory.Find(key)) mark.memory = *blocks;
  if (const auto devices = state.devices.allocations.find(key);
      devices != state.devices.allocations.end()) {
    for (const auto& [resource, allocation] : devices->second) {
      mark.devices[resource] = allocation.devices;
    }
  }
  if (const auto whole = state.cpu.pods.find(key.pod_uid); whole != state.cpu.pods.end()) {
    mark.pod_cpus = whole->second;
  }
  if (const auto whole = state.memory.pods.find(key.pod_uid); whole != state.memory.pods.end()) {
    mark.pod_memory = whole->second;
  }
  return mark;
}

}  // namespace alignd::admission
