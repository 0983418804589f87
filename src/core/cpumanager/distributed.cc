#include "core/cpumanager/distributed.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/cpumanager/cpu_accumulator.h"
#include "core/cpumanager/numa_spread.h"
#include "core/cpumanager/packed.h"

namespace alignd::cpumanager {
namespace {

int DivideRoundingUp(int number, int by) { return (number + by - 1) / by; }

// The numbers of NUMA nodes to try: at least the number needed with nodes of average size, at most
// one node per group.
SpreadRequest MakeRequest(const Machine& machine, int group, int nodes_with_free_cpus, int count) {
  const int groups = DivideRoundingUp(machine.cpus().Count(), group);
  const int groups_per_node = DivideRoundingUp(groups, machine.numa_with_cpus().Count());
  const int groups_needed = DivideRoundingUp(count, group);
  return {.count = count,
          .group = group,
          .fewest_nodes = DivideRoundingUp(groups_needed, groups_per_node),
          .most_nodes = std::min(groups_needed, nodes_with_free_cpus)};
}

// The NUMA nodes in packing order, each once even if it lies in two sockets.
CpuAccumulator::Groups DistinctNumaNodes(const CpuAccumulator& packing) {
  CpuAccumulator::Groups distinct;
  for (const CpuGroup* node : packing.NumaNodes()) {
    if (std::ranges::find(distinct, node) == distinct.end()) distinct.push_back(node);
  }
  return distinct;
}

std::optional<NumaSpread> FindWidestSpread(const std::vector<int>& free_cpus,
                                           SpreadRequest request) {
  for (int nodes = request.most_nodes; nodes > 0; --nodes) {
    request.fewest_nodes = request.most_nodes = nodes;
    if (std::optional<NumaSpread> spread = FindNumaSpread(free_cpus, request)) return spread;
  }
  return std::nullopt;
}

}  // namespace

Result<CpuSet> TakeDistributed(const Machine& machine, int group, const CpuSet& free, int count,
                               bool on_most) {
  if (count <= 0) return CpuSet{};
  if (count % group != 0) return TakePacked(machine, {}, free, count);
  CpuAccumulator packing(machine, free, count);
  if (packing.free().Count() < count) return NotEnoughCpus(count, free.Count());

  const CpuAccumulator::Groups nodes = DistinctNumaNodes(packing);
  std::vector<int> free_cpus;
  for (const CpuGroup* node : nodes) free_cpus.push_back(node->cpus.CountCommon(packing.free()));
  const SpreadRequest request = MakeRequest(machine, group, static_cast<int>(nodes.size()), count);
  const std::optional<NumaSpread> spread =
      on_most ? FindWidestSpread(free_cpus, request) : FindNumaSpread(free_cpus, request);
  if (!spread) return TakePacked(machine, {}, free, count);

  const auto take_from = [&](size_t node, int cpus) -> Result<Done> {
    const Result<CpuSet> part = TakePacked(machine, {}, packing.free() & nodes[node]->cpus, cpus);
    if (!part.ok()) return part.error();
    packing.Take(*part);
    return Done{};
  };
  for (const size_t node : spread->nodes) {
    if (const Result<Done> taken = take_from(node, spread->even_share); !taken.ok()) {
      return taken.error();
    }
  }
  for (const size_t node : spread->turns) {
    if (const Result<Done> taken = take_from(node, group); !taken.ok()) return taken.error();
  }
  return packing.taken();
}

}  // namespace alignd::cpumanager
