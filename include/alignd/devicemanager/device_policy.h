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
// Source: kubelet pkg/kubelet/cm/devicemanager/topology_hints.go, GetTopologyHints.
topologymanager::HintsByResource ContainerHints(const Machine& machine, const DeviceState& state,
                                                const Pod& pod, const Container& container);

// Source: topology_hints.go, GetPodTopologyHints.
topologymanager::HintsByResource PodHints(const Machine& machine, const DeviceState& state,
                                          const Pod& pod);

// Gives the container its devices; their `response` stays empty until the plugin has answered.
// Deterministic where the kubelet chooses at random: resources by name, devices by id.
// Returns why not, or nullopt; after a refusal `state` is to be thrown away.
// Source: manager.go, Allocate, allocateContainerResources, devicesToAllocate.
std::optional<Refusal> Allocate(const Machine& machine, const Pod& pod, const Container& container,
                                const topologymanager::TopologyHint& affinity,
                                const PreferredAllocationFn& preferred, DeviceState& state);

void ReleaseContainer(const ContainerKey& key, DeviceState& state);
void ReleasePod(const std::string& pod_uid, DeviceState& state);

// Broken invariants, one sentence each: no device held by two pods, none held twice within a pod by
// containers that run at the same time is known to us only through reuse.
std::vector<std::string> BrokenInvariants(const DeviceState& state);

}  // namespace alignd::devicemanager
