#include "alignd/placement/score.h"

#include <algorithm>
#include <array>
#include <utility>

#include "alignd/admission/pod_level.h"
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

// Of one resource on one NUMA node.
int64_t AllocatedScore(bool most, const Quantity& requested, int64_t available) {
  if (available == 0 || requested > Quantity(available)) return 0;
  const int64_t amount = requested.Value();
  return Percent(most ? amount : available - amount, available);
}

int64_t MeanAllocatedScore(bool most, const std::vector<ScoredRequest>& requests, size_t zone) {
  int64_t sum = 0;
  for (const ScoredRequest& request : requests) {
    sum += AllocatedScore(most, request.amount, request.available[zone].value_or(0));
  }
  return requests.empty() ? 0 : sum / static_cast<int64_t>(requests.size());
}

int64_t BalancedScore(const std::vector<ScoredRequest>& requests, size_t zone) {
  std::vector<double> fractions;
  double sum = 0;
  for (const ScoredRequest& request : requests) {
    const int64_t available = request.available[zone].value_or(0);
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
                     const std::vector<Zone>& zones) {
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

int64_t ScoreOfZones(ScoreStrategy strategy, const PlannedNode& planned, const Pod& pod) {
  const admission::Node& node = planned.node();
  if (QosOf(pod) != QosClass::kGuaranteed) return kMaxNodeScore;
  const bool is_pod_scope = node.config.topology_manager_scope == TopologyManagerScope::kPod;
  if (strategy == ScoreStrategy::kByLeastNumaNodes) {
    if (node.machine.numa_count() > kMaxScoredNumaNodes) return 0;
    return LeastNumaNodesScore(pod, is_pod_scope,
                               noderesourcetopology::Zones(node, planned.state()));
  }
  if (node.config.topology_manager_policy != TopologyManagerPolicy::kSingleNumaNode) return 0;
  const std::vector<Zone> zones = noderesourcetopology::Zones(node, planned.state());
  if (is_pod_scope) return LeastOfZones(strategy, EffectiveRequest(pod), zones);
  int64_t sum = 0;
  for (const Container& container : pod.containers) {
    sum += LeastOfZones(strategy, container.resources.requests, zones);
  }
  return pod.containers.empty() ? 0 : sum / static_cast<int64_t>(pod.containers.size());
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

int64_t MilliIn(const ResourceList& list, std::string_view resource) {
  const Quantity* const amount = Find(list, resource);
  return amount == nullptr ? 0 : amount->MilliValue();
}

void AddShare(const std::vector<Zone>& zones, NumaMask nodes, const std::string& resource,
              int64_t unit, Share& share) {
  for (const int position : nodes) {
    const auto& resources = zones[static_cast<size_t>(position)].resources;
    const auto found = resources.find(resource);
    if (found == resources.end()) continue;
    const Amount& amount = found->second;
    share.allocatable += static_cast<int64_t>(amount.allocatable) * unit;
    share.requested +=
        static_cast<int64_t>(amount.allocatable - std::min(amount.available, amount.allocatable)) *
        unit;
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

CpuSet ExclusiveCpusOf(const Verdict& fitting) {
  CpuSet cpus;
  for (const auto& [container, assignment] : fitting.admission->assignments) {
    cpus |= assignment.KeptFromOthers();
  }
  return cpus;
}

int64_t KoordinatorScore(bool most, const PlannedNode& planned, const Pod& pod,
                         const Verdict& fitting) {
  const admission::Node& node = planned.node();
  const CpuSet own = ExclusiveCpusOf(fitting);
  CpuSet allocated = own;
  const cpumanager::CpuState& cpus = planned.state().cpu;
  for (const auto& [uid, containers] : cpus.assignments) allocated |= cpus.HeldBy(uid);
  for (const auto& [uid, whole] : cpus.pods) allocated |= whole;
  const auto thousandths = [](const CpuSet& set) { return int64_t{1000} * set.Count(); };
  if (node.config.topology_manager_policy == TopologyManagerPolicy::kNone) {
    if (own.empty()) return 0;
    return ScoreOfShares(most,
                         {{thousandths(allocated), MilliIn(planned.allocatable().amounts, "cpu")}});
  }
  const NumaMask nodes = AssignedNodes(node.machine, fitting);
  const std::vector<Zone> zones = noderesourcetopology::Zones(node, planned.state());
  const ResourceList requests = EffectiveRequest(pod);
  Share cpu;
  AddShare(zones, nodes, "cpu", 1000, cpu);
  cpu.requested += MilliIn(requests, "cpu");
  if (!own.empty()) cpu.requested = thousandths(allocated & node.machine.CpusInNuma(nodes));
  Share memory;
  AddShare(zones, nodes, "memory", 1, memory);
  if (const Quantity* const amount = Find(requests, "memory")) memory.requested += amount->Value();
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

int64_t Score(ScoreStrategy strategy, const PlannedNode& node, const Pod& asked,
              const Verdict& fitting) {
  const Pod pod = admission::OnThisNode(node.node(), asked);
  switch (strategy) {
    case ScoreStrategy::kByKoordinatorLeastAllocated:
      return KoordinatorScore(/*most=*/false, node, pod, fitting);
    case ScoreStrategy::kByKoordinatorMostAllocated:
      return KoordinatorScore(/*most=*/true, node, pod, fitting);
    default:
      return ScoreOfZones(strategy, node, pod);
  }
}

}  // namespace alignd::placement
