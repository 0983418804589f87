// The scores with which topology-aware schedulers choose between nodes that can take a pod.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "alignd/placement/planned_node.h"
#include "alignd/pod/pod.h"

namespace alignd::placement {

enum class ScoreStrategy {
  kByLeastAllocated,
  kByMostAllocated,
  kByBalancedAllocation,
  kByLeastNumaNodes,
  kByKoordinatorLeastAllocated,
  kByKoordinatorMostAllocated,
};

// "LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes",
// "KoordinatorLeastAllocated", "KoordinatorMostAllocated".
std::string_view ToString(ScoreStrategy strategy);
const std::vector<ScoreStrategy>& AllScoreStrategies();
// nullopt: there is no such strategy.
std::optional<ScoreStrategy> ScoreStrategyOf(std::string_view text);

inline constexpr int64_t kMaxNodeScore = 100;
// With more NUMA nodes, LeastNUMANodes scores a node 0: the plugin's highestNUMAID.
inline constexpr int kMaxScoredNumaNodes = 8;

// The score of the node for a pod that it can take: 0 to 100, the higher the better. `fitting` is
// what Ask has answered about the pod.
//
// LeastAllocated, MostAllocated, BalancedAllocation and LeastNUMANodes are those of the plugin
// NodeResourceTopologyMatch, of the zones that `alignctl topology -o nrt` shows. A pod that is not
// Guaranteed scores 100 on all nodes. The first three score a node 0 unless its policy is
// single-numa-node. All weights are 1, the plugin's default.
// Source: kubernetes-sigs/scheduler-plugins pkg/noderesourcetopology: score.go, least_allocated.go,
// most_allocated.go, balanced_allocation.go, least_numa.go, numaresources.go; pkg/util/resource.go,
// GetPodEffectiveRequest.
// Differs: resources are added in the order of their names, where a Go map has no order; LeastNUMA
// takes NUMA nodes by position where the plugin takes an id for a position; without any request,
// and for the variance of a single one, the plugin divides by 0.
//
// Koordinator's are those of its plugin NodeNUMAResource, for a pod with exclusive CPUs: the
// requested share of CPUs and memory, with the pod, on the NUMA nodes that the pod is assigned;
// with topology policy none, of all CPUs. Other pods score 0 with topology policy none.
// Source: koordinator-sh/koordinator pkg/scheduler/plugins/nodenumaresource: scoring.go,
// least_allocated.go, most_allocated.go.
int64_t Score(ScoreStrategy strategy, const PlannedNode& node, const Pod& pod,
              const Verdict& fitting);

}  // namespace alignd::placement
