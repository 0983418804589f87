// What a container or a pod requests of each zone, by resource, as scores are computed. Private to
// the core.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "alignd/base/quantity.h"
#include "alignd/noderesourcetopology/zones.h"
#include "alignd/placement/manifest.h"
#include "alignd/pod/pod.h"

namespace alignd::placement {

// One requested resource.
struct ScoredRequest {
  Quantity amount;
  // By zone: what is available; nullopt: the zone does not have the resource.
  std::vector<std::optional<Quantity>> available;
};

// What is available of each zone, by resource.
std::vector<ResourceList> AvailableIn(const std::vector<noderesourcetopology::Zone>& zones);

// In the order of their names. `available`: by zone.
std::vector<ScoredRequest> ScoredRequests(const ResourceList& requests,
                                          const std::vector<ResourceList>& available);

// The larger one of: the app containers together, and each init container, by resource; and the
// pod's overhead. A sidecar counts as an init container.
// Source: scheduler-plugins pkg/util/resource.go, GetPodEffectiveRequest.
ResourceList EffectiveRequest(const PlannedPod& pod);

// Source: scheduler-plugins pkg/noderesourcetopology/least_numa.go.
// `numa_nodes`: how many the node has, also those without a zone.
int64_t LeastNumaNodesScore(const PlannedPod& pod, bool is_pod_scope, int numa_nodes,
                            const std::vector<noderesourcetopology::Zone>& zones);

}  // namespace alignd::placement
