// What a container or a pod requests of each zone, by resource, as scores are computed. Private to
// the core.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "alignd/base/quantity.h"
#include "alignd/noderesourcetopology/zones.h"
#include "alignd/pod/pod.h"

namespace alignd::placement {

// One requested resource.
struct ScoredRequest {
  Quantity amount;
  // By zone: what is available; nullopt: the zone does not have the resource.
  std::vector<std::optional<int64_t>> available;
};

// In the order of their names.
std::vector<ScoredRequest> ScoredRequests(const ResourceList& requests,
                                          const std::vector<noderesourcetopology::Zone>& zones);

// The larger one of: the app containers together, and each init container, by resource. A sidecar
// counts as an init container.
// Source: scheduler-plugins pkg/util/resource.go, GetPodEffectiveRequest.
ResourceList EffectiveRequest(const Pod& pod);

// Source: scheduler-plugins pkg/noderesourcetopology/least_numa.go.
int64_t LeastNumaNodesScore(const Pod& pod, bool is_pod_scope,
                            std::vector<noderesourcetopology::Zone> zones);

}  // namespace alignd::placement
