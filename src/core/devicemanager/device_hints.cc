#include <algorithm>
#include <map>
#include <utility>

#include "alignd/base/numa_subsets.h"
#include "alignd/devicemanager/device_policy.h"
#include "core/devicemanager/inventory.h"

namespace alignd::devicemanager {
namespace {

using topologymanager::HintList;
using topologymanager::HintsByResource;

// The devices of a resource that lie on the same NUMA nodes; to a hint they are all alike.
struct Place {
  int64_t all = 0;        // healthy or not
  int64_t available = 0;  // to be given
  int64_t reusable = 0;   // with a topology, from the pod's init containers
};

std::map<NumaMask, Place> PlacesOf(const Machine& machine, const Resource& resource,
                                   const DeviceIds& available, const DeviceIds& reusable) {
  std::map<NumaMask, Place> places;
  for (const auto& [id, device] : resource.devices) {
    ++places[machine.MaskOfIds(device.numa)].all;
  }
  for (const std::string& id : available) {
    ++places[machine.MaskOfIds(DeviceOf(resource, id).numa)].available;
  }
  for (const std::string& id : reusable) {
    const Device& device = DeviceOf(resource, id);
    if (!device.numa.empty()) ++places[machine.MaskOfIds(device.numa)].reusable;
  }
  return places;
}

// Every set of NUMA nodes that offers `requested` devices; preferred are those of the smallest size
// at which the resource could do so if nothing was taken. A device on two nodes counts for either.
// Source: kubelet pkg/kubelet/cm/devicemanager/topology_hints.go, generateDeviceTopologyHints.
HintList HintsOver(const Machine& machine, const Resource& resource, const DeviceIds& available,
                   const DeviceIds& reusable, int64_t requested) {
  const std::map<NumaMask, Place> places = PlacesOf(machine, resource, available, reusable);
  NumaMask considered;
  for (const auto& [nodes, place] : places) {
    if (place.all > 0) considered = considered | nodes;
  }
  if (considered.empty()) considered = machine.all_numa();

  int smallest = considered.Count();
  HintList hints;
  ForEachSubset(considered, [&](NumaMask set) {
    int64_t all = 0;
    int64_t offered = 0;
    bool misses_reusable = false;
    for (const auto& [nodes, place] : places) {
      if (set.Intersects(nodes)) {
        all += place.all;
        offered += place.available + place.reusable;
      } else if (place.reusable > 0) {
        misses_reusable = true;
      }
    }
    if (all >= requested) smallest = std::min(smallest, set.Count());
    if (!misses_reusable && offered >= requested) {
      hints.push_back({.affinity = set, .preferred = false});
    }
  });
  for (auto& hint : hints) hint.preferred = hint.affinity->Count() == smallest;
  return hints;
}

// The hints of one resource for a container or pod that holds `held` of it so far.
std::optional<HintList> HintsFor(const Machine& machine, const DeviceState& state,
                                 const std::string& name, int64_t requested, const DeviceIds& held,
                                 const DeviceIds& reusable) {
  const Resource& resource = InventoryOf(state, name);
  if (!HasTopology(resource)) return std::nullopt;
  if (!held.empty()) {
    if (static_cast<int64_t>(held.size()) != requested) return HintList{};
    return HintsOver(machine, resource, held, {}, requested);
  }
  const DeviceIds available = Difference(HealthyIds(resource), state.AllocatedIds(name));
  if (static_cast<int64_t>(available.size() + reusable.size()) < requested) return HintList{};
  return HintsOver(machine, resource, available, reusable, requested);
}

}  // namespace

HintsByResource ContainerHints(const Machine& machine, const DeviceState& state, const Pod& pod,
                               const Container& container) {
  HintsByResource hints;
  for (const auto& [resource, requested] : RequestOf(state, container)) {
    const DeviceAllocation* held = state.Find({pod.uid, container.name}, resource);
    hints[resource] =
        HintsFor(machine, state, resource, requested, held != nullptr ? held->Ids() : DeviceIds{},
                 ReusableIds(state, pod, resource));
  }
  return hints;
}

HintsByResource PodHints(const Machine& machine, const DeviceState& state, const Pod& pod) {
  HintsByResource hints;
  for (const auto& [resource, requested] : RequestOf(state, pod)) {
    hints[resource] =
        HintsFor(machine, state, resource, requested, state.PodIds(pod.uid, resource), {});
  }
  return hints;
}

}  // namespace alignd::devicemanager
