// What a pod's author says of its resources, held against what the kubelet made of them in CRI.
#pragma once

#include <string>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::podsource {

// `author` names the text that states them in errors ("annotation alignd.io/resources"). Errors:
// kInvalidArgument, naming both sides.

// The cgroup parent is the kubelet's word about the pod's QoS class; nothing to compare without it.
Result<Done> RequireQos(const Pod& pod, const std::string& author);

// A pod whose sandbox shows what the kubelet counted for it cannot get more by what its author
// says. (Kubelets before 1.25 or so do not show it.)
Result<Done> RequireKubeletAllocated(const Pod& pod,
                                     const runtime::v1::LinuxContainerResources& counted,
                                     const std::string& author);

// The huge pages that the pod needs at its peak, by resource name.
ResourceList HugepagePeaks(const Pod& pod);

// What the kubelet made of cpu and memory must be what the author says. Only for containers that a
// kubelet sized; another client states what it likes.
Result<Done> RequireAgreement(const Container& stated, QosClass qos,
                              const runtime::v1::LinuxContainerResources& cri,
                              const std::string& author);

}  // namespace alignd::podsource
