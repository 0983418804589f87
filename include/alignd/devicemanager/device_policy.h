// The device manager: hints, allocation, release. Pure functions. The preference of a plugin is an
// argument. The caller calls the plugin's Allocate after the decision.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "alignd/devicemanager/device_state.h"
#include "alignd/machine/machine.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::devicemanager {

// The query for the preference of a plugin.
struct PreferenceQuery {
  std::string resource;
  std::vector<std::string> available;     // sorted; includes must_include
  std::vector<std::string> must_include;  // sorted
  int size = 0;                           // total number of devices

  friend bool operator==(const PreferenceQuery&, const PreferenceQuery&) = default;
  friend auto operator<=>(const PreferenceQuery&, const PreferenceQuery&) = default;
};

// The plugin's answer, or nullopt for "no preference". Called only for resources with
// prefers_allocation. Ids that are not available are ignored.
using PreferredAllocationFn =
    std::function<std::optional<std::vector<std::string>>(const PreferenceQuery&)>;

// The device hints of one container, one entry per requested registered resource.
// Differs: an allocated device that its plugin no longer lists has no topology; the kubelet panics.
// Source: kubelet pkg/kubelet/cm/devicemanager/topology_hints.go, GetTopologyHints.
topologymanager::HintsByResource ContainerHints(const Machine& machine, const DeviceState& state,
                                                const Pod& pod, const Container& container);

// Source: topology_hints.go, GetPodTopologyHints.
topologymanager::HintsByResource PodHints(const Machine& machine, const DeviceState& state,
                                          const Pod& pod);

// Allocates the container's devices; their `response` stays empty until the plugin has answered.
// Deterministic where the kubelet chooses at random: resources by name, devices by id.
// Returns the refusal, or nullopt. After a refusal, discard `state`.
// Differs: a container keeps its devices even if the plugin is not registered or a device is
// unhealthy. Devices of ended init containers are reused only if they are healthy.
// Source: manager.go, Allocate, allocateContainerResources, devicesToAllocate.
std::optional<Refusal> Allocate(const Machine& machine, const Pod& pod, const Container& container,
                                const topologymanager::TopologyHint& affinity,
                                const PreferredAllocationFn& preferred, DeviceState& state);

// Releases all devices of the pod. An unknown pod is ignored.
void ReleasePod(const std::string& pod_uid, DeviceState& state);

// Broken invariants, one sentence each; empty if the state is valid: no device is allocated to two
// pods.
std::vector<std::string> BrokenInvariants(const DeviceState& state);

}  // namespace alignd::devicemanager
