#include "allocation/plugin_needs.h"

namespace alignd::allocation {

std::optional<Error> AwaitedPlugin(const admission::NodeState& state,
                                   const AdmissionRequest& request, const DevicePlugins& plugins) {
  const devicemanager::DeviceState& devices = state.devices;
  const KubeletAllocatedPod& allocated = request.kubelet_allocated;
  for (const Container& container : request.pod.containers) {
    const auto of_the_container = allocated.find(container.name);
    for (const auto& [resource, amount] : container.resources.limits) {
      const bool is_devices =
          devices.resources.contains(resource) ||
          (of_the_container != allocated.end() && of_the_container->second.contains(resource));
      if (!is_devices || amount.IsZero()) continue;
      if (devices.Find({request.pod.uid, container.name}, resource) != nullptr) continue;
      if (std::optional<Error> why = plugins.Awaited(resource)) return why;
    }
  }
  return std::nullopt;
}

std::vector<PluginAsk> PluginAsks(const Pod& pod, const admission::NodeState& next,
                                  const Reservation& reservation,
                                  const std::set<ContainerKey>& admitted) {
  std::vector<PluginAsk> asks;
  for (const Container& container : pod.containers) {
    const ContainerKey key{pod.uid, container.name};
    const auto assigned = next.devices.allocations.find(key);
    if (assigned == next.devices.allocations.end()) continue;
    for (const auto& [resource, allocation] : assigned->second) {
      const bool restored_without = allocation.response.empty() && !admitted.contains(key);
      if (!reservation.devices.contains({key, resource}) && !restored_without) continue;
      const std::set<std::string> ids = allocation.Ids();
      asks.push_back({key, resource, {ids.begin(), ids.end()}});
    }
  }
  return asks;
}

}  // namespace alignd::allocation
