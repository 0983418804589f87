// Does the kubelet get devices from a plugin that is registered with it beside the mirror?
#pragma once

#include <filesystem>
#include <string>

#include "allocation/allocation_manager.h"
#include "mirror/kubelet_checkpoint.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"

namespace alignd::daemon {

// What the kubelet's checkpoint in that directory says.
mirror::KubeletCheckpoint DevicesOfKubelet(const std::filesystem::path& device_plugin_dir);

// Looks in the kubelet's checkpoint for answers that are not the mirror's, of resources whose
// plugin is registered with us, and given to containers that run and do not hold them here: what
// containers had of a plugin that came to us was taken over when it came, so another one has
// answered since.
//
// There is no earlier sign. When another plugin registers the same resource the kubelet stays
// connected with the mirror and goes on reading its device lists; it only calls Allocate of the one
// that came last.
// Source: kubelet pkg/kubelet/cm/devicemanager/plugin/v1beta1/handler.go, connectClient;
// manager.go, PluginConnected, genericDeviceUpdateCallback. One thread at a time.
class OtherPlugins {
 public:
  // All references outlive it.
  OtherPlugins(mirror::KubeletCheckpoint kubelet, const allocation::AllocationManager& allocation,
               const reconcile::ContainerRegistry& registry, reconcile::Conditions& conditions);

  // Puts down in the log what is so now. While the file cannot be read, what was put down stays,
  // and our own log says why.
  void Look();

 private:
  const mirror::KubeletCheckpoint kubelet_;
  const allocation::AllocationManager& allocation_;
  const reconcile::ContainerRegistry& registry_;
  reconcile::Conditions& conditions_;
  std::string last_fault_;
};

}  // namespace alignd::daemon
