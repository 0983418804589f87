#include "allocation/held.h"

#include <algorithm>
#include <string_view>

namespace alignd::allocation {
namespace {

bool IsMemory(std::string_view resource) {
  return resource == "memory" || resource.starts_with("hugepages-");
}

bool AsksForMemory(const Pod& pod, const Container& container) {
  if (QosOf(pod) != QosClass::kGuaranteed || HasPodLevelResources(pod)) return false;
  return std::ranges::any_of(container.resources.requests,
                             [](const auto& entry) { return IsMemory(entry.first); });
}

}  // namespace

bool HoldsAllItAsks(const admission::Node& node, const admission::NodeState& state, const Pod& pod,
                    const Container& container) {
  const ContainerKey key{pod.uid, container.name};
  if (node.cpu && ExclusiveCpus(pod, container) > 0 && !state.cpu.Find(key)) return false;
  if (node.memory && AsksForMemory(pod, container) && !state.memory.Find(key)) return false;
  for (const auto& [resource, amount] : container.resources.limits) {
    if (amount.IsZero() || !state.devices.resources.contains(resource)) continue;
    const devicemanager::DeviceAllocation* held = state.devices.Find(key, resource);
    if (held == nullptr || held->response.empty()) return false;
  }
  return true;
}

}  // namespace alignd::allocation
