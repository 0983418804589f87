// What the kubelet's own checkpoint says of devices: which it counted for containers, and what
// these hold of plugins that have been the kubelet's.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/checkpoint/binding_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "allocation/counted_devices.h"

namespace alignd::allocation {

// Where it is to be learnt. Both are called on a thread that may block on a disk.
struct KubeletDevices {
  std::function<Result<checkpoint::DeviceCheckpoint>()> read;
  // Whether the answer of a plugin, a serialised ContainerAllocateResponse, is one that we gave:
  // the ids beside it are what the kubelet counted, and not what the container has.
  std::function<bool(const std::string& response)> is_ours;
};

// `file`: kubelet_internal_checkpoint in the kubelet's device plugin directory. The kubelet admits
// all containers of a pod, and has written there what it counted for them, before it makes the
// first. Errors: as host::ReadFile; kCorrupt.
// Source: kubelet pkg/kubelet/cm/devicemanager/manager.go, allocateContainerResources.
Result<checkpoint::DeviceCheckpoint> ReadKubeletCheckpoint(const std::filesystem::path& file);

// What the kubelet counted for the containers of a pod; of those that want nothing there is
// nothing.
KubeletAllocatedPod CountsOf(const checkpoint::DeviceCheckpoint& kubelets,
                             const std::string& pod_uid);

// Without those that we answered ourselves: what is left was given by the kubelet's own plugins.
checkpoint::DeviceCheckpoint OfItsPlugins(checkpoint::DeviceCheckpoint kubelets,
                                          const std::function<bool(const std::string&)>& is_ours);

struct TakenOver {
  checkpoint::Bindings bound;              // each id to itself: the kubelet had counted just these
  std::vector<std::string> contradictory;  // sentences about what could not be taken over
};

// The plugin of `resource` has come from the kubelet: adds to `state` what containers hold of it,
// with the plugin's answers. Those that hold just this already, for the kubelet's file was copied
// over, are bound as well, unless they are in `bindings`. What another pod holds is left to that.
// `only`, where given, is the one container to look at.
TakenOver TakeOver(const checkpoint::DeviceCheckpoint& of_its_plugins, const std::string& resource,
                   const checkpoint::Bindings& bindings, admission::NodeState& state,
                   const ContainerKey* only = nullptr);

}  // namespace alignd::allocation
