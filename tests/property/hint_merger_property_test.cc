// The merger carries only distinct masks from list to list; the kubelet tries every combination.
// Both must answer the same, always.
#include <gtest/gtest.h>

#include <random>

#include "alignd/topologymanager/merge_explanation.h"
#include "core/hint_oracle.h"
#include "core/property_seed.h"

namespace alignd::topologymanager {
namespace {

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

HintList RandomList(int nodes, size_t longest, std::mt19937_64& random) {
  HintList list(random() % (longest + 1));
  const uint64_t masks = (uint64_t{1} << nodes) - 1;
  for (TopologyHint& hint : list) {
    if (random() % 8 != 0) hint.affinity = NumaMask::FromBits(random() % masks + 1);
    hint.preferred = random() % 2 == 0;
  }
  return list;
}

std::string Describe(const std::vector<HintList>& lists) {
  std::string text;
  for (const HintList& list : lists) {
    text += "[";
    for (const TopologyHint& hint : list) {
      text += (hint.affinity ? hint.affinity->ToString() : "any") + (hint.preferred ? "! " : " ");
    }
    text += "] ";
  }
  return text;
}

TEST(HintMergerProperty, AgreesWithTryingAllCombinations) {
  std::mt19937_64 random = SeededRandom();
  const int rounds = Iterations(20'000);
  for (int round = 0; round < rounds; ++round) {
    const int nodes = 1 + static_cast<int>(random() % 6);
    const NumaInfo numa(MachineWithNodes(nodes, random));
    std::vector<HintList> lists(1 + random() % 4);
    for (HintList& list : lists) list = RandomList(nodes, 8, random);
    for (const bool closest : {false, true}) {
      for (const bool as_1_20 : {false, true}) {
        const MergeRules rules{closest, as_1_20};
        ASSERT_EQ(MergeHints(numa, lists, rules), MergeByTryingAll(numa, lists, rules))
            << Describe(lists) << " closest " << closest << " 1.20 " << as_1_20;
        const MergeExplanation why =
            ExplainMerge(numa, lists, rules, [](NumaMask mask) { return mask.ToString(); });
        if (why.candidates.empty()) continue;
        ASSERT_EQ(why.candidates.front().hint, MergeHints(numa, lists, rules)) << Describe(lists);
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
      const std::vector<HintList> lists = {first, second};
      for (const bool as_1_20 : {false, true}) {
        const MergeRules rules{false, as_1_20};
        ASSERT_EQ(MergeHints(numa, lists, rules), MergeByTryingAll(numa, lists, rules))
            << Describe(lists) << " 1.20 " << as_1_20;
      }
    }
  }
}

}  // namespace
}  // namespace alignd::topologymanager
