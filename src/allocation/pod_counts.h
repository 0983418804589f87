// What is known of a pod's devices before it is decided about, where the kubelet counts them.
#pragma once

#include <optional>
#include <string>

#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/pod/pod.h"
#include "allocation/binding_modes.h"
#include "allocation/counted_devices.h"

namespace alignd::allocation {

// What was counted for a container comes with its creation. Of a pod that is known as a whole the
// other containers may want devices, too: in container scope they are left out until they are
// created themselves; in pod scope all must be decided about together, so that what was counted for
// them has to be learnt from the kubelet. Where that fails they are decided about without it, and
// their ids are mere numbers; a pod with devices that are given as they are counted only has to
// wait. Late binding does not choose by it, but knows at once what stands behind which id.
// One thread at a time.
class PodCounts {
 public:
  // `modes`: nullopt if the kubelet counts no devices.
  PodCounts(std::optional<BindingModes> modes, TopologyManagerScope scope);

  // Whether the kubelet must be asked before `pod` can be decided about. `wanted` is the container
  // that is asked for now; empty: the pod as a whole. `counted` has what its creation said.
  bool Lacks(const admission::NodeState& state, const std::string& wanted, const Pod& pod,
             const KubeletAllocatedPod& counted) const;

  // Leaves out of `pod` who is not to be decided about now, adds to `counted` what `told` says of
  // the others (nullopt: nobody tells), and takes from them what was not counted. With `wanted`
  // empty nothing changes. Gives why the pod cannot be decided about: kUnavailable, with the
  // remedy; kInvalidArgument, naming both numbers, if the kubelet counted another one than is asked
  // for.
  std::optional<Error> Complete(const admission::NodeState& state, const std::string& wanted,
                                const std::optional<Result<KubeletAllocatedPod>>& told, Pod& pod,
                                KubeletAllocatedPod& counted);

 private:
  // As far as they are decided about together with `wanted`.
  Pod Together(const admission::NodeState& state, const std::string& wanted, Pod pod,
               const KubeletAllocatedPod& counted) const;

  const std::optional<BindingModes> modes_;
  const TopologyManagerScope scope_;
  std::string last_fault_;  // said once until it changes
};

}  // namespace alignd::allocation
