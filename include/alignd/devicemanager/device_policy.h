// The device manager: hints, allocation, release. Pure functions; a plugin's preference comes in as
// a function, its Allocate is called by others once everything is decided.
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

// What a plugin is asked for its preference.
struct PreferenceQuery {
  std::string resource;
  std::vector<std::string> available;     // sorted; includes must_include
  std::vector<std::string> must_include;  // sorted
  int size = 0;                           // devices wanted in all

  friend bool operator==(const PreferenceQuery&, const PreferenceQuery&) = default;
  friend auto operator<=>(const PreferenceQuery&, const PreferenceQuery&) = default;
};

// The plugin's answer, or nullopt for "no preference". Asked only for resources with
// prefers_allocation. Ids that are not available are ignored.
using PreferredAllocationFn =
    std::function<std::optional<std::vector<std::string>>(const PreferenceQuery&)>;

// The device hints of one container, one entry per requested registered resource.
// Differs: a held device that its plugin no longer lists counts as one without topology; the
// kubelet panics. Source: kubelet pkg/kubelet/cm/devicemanager/topology_hints.go, GetTopologyHints.
topologymanager::HintsByResource ContainerHints(const Machine& machine, const DeviceState& state,
                                                const Pod& pod, const Container& container);

// Source: topology_hints.go, GetPodTopologyHints.
topologymanager::HintsByResource PodHints(const Machine& machine, const DeviceState& state,
                                          const Pod& pod);

// Gives the container its devices; their `response` stays empty until the plugin has answered.
// Deterministic where the kubelet chooses at random: resources by name, devices by id.
// Returns why not, or nullopt; after a refusal `state` is to be thrown away.
// Differs: what a container holds it keeps, even if its plugin is gone or the device is unhealthy;
// devices that an init container leaves are reused only while they are healthy.
// Source: manager.go, Allocate, allocateContainerResources, devicesToAllocate.
std::optional<Refusal> Allocate(const Machine& machine, const Pod& pod, const Container& container,
                                const topologymanager::TopologyHint& affinity,
                                const PreferredAllocationFn& preferred, DeviceState& state);

// Gives back what one container holds; devices that another container of its pod holds too stay
// allocated. Nothing happens for an unknown container.
void ReleaseContainer(const ContainerKey& key, DeviceState& state);
void ReleasePod(const std::string& pod_uid, DeviceState& state);

// Broken invariants, one sentence each: no device held by two pods, none held twice within a pod by
// containers that run at the same time is known to us only through reuse.
std::vector<std::string> BrokenInvariants(const DeviceState& state);

}  // namespace alignd::devicemanager
