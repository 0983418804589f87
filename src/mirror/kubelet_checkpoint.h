// What the kubelet's own checkpoint says of devices: the ids that it allocated to containers, and
// the devices that its own plugins assigned to them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/checkpoint/binding_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "mirror/kubelet_allocated.h"

namespace alignd::mirror {

// Where the checkpoint comes from. Both functions may block.
struct KubeletCheckpoint {
  std::function<Result<checkpoint::DeviceCheckpoint>()> read;
  // Whether a plugin's answer, a serialised ContainerAllocateResponse, was made by the mirror. The
  // ids beside it are then the kubelet's, not the container's devices.
  std::function<bool(const std::string& response)> is_mirrors;
};

// `file`: kubelet_internal_checkpoint in the kubelet's device plugin directory. The kubelet admits
// all containers of a pod, and writes what it allocated to them, before it creates the first one.
// Errors: as host::ReadFile; kCorrupt.
// Source: kubelet pkg/kubelet/cm/devicemanager/manager.go, allocateContainerResources.
Result<checkpoint::DeviceCheckpoint> ReadKubeletCheckpoint(const std::filesystem::path& file);

// The ids that the kubelet allocated to the pod's containers. Containers without devices are
// absent.
KubeletAllocatedPod AllocatedTo(const checkpoint::DeviceCheckpoint& kubelets,
                                const std::string& pod_uid);

// Without the entries whose answer is the mirror's: the rest was assigned by the kubelet's plugins.
checkpoint::DeviceCheckpoint WithoutMirrors(
    checkpoint::DeviceCheckpoint kubelets,
    const std::function<bool(const std::string&)>& is_mirrors);

struct TakenOver {
  checkpoint::Bindings bound;          // each id to the device of the same name
  std::vector<std::string> conflicts;  // sentences about devices that could not be taken over
};

// The plugin of `resource` was registered with the kubelet and is now registered with alignd: adds
// the containers' devices to `state`, with the plugin's answers. Containers with the same devices
// in `state` already, because the kubelet's file was copied, are bound if they are not in
// `bindings`. A device that another pod is assigned stays with that pod. `only`: this container
// alone, if given.
TakenOver TakeOver(const checkpoint::DeviceCheckpoint& of_kubelets_plugins,
                   const std::string& resource, const checkpoint::Bindings& bindings,
                   admission::NodeState& state, const ContainerKey* only = nullptr);

}  // namespace alignd::mirror
