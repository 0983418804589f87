#include "allocation/plugin_needs.h"

namespace alignd::allocation {

std::optional<Error> AwaitedPlugin(const admission::NodeState& state, const Pod& pod,
                                   const KubeletAllocatedPod& counted,
                                   const DevicePlugins& plugins) {
  const devicemanager::DeviceState& devices = state.devices;
  for (const Container& container : pod.containers) {
    const auto of_the_container = counted.find(container.name);
    for (const auto& [resource, amount] : container.resources.limits) {
      const bool is_devices =
          devices.resources.contains(resource) ||
          (of_the_container != counted.end() && of_the_container->second.contains(resource));
      if (!is_devices || amount.IsZero()) continue;
      if (devices.Find({pod.uid, container.name}, resource) != nullptr) continue;
      if (std::optional<Error> why = plugins.Awaited(resource)) return why;
    }
  }
  return std::nullopt;
}

std::vector<PluginAsk> PluginAsks(const Pod& pod, const admission::NodeState& next,
                                  const Reservation& reservation,
                                  const std::set<ContainerKey>& granted) {
  std::vector<PluginAsk> asks;
  for (const Container& container : pod.containers) {
    const ContainerKey key{pod.uid, container.name};
    const auto held = next.devices.allocations.find(key);
    if (held == next.devices.allocations.end()) continue;
    for (const auto& [resource, allocation] : held->second) {
      const bool restored_without = allocation.response.empty() && !granted.contains(key);
      if (!reservation.devices.contains({key, resource}) && !restored_without) continue;
      const std::set<std::string> ids = allocation.Ids();
      asks.push_back({key, resource, {ids.begin(), ids.end()}});
    }
  }
  return asks;
}

}  // namespace alignd::allocation
