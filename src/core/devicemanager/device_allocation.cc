#include <algorithm>
#include <utility>

#include "alignd/devicemanager/device_policy.h"
#include "core/devicemanager/inventory.h"

namespace alignd::devicemanager {
namespace {

using topologymanager::TopologyHint;

constexpr int64_t kWithoutTopology = -1;  // the kubelet's pseudo node

// Whether the plugin named no NUMA node, or only -1: sysfs shows -1 for a PCI device whose node the
// firmware does not say, and plugins pass it on. A device that also names a real node has
// topology.
bool IsWithoutTopology(const std::vector<int64_t>& numa) {
  return std::ranges::all_of(numa, [](int64_t node) { return node == kWithoutTopology; });
}

// The available devices by location, each class sorted by id.
struct ByAffinity {
  DeviceIds aligned;
  DeviceIds unaligned;
  DeviceIds without_topology;
};

// Without an affinity, or without any topology, nothing can be aligned.
// Source: kubelet pkg/kubelet/cm/devicemanager/manager.go, filterByAffinity.
ByAffinity SplitByAffinity(const Machine& machine, const Resource& resource,
                           const DeviceIds& available, const TopologyHint& affinity) {
  ByAffinity split;
  if (!affinity.affinity || !HasTopology(resource)) {
    split.without_topology = available;
    return split;
  }
  for (const std::string& id : available) {
    const std::vector<int64_t>& numa = DeviceOf(resource, id).numa;
    if (IsWithoutTopology(numa)) {
      split.without_topology.insert(id);
    } else if (machine.MaskOfIds(numa).Intersects(*affinity.affinity)) {
      split.aligned.insert(id);
    } else {
      split.unaligned.insert(id);
    }
  }
  return split;
}

// The devices chosen so far for one request, and the requested number.
class Choice {
 public:
  explicit Choice(int64_t wanted) : wanted_(wanted) {}

  int64_t needed() const { return wanted_ - static_cast<int64_t>(ids_.size()); }
  const DeviceIds& ids() const { return ids_; }

  // Takes devices from `offered`, in their order, until none is needed.
  template <typename Ids>
  void TakeFrom(const Ids& offered) {
    for (const std::string& id : offered) {
      if (needed() <= 0) return;
      ids_.insert(id);
    }
  }

  // Takes the devices of `offered` that the plugin prefers beside those already chosen.
  // Source: manager.go, callGetPreferredAllocationIfAvailable.
  void TakePreferredFrom(const DeviceIds& offered, const std::string& name,
                         const Resource& resource, const PreferredAllocationFn& preferred) {
    if (needed() <= 0 || !resource.prefers_allocation || !preferred) return;
    DeviceIds all = offered;
    all.insert(ids_.begin(), ids_.end());
    const auto answer = preferred({.resource = name,
                                   .available = {all.begin(), all.end()},
                                   .must_include = {ids_.begin(), ids_.end()},
                                   .size = static_cast<int>(wanted_)});
    if (!answer) return;
    std::vector<std::string> usable;
    std::ranges::copy_if(*answer, std::back_inserter(usable),
                         [&](const std::string& id) { return offered.contains(id); });
    TakeFrom(usable);
  }

 private:
  int64_t wanted_;
  DeviceIds ids_;
};

std::string TooFew(const std::string& name, int64_t needed, size_t available) {
  return "requested number of devices unavailable for " + name +
         ". Requested: " + std::to_string(needed) + ", Available: " + std::to_string(available);
}

// Chooses the devices: first reusable ones of the pod's init containers, then aligned ones, then
// any. Among equal devices the plugin's preference decides, then the id. Source: manager.go,
// devicesToAllocate.
std::optional<Refusal> Choose(const Machine& machine, const DeviceState& state,
                              const std::string& name, const DeviceIds& reusable,
                              const TopologyHint& affinity, const PreferredAllocationFn& preferred,
                              Choice& choice) {
  const Resource& resource = InventoryOf(state, name);
  const ByAffinity reused = SplitByAffinity(machine, resource, reusable, affinity);
  choice.TakeFrom(reused.aligned);
  choice.TakeFrom(reused.unaligned);
  choice.TakeFrom(reused.without_topology);
  if (choice.needed() <= 0) return std::nullopt;

  const DeviceIds available = FreeIds(state, name);
  if (static_cast<int64_t>(available.size()) < choice.needed()) {
    return UnexpectedAdmissionError(TooFew(name, choice.needed(), available.size()));
  }
  const ByAffinity split = SplitByAffinity(machine, resource, available, affinity);
  if (choice.needed() < static_cast<int64_t>(split.aligned.size())) {
    choice.TakePreferredFrom(split.aligned, name, resource, preferred);
    choice.TakeFrom(split.aligned);
    return std::nullopt;
  }
  // Aligned devices come first; the preference of the plugin decides about the others only.
  choice.TakeFrom(split.aligned);
  choice.TakePreferredFrom(available, name, resource, preferred);
  choice.TakeFrom(split.unaligned);
  choice.TakeFrom(split.without_topology);
  return std::nullopt;
}

// Differs: a device that names a node twice is listed once; the kubelet lists and counts it twice.
// Source: manager.go, allocateContainerResources.
DevicesPerNuma PerNuma(const Resource& resource, const DeviceIds& ids) {
  DevicesPerNuma per_numa;
  for (const std::string& id : ids) {
    const std::vector<int64_t>& numa = DeviceOf(resource, id).numa;
    const std::set<int64_t> nodes(numa.begin(), numa.end());
    for (const int64_t node : nodes) per_numa[node].push_back(id);
    if (nodes.empty()) per_numa[kWithoutTopology].push_back(id);
  }
  return per_numa;
}

// The refusal if the resource can't be allocated to any container now, or nullopt.
std::optional<Refusal> Unusable(const DeviceState& state, const std::string& name) {
  if (!state.resources.contains(name)) {
    return UnexpectedAdmissionError("cannot allocate unregistered device " + name);
  }
  if (HealthyIds(InventoryOf(state, name)).empty()) {
    return UnexpectedAdmissionError(
        "no healthy devices present; cannot allocate unhealthy devices " + name);
  }
  return std::nullopt;
}

// Allocates one resource to the container.
// Differs: a container keeps its devices even if the plugin is not registered or the devices are
// unhealthy. The kubelet refuses running pods here after a restart.
// Source: manager.go, allocateContainerResources.
std::optional<Refusal> AllocateResource(const Machine& machine, const Pod& pod,
                                        const ContainerKey& key, const std::string& name,
                                        int64_t requested, const TopologyHint& affinity,
                                        const PreferredAllocationFn& preferred,
                                        DeviceState& state) {
  if (const DeviceAllocation* allocated = state.Find(key, name)) {
    const auto count = static_cast<int64_t>(allocated->Ids().size());
    if (count == requested) return std::nullopt;
    return UnexpectedAdmissionError("pod \"" + key.pod_uid + "\" container \"" + key.container +
                                    "\" changed request for resource \"" + name + "\" from " +
                                    std::to_string(count) + " to " + std::to_string(requested));
  }
  if (std::optional<Refusal> refusal = Unusable(state, name)) return refusal;
  if (requested <= 0) return std::nullopt;
  Choice choice(requested);
  if (std::optional<Refusal> refusal = Choose(machine, state, name, ReusableIds(state, pod, name),
                                              affinity, preferred, choice)) {
    return refusal;
  }
  state.allocations[key][name] = {.devices = PerNuma(InventoryOf(state, name), choice.ids()),
                                  .response = ""};
  return std::nullopt;
}

// Of the devices that the container is allocated. The others it may still use: a device cannot be
// taken from a container that runs.
void DropClaims(const ContainerKey& key, const std::string& resource, DeviceState& state) {
  const DeviceAllocation* const allocation = state.Find(key, resource);
  const auto claims = state.withheld.find(key);
  if (allocation == nullptr || claims == state.withheld.end()) return;
  auto by_resource = claims->second;
  const auto claimed = by_resource.find(resource);
  if (claimed == by_resource.end()) return;
  claimed->second = Difference(claimed->second, allocation->Ids());
  if (claimed->second.empty()) by_resource.erase(claimed);
  if (by_resource.empty()) {
    state.withheld.erase(key);
  } else {
    state.withheld[key] = std::move(by_resource);
  }
}

}  // namespace

std::optional<Refusal> Allocate(const Machine& machine, const Pod& pod, const Container& container,
                                const TopologyHint& affinity,
                                const PreferredAllocationFn& preferred, DeviceState& state) {
  const ContainerKey key{pod.uid, container.name};
  for (const auto& [resource, requested] : RequestOf(state, container)) {
    if (std::optional<Refusal> refusal =
            AllocateResource(machine, pod, key, resource, requested, affinity, preferred, state)) {
      return refusal;
    }
    DropClaims(key, resource, state);
  }
  return std::nullopt;
}

void ReleasePod(const std::string& pod_uid, DeviceState& state) {
  erase_if(state.allocations, [&](const auto& entry) { return entry.first.pod_uid == pod_uid; });
  erase_if(state.withheld, [&](const auto& entry) { return entry.first.pod_uid == pod_uid; });
}

std::vector<std::string> BrokenInvariants(const DeviceState& state) {
  std::vector<std::string> broken;
  std::map<std::pair<std::string, std::string>, std::string> pod_of;  // by resource and device id
  for (const auto& [key, by_resource] : state.allocations) {
    const std::string container = "container " + key.container + " of pod " + key.pod_uid;
    if (by_resource.empty()) broken.push_back(container + " has an entry without any resource");
    for (const auto& [resource, allocation] : by_resource) {
      const DeviceIds ids = allocation.Ids();
      if (ids.empty()) broken.push_back(container + " has an entry without devices of " + resource);
      for (const std::string& id : ids) {
        const std::string& first = pod_of.try_emplace({resource, id}, key.pod_uid).first->second;
        if (first != key.pod_uid) {
          broken.push_back("device " + id + " of " + resource + " is allocated to pods " + first +
                           " and " + key.pod_uid);
        }
      }
    }
  }
  return broken;
}

}  // namespace alignd::devicemanager
