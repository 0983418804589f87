#include "alignd/admission/assignment_mark.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace alignd::admission {
namespace {

size_t PartBytes(const CpuSet& cpus) { return cpus.ToString().size(); }

size_t PartBytes(const std::vector<memorymanager::Block>& blocks) {
  size_t bytes = 0;
  for (const memorymanager::Block& block : blocks) {
    bytes += 60 + block.type.size() + 4 * block.numa_affinity.size();
  }
  return bytes;
}

template <typename Part>
size_t BytesOf(const std::map<std::string, Part>& parts) {
  size_t bytes = 0;
  for (const auto& [container, part] : parts) bytes += container.size() + PartBytes(part) + 8;
  return bytes;
}

template <typename State, typename Part>
void AddParts(const State& state, const std::string& pod_uid, std::map<std::string, Part>& parts) {
  const auto of_pod = state.assignments.find(pod_uid);
  if (of_pod != state.assignments.end()) parts = of_pod->second;
}

WholePodMark WholeOf(const NodeState& state, const std::string& pod_uid) {
  WholePodMark mark;
  if (const auto whole = state.cpu.pods.find(pod_uid); whole != state.cpu.pods.end()) {
    mark.cpus = whole->second;
    AddParts(state.cpu, pod_uid, mark.cpu_parts);
  }
  if (const auto whole = state.memory.pods.find(pod_uid); whole != state.memory.pods.end()) {
    mark.memory = whole->second;
    AddParts(state.memory, pod_uid, mark.memory_parts);
  }
  if (BytesOf(mark.cpu_parts) + BytesOf(mark.memory_parts) > kMaxPartBytes) {
    mark.cpu_parts.clear();
    mark.memory_parts.clear();
  }
  for (const auto& [container, cpus] : mark.cpu_parts) {
    if (state.cpu.HasOwnCpus({pod_uid, container})) mark.own.insert(container);
  }
  return mark;
}

}  // namespace

AssignmentMark MarkOf(const NodeState& state, const ContainerKey& key,
                      std::optional<ContainerKind> role) {
  AssignmentMark mark;
  mark.role = role;
  if (const auto share = state.cpu.shares.find(key); share != state.cpu.shares.end()) {
    mark.share = share->second;
  }
  if (const CpuSet* cpus = state.cpu.Find(key)) {
    mark.cpus = *cpus;
    if (const CpuSet& original = state.cpu.OriginalOf(key); original != *cpus) {
      mark.original = original;
    }
    // The mark says where the container is created: not on the CPUs that it leaves, too.
    if (const auto part = state.cpu.moving.find(key); part != state.cpu.moving.end()) {
      mark.cpus = part->second;
      mark.original = {};
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
