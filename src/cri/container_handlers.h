// The table of intercepted CRI methods and what happens before and after each.
#pragma once

#include "alignd/admission/node.h"
#include "allocation/allocation_manager.h"
#include "allocation/device_plugins.h"
#include "cri/container_registry.h"
#include "cri/forwarder.h"
#include "cri/reconciler.h"

namespace alignd::cri {

// What the handlers work with. All references outlive the handlers.
struct HandlerContext {
  const admission::Node& node;
  allocation::AllocationManager& allocation;
  allocation::DevicePlugins& plugins;
  ContainerRegistry& registry;
  Reconciler& reconciler;
};

// Handlers for the methods of runtime.v1 and runtime.v1alpha2 that create, change and remove
// containers and sandboxes:
//   RunPodSandbox             a pod that is known as a whole gets its grant; a refusal is said at
//                             CreateContainer, where the kubelet shows it
//   CreateContainer           decide, persist, inject
//   StartContainer            wait until nobody else is on the container's exclusive CPUs; call
//                             PreStartContainer of the plugins that want it
//   UpdateContainerResources  keep our CPU and memory sets
//   StopPodSandbox, RemovePodSandbox, RemoveContainer   note it, release what nobody holds any more
HandlerFactory MakeContainerHandlers(HandlerContext context);

}  // namespace alignd::cri
