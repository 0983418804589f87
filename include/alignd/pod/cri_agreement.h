// Compares the resources that a pod's author states with those that the kubelet writes into CRI.
#pragma once

#include <string>

#include "alignd/base/result.h"
#include "alignd/pod/cri_sizes.h"
#include "alignd/pod/pod.h"

namespace alignd {

// In all functions, `author` names in errors the text that states the resources ("annotation
// alignd.io/resources"). Errors: kInvalidArgument, naming both sides.

// The cgroup parent shows the QoS class that the kubelet gave the pod. Without it, nothing is
// compared.
Result<Done> RequireQos(const Pod& pod, const std::string& author);

// If the pod's sandbox shows what the kubelet allocated for the pod, its author cannot state more,
// for its containers together or for the pod as a whole.
// (Kubelets before 1.25 or so do not show it.) `sandbox`: the sandbox's resources.
Result<Done> RequireKubeletAllocated(const Pod& pod, const CriSizes& sandbox,
                                     const std::string& author);

// The kubelet has not allocated more than the author states, either, where the sandbox shows it. If
// it has, the pod was resized, or is being resized. The sandbox's resources are without the pod's
// overhead.
// Source: kubelet pkg/kubelet/kuberuntime/kuberuntime_sandbox_linux.go, calculateSandboxResources.
Result<Done> RequireNoMoreAllocated(const Pod& pod, const CriSizes& sandbox,
                                    const std::string& author);

// The sizes that the kubelet gives the sandbox of the pod, as far as these functions compare them.
// Resources of the pod as a whole replace those of its containers.
// Source: as above; k8s.io/component-helpers/resource/helpers.go, PodRequests and PodLimits.
CriSizes SandboxSizesOf(const Pod& pod);

// The huge pages that the pod needs at its peak, by resource name.
ResourceList HugepagePeaks(const Pod& pod);

// What ResourceClaims may have added to a container's sizes in CRI (KEP-5517, the kubelet's feature
// gate DRANodeAllocatableResources). Its CPU shares never contain what a claim adds.
struct AddedByClaims {
  bool to_quota = false;   // in a Guaranteed pod, if the shares are those that the author states
  bool to_memory = false;  // and to huge pages
};

// The CPU and memory of a container in CRI must be those that the author states, and what claims
// add. Only for containers that a kubelet creates: another client may set any sizes.
Result<Done> RequireAgreement(const Container& stated, QosClass qos, const CriSizes& cri,
                              const std::string& author, const AddedByClaims& added = {});

}  // namespace alignd
