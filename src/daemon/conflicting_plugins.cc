#include "daemon/conflicting_plugins.h"

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

ConflictingPlugins::ConflictingPlugins(mirror::KubeletCheckpoint kubelet,
                                       const allocation::AllocationManager& allocation,
                                       const reconcile::ContainerRegistry& registry,
                                       reconcile::Conditions& conditions)
    : kubelet_(std::move(kubelet)),
      allocation_(allocation),
      registry_(registry),
      conditions_(conditions) {}

void ConflictingPlugins::Look() {
  // The order matters: what a running container was allocated before its plugin came to alignd is
  // then in the state, which is read last.
  const std::vector<admission::RunningContainer> running = registry_.Containers();
  Result<DeviceCheckpoint> read = kubelet_.read();
  // A kubelet that never allocated devices has no such file.
  if (!read.ok() && read.error().code == ErrorCode::kNotFound) read = DeviceCheckpoint();
  const std::string fault = read.ok() ? "" : read.error().Text();
  if (fault != std::exchange(last_fault_, fault) && !fault.empty()) {
    spdlog::warn("cannot check for conflicting device plugins: {}", fault);
  }
  if (!read.ok()) return;
  const DeviceCheckpoint kubelets = mirror::WithoutMirrors(*std::move(read), kubelet_.is_mirrors);
  const auto snapshot = allocation_.snapshot();
  const devicemanager::DeviceState& state = snapshot->state.devices;
  std::vector<reconcile::PastMirror> found;
  for (const admission::RunningContainer& container : running) {
    const auto allocated = kubelets.allocations.find(container.key);
    if (allocated == kubelets.allocations.end()) continue;
    for (const auto& [resource, allocation] : allocated->second) {
      const auto known = state.resources.find(resource);
      if (known == state.resources.end() || !known->second.registered) continue;
      if (state.Find(container.key, resource) != nullptr) continue;
      found.push_back(
          {.container = {container.id, container.key, registry_.PodName(container.key.pod_uid)},
           .resource = resource,
           .ids = allocation.Ids()});
    }
  }
  conditions_.FoundPastMirror(std::move(found));
}

}  // namespace alignd::daemon
