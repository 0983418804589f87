#include "allocation/reservation.h"

#include "alignd/cpumanager/static_policy.h"
#include "alignd/memorymanager/static_policy.h"

namespace alignd::allocation {
namespace {

using admission::NodeState;

void AddNewDevices(const ContainerKey& key, const NodeState& before, const NodeState& after,
                   Reservation& reservation) {
  const auto assigned = after.devices.allocations.find(key);
  if (assigned == after.devices.allocations.end()) return;
  for (const auto& [resource, allocation] : assigned->second) {
    if (before.devices.Find(key, resource) == nullptr) reservation.devices.insert({key, resource});
  }
}

std::optional<CpuSet> OriginalIn(const NodeState& state, const ContainerKey& key) {
  const auto pod = state.cpu.originals.find(key.pod_uid);
  if (pod == state.cpu.originals.end()) return std::nullopt;
  const auto container = pod->second.find(key.container);
  return container == pod->second.end() ? std::nullopt : std::optional(container->second);
}

void SetOriginal(const ContainerKey& key, const std::optional<CpuSet>& original, NodeState& state) {
  if (OriginalIn(state, key) == original) return;
  auto& containers = state.cpu.originals[key.pod_uid];
  if (original) {
    containers[key.container] = *original;
  } else {
    containers.erase(key.container);
  }
  if (containers.empty()) state.cpu.originals.erase(key.pod_uid);
}

std::optional<topologymanager::TopologyHint> AffinityIn(const NodeState& state,
                                                        const ContainerKey& key) {
  const auto affinity = state.affinities.find(key);
  return affinity == state.affinities.end() ? std::nullopt : std::optional(affinity->second);
}

void SetAffinity(const ContainerKey& key,
                 const std::optional<topologymanager::TopologyHint>& affinity, NodeState& state) {
  if (affinity) {
    state.affinities[key] = *affinity;
  } else {
    state.affinities.erase(key);
  }
}

CpuSet CpusIn(const NodeState& state, const ContainerKey& key) {
  const CpuSet* const cpus = state.cpu.Find(key);
  return cpus == nullptr ? CpuSet() : *cpus;
}

// The container has exactly these CPUs; without any, it is in the shared pool. CPUs that it no
// longer has are free, unless another container of its pod has them too (those of an ended init
// container).
void SetCpus(const ContainerKey& key, const CpuSet& cpus, cpumanager::CpuState& state) {
  const CpuSet* const now = state.Find(key);
  const CpuSet had = now == nullptr ? CpuSet() : *now;
  if (had == cpus) return;
  if (cpus.empty()) {
    cpumanager::RemoveAssignment(key, state);
  } else {
    state.assignments[key.pod_uid][key.container] = cpus;
  }
  const CpuSet freed = had - state.HeldBy(key.pod_uid);
  state.AddToDefaultSet(freed);
  state.default_set -= cpus;
  state.offline_shared -= cpus;
  for (auto& [pod_uid, reusable] : state.reusable) reusable -= freed;
  std::erase_if(state.reusable, [](const auto& entry) { return entry.second.empty(); });
}

}  // namespace

Reservation Difference(const Pod& pod, const NodeState& before, const NodeState& after) {
  Reservation reservation;
  reservation.pod_uid = pod.uid;
  for (const Container& container : pod.containers) {
    const ContainerKey key{pod.uid, container.name};
    if (after.cpu.Find(key) && !before.cpu.Find(key)) reservation.cpu.insert(key);
    if (after.memory.Find(key) && !before.memory.Find(key)) reservation.memory.insert(key);
    if (after.cpu.shares.contains(key) && !before.cpu.shares.contains(key)) {
      reservation.shares.insert(key);
    }
    AddNewDevices(key, before, after, reservation);
    reservation.affinities[key] = AffinityIn(before, key);
  }
  if (const auto policy = before.chosen_policies.find(pod.uid);
      policy != before.chosen_policies.end()) {
    reservation.policy_before = policy->second;
  }
  reservation.reusable_before = before.cpu.reusable;
  std::erase_if(reservation.reusable_before,
                [&pod](const auto& entry) { return entry.first != pod.uid; });
  reservation.reusable_after = after.cpu.reusable;
  return reservation;
}

Reservation ResizeOf(const ContainerKey& key, const NodeState& before, const NodeState& after) {
  Reservation reservation;
  reservation.pod_uid = key.pod_uid;
  reservation.affinities[key] = AffinityIn(before, key);
  reservation.resized = ResizedCpus{.key = key,
                                    .before = CpusIn(before, key),
                                    .after = CpusIn(after, key),
                                    .original_before = OriginalIn(before, key),
                                    .original_after = OriginalIn(after, key),
                                    .affinity_after = AffinityIn(after, key)};
  return reservation;
}

void Reserve(const ResizedCpus& resized, NodeState& state) {
  SetCpus(resized.key, resized.before | resized.after, state.cpu);
}

void Complete(const Reservation& reservation, NodeState& state) {
  if (!reservation.resized) return;
  const ResizedCpus& resized = *reservation.resized;
  if (state.cpu.Find(resized.key) == nullptr) return;  // released meanwhile
  SetCpus(resized.key, resized.after, state.cpu);
  SetOriginal(resized.key, resized.original_after, state);
  SetAffinity(resized.key, resized.affinity_after, state);
}

void GiveBack(const Reservation& reservation, NodeState& state) {
  if (reservation.resized) {
    const ResizedCpus& resized = *reservation.resized;
    if (state.cpu.Find(resized.key) == nullptr) return;
    SetCpus(resized.key, resized.before, state.cpu);
    SetOriginal(resized.key, resized.original_before, state);
    SetAffinity(resized.key, reservation.affinities.at(resized.key), state);
    return;
  }
  // CPUs can be reused again only if no other pod was decided since: that would have dropped them.
  const bool untouched = state.cpu.reusable == reservation.reusable_after;
  for (const ContainerKey& key : reservation.cpu) cpumanager::ReleaseContainer(key, state.cpu);
  for (const ContainerKey& key : reservation.memory) {
    memorymanager::ReleaseContainer(key, state.memory);
  }
  for (const ContainerKey& key : reservation.shares) state.cpu.shares.erase(key);
  auto& allocations = state.devices.allocations;
  for (const auto& [key, resource] : reservation.devices) {
    if (!allocations.contains(key)) continue;
    auto& resources = allocations[key];
    resources.erase(resource);
    if (resources.empty()) allocations.erase(key);
  }
  for (const auto& [key, affinity] : reservation.affinities) SetAffinity(key, affinity, state);
  if (reservation.policy_before) {
    state.chosen_policies[reservation.pod_uid] = *reservation.policy_before;
  } else {
    state.chosen_policies.erase(reservation.pod_uid);
  }
  if (untouched) state.cpu.reusable = reservation.reusable_before;
}

}  // namespace alignd::allocation
