#include "allocation/plugin_needs.h"

#include <string_view>
#include <utility>

#include "alignd/pod/refusal.h"
#include "alignd/pod/resource_name.h"

namespace alignd::allocation {

namespace {

constexpr std::string_view kUnregistered = "cannot allocate unregistered device ";
constexpr std::string_view kForContainer = " for container ";

bool Has(const KubeletAllocatedPod& allocated, const std::string& container,
         const std::string& resource) {
  const auto of_the_container = allocated.find(container);
  return of_the_container != allocated.end() && of_the_container->second.contains(resource);
}

}  // namespace

std::optional<PluginWait> WaitFor(const std::string& resource,
                                  const devicemanager::DeviceState& devices,
                                  const DevicePlugins& plugins, const InventoryQueue& inventory) {
  if (std::optional<Error> why = plugins.Awaited(resource)) {
    return PluginWait{resource, *std::move(why)};
  }
  // A registered plugin that floods alignd with lists has always just announced devices.
  const auto known = devices.resources.find(resource);
  if (known != devices.resources.end() && known->second.registered) return std::nullopt;
  if (!inventory.IsArriving(resource)) return std::nullopt;
  return PluginWait{resource,
                    {ErrorCode::kUnavailable, resource + ": its device plugin has just registered",
                     "wait: the kubelet tries again"}};
}

std::optional<PluginWait> AwaitedPlugin(const admission::NodeState& state,
                                        const AdmissionRequest& request,
                                        const DevicePlugins& plugins,
                                        const InventoryQueue& inventory) {
  const devicemanager::DeviceState& devices = state.devices;
  for (const Container& container : request.pod.containers) {
    for (const auto& [resource, amount] : container.resources.limits) {
      const bool is_devices = devices.resources.contains(resource) ||
                              Has(request.kubelet_allocated, container.name, resource);
      if (!is_devices || amount.IsZero()) continue;
      if (devices.Find({request.pod.uid, container.name}, resource) != nullptr) continue;
      if (auto wait = WaitFor(resource, devices, plugins, inventory)) return wait;
    }
  }
  return std::nullopt;
}

std::vector<UnknownDevices> FindUnknownDevices(const admission::NodeState& state,
                                               const AdmissionRequest& request,
                                               const std::set<std::string>& not_devices) {
  const devicemanager::DeviceState& devices = state.devices;
  std::vector<UnknownDevices> unknown;
  for (const Container& container : request.pod.containers) {
    for (const auto& [resource, amount] : container.resources.limits) {
      if (amount.IsZero() || !MayBeDevice(resource) || not_devices.contains(resource)) continue;
      if (devices.resources.contains(resource)) continue;
      if (devices.Find({request.pod.uid, container.name}, resource) != nullptr) continue;
      // The kubelet allocated it through alignd: AwaitedPlugin, then the decision.
      if (Has(request.kubelet_allocated, container.name, resource)) continue;
      unknown.push_back({container.name, resource});
    }
  }
  return unknown;
}

std::string UnknownDeviceIn(const std::string& message) {
  const size_t at = message.find(kUnregistered);
  if (at == std::string::npos) return {};
  const size_t begin = at + kUnregistered.size();
  const size_t end = message.find(kForContainer, begin);
  return end == std::string::npos ? "" : message.substr(begin, end - begin);
}

std::optional<EarlyAnswer> AnswerWithoutDevices(
    const std::vector<UnknownDevices>& unknown, const devicemanager::DeviceState& devices,
    const std::optional<KubeletAllocation::Learned>& learned, const std::string& only,
    const DevicePlugins& plugins, const InventoryQueue& inventory) {
  for (const auto& [container, resource] : unknown) {
    if (!only.empty() && container != only) continue;
    if (learned && learned->ok() && Has((*learned)->of_own_plugins, container, resource)) continue;
    if (auto wait = WaitFor(resource, devices, plugins, inventory)) return *std::move(wait);
    // A kubelet that never allocated devices has no checkpoint.
    if (learned && !learned->ok() && learned->error().code != ErrorCode::kNotFound) {
      return Outcome(Error{ErrorCode::kUnavailable,
                           resource + ": whether the kubelet allocated it to container " +
                               container + " is not known: " + learned->error().message,
                           "name the directory of the kubelet's checkpoint with "
                           "--kubelet-device-plugin-dir, and let alignd read it"});
    }
    return Outcome(UnexpectedAdmissionError(
        std::string(kUnregistered) + resource + std::string(kForContainer) + container +
        ": no device plugin has registered it with alignd, and the kubelet has allocated none: "
        "start the plugin, or, if no device plugin serves this resource, name it in notDevices, "
        "or start alignd with --not-devices=" +
        resource));
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
