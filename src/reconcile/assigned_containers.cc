#include "reconcile/assigned_containers.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "alignd/admission/pod_level.h"

namespace alignd::reconcile {
namespace {

// CPUs and devices. Memory has no ids.
struct CpusAndDevices {
  CpuSet cpus;
  std::set<std::pair<std::string, std::string>> devices;  // resource, id
};

void AddAssigned(const admission::NodeState& state, const ContainerKey& key,
                 CpusAndDevices& assigned) {
  if (const CpuSet* cpus = state.cpu.Find(key)) assigned.cpus |= *cpus;
  const auto allocated = state.devices.allocations.find(key);
  if (allocated == state.devices.allocations.end()) return;
  for (const auto& [resource, allocation] : allocated->second) {
    for (const std::string& id : allocation.Ids()) assigned.devices.emplace(resource, id);
  }
}

bool Covers(const CpusAndDevices& all, const CpusAndDevices& part) {
  const bool is_something = !part.cpus.empty() || !part.devices.empty();
  return is_something && (part.cpus - all.cpus).empty() &&
         std::ranges::includes(all.devices, part.devices);
}

}  // namespace

std::set<ContainerKey> AssignedContainers(const admission::NodeState& state) {
  std::set<ContainerKey> containers;
  for (const auto& [uid, assignments] : state.cpu.assignments) {
    for (const auto& [container, cpus] : assignments) containers.insert({uid, container});
  }
  for (const auto& [uid, assignments] : state.memory.assignments) {
    for (const auto& [container, blocks] : assignments) {
      if (!blocks.empty()) containers.insert({uid, container});
    }
  }
  for (const auto& [key, resources] : state.devices.allocations) containers.insert(key);
  for (const auto& [key, share] : state.cpu.shares) containers.insert(key);
  return containers;
}

std::set<ContainerKey> ReusedContainers(
    const admission::NodeState& state, const ContainerRegistry& registry,
    const std::function<bool(const ContainerKey&)>& is_left_out) {
  std::set<ContainerKey> running;
  std::map<std::string, CpusAndDevices> of_running;  // by pod UID
  for (const admission::RunningContainer& container : registry.Containers()) {
    if (is_left_out && is_left_out(container.key)) continue;
    if (!running.insert(container.key).second) continue;
    AddAssigned(state, container.key, of_running[container.key.pod_uid]);
  }
  std::set<ContainerKey> reused;
  for (const ContainerKey& key : AssignedContainers(state)) {
    const auto others = of_running.find(key.pod_uid);
    if (running.contains(key) || others == of_running.end()) continue;
    // It may wait for its next start, on CPUs that other containers of its pod use meanwhile.
    if (admission::IsolationOf(state, key) == admission::Isolation::kPod) continue;
    CpusAndDevices own;
    AddAssigned(state, key, own);
    if (Covers(others->second, own)) reused.insert(key);
  }
  return reused;
}

}  // namespace alignd::reconcile
