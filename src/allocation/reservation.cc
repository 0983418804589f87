#include "allocation/reservation.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "alignd/base/result.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/memorymanager/adoption.h"
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

using Memory = RenewedRequests::Memory;
using memorymanager::Block;

std::optional<std::vector<Block>> MemoryIn(const NodeState& state, const ContainerKey& key) {
  const std::vector<Block>* const blocks = state.memory.Find(key);
  return blocks == nullptr ? std::nullopt : std::optional(*blocks);
}

// The containers have exactly this memory. It is free, or theirs.
void SetMemory(const std::string& pod_uid, const Memory& memory, NodeState& state) {
  for (const auto& [name, blocks] : memory) {
    memorymanager::ReleaseContainer({pod_uid, name}, state.memory);
  }
  for (const auto& [name, blocks] : memory) {
    if (!blocks) continue;
    const Result<Done> booked =
        memorymanager::AdoptContainer({pod_uid, name}, *blocks, state.memory);
    if (booked.ok()) continue;
    // Otherwise something would be assigned twice. The files still have a sound state.
    std::fprintf(stderr, "alignd: memory of container %s of pod %s: %s\n", name.c_str(),
                 pod_uid.c_str(), booked.error().message.c_str());
    std::abort();
  }
}

uint64_t BytesOf(const Memory& memory, std::string_view type) {
  uint64_t bytes = 0;
  for (const auto& [name, blocks] : memory) {
    for (const Block& block : blocks.value_or(std::vector<Block>())) {
      if (block.type == type) bytes += block.size;
    }
  }
  return bytes;
}

// Of each type the memory of before or of after, whichever is more in all. Either fits, as the
// types are accounted apart from each other.
Memory Larger(const Memory& before, const Memory& after) {
  Memory larger;
  for (const auto& [name, blocks] : before) {
    const std::optional<std::vector<Block>>& later = after.at(name);
    if (!blocks && !later) continue;
    std::vector<Block>& both = larger[name].emplace();
    const auto take = [&](const std::optional<std::vector<Block>>& from, bool is_before) {
      for (const Block& block : from.value_or(std::vector<Block>())) {
        const bool had_more = BytesOf(before, block.type) > BytesOf(after, block.type);
        if (had_more == is_before) both.push_back(block);
      }
    };
    take(blocks, true);
    take(later, false);
    std::ranges::sort(both, {}, &Block::type);
  }
  return larger;
}

cpumanager::NodeShare Larger(const cpumanager::NodeShare& before,
                             const cpumanager::NodeShare& after) {
  cpumanager::NodeShare larger = after;
  larger.millis = std::max(before.millis, after.millis);
  // A sidecar counts beside the init containers, and beside the app containers.
  if (before.kind != after.kind) larger.kind = ContainerKind::kSidecar;
  return larger;
}

void SetRequests(const RenewedRequests& renewed, const cpumanager::NodeShare& share,
                 const Memory& memory, NodeState& state) {
  if (!state.cpu.shares.contains(renewed.key)) return;  // released meanwhile
  state.cpu.shares[renewed.key] = share;
  SetMemory(renewed.key.pod_uid, memory, state);
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

Reservation RenewalOf(const ContainerKey& key, const NodeState& before, const NodeState& after) {
  RenewedRequests renewed{.key = key,
                          .share_before = before.cpu.shares.at(key),
                          .share_after = after.cpu.shares.at(key)};
  std::set<std::string> names = {key.container};
  if (const auto pod = before.memory.assignments.find(key.pod_uid);
      pod != before.memory.assignments.end()) {
    for (const auto& [name, blocks] : pod->second) names.insert(name);
  }
  for (const std::string& name : names) {
    const ContainerKey container{key.pod_uid, name};
    std::optional<std::vector<Block>> had = MemoryIn(before, container);
    std::optional<std::vector<Block>> gets = MemoryIn(after, container);
    if (had == gets) continue;
    renewed.memory_before[name] = std::move(had);
    renewed.memory_after[name] = std::move(gets);
  }
  Reservation reservation;
  reservation.pod_uid = key.pod_uid;
  reservation.renewed = std::move(renewed);
  return reservation;
}

void ReserveInPlace(const Reservation& reservation, NodeState& state) {
  if (reservation.resized) {
    const ResizedCpus& resized = *reservation.resized;
    SetCpus(resized.key, resized.before | resized.after, state.cpu);
  }
  if (reservation.renewed) {
    const RenewedRequests& renewed = *reservation.renewed;
    SetRequests(renewed, Larger(renewed.share_before, renewed.share_after),
                Larger(renewed.memory_before, renewed.memory_after), state);
  }
}

void Complete(const Reservation& reservation, NodeState& state) {
  if (reservation.renewed) {
    const RenewedRequests& renewed = *reservation.renewed;
    return SetRequests(renewed, renewed.share_after, renewed.memory_after, state);
  }
  if (!reservation.resized) return;
  const ResizedCpus& resized = *reservation.resized;
  if (state.cpu.Find(resized.key) == nullptr) return;  // released meanwhile
  SetCpus(resized.key, resized.after, state.cpu);
  SetOriginal(resized.key, resized.original_after, state);
  SetAffinity(resized.key, resized.affinity_after, state);
}

void GiveBack(const Reservation& reservation, NodeState& state) {
  if (reservation.renewed) {
    const RenewedRequests& renewed = *reservation.renewed;
    return SetRequests(renewed, renewed.share_before, renewed.memory_before, state);
  }
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
