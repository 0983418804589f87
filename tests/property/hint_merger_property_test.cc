// The merge enumerates neither the combinations nor the lists; the kubelet enumerates all of them.
// The merge by tables returns the kubelet's hint. The merge by search returns it if it is
// preferred; otherwise the best set that is enough for every described list.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "alignd/base/numa_subsets.h"
#include "alignd/topologymanager/merge_explanation.h"
#include "core/hint_oracle.h"
#include "core/property_seed.h"

namespace alignd::topologymanager {
namespace {

constexpr MergeLimits kByTables{.table_nodes = 15};
constexpr MergeLimits kBySearch{.table_nodes = 0};
// Without a search for preferred sets before.
constexpr MergeLimits kByTablesAlone{.table_nodes = 15, .search_steps = 0};

int Below(int bound, std::mt19937_64& random) {
  return static_cast<int>(random() % static_cast<uint64_t>(bound));
}

Machine MachineWithNodes(int nodes, std::mt19937_64& random) {
  std::vector<Cpu> cpus;
  std::vector<NumaNode> numa;
  for (int node = 0; node < nodes; ++node) {
    cpus.push_back({node, node, node, node, node});
    // Few different distances, so that ties are common.
    NumaNode& added = numa.emplace_back();
    added.id = node;
    for (int to = 0; to < nodes; ++to) {
      added.distances.push_back(to == node ? 10 : 11 + static_cast<int>(random() % 3) * 5);
    }
  }
  return *Machine::Make(std::move(cpus), std::move(numa));
}

NumaMask RandomMask(int nodes, std::mt19937_64& random) {
  return NumaMask::FromBits(random() % ((uint64_t{1} << nodes) - 1) + 1);
}

HintList RandomList(int nodes, size_t longest, std::mt19937_64& random) {
  HintList list(random() % (longest + 1));
  for (TopologyHint& hint : list) {
    if (random() % 8 != 0) hint.affinity = RandomMask(nodes, random);
    hint.preferred = random() % 2 == 0;
  }
  return list;
}

// Places on every node, on some, alike or not; sometimes places that nodes share.
Demand RandomDemand(NumaMask within, int nodes, std::mt19937_64& random) {
  Demand demand;
  const int kinds = 1 + Below(4, random);
  uint64_t sum = 0;
  const auto add = [&](NumaMask at) {
    const auto amount = static_cast<uint64_t>(Below(kinds, random));
    demand.places.push_back({at, amount});
    sum += amount;
  };
  for (const int node : within) add(NumaMask::Of(node));
  for (int shared = Below(6, random) - 3; shared > 0; --shared) add(RandomMask(nodes, random));
  demand.wanted = random() % (sum + 2);
  return demand;
}

// Any number of demands, any preference: more than a provider describes.
DescribedHints RandomDescription(int nodes, std::mt19937_64& random) {
  DescribedHints hints;
  hints.sets.within =
      Below(3, random) == 0 ? RandomMask(nodes, random) : NumaMask::FirstNodes(nodes);
  for (int demands = Below(4, random); demands > 0; --demands) {
    hints.sets.demands.push_back(RandomDemand(hints.sets.within, nodes, random));
  }
  hints.preferred_nodes = FewestNodes(hints.sets).value_or(Fewest{1}).nodes;
  if (Below(3, random) == 0) hints.preferred_nodes = 1 + Below(nodes, random);
  if (Below(4, random) != 0) return hints;
  for (int groups = 1 + Below(3, random); groups > 0; --groups) {
    hints.groups.push_back(RandomMask(nodes, random));
  }
  hints.preferred_groups = 1 + Below(2, random);
  return hints;
}

Hints RandomHints(int nodes, size_t longest, std::mt19937_64& random) {
  if (Below(3, random) == 0) return RandomList(nodes, longest, random);
  DescribedHints described = RandomDescription(nodes, random);
  HintList listed = Below(2, random) == 0 ? HintList() : RandomList(nodes, 4, random);
  std::erase_if(listed, [&](const TopologyHint& hint) {
    return hint.affinity && described.sets.within.Contains(*hint.affinity);
  });
  return {std::move(listed), std::move(described)};
}

std::string Describe(const std::vector<Hints>& lists) {
  std::string text;
  for (const HintList& list : AllOf(lists)) {
    text += "[";
    for (const TopologyHint& hint : list) {
      text += (hint.affinity ? hint.affinity->ToString() : "any") + (hint.preferred ? "! " : " ");
    }
    text += "] ";
  }
  return text;
}

std::string Describe(const std::vector<Hints>& lists, const MergeRules& rules) {
  return Describe(lists) + (rules.prefer_closest ? " closest" : "") +
         (rules.as_1_20 ? " 1.20" : "");
}

size_t Combinations(const std::vector<HintList>& lists) {
  size_t combinations = 1;
  for (const HintList& list : lists) combinations *= list.size();
  return combinations;
}

// The hint of the search, by trying all sets of all branches: of each list either any node, a
// listed mask or the described hints.
class SearchOracle {
 public:
  SearchOracle(const NumaInfo& numa, const std::vector<Hints>& lists, const MergeRules& rules)
      : lists_(lists), best_(numa, AllOf(lists), rules) {
    std::set<Branch> branches = {{numa.all(), {}}};
    for (size_t i = 0; i < lists.size(); ++i) {
      std::set<Branch> next;
      for (const auto& [common, described] : branches) {
        for (const TopologyHint& hint : lists[i].listed()) {
          next.emplace(hint.affinity ? common & *hint.affinity : common, described);
        }
        if (lists[i].described() == nullptr) continue;
        std::vector<size_t> more = described;
        more.push_back(i);
        next.emplace(common & lists[i].described()->sets.within, std::move(more));
      }
      branches = std::move(next);
    }
    for (const Branch& branch : branches) Offer(branch);
  }

  TopologyHint Best() const { return best_.Best(); }

 private:
  using Branch = std::pair<NumaMask, std::vector<size_t>>;

  void Offer(const Branch& branch) {
    const auto& [common, described] = branch;
    if (described.empty()) {
      best_.Offer({common, false});
      return;
    }
    ForEachSubset(common, [&, common = common, &described = described](NumaMask set) {
      const bool is_enough = std::ranges::all_of(described, [&](size_t i) {
        const NodeSets& sets = lists_[i].described()->sets;
        return sets.Contains(set | (sets.within - common));
      });
      if (is_enough) best_.Offer({set, false});
    });
  }

  const std::vector<Hints>& lists_;
  OracleOrder best_;
};

using Oracle = TopologyHint (*)(const NumaInfo&, const std::vector<HintList>&, const MergeRules&);

void ExpectTheSame(const NumaInfo& numa, const std::vector<Hints>& lists, Oracle oracle) {
  const std::vector<HintList> all = AllOf(lists);
  for (const bool closest : {false, true}) {
    for (const bool as_1_20 : {false, true}) {
      const MergeRules rules{closest, as_1_20};
      const TopologyHint expected = oracle(numa, all, rules);
      ASSERT_EQ(MergeWithin(kByTables, numa, lists, rules).hint, expected)
          << "by tables: " << Describe(lists, rules);
      const TopologyHint found = MergeWithin(kBySearch, numa, lists, rules).hint;
      // The search prefers equal masks only, with the rules of 1.20 as well.
      const TopologyHint equal = as_1_20 ? MergeByCarrying(numa, all, {closest, false}) : expected;
      ASSERT_EQ(found, equal.preferred ? equal : SearchOracle(numa, lists, rules).Best())
          << "by search: " << Describe(lists, rules);
      const MergeExplanation why =
          ExplainMerge(numa, lists, rules, [](NumaMask mask) { return mask.ToString(); });
      if (why.candidates.empty()) continue;
      ASSERT_EQ(why.candidates.front().hint, expected) << Describe(lists, rules);
    }
  }
}

TEST(HintMergerProperty, AgreesWithTryingAllCombinations) {
  std::mt19937_64 random = SeededRandom();
  const int rounds = Iterations(20'000);
  for (int round = 0; round < rounds; ++round) {
    const int nodes = 1 + Below(6, random);
    const NumaInfo numa(MachineWithNodes(nodes, random));
    std::vector<Hints> lists(1 + random() % 4);
    for (Hints& hints : lists) hints = RandomHints(nodes, 8, random);
    const Oracle oracle = Combinations(AllOf(lists)) <= 5000 ? MergeByTryingAll : MergeByCarrying;
    ASSERT_NO_FATAL_FAILURE(ExpectTheSame(numa, lists, oracle));
  }
}

// The two oracles agree.
TEST(HintMergerProperty, CarryingAgreesWithTryingAllCombinations) {
  std::mt19937_64 random = SeededRandom();
  const int rounds = Iterations(2'000);
  for (int round = 0; round < rounds; ++round) {
    const int nodes = 1 + Below(5, random);
    const NumaInfo numa(MachineWithNodes(nodes, random));
    std::vector<HintList> lists(1 + random() % 3);
    for (HintList& list : lists) list = RandomList(nodes, 8, random);
    for (const bool as_1_20 : {false, true}) {
      const MergeRules rules{.prefer_closest = true, .as_1_20 = as_1_20};
      ASSERT_EQ(MergeByCarrying(numa, lists, rules), MergeByTryingAll(numa, lists, rules));
    }
  }
}

// Eight nodes, lists that come out alike, empty, without masks, or without a preferred hint.
TEST(HintMergerProperty, AgreesOnEightNodes) {
  std::mt19937_64 random = SeededRandom();
  const int rounds = Iterations(100);
  for (int round = 0; round < rounds; ++round) {
    const NumaInfo numa(MachineWithNodes(8, random));
    std::vector<Hints> lists;
    for (int i = 1 + Below(4, random); i > 0; --i) {
      Hints hints = RandomHints(8, 40, random);
      if (Below(8, random) == 0) hints = Hints{{std::nullopt, Below(2, random) == 0}};
      if (Below(12, random) == 0) hints = Hints();
      if (Below(6, random) == 0) {
        HintList not_preferred = hints.All();
        for (TopologyHint& hint : not_preferred) hint.preferred = false;
        hints = not_preferred;
      }
      lists.push_back(hints);
      if (Below(3, random) == 0) lists.push_back(hints);  // as memory and huge pages are
    }
    ASSERT_NO_FATAL_FAILURE(ExpectTheSame(numa, lists, MergeByCarrying));
  }
}

TEST(HintMergerProperty, SearchAndTablesPreferTheSameOnManyNodes) {
  std::mt19937_64 random = SeededRandom();
  const int rounds = Iterations(150);
  for (int round = 0; round < rounds; ++round) {
    const int nodes = 9 + Below(6, random);
    const NumaInfo numa(MachineWithNodes(nodes, random));
    std::vector<Hints> lists(1 + random() % 3);
    for (Hints& hints : lists) hints = RandomHints(nodes, 8, random);
    for (const bool closest : {false, true}) {
      for (const bool as_1_20 : {false, true}) {
        const MergeRules rules{closest, as_1_20};
        MergeLimits unlimited = kBySearch;
        unlimited.search_steps = int64_t{1} << 40;
        const TopologyHint by_search = MergeWithin(unlimited, numa, lists, rules).hint;
        const TopologyHint by_tables =
            MergeWithin(kByTablesAlone, numa, lists, {closest, false}).hint;
        ASSERT_EQ(by_search.preferred, by_tables.preferred);
        if (!by_tables.preferred) continue;
        ASSERT_EQ(by_search, by_tables)
            << nodes << " nodes, closest " << closest << " 1.20 " << as_1_20;
      }
    }
  }
}

// Two NUMA nodes, every list of up to three hints, every pair of lists.
TEST(HintMergerExhaustive, AgreesOnTwoNodes) {
  std::mt19937_64 random(1);
  const NumaInfo numa(MachineWithNodes(2, random));
  std::vector<TopologyHint> hints;
  for (const bool preferred : {false, true}) {
    hints.push_back({std::nullopt, preferred});
    for (uint64_t mask = 1; mask < 4; ++mask)
      hints.push_back({NumaMask::FromBits(mask), preferred});
  }
  std::vector<HintList> all_lists = {{}};
  for (const TopologyHint& a : hints) {
    all_lists.push_back({a});
    for (const TopologyHint& b : hints) {
      all_lists.push_back({a, b});
      for (const TopologyHint& c : hints) all_lists.push_back({a, b, c});
    }
  }
  for (const HintList& first : all_lists) {
    for (const HintList& second : all_lists) {
      const std::vector<Hints> lists = {first, second};
      for (const bool as_1_20 : {false, true}) {
        const MergeRules rules{false, as_1_20};
        const TopologyHint expected = MergeByTryingAll(numa, {first, second}, rules);
        ASSERT_EQ(MergeWithin(kByTables, numa, lists, rules).hint, expected)
            << Describe(lists, rules);
        if (as_1_20) continue;  // there the search prefers equal masks only
        ASSERT_EQ(MergeWithin(kBySearch, numa, lists, rules).hint, expected)
            << Describe(lists, rules);
      }
    }
  }
}

}  // namespace
}  // namespace alignd::topologymanager
