// Completes a pod with the ids that the kubelet allocated to its other containers.
#pragma once

#include <optional>
#include <string>

#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/pod/pod.h"
#include "allocation/admission_request.h"
#include "mirror/binding_modes.h"
#include "mirror/kubelet_allocated.h"

namespace alignd::mirror {

// A container's creation says which ids the kubelet allocated to it, but not those of the pod's
// other containers.
// - Container scope: containers with devices are left out until their own creation, unless all
//   their resources are kDeferred.
// - Pod scope: all containers are decided together, so that the ids of the others are read from the
//   kubelet's checkpoint. If that fails, only the number of devices is used. A container with a
//   kStrict resource then has to wait.
// kDeferred does not choose by the ids, but binds them at once.
// One thread at a time.
class PodCompletion {
 public:
  // `modes`: nullopt if the kubelet allocates no devices; nothing changes then.
  PodCompletion(std::optional<BindingModes> modes, TopologyManagerScope scope);

  // Whether the kubelet's checkpoint must be read before the pod can be decided. False if the
  // request is for the pod as a whole.
  bool MustLearn(const admission::NodeState& state,
                 const allocation::AdmissionRequest& request) const;

  // Removes from the pod the containers that are not decided now, adds what was `learned` about the
  // others, and drops their devices that the kubelet did not allocate. A request for the pod as a
  // whole does not change. `learned`: nullopt if it did not have to be read.
  // Errors: kUnavailable, with the remedy; kInvalidArgument, naming both numbers, if the kubelet
  // allocated another number than the limits ask for.
  Result<Done> Complete(const admission::NodeState& state,
                        const std::optional<Result<KubeletAllocatedPod>>& learned,
                        allocation::AdmissionRequest& request);

 private:
  // The containers of the pod that are decided together with the wanted one.
  Pod DecidedTogether(const admission::NodeState& state,
                      const allocation::AdmissionRequest& request) const;

  const std::optional<BindingModes> modes_;
  const TopologyManagerScope scope_;
  std::string last_fault_;  // logged once until it changes
};

}  // namespace alignd::mirror
