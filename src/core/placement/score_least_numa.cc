// The score LeastNUMANodes, and what all scores of zones are computed from.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include "alignd/base/numa_mask.h"
#include "alignd/placement/score.h"
#include "core/placement/score_request.h"

namespace alignd::placement {
namespace {

using noderesourcetopology::Zone;
using Combination = std::vector<size_t>;  // positions of zones, ascending

// SLIT's "unreachable": what the plugin takes for a distance that is not known.
constexpr int kNoDistance = 255;

using Distances = std::vector<std::vector<int>>;

Distances DistancesOf(const std::vector<Zone>& zones) {
  Distances distances;
  for (const Zone& from : zones) {
    std::vector<int>& row = distances.emplace_back();
    for (const Zone& to : zones) {
      const auto found = std::ranges::find(from.costs, to.numa_id, &std::pair<int, int>::first);
      row.push_back(found == from.costs.end() ? kNoDistance : found->second);
    }
  }
  return distances;
}

float MeanDistance(const Distances& distances, const Combination& nodes) {
  int sum = 0;
  for (const size_t from : nodes) {
    for (const size_t to : nodes) sum += distances[from][to];
  }
  return static_cast<float>(sum) / static_cast<float>(nodes.size() * nodes.size());
}

Combination FirstOf(size_t size) {
  Combination first(size);
  for (size_t i = 0; i < size; ++i) first[i] = i;
  return first;
}

// The next set of that size in the lexical order of positions. False: there is none.
bool Advance(size_t zones, Combination& nodes) {
  const size_t size = nodes.size();
  size_t i = size;
  while (i > 0 && nodes[i - 1] == zones - size + i - 1) --i;
  if (i == 0) return false;
  ++nodes[i - 1];
  for (; i < size; ++i) nodes[i] = nodes[i - 1] + 1;
  return true;
}

// The number of sets of that size; more than `most` counts as `most` and one.
int64_t SetsOf(size_t zones, size_t size, int64_t most) {
  int64_t sets = 1;
  for (size_t i = 1; i <= std::min(size, zones - size); ++i) {
    sets = sets * static_cast<int64_t>(zones - i + 1) / static_cast<int64_t>(i);
    if (sets > most) return most + 1;
  }
  return sets;
}

// Whether the largest amounts of so many NUMA nodes are enough: without them, no set is.
bool CanFit(const std::vector<ScoredRequest>& requests, size_t zones, size_t size) {
  std::vector<bool> has_all(zones, true);
  for (const ScoredRequest& request : requests) {
    for (size_t zone = 0; zone < zones; ++zone) {
      if (!request.available[zone]) has_all[zone] = false;
    }
  }
  if (std::cmp_less(std::ranges::count(has_all, true), size)) return false;
  for (const ScoredRequest& request : requests) {
    std::vector<Quantity> amounts;
    for (size_t zone = 0; zone < zones; ++zone) {
      if (has_all[zone]) amounts.push_back(*request.available[zone]);
    }
    std::ranges::sort(amounts, std::greater());
    Quantity sum;
    for (size_t i = 0; i < size; ++i) sum += amounts[i];
    if (sum < request.amount) return false;
  }
  return true;
}

bool Fits(const std::vector<ScoredRequest>& requests, const Combination& nodes) {
  for (const ScoredRequest& request : requests) {
    Quantity sum;
    for (const size_t node : nodes) {
      // The plugin wants each NUMA node to have each resource.
      if (!request.available[node]) return false;
      sum += *request.available[node];
    }
    if (!request.amount.IsZero() && sum < request.amount) return false;
  }
  return true;
}

struct Required {
  Combination nodes;  // empty: the request fits nowhere, or too many sets would be compared
  bool is_closest = false;
};

// The smallest set of NUMA nodes with the requested amounts; of these, the closest. `sets`: how
// many may still be compared.
Required NodesRequired(const std::vector<ScoredRequest>& requests, const Distances& distances,
                       int64_t& sets) {
  const size_t zones = distances.size();
  for (size_t size = 1; size <= zones; ++size) {
    if (!CanFit(requests, zones, size)) continue;
    sets -= SetsOf(zones, size, kMaxComparedSets);
    if (sets < 0) return {};
    float least = kNoDistance;
    Combination nodes = FirstOf(size);
    do {
      least = std::min(least, MeanDistance(distances, nodes));
    } while (Advance(zones, nodes));
    Required found;
    float distance_found = kNoDistance + 1;
    nodes = FirstOf(size);
    do {
      if (!Fits(requests, nodes)) continue;
      const float distance = MeanDistance(distances, nodes);
      if (distance == least) return {nodes, true};
      if (distance < distance_found) {
        distance_found = distance;
        found.nodes = nodes;
      }
    } while (Advance(zones, nodes));
    if (!found.nodes.empty()) return found;
  }
  return {};
}

// Takes the amounts from the first NUMA nodes of the set that have some.
void Subtract(const ResourceList& requests, const Combination& nodes,
              std::vector<ResourceList>& available) {
  for (const auto& [resource, requested] : requests) {
    Quantity rest = requested;
    for (const size_t node : nodes) {
      const auto found = available[node].find(resource);
      if (found == available[node].end()) continue;
      const Quantity taken = std::min(rest, found->second);
      found->second -= taken;
      rest -= taken;
    }
  }
}

bool HasAnyOf(const ResourceList& requests, const std::vector<ResourceList>& available) {
  return std::ranges::any_of(requests, [&](const auto& request) {
    return std::ranges::any_of(
        available, [&](const ResourceList& zone) { return zone.contains(request.first); });
  });
}

int64_t NormalizedScore(size_t nodes, bool is_closest, int numa_nodes) {
  const int64_t per_node = kMaxNodeScore / std::max(kDefaultScoredNumaNodes, numa_nodes);
  return kMaxNodeScore - static_cast<int64_t>(nodes) * per_node + (is_closest ? per_node / 2 : 0);
}

}  // namespace

std::vector<ResourceList> AvailableIn(const std::vector<Zone>& zones) {
  std::vector<ResourceList> available;
  for (const Zone& zone : zones) {
    ResourceList& amounts = available.emplace_back();
    for (const auto& [resource, amount] : zone.resources) {
      const uint64_t capped = std::min<uint64_t>(amount.available, INT64_MAX);
      amounts[resource] = Quantity(static_cast<int64_t>(capped));
    }
  }
  return available;
}

std::vector<ScoredRequest> ScoredRequests(const ResourceList& requests,
                                          const std::vector<ResourceList>& available) {
  std::vector<ScoredRequest> scored;
  for (const auto& [resource, amount] : requests) {
    ScoredRequest& request = scored.emplace_back();
    request.amount = amount;
    for (const ResourceList& zone : available) {
      const Quantity* const found = Find(zone, resource);
      request.available.push_back(found == nullptr ? std::nullopt : std::optional(*found));
    }
  }
  return scored;
}

ResourceList EffectiveRequest(const PlannedPod& pod) {
  ResourceList apps;
  ResourceList inits;
  for (const Container& container : pod.pod.containers) {
    for (const auto& [resource, amount] : container.resources.requests) {
      if (container.kind == ContainerKind::kApp) {
        apps[resource] += amount;
      } else {
        inits[resource] = std::max(inits[resource], amount);
      }
    }
  }
  for (const auto& [resource, amount] : inits) apps[resource] = std::max(apps[resource], amount);
  for (const auto& [resource, amount] : pod.overhead) apps[resource] += amount;
  return apps;
}

int64_t LeastNumaNodesScore(const PlannedPod& pod, bool is_pod_scope, int numa_nodes,
                            const std::vector<Zone>& zones) {
  std::vector<ResourceList> all;
  if (is_pod_scope) {
    all.push_back(EffectiveRequest(pod));
  } else {
    for (const Container& container : pod.pod.containers) {
      all.push_back(container.resources.requests);
    }
  }
  const Distances distances = DistancesOf(zones);
  std::vector<ResourceList> available = AvailableIn(zones);
  int64_t sets = kMaxComparedSets;
  size_t most = 0;
  bool are_closest = true;
  for (const ResourceList& requests : all) {
    if (!HasAnyOf(requests, available)) continue;
    const Required required = NodesRequired(ScoredRequests(requests, available), distances, sets);
    if (required.nodes.empty()) return 0;
    are_closest = are_closest && required.is_closest;
    most = std::max(most, required.nodes.size());
    Subtract(requests, required.nodes, available);
  }
  return most == 0 ? kMaxNodeScore : NormalizedScore(most, are_closest, numa_nodes);
}

}  // namespace alignd::placement
