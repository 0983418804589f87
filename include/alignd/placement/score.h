// The scores with which topology-aware schedulers choose between nodes that can take a pod.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "alignd/placement/manifest.h"
#include "alignd/placement/planned_node.h"

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
// Of what LeastNUMANodes gives per NUMA node: the plugin's DefaultMaxNUMANodes. A node with more
// NUMA nodes has its number of them in its topology object, as topologyManagerMaxNUMANodes.
inline constexpr int kDefaultScoredNumaNodes = 8;
// So many sets of NUMA nodes are compared at most for one pod. The plugin has no limit: with 64
// NUMA nodes it would not end.
inline constexpr int64_t kMaxComparedSets = 100'000;
// The plugin passes over NUMA nodes with ids above it: its maxNUMAId.
inline constexpr int kMaxScoredNumaId = 63;

// Whether nodes can be scored before they are asked: Score does not read `fitting`, and takes less
// time than a decision, also for a pod that does not fit.
bool IsScoredFirst(ScoreStrategy strategy);

// The score of the node for a pod that it can take: 0 to 100, the higher the better. `fitting` is
// what Ask has answered about the pod.
//
// LeastAllocated, MostAllocated, BalancedAllocation and LeastNUMANodes are those of the plugin
// NodeResourceTopologyMatch, of the zones that `alignctl topology -o nrt` shows. A pod that is not
// Guaranteed scores 100 on all nodes. The first three score a node 0 unless its policy is
// single-numa-node. All weights are 1, the plugin's default. With topology scope pod, the pod's
// overhead counts.
// Source: kubernetes-sigs/scheduler-plugins pkg/noderesourcetopology: score.go, least_allocated.go,
// most_allocated.go, balanced_allocation.go, least_numa.go, numaresources.go, pluginhelpers.go,
// nodeconfig/topologymanager.go; pkg/util/resource.go, GetPodEffectiveRequest.
// Differs: resources are added in the order of their names, where a Go map has no order; NUMA nodes
// are taken by position where the plugin takes an id for a position (it panics if ids have gaps, or
// with id 64); without any request, and for the variance of a single one, the plugin divides by 0;
// LeastNUMANodes scores a node 0 where more than kMaxComparedSets sets would be compared.
//
// Koordinator's are those of its plugin NodeNUMAResource, for a pod with exclusive CPUs or without:
// the share of CPUs and memory that is requested, with the pod, of the NUMA nodes that the pod is
// assigned. With topology policy none, and for a pod that is assigned nothing of a NUMA node, of
// the whole node. For a pod with exclusive CPUs, the exclusive CPUs of all NUMA nodes count against
// those of the assigned ones, as in the plugin. A pod without requests scores 0.
// Source: koordinator-sh/koordinator pkg/scheduler/plugins/nodenumaresource: scoring.go,
// least_allocated.go, most_allocated.go, node_allocation.go; apis/config/v1/defaults.go: weights.
int64_t Score(ScoreStrategy strategy, const PlannedNode& node, const PlannedPod& pod,
              const Verdict& fitting);

// What is available of each NUMA node, as the strategies of IsScoredFirst read it. For scores of
// many pods, it is computed once.
std::vector<ResourceList> AvailableForScore(const PlannedNode& node);

// As Score, of a strategy of IsScoredFirst. `available`: of the node.
int64_t ScoreFirst(ScoreStrategy strategy, const PlannedNode& node,
                   const std::vector<ResourceList>& available, const PlannedPod& pod);

}  // namespace alignd::placement
