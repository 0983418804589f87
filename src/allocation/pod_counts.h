// What is known of a pod's devices before it is decided about, where the kubelet counts them.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/pod/pod.h"
#include "allocation/binding_modes.h"
#include "allocation/counted_devices.h"

namespace alignd::allocation {

// What the kubelet counted for the containers of a pod, by its UID; of those that want nothing
// there is nothing. May block on a disk.
using CountsOfPod = std::function<Result<CountedPod>(const std::string& pod_uid)>;

// From kubelet_internal_checkpoint in the kubelet's device plugin directory. The kubelet admits all
// containers of a pod, and has written there what it counted for them, before it makes the first.
// Errors: as host::ReadFile; kCorrupt.
// Source: kubelet pkg/kubelet/cm/devicemanager/manager.go, allocateContainerResources.
Result<CountedPod> ReadKubeletCounts(const std::filesystem::path& file, const std::string& pod_uid);

// What was counted for a container comes with its creation. Of a pod that is known as a whole the
// other containers may want devices, too: in container scope they are left out until they are
// created themselves; in pod scope all must be decided about together, so that what was counted for
// them is learnt from `counts`. Where that fails they are decided about without it, and their ids
// are mere numbers; a pod with devices that are given as they are counted only has to wait. Late
// binding does not choose by it, but knows at once what stands behind which id.
// One thread at a time.
class PodCounts {
 public:
  // `modes`: nullopt if the kubelet counts no devices. `counts` may be empty: nobody tells.
  PodCounts(std::optional<BindingModes> modes, TopologyManagerScope scope, CountsOfPod counts);

  // `wanted` is the container that is asked for now; empty: the pod as a whole, which is left as it
  // is. `counted` has what its creation said. Gives why the pod cannot be decided about
  // (kUnavailable), with the cure.
  std::optional<Error> Complete(const admission::NodeState& state, const std::string& wanted,
                                Pod& pod, CountedPod& counted);

 private:
  const std::optional<BindingModes> modes_;
  const TopologyManagerScope scope_;
  const CountsOfPod counts_;
  std::string last_fault_;  // said once until it changes
};

}  // namespace alignd::allocation
