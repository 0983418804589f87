// The merge at its worst: five resources with two demands each, every NUMA node different, devices
// shared by pairs of nodes, all distances different, and no preferred set. Searches end at their
// limit there; the label says so.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "alignd/topologymanager/hint_merger.h"
#include "core/machine_builder.h"

namespace alignd::bench {
namespace {

using topologymanager::Demand;
using topologymanager::DescribedHints;
using topologymanager::HintList;
using topologymanager::Hints;
using topologymanager::MergeLimits;
using topologymanager::NodeSets;
using topologymanager::NumaInfo;

constexpr int kResources = 5;
constexpr int kDemands = 2;

// A machine and the sets of each resource.
struct WorstCase {
  NumaInfo numa;
  std::vector<NodeSets> resources;

  std::vector<Hints> Lists() const {
    std::vector<Hints> lists;
    for (const NodeSets& sets : resources) {
      DescribedHints hints;
      hints.sets = sets;
      hints.preferred_nodes = 1;
      lists.emplace_back(HintList(), std::move(hints));
    }
    return lists;
  }
};

WorstCase MakeWorstCase(int nodes) {
  std::mt19937_64 random(static_cast<uint64_t>(nodes));
  const auto number = [&](uint64_t least, uint64_t most) {
    return least + random() % (most - least + 1);
  };
  std::vector<std::vector<int>> distances(static_cast<size_t>(nodes));
  for (size_t from = 0; from < distances.size(); ++from) {
    for (size_t to = 0; to < distances.size(); ++to) {
      distances[from].push_back(from == to ? 10 : static_cast<int>(number(11, 200)));
    }
  }
  const Machine machine =
      WithDistances(MakeMachine("socket:" + std::to_string(nodes) + " numa:1 core:1"), distances);
  WorstCase worst{NumaInfo(machine), {}};
  for (int resource = 0; resource < kResources; ++resource) {
    NodeSets& sets = worst.resources.emplace_back();
    sets.within = machine.all_numa();
    for (int i = 0; i < kDemands; ++i) {
      Demand& demand = sets.demands.emplace_back();
      uint64_t sum = 0;
      const auto add = [&](NumaMask at) {
        demand.places.push_back({at, number(1, 1'000'000)});
        sum += demand.places.back().amount;
      };
      for (const int node : sets.within) add(NumaMask::Of(node));
      for (int node = 0; node + 1 < nodes; node += 2)
        add(NumaMask::Of(node) | NumaMask::Of(node + 1));
      demand.wanted = sum / 2;
    }
  }
  return worst;
}

std::string Label(bool exact) { return exact ? "exact" : "ended at its limit"; }

void Measure(benchmark::State& state, const MergeLimits& limits) {
  const WorstCase worst = MakeWorstCase(static_cast<int>(state.range(0)));
  const std::vector<Hints> lists = worst.Lists();
  const topologymanager::MergeRules rules{.prefer_closest = state.range(1) == 1, .as_1_20 = false};
  bool exact = true;
  for (auto _ : state) exact = MergeWithin(limits, worst.numa, lists, rules).exact;
  state.SetLabel(Label(exact));
}

void MergeAtWorst(benchmark::State& state) { Measure(state, {}); }
BENCHMARK(MergeAtWorst)
    ->ArgNames({"nodes", "closest"})
    ->ArgsProduct({{8, 12, 14, 16, 17, 20, 24, 32, 48, 64}, {0, 1}});

void MergeAtWorstByTables(benchmark::State& state) { Measure(state, {.table_nodes = 20}); }
BENCHMARK(MergeAtWorstByTables)->ArgNames({"nodes", "closest"})->ArgsProduct({{18, 20}, {0, 1}});

// All searches of one container: the fewest nodes of each resource, three sets for memory, and the
// merge.
void ContainerAtWorst(benchmark::State& state) {
  const WorstCase worst = MakeWorstCase(static_cast<int>(state.range(0)));
  const std::vector<Hints> lists = worst.Lists();
  constexpr int kSearchesForMemory = 3;
  bool exact = true;
  for (auto _ : state) {
    for (const NodeSets& sets : worst.resources) exact = FewestNodes(sets)->exact && exact;
    for (int i = 0; i < kSearchesForMemory; ++i) {
      exact = NarrowestSet(worst.resources.front())->exact && exact;
    }
    exact = MergeWithin({}, worst.numa, lists, {.prefer_closest = true}).exact && exact;
  }
  state.SetLabel(Label(exact));
}
BENCHMARK(ContainerAtWorst)->ArgName("nodes")->Arg(24)->Arg(32)->Arg(48)->Arg(64);

}  // namespace
}  // namespace alignd::bench
