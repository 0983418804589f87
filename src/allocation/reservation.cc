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

}  // namespace

Reservation Difference(const Pod& pod, const NodeState& before, const NodeState& after) {
  Reservation reservation;
  reservation.pod_uid = pod.uid;
  for (const Container& container : pod.containers) {
    const ContainerKey key{pod.uid, container.name};
    if (after.cpu.Find(key) && !before.cpu.Find(key)) reservation.cpu.insert(key);
    if (after.memory.Find(key) && !before.memory.Find(key)) reservation.memory.insert(key);
    AddNewDevices(key, before, after, reservation);
    const auto affinity = before.affinities.find(key);
    reservation.affinities[key] =
        affinity == before.affinities.end() ? std::nullopt : std::optional(affinity->second);
  }
  reservation.reusable_before = before.cpu.reusable;
  std::erase_if(reservation.reusable_before,
                [&pod](const auto& entry) { return entry.first != pod.uid; });
  reservation.reusable_after = after.cpu.reusable;
  return reservation;
}

void GiveBack(const Reservation& reservation, NodeState& state) {
  // CPUs can be reused again only if no other pod was decided since: that would have dropped them.
  const bool untouched = state.cpu.reusable == reservation.reusable_after;
  for (const ContainerKey& key : reservation.cpu) cpumanager::ReleaseContainer(key, state.cpu);
  for (const ContainerKey& key : reservation.memory) {
    memorymanager::ReleaseContainer(key, state.memory);
  }
  auto& allocations = state.devices.allocations;
  for (const auto& [key, resource] : reservation.devices) {
    if (!allocations.contains(key)) continue;
    auto& resources = allocations[key];
    resources.erase(resource);
    if (resources.empty()) allocations.erase(key);
  }
  for (const auto& [key, affinity] : reservation.affinities) {
    if (affinity) {
      state.affinities[key] = *affinity;
    } else {
      state.affinities.erase(key);
    }
  }
  if (untouched) state.cpu.reusable = reservation.reusable_before;
}

}  // namespace alignd::allocation
