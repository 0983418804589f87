// The search of the closest set keeps to bounds; all sets of that size, tried one by one, give the
// same set. No bound is above what an accepted set costs.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "alignd/base/numa_subsets.h"
#include "core/allocation_count.h"
#include "core/machine_builder.h"
#include "core/random_machine.h"
#include "core/topologymanager/search/closest_subset.h"
#include "core/topologymanager/search/node_parts.h"
#include "core/topologymanager/search/priced_bound.h"

namespace alignd::topologymanager {
namespace {

// Sockets that are one or two hops away: classes of several nodes.
NumaInfo NumaOfSockets(int sockets, int of_socket, Random& random) {
  const int nodes = sockets * of_socket;
  std::vector<std::vector<int>> hops(static_cast<size_t>(sockets),
                                     std::vector<int>(static_cast<size_t>(sockets)));
  for (size_t a = 0; a < hops.size(); ++a) {
    for (size_t b = 0; b < a; ++b) hops[a][b] = hops[b][a] = random.Number(1, 2);
  }
  std::vector<std::vector<int>> rows(static_cast<size_t>(nodes));
  for (int from = 0; from < nodes; ++from) {
    for (int to = 0; to < nodes; ++to) {
      const int hop =
          hops[static_cast<size_t>(from / of_socket)][static_cast<size_t>(to / of_socket)];
      rows[static_cast<size_t>(from)].push_back(from == to ? 10 : hop == 0 ? 12 : 10 + 11 * hop);
    }
  }
  const std::string shape =
      "socket:" + std::to_string(sockets) + " numa:" + std::to_string(of_socket) + " core:1";
  return NumaInfo(WithDistances(MakeMachine(shape), rows));
}

// Amounts on single nodes and in places that two or three neighbours share.
std::vector<DemandTable> DemandsOnNodes(NumaMask nodes, Random& random) {
  std::vector<DemandTable> demands;
  for (int i = random.Number(0, 3); i > 0; --i) {
    Demand demand;
    uint64_t sum = 0;
    const auto add = [&](NumaMask at, int most) {
      demand.places.push_back({at, static_cast<uint64_t>(random.Number(0, most))});
      sum += demand.places.back().amount;
    };
    const int most = random.OneOf(std::vector<int>{1, 3, 50});
    for (const int node : nodes) add(NumaMask::Of(node), most);
    for (int shared = random.Number(0, 6); shared > 0; --shared) {
      const int node = random.Number(0, nodes.Highest() - 1);
      NumaMask at = NumaMask::Of(node) | NumaMask::Of(node + 1);
      if (random.OnceIn(3)) at.Add(random.Number(0, nodes.Highest()));
      add(at, 2 * most);
    }
    demand.wanted = static_cast<uint64_t>(random.Number(1, static_cast<int>(sum) + 1));
    demands.emplace_back(demand);
  }
  return demands;
}

std::vector<const DemandTable*> PointersTo(const std::vector<DemandTable>& demands) {
  std::vector<const DemandTable*> pointers;
  for (const DemandTable& demand : demands) pointers.push_back(&demand);
  return pointers;
}

bool IsCloser(const NumaInfo& numa, NumaMask a, NumaMask b) {
  const int64_t sum_a = numa.DistanceSum(a);
  const int64_t sum_b = numa.DistanceSum(b);
  return sum_a != sum_b ? sum_a < sum_b : a < b;
}

TEST(ClosestSubsetProperty, AgreesWithTryingAllSets) {
  Random random;
  const int rounds = Iterations(3'000);
  for (int round = 0; round < rounds; ++round) {
    const NumaInfo numa = NumaOfSockets(random.Number(2, 4), random.Number(1, 3), random);
    const NumaMask nodes = numa.all();
    const std::vector<DemandTable> demands = DemandsOnNodes(nodes, random);
    const std::vector<const DemandTable*> pointers = PointersTo(demands);
    const int size = random.Number(1, nodes.Count());
    MemberSearch search(pointers);
    const DistanceClasses distances(nodes, numa);
    SearchBudget budget;
    const std::optional<NumaMask> found = ClosestSubset(distances, size, search, budget);
    ASSERT_FALSE(budget.IsUsedUp());
    std::optional<NumaMask> expected;
    ForEachSubset(nodes, [&](NumaMask set) {
      if (set.Count() != size || !search.Accepts(set)) return;
      if (!expected || IsCloser(numa, set, *expected)) expected = set;
    });
    ASSERT_EQ(found, expected) << nodes.Count() << " nodes, " << size << " of them, "
                               << demands.size() << " demands";
  }
}

// As in a torus: the nodes of the largest machine, and no two of them alike.
TEST(ClosestSubsetProperty, EachOf64NodesCanBeAClassOfItsOwn) {
  Random random;
  const int rounds = Iterations(40);
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::vector<int>> rows(NumaMask::kMaxNodes);
    for (size_t from = 0; from < rows.size(); ++from) {
      rows[from].resize(rows.size(), 10);
      for (size_t to = 0; to < from; ++to) {
        rows[from][to] = rows[to][from] = random.Number(11, 250);
      }
    }
    const NumaInfo numa(WithDistances(MakeMachine("socket:8 numa:8 core:1"), rows));
    const NumaMask nodes = numa.all();
    const std::vector<DemandTable> demands = DemandsOnNodes(nodes, random);
    const std::vector<const DemandTable*> pointers = PointersTo(demands);
    const int size = random.Number(1, 3);
    MemberSearch search(pointers);
    const DistanceClasses distances(nodes, numa);
    ASSERT_EQ(distances.classes().size(), size_t{NumaMask::kMaxNodes});
    SearchBudget budget;
    const std::optional<NumaMask> found = ClosestSubset(distances, size, search, budget);
    if (budget.IsUsedUp()) continue;
    std::optional<NumaMask> expected;
    const auto look = [&](NumaMask set) {
      if (set.Count() != size || !search.Accepts(set)) return;
      if (!expected || IsCloser(numa, set, *expected)) expected = set;
    };
    for (const int a : nodes) {
      for (const int b : nodes) {
        if (b > a) continue;
        for (const int c : nodes) {
          if (c <= b) look(NumaMask::Of(a) | NumaMask::Of(b) | NumaMask::Of(c));
        }
      }
    }
    ASSERT_EQ(found, expected) << size << " nodes, " << demands.size() << " demands";
  }
}

// With any costs by number of nodes, and after any number of moves.
TEST(ClosestSubsetProperty, NoBoundIsAboveTheCostOfAnAcceptedSet) {
  Random random;
  const int rounds = Iterations(3'000);
  for (int round = 0; round < rounds; ++round) {
    const NumaInfo numa = NumaOfSockets(random.Number(2, 4), random.Number(1, 3), random);
    const NumaMask nodes = numa.all();
    const std::vector<DemandTable> demands = DemandsOnNodes(nodes, random);
    const std::vector<const DemandTable*> pointers = PointersTo(demands);
    const MemberSearch search(pointers);
    const DistanceClasses distances(nodes, numa);
    const std::vector<NumaMask>& classes = distances.classes();
    const int size = random.Number(1, nodes.Count());
    std::vector<PricedBound::CostsByCount> costs(classes.size());
    std::vector<uint8_t> fewest;
    std::vector<uint8_t> most;
    for (size_t i = 0; i < classes.size(); ++i) {
      const int limit = std::min(size, classes[i].Count());
      fewest.push_back(static_cast<uint8_t>(random.OnceIn(3) ? random.Number(0, limit) : 0));
      most.push_back(static_cast<uint8_t>(random.Number(fewest.back(), limit)));
      for (int64_t& cost : costs[i]) cost = random.Number(0, 5'000);
    }
    PricedBound bound(NodeParts(pointers, nodes), classes, size);
    const PricedBound::Family family{
        .fewest = fewest.data(), .most = most.data(), .costs = costs.data()};
    int64_t bounds = 0;
    const int64_t at_least =
        bound.AtLeast(family, random.Number(0, 20'000), random.Number(0, 30), bounds);
    bound.FindByCount(family);
    ForEachSubset(nodes, [&](NumaMask set) {
      if (set.Count() != size || !search.Accepts(set)) return;
      int64_t cost = 0;
      for (size_t i = 0; i < classes.size(); ++i) {
        const auto count = static_cast<size_t>((set & classes[i]).Count());
        if (count < fewest[i] || count > most[i]) return;
        cost += costs[i][count];
      }
      ASSERT_LE(at_least, cost) << set.ToString();
      for (size_t i = 0; i < classes.size(); ++i) {
        ASSERT_LE(bound.ByCount(i, static_cast<size_t>((set & classes[i]).Count())), cost)
            << set.ToString();
      }
    });
    if (HasFatalFailure()) return;
  }
}

// Searches of thousands of steps on 64 nodes.
TEST(ClosestSubsetProperty, MemoryIsTakenOnlyAtTheStart) {
  Random random;
  int64_t steps = 0;
  const int rounds = Iterations(60);
  for (int round = 0; round < rounds; ++round) {
    const NumaInfo numa = NumaOfSockets(8, 8, random);
    const NumaMask nodes = numa.all();
    const std::vector<DemandTable> demands = DemandsOnNodes(nodes, random);
    const std::vector<const DemandTable*> pointers = PointersTo(demands);
    MemberSearch search(pointers);
    const DistanceClasses distances(nodes, numa);
    const int size = random.Number(16, 48);
    SearchBudget budget;
    int64_t before = AllocationCount();
    (void)search.Lowest({{}, {{nodes, size}}}, budget);
    ASSERT_EQ(AllocationCount() - before, 0);
    SearchBudget closest;
    before = AllocationCount();
    (void)ClosestSubset(distances, size, search, closest);
    constexpr int64_t kMaxAtTheStart = 32;
    ASSERT_LE(AllocationCount() - before, kMaxAtTheStart);
    steps += kMaxSearchSteps - budget.available() + kMaxSearchSteps - closest.available();
  }
  ASSERT_GE(steps, 100 * rounds) << "the searches were too short to show anything";
}

}  // namespace
}  // namespace alignd::topologymanager
