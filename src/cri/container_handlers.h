// The table of intercepted CRI methods and what happens before and after each.
#pragma once

#include "alignd/admission/node.h"
#include "allocation/allocation_manager.h"
#include "allocation/device_plugins.h"
#include "cgroup/cgroup_tree.h"
#include "podsource/resource_source.h"
#include "proxy/forwarder.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"
#include "reconcile/reconciler.h"
#include "reconcile/runtime_client.h"

namespace alignd::cri {

// What the handlers work with. All references outlive the handlers.
struct HandlerContext {
  const admission::Node& node;
  allocation::AllocationManager& allocation;
  allocation::DevicePlugins& plugins;
  reconcile::ContainerRegistry& registry;
  reconcile::Reconciler& reconciler;
  reconcile::RuntimeClient& runtime;
  podsource::ResourceSource& resources;  // the last of it knows every container
  reconcile::Conditions& conditions;
  const cgroup::CgroupTree* pod_quotas = nullptr;  // null: pods keep their CFS quota
  // The kubelet counts the devices, and says which with every container.
  bool mirrors_devices = false;
};

// Handlers for the methods of runtime.v1 and runtime.v1alpha2 that create, change and remove
// containers and sandboxes:
//   RunPodSandbox             a pod that is known as a whole gets its grant; a refusal is said at
//                             CreateContainer, where the kubelet shows it
//   CreateContainer           decide, persist, inject
//   StartContainer            wait until nobody else is on the container's exclusive CPUs; call
//                             PreStartContainer of the plugins that want it
//   UpdateContainerResources  keep our CPU and memory sets; refuse what would change the number of
//                             exclusive CPUs, also from none
//   UpdatePodSandboxResources keep a pod with exclusive CPUs without quota; take out sets of CPUs
//                             and of memory nodes, which are each container's own
//   StopPodSandbox, RemovePodSandbox, StopContainer, RemoveContainer
//                             note it, release what nobody holds any more
//   ContainerStatus           note that the container has ended
// Callers name containers and sandboxes by their ids or, as crictl does, by the beginning of them;
// that goes to the runtime as it came.
proxy::HandlerFactory MakeContainerHandlers(HandlerContext context);

}  // namespace alignd::cri
