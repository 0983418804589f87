// Finds device plugins that are registered with the kubelet beside the mirror.
#pragma once

#include <filesystem>
#include <string>

#include "allocation/allocation_manager.h"
#include "mirror/kubelet_checkpoint.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"

namespace alignd::daemon {

// The content of the kubelet's checkpoint in that directory.
mirror::KubeletCheckpoint DevicesOfKubelet(const std::filesystem::path& device_plugin_dir);

// Finds containers whose devices come from a conflicting plugin. The kubelet's checkpoint has such
// an allocation without the mirror's marker, of a resource whose plugin is registered with alignd,
// and the container has no allocation in alignd's state. Allocations from before the plugin came to
// alignd are in that state, so a plugin has answered the kubelet since.
//
// There is no earlier sign. If another plugin registers the same resource, the kubelet stays
// connected to the mirror and reads its device lists; only Allocate goes to the other plugin.
// Source: kubelet pkg/kubelet/cm/devicemanager/plugin/v1beta1/handler.go, connectClient;
// manager.go, PluginConnected, genericDeviceUpdateCallback. One thread at a time.
class ConflictingPlugins {
 public:
  // All references outlive this object.
  ConflictingPlugins(mirror::KubeletCheckpoint kubelet,
                     const allocation::AllocationManager& allocation,
                     const reconcile::ContainerRegistry& registry,
                     reconcile::Conditions& conditions);

  // Reports the present state in `conditions`. While the checkpoint cannot be read, the conditions
  // stay, and the log says why. Blocks on the file.
  void Look();

 private:
  const mirror::KubeletCheckpoint kubelet_;
  const allocation::AllocationManager& allocation_;
  const reconcile::ContainerRegistry& registry_;
  reconcile::Conditions& conditions_;
  std::string last_fault_;
};

}  // namespace alignd::daemon
