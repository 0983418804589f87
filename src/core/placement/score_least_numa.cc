// The score LeastNUMANodes, and what all scores of zones are computed from.
#include <algorithm>
#include <cstddef>

#include "alignd/base/numa_mask.h"
#include "alignd/placement/score.h"
#include "core/placement/score_request.h"

namespace alignd::placement {
namespace {

using noderesourcetopology::Zone;
using Combination = std::vector<size_t>;  // positions of zones, ascending

// SLIT's "unreachable": what the plugin takes for a distance that is not known.
constexpr int kNoDistance = 255;

float MeanDistance(const std::vector<Zone>& zones, const Combination& nodes) {
  int sum = 0;
  for (const size_t from : nodes) {
    for (const size_t to : nodes) {
      const auto& costs = zones[from].costs;
      const auto found = std::ranges::find(costs, zones[to].numa_id, &std::pair<int, int>::first);
      sum += found == costs.end() ? kNoDistance : found->second;
    }
  }
  return static_cast<float>(sum) / static_cast<float>(nodes.size() * nodes.size());
}

// All sets of that size, in the lexical order of their positions.
std::vector<Combination> CombinationsOf(size_t zones, size_t size) {
  std::vector<Combination> all;
  Combination next(size);
  for (size_t i = 0; i < size; ++i) next[i] = i;
  for (;;) {
    all.push_back(next);
    size_t i = size;
    while (i > 0 && next[i - 1] == zones - size + i - 1) --i;
    if (i == 0) return all;
    ++next[i - 1];
    for (; i < size; ++i) next[i] = next[i - 1] + 1;
  }
}

bool Fits(const std::vector<ScoredRequest>& requests, const Combination& nodes) {
  for (const ScoredRequest& request : requests) {
    Quantity sum;
    for (const size_t node : nodes) {
      // The plugin wants each NUMA node to have each resource.
      if (!request.available[node]) return false;
      sum += Quantity(*request.available[node]);
    }
    if (!request.amount.IsZero() && sum < request.amount) return false;
  }
  return true;
}

struct Required {
  Combination nodes;  // empty: the request fits nowhere
  bool is_closest = false;
};

// The smallest set of NUMA nodes with the requested amounts; of these, the closest.
Required NodesRequired(const std::vector<ScoredRequest>& requests, const std::vector<Zone>& zones) {
  for (size_t size = 1; size <= zones.size(); ++size) {
    const std::vector<Combination> all = CombinationsOf(zones.size(), size);
    float least = kNoDistance;
    for (const Combination& nodes : all) least = std::min(least, MeanDistance(zones, nodes));
    Required found;
    float distance_found = kNoDistance + 1;
    for (const Combination& nodes : all) {
      if (!Fits(requests, nodes)) continue;
      const float distance = MeanDistance(zones, nodes);
      if (distance == least) return {nodes, true};
      if (distance < distance_found) {
        distance_found = distance;
        found.nodes = nodes;
      }
    }
    if (!found.nodes.empty()) return found;
  }
  return {};
}

// Takes the amounts from the first NUMA nodes of the set that have some.
void Subtract(const ResourceList& requests, const Combination& nodes, std::vector<Zone>& zones) {
  for (const auto& [resource, requested] : requests) {
    auto rest = static_cast<uint64_t>(std::max<int64_t>(requested.Value(), 0));
    for (const size_t node : nodes) {
      const auto found = zones[node].resources.find(resource);
      if (found == zones[node].resources.end()) continue;
      const uint64_t taken = std::min(rest, found->second.available);
      found->second.available -= taken;
      rest -= taken;
    }
  }
}

bool HasAnyOf(const ResourceList& requests, const std::vector<Zone>& zones) {
  return std::ranges::any_of(requests, [&](const auto& request) {
    return std::ranges::any_of(
        zones, [&](const Zone& zone) { return zone.resources.contains(request.first); });
  });
}

int64_t NormalizedScore(size_t nodes, bool is_closest) {
  constexpr int64_t kPerNode = kMaxNodeScore / kMaxScoredNumaNodes;
  return kMaxNodeScore - static_cast<int64_t>(nodes) * kPerNode + (is_closest ? kPerNode / 2 : 0);
}

}  // namespace

std::vector<ScoredRequest> ScoredRequests(const ResourceList& requests,
                                          const std::vector<Zone>& zones) {
  std::vector<ScoredRequest> scored;
  for (const auto& [resource, amount] : requests) {
    ScoredRequest& request = scored.emplace_back();
    request.amount = amount;
    for (const Zone& zone : zones) {
      const auto found = zone.resources.find(resource);
      request.available.push_back(found == zone.resources.end()
                                      ? std::nullopt
                                      : std::optional(static_cast<int64_t>(std::min<uint64_t>(
                                            found->second.available, INT64_MAX))));
    }
  }
  return scored;
}

ResourceList EffectiveRequest(const Pod& pod) {
  ResourceList apps;
  ResourceList inits;
  for (const Container& container : pod.containers) {
    for (const auto& [resource, amount] : container.resources.requests) {
      if (container.kind == ContainerKind::kApp) {
        apps[resource] += amount;
      } else {
        inits[resource] = std::max(inits[resource], amount);
      }
    }
  }
  for (const auto& [resource, amount] : inits) apps[resource] = std::max(apps[resource], amount);
  return apps;
}

int64_t LeastNumaNodesScore(const Pod& pod, bool is_pod_scope, std::vector<Zone> zones) {
  std::vector<ResourceList> all;
  if (is_pod_scope) {
    all.push_back(EffectiveRequest(pod));
  } else {
    for (const Container& container : pod.containers) {
      all.push_back(container.resources.requests);
    }
  }
  size_t most = 0;
  bool are_closest = true;
  for (const ResourceList& requests : all) {
    if (!HasAnyOf(requests, zones)) continue;
    const Required required = NodesRequired(ScoredRequests(requests, zones), zones);
    if (required.nodes.empty()) return 0;
    are_closest = are_closest && required.is_closest;
    most = std::max(most, required.nodes.size());
    Subtract(requests, required.nodes, zones);
  }
  return most == 0 ? kMaxNodeScore : NormalizedScore(most, are_closest);
}

}  // namespace alignd::placement
