// What a pod requests as a whole.
#pragma once

#include <vector>

#include "alignd/pod/pod.h"

namespace alignd {

// The amounts that the containers need at the same time: the app containers and sidecars together,
// or at the start an init container and the sidecars before it, whichever is more.
// Source: k8s.io/component-helpers/resource/helpers.go, AggregateContainerRequests.
ResourceList RequestsOfContainers(const std::vector<Container>& containers);

// What the scheduler counts for the pod: the requests of its containers, in place of them those at
// pod level (cpu, memory, huge pages), and `overhead`, that of its RuntimeClass.
// Source: k8s.io/component-helpers/resource/helpers.go, PodRequests.
ResourceList RequestsOfPod(const Pod& pod, const ResourceList& overhead);

}  // namespace alignd
