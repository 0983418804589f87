// The table of the intercepted CRI methods.
#pragma once

#include <cstddef>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/pod/shared_pool_handlers.h"
#include "allocation/allocation_manager.h"
#include "allocation/device_plugins.h"
#include "cgroup/cgroup_tree.h"
#include "dra/claimed_devices.h"
#include "host/event_loop.h"
#include "podsource/resource_source.h"
#include "proxy/forwarder.h"
#include "reconcile/cdi_names.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"
#include "reconcile/reconciler.h"
#include "reconcile/runtime_client.h"
#include "sync/task_queue.h"

namespace alignd::cri {

// What the handlers work with. All references outlive the handlers.
struct HandlerContext {
  const admission::Node& node;
  allocation::AllocationManager& allocation;
  allocation::DevicePlugins& plugins;
  reconcile::ContainerRegistry& registry;
  reconcile::Reconciler& reconciler;
  reconcile::RuntimeClient& runtime;
  podsource::ResourceSource& resources;  // knows every container, with an estimate if need be
  reconcile::Conditions& conditions;
  // The forwarder's loop. All steps of all handlers run on its thread, which must not block.
  host::EventLoop& events;
  TaskQueue& io;  // may block: cgroup files
  const cgroup::CgroupTree& cgroups;
  bool lifts_pod_quotas = true;  // otherwise, pods keep their CFS quota
  // The kubelet allocates the devices, and each CreateContainer names them.
  bool mirrors_devices = false;
  // Where devices are found that DRA has allocated; null: CPUs and memory do not follow them.
  const dra::Places* claimed_devices = nullptr;
  // Containers of these get neither exclusive CPUs nor pinned memory; null: there are none.
  const SharedPoolHandlers* shared_pool_handlers = nullptr;
  // Records the CDI names of containers; may be null.
  reconcile::CdiNames* cdi_names = nullptr;
};

// Handlers for the methods of runtime.v1 and runtime.v1alpha2 that create, change and remove
// containers and sandboxes:
//   RunPodSandbox             allocates for the whole pod if all of it is known; a refusal is
//                             reported at CreateContainer, where the kubelet shows it
//   CreateContainer           decides, persists, injects
//   RestorePod                decides about each of its containers as CreateContainer does
//   StartContainer            waits until no other container is on the container's exclusive CPUs;
//                             calls PreStartContainer of the plugins that require it
//   UpdateContainerResources  keeps the assigned CPU and memory sets; resizes exclusive CPUs to
//                             another number, also to shared CPUs and from them
//   UpdatePodSandboxResources keeps a pod with exclusive CPUs without quota; removes sets of CPUs
//                             and of memory nodes, which each container has for itself; refuses a
//                             resize of exclusive CPUs that is not possible
//   StopPodSandbox, RemovePodSandbox, StopContainer, RemoveContainer
//                             record it, and release what no container needs any more
//   ContainerStatus           records that the container has ended
//   RuntimeConfig             answers with the runtime's cgroup driver if the runtime does not
//                             implement the method
// and, with UNIMPLEMENTED, for every method that may create a container and is not among them:
// unsupported.h. The other methods of CRI pass as they come.
// A request that cannot be parsed ends with INVALID_ARGUMENT.
// Callers name containers and sandboxes by their ids or, as crictl does, by a prefix of the id.
// Requests go to the runtime with the name that the caller used.
proxy::HandlerFactory MakeContainerHandlers(HandlerContext context);

// About the bytes of memory that this request takes once it is parsed, at most a little more than
// rpc::kMaxParsedRequestBytes. 0 if the method is not intercepted. `path`:
// "/runtime.v1.RuntimeService/CreateContainer".
size_t ParsedBytes(const std::string& path, const std::string& request);

}  // namespace alignd::cri
