#include "alignd/admission/assignment_mark.h"

#include <map>
#include <string>

namespace alignd::admission {
namespace {

// Without parts if they are too many.
template <typename State, typename Part>
void AddParts(const State& state, const std::string& pod_uid, std::map<std::string, Part>& parts) {
  const auto of_pod = state.assignments.find(pod_uid);
  if (of_pod == state.assignments.end() || of_pod->second.size() > kMaxMarkedParts) return;
  parts = of_pod->second;
}

WholePodMark WholeOf(const NodeState& state, const std::string& pod_uid) {
  WholePodMark mark;
  if (const auto whole = state.cpu.pods.find(pod_uid); whole != state.cpu.pods.end()) {
    mark.cpus = whole->second;
    AddParts(state.cpu, pod_uid, mark.cpu_parts);
    for (const auto& [container, cpus] : mark.cpu_parts) {
      if (state.cpu.HasOwnCpus({pod_uid, container})) mark.own.insert(container);
    }
  }
  if (const auto whole = state.memory.pods.find(pod_uid); whole != state.memory.pods.end()) {
    mark.memory = whole->second;
    AddParts(state.memory, pod_uid, mark.memory_parts);
  }
  return mark;
}

}  // namespace

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
  mark.whole = WholeOf(state, key.pod_uid);
  return mark;
}

}  // namespace alignd::admission
