#include "alignd/placement/score.h"

#include <algorithm>
#include <array>
#include <utility>

#include "alignd/admission/own_policy.h"
#include "alignd/admission/pod_level.h"
#include "alignd/base/saturating_sum.h"
#include "alignd/pod/pod_requests.h"
#include "core/placement/score_request.h"

namespace alignd::placement {
namespace {

using noderesourcetopology::Amount;
using noderesourcetopology::Zone;

constexpr auto kStrategyNames = std::to_array<std::pair<ScoreStrategy, std::string_view>>({
    {ScoreStrategy::kByLeastAllocated, "LeastAllocated"},
    {ScoreStrategy::kByMostAllocated, "MostAllocated"},
    {ScoreStrategy::kByBalancedAllocation, "BalancedAllocation"},
    {ScoreStrategy::kByLeastNumaNodes, "LeastNUMANodes"},
    {ScoreStrategy::kByKoordinatorLeastAllocated, "KoordinatorLeastAllocated"},
    {ScoreStrategy::kByKoordinatorMostAllocated, "KoordinatorMostAllocated"},
});

// `part` of `whole`, in hundredths, rounded down. Both are 0 or more, `whole` is more than 0.
int64_t Percent(int64_t part, int64_t whole) {
  __extension__ typedef __int128 Int128;
  return static_cast<int64_t>(Int128{part} * kMaxNodeScore / whole);
}

// Of one resource on one NUMA node, whose available amount is whole.
int64_t AllocatedScore(bool most, const Quantity& requested, const Quantity& available) {
  if (available.IsZero() || requested > available) return 0;
  const int64_t amount = requested.Value();
  const int64_t whole = available.Value();
  return Percent(most ? amount : whole - amount, whole);
}

int64_t MeanAllocatedScore(bool most, const std::vector<ScoredRequest>& requests, size_t zone) {
  int64_t sum = 0;
  for (const ScoredRequest& request : requests) {
    sum += AllocatedScore(most, request.amount, request.available[zone].value_or(Quantity()));
  }
  return requests.empty() ? 0 : sum / static_cast<int64_t>(requests.size());
}

int64_t BalancedScore(const std::vector<ScoredRequest>& requests, size_t zone) {
  std::vector<double> fractions;
  double sum = 0;
  for (const ScoredRequest& request : requests) {
    const int64_t available = request.available[zone].value_or(Quantity()).Value();
    const double fraction = available == 0 ? 1
                                           : static_cast<double>(request.amount.Value()) /
                                                 static_cast<double>(available);
    if (fraction > 1) return 0;
    fractions.push_back(fraction);
    sum += fraction;
  }
  if (fractions.empty()) return 0;
  const auto count = static_cast<double>(fractions.size());
  // The sample variance, corrected for rounding: gonum.org/v1/gonum stat.Variance.
  double squares = 0;
  double rest = 0;
  for (const double fraction : fractions) {
    const double distance = fraction - sum / count;
    squares += distance * distance;
    rest += distance;
  }
  const double variance = count > 1 ? (squares - rest * rest / count) / (count - 1) : 0;
  return static_cast<int64_t>((1 - variance) * static_cast<double>(kMaxNodeScore));
}

// The least score of a NUMA node, without those that score 0.
int64_t LeastOfZones(ScoreStrategy strategy, const ResourceList& list,
                     const std::vector<ResourceList>& zones) {
  const std::vector<ScoredRequest> requests = ScoredRequests(list, zones);
  int64_t least = 0;
  for (size_t zone = 0; zone < zones.size(); ++zone) {
    const int64_t score =
        strategy == ScoreStrategy::kByBalancedAllocation
            ? BalancedScore(requests, zone)
            : MeanAllocatedScore(strategy == ScoreStrategy::kByMostAllocated, requests, zone);
    if (least == 0 || (score != 0 && score < least)) least = score;
  }
  return least;
}

// The zones that the plugin reads.
std::vector<Zone> ScoredZones(const PlannedNode& planned) {
  std::vector<Zone> zones = noderesourcetopology::Zones(planned.node(), planned.state());
  std::erase_if(zones, [](const Zone& zone) { return zone.numa_id > kMaxScoredNumaId; });
  return zones;
}

int64_t ScoreOfAvailable(ScoreStrategy strategy, const admission::Node& node,
                         const std::vector<ResourceList>& zones, const PlannedPod& pod) {
  if (QosOf(pod.pod) != QosClass::kGuaranteed) return kMaxNodeScore;
  if (node.config.topology_manager_policy != TopologyManagerPolicy::kSingleNumaNode) return 0;
  if (node.config.topology_manager_scope == TopologyManagerScope::kPod) {
    return LeastOfZones(strategy, EffectiveRequest(pod), zones);
  }
  const std::vector<Container>& containers = pod.pod.containers;
  int64_t sum = 0;
  for (const Container& container : containers) {
    sum += LeastOfZones(strategy, container.resources.requests, zones);
  }
  return containers.empty() ? 0 : sum / static_cast<int64_t>(containers.size());
}

int64_t LeastNumaNodes(const PlannedNode& planned, const PlannedPod& pod) {
  const admission::Node& node = planned.node();
  if (QosOf(pod.pod) != QosClass::kGuaranteed) return kMaxNodeScore;
  return LeastNumaNodesScore(pod, node.config.topology_manager_scope == TopologyManagerScope::kPod,
                             node.machine.numa_count(), ScoredZones(planned));
}

// The pod as the node manages it. A copy only if that changes it.
template <typename Use>
int64_t OnNode(const admission::Node& node, const PlannedPod& asked, Use use) {
  const PodLevelManagers managers = admission::PodLevelManagersOf(node, asked.pod);
  if (managers == asked.pod.pod_level_managers) return use(asked);
  PlannedPod pod = asked;
  pod.pod.pod_level_managers = managers;
  return use(pod);
}

// Requested and allocatable.
struct Share {
  int64_t requested = 0;
  int64_t allocatable = 0;
};

int64_t ScoreOfShares(bool most, const std::vector<Share>& shares) {
  int64_t sum = 0;
  int64_t count = 0;
  for (const Share& share : shares) {
    if (share.allocatable <= 0) continue;
    ++count;
    const int64_t used = std::min(share.requested, share.allocatable);
    sum += Percent(most ? used : share.allocatable - used, share.allocatable);
  }
  return count == 0 ? 0 : sum / count;
}

// As the scheduler counts it: CPUs in thousandths, everything else in whole units.
int64_t CountedIn(const ResourceList& list, std::string_view resource) {
  const Quantity* const amount = Find(list, resource);
  if (amount == nullptr) return 0;
  return resource == "cpu" ? amount->MilliValue() : amount->Value();
}

Share ShareOfNode(const PlannedNode& planned, std::string_view resource) {
  return {CountedIn(planned.requested().total(), resource),
          CountedIn(planned.allocatable().amounts, resource)};
}

// At most what 64 bits can hold: an object or a file can have any amount.
int64_t InUnits(uint64_t amount, int64_t unit) {
  uint64_t product = 0;
  const bool is_larger = __builtin_mul_overflow(amount, static_cast<uint64_t>(unit), &product);
  return is_larger ? INT64_MAX : static_cast<int64_t>(std::min<uint64_t>(product, INT64_MAX));
}

void AddShare(const std::vector<Zone>& zones, NumaMask nodes, const std::string& resource,
              int64_t unit, Share& share) {
  for (const int position : nodes) {
    const auto& resources = zones[static_cast<size_t>(position)].resources;
    const auto found = resources.find(resource);
    if (found == resources.end()) continue;
    const Amount& amount = found->second;
    const uint64_t free = std::min(amount.available, amount.allocatable);
    share.allocatable = SaturatingSum(share.allocatable, InUnits(amount.allocatable, unit));
    share.requested = SaturatingSum(share.requested, InUnits(amount.allocatable - free, unit));
  }
}

// The NUMA nodes that the containers are assigned something of.
NumaMask AssignedNodes(const Machine& machine, const Verdict& fitting) {
  NumaMask nodes;
  for (const auto& [container, assignment] : fitting.admission->assignments) {
    nodes = nodes | machine.NumaOf(assignment.exclusive);
    nodes =
        nodes | machine.MaskOfIds({assignment.memory_nodes.begin(), assignment.memory_nodes.end()});
    for (const auto& [resource, allocation] : assignment.devices) {
      for (const auto& [numa, ids] : allocation.devices) {
        if (numa >= 0) nodes = nodes | machine.MaskOfIds({numa});
      }
    }
  }
  return nodes;
}

bool HasExclusiveCpus(const Verdict& fitting) {
  return std::ranges::any_of(fitting.admission->assignments, [](const auto& entry) {
    return !entry.second.KeptFromOthers().empty();
  });
}

// The exclusive CPUs of the node's other pods, wherever they are.
int64_t AllocatedMilliCpus(const cpumanager::CpuState& state) {
  CpuSet allocated;
  for (const auto& [uid, containers] : state.assignments) allocated |= state.HeldBy(uid);
  for (const auto& [uid, whole] : state.pods) allocated |= whole;
  return int64_t{1000} * allocated.Count();
}

int64_t KoordinatorScore(bool most, const PlannedNode& planned, const PlannedPod& pod,
                         const Verdict& fitting) {
  const admission::Node& node = planned.node();
  const ResourceList requests = RequestsOfPod(pod.pod, pod.overhead);
  if (std::ranges::all_of(requests, [](const auto& entry) { return entry.second.IsZero(); })) {
    return 0;
  }
  const bool by_numa = admission::TopologyOf(node, pod.pod).kind() != TopologyManagerPolicy::kNone;
  const NumaMask nodes = by_numa ? AssignedNodes(node.machine, fitting) : NumaMask();
  Share cpu;
  Share memory;
  if (nodes.empty()) {
    cpu = ShareOfNode(planned, "cpu");
    memory = ShareOfNode(planned, "memory");
  } else {
    const std::vector<Zone> zones = noderesourcetopology::Zones(node, planned.state());
    AddShare(zones, nodes, "cpu", 1000, cpu);
    AddShare(zones, nodes, "memory", 1, memory);
  }
  if (by_numa && HasExclusiveCpus(fitting)) {
    cpu.requested = AllocatedMilliCpus(planned.state().cpu);
  }
  // A pod can request as much of two things together.
  cpu.requested = SaturatingSum(cpu.requested, CountedIn(requests, "cpu"));
  memory.requested = SaturatingSum(memory.requested, CountedIn(requests, "memory"));
  return ScoreOfShares(most, {cpu, memory});
}

}  // namespace

std::string_view ToString(ScoreStrategy strategy) {
  for (const auto& [known, name] : kStrategyNames) {
    if (known == strategy) return name;
  }
  return "";
}

const std::vector<ScoreStrategy>& AllScoreStrategies() {
  static const std::vector<ScoreStrategy> all = [] {
    std::vector<ScoreStrategy> strategies;
    for (const auto& [strategy, name] : kStrategyNames) strategies.push_back(strategy);
    return strategies;
  }();
  return all;
}

std::optional<ScoreStrategy> ScoreStrategyOf(std::string_view text) {
  for (const auto& [strategy, name] : kStrategyNames) {
    if (name == text) return strategy;
  }
  return std::nullopt;
}

bool IsScoredFirst(ScoreStrategy strategy) {
  // LeastNUMANodes searches until a set of NUMA nodes has enough.
  return strategy == ScoreStrategy::kByLeastAllocated ||
         strategy == ScoreStrategy::kByMostAllocated ||
         strategy == ScoreStrategy::kByBalancedAllocation;
}

int64_t Score(ScoreStrategy strategy, const PlannedNode& node, const PlannedPod& asked,
              const Verdict& fitting) {
  if (IsScoredFirst(strategy)) {
    return ScoreFirst(strategy, node, AvailableForScore(node), asked);
  }
  return OnNode(node.node(), asked, [&](const PlannedPod& pod) {
    if (strategy == ScoreStrategy::kByLeastNumaNodes) return LeastNumaNodes(node, pod);
    return KoordinatorScore(strategy == ScoreStrategy::kByKoordinatorMostAllocated, node, pod,
                            fitting);
  });
}

std::vector<ResourceList> AvailableForScore(const PlannedNode& node) {
  return AvailableIn(ScoredZones(node));
}

int64_t ScoreFirst(ScoreStrategy strategy, const PlannedNode& node,
                   const std::vector<ResourceList>& available, const PlannedPod& asked) {
  return OnNode(node.node(), asked, [&](const PlannedPod& pod) {
    return ScoreOfAvailable(strategy, node.node(), available, pod);
  });
}

}  // namespace alignd::placement
