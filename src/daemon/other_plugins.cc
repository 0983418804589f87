#include "daemon/other_plugins.h"

#include <spdlog/spdlog.h>

#include <utility>
#include <vector>

#include "mirror/marker.h"

namespace alignd::daemon {

using checkpoint::DeviceCheckpoint;

mirror::KubeletCheckpoint DevicesOfKubelet(const std::filesystem::path& device_plugin_dir) {
  const auto file = device_plugin_dir / "kubelet_internal_checkpoint";
  return {[file] { return mirror::ReadKubeletCheckpoint(file); }, mirror::HasMarker};
}

OtherPlugins::OtherPlugins(mirror::KubeletCheckpoint kubelet,
                           const allocation::AllocationManager& allocation,
                           const reconcile::ContainerRegistry& registry,
                           reconcile::Conditions& conditions)
    : kubelet_(std::move(kubelet)),
      allocation_(allocation),
      registry_(registry),
      conditions_(conditions) {}

void OtherPlugins::Look() {
  // In this order: whose container runs, and who had something when its plugin came, is in a state
  // that is read later.
  const std::vector<admission::RunningContainer> running = registry_.Containers();
  Result<DeviceCheckpoint> read = kubelet_.read();
  // A kubelet that never counted devices has no such file.
  if (!read.ok() && read.error().code == ErrorCode::kNotFound) read = DeviceCheckpoint();
  const std::string fault = read.ok() ? "" : read.error().Text();
  if (fault != std::exchange(last_fault_, fault) && !fault.empty()) {
    spdlog::warn("whether the kubelet has devices from other plugins cannot be known: {}", fault);
  }
  if (!read.ok()) return;
  const DeviceCheckpoint theirs = mirror::WithoutMirrors(*std::move(read), kubelet_.is_mirrors);
  const auto snapshot = allocation_.snapshot();
  const devicemanager::DeviceState& ours = snapshot->state.devices;
  std::vector<reconcile::PastMirror> found;
  for (const admission::RunningContainer& container : running) {
    const auto given = theirs.allocations.find(container.key);
    if (given == theirs.allocations.end()) continue;
    for (const auto& [resource, allocation] : given->second) {
      const auto known = ours.resources.find(resource);
      if (known == ours.resources.end() || !known->second.registered) continue;
      if (ours.Find(container.key, resource) != nullptr) continue;
      found.push_back(
          {.since = {},
           .container = {container.id, container.key, registry_.PodName(container.key.pod_uid)},
           .resource = resource,
           .ids = allocation.Ids()});
    }
  }
  conditions_.FoundPastMirror(std::move(found));
}

}  // namespace alignd::daemon
