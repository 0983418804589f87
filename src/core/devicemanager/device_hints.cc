#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "alignd/devicemanager/device_policy.h"
#include "core/devicemanager/inventory.h"

namespace alignd::devicemanager {
namespace {

using topologymanager::Demand;
using topologymanager::DescribedHints;
using topologymanager::HintList;
using topologymanager::Hints;
using topologymanager::HintsByResource;
using topologymanager::NodeSets;

// The devices of a resource on the same NUMA nodes. For hints they are all alike.
struct Alike {
  uint64_t all = 0;       // healthy or not
  uint64_t offered = 0;   // free, or reusable from the pod's init containers
  uint64_t reusable = 0;  // with a topology, from the pod's init containers
};

// By the NUMA nodes of the devices.
using AlikeByNodes = std::map<NumaMask, Alike>;

AlikeByNodes AlikeIn(const Machine& machine, const Resource& resource, const DeviceIds& available,
                     const DeviceIds& reusable) {
  AlikeByNodes devices;
  for (const auto& [id, device] : resource.devices) ++devices[machine.MaskOfIds(device.numa)].all;
  for (const std::string& id : available) {
    ++devices[machine.MaskOfIds(DeviceOf(resource, id).numa)].offered;
  }
  for (const std::string& id : reusable) {
    const Device& device = DeviceOf(resource, id);
    if (device.numa.empty()) continue;
    Alike& alike = devices[machine.MaskOfIds(device.numa)];
    ++alike.offered;
    ++alike.reusable;
  }
  return devices;
}

Demand DemandFor(const AlikeByNodes& devices, uint64_t Alike::*amount, uint64_t wanted) {
  Demand demand{.places = {}, .wanted = wanted};
  for (const auto& [nodes, alike] : devices) {
    if (alike.*amount > 0) demand.places.push_back({nodes, alike.*amount});
  }
  return demand;
}

// All places with reusable devices, even on nodes that the machine does not have.
Demand DemandForReusable(const AlikeByNodes& devices) {
  Demand demand;
  for (const auto& [nodes, alike] : devices) {
    if (alike.reusable == 0) continue;
    demand.places.push_back({nodes, 1});
    ++demand.wanted;
  }
  return demand;
}

// Every set of NUMA nodes with `requested` available devices. Preferred are the sets of the
// smallest size that would be enough if no device was allocated. A device on two nodes is available
// on both. Source: kubelet pkg/kubelet/cm/devicemanager/topology_hints.go,
// generateDeviceTopologyHints.
Hints HintsOver(const Machine& machine, const Resource& resource, const DeviceIds& available,
                const DeviceIds& reusable, int64_t requested) {
  const AlikeByNodes devices = AlikeIn(machine, resource, available, reusable);
  NumaMask considered;
  for (const auto& [nodes, alike] : devices) {
    if (alike.all > 0) considered = considered | nodes;
  }
  if (considered.empty()) considered = machine.all_numa();

  const auto wanted = static_cast<uint64_t>(std::max<int64_t>(requested, 0));
  const NodeSets possible{considered, {DemandFor(devices, &Alike::all, wanted)}};
  const topologymanager::Fewest fewest =
      topologymanager::FewestNodes(possible).value_or(topologymanager::Fewest{considered.Count()});
  DescribedHints hints{.sets = {considered, {DemandFor(devices, &Alike::offered, wanted)}},
                       .preferred_nodes = fewest.nodes,
                       .groups = {},
                       .preferred_groups = 0,
                       .exact = fewest.exact};
  if (!reusable.empty()) hints.sets.demands.push_back(DemandForReusable(devices));
  return Hints(HintList(), std::move(hints));
}

// The hints of one resource for a container or pod that is allocated `allocated` of it so far.
std::optional<Hints> HintsFor(const Machine& machine, const DeviceState& state,
                              const std::string& name, int64_t requested,
                              const DeviceIds& allocated, const DeviceIds& reusable) {
  const Resource& resource = InventoryOf(state, name);
  if (!HasTopology(resource)) return std::nullopt;
  if (!allocated.empty()) {
    if (static_cast<int64_t>(allocated.size()) != requested) return Hints();
    return HintsOver(machine, resource, allocated, {}, requested);
  }
  const DeviceIds available = FreeIds(state, name);
  if (static_cast<int64_t>(available.size() + reusable.size()) < requested) return Hints();
  return HintsOver(machine, resource, available, reusable, requested);
}

}  // namespace

HintsByResource ContainerHints(const Machine& machine, const DeviceState& state, const Pod& pod,
                               const Container& container) {
  HintsByResource hints;
  for (const auto& [resource, requested] : RequestOf(state, container)) {
    const DeviceAllocation* allocated = state.Find({pod.uid, container.name}, resource);
    hints[resource] = HintsFor(machine, state, resource, requested,
                               allocated != nullptr ? allocated->Ids() : DeviceIds{},
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
