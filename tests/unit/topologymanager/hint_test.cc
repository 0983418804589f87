#include "alignd/topologymanager/hint.h"

#include <gtest/gtest.h>

#include "alignd/topologymanager/policy.h"
#include "core/machine_builder.h"

namespace alignd::topologymanager {
namespace {

NumaMask Mask(uint64_t bits) { return NumaMask::FromBits(bits); }

Demand OnEachOf(int nodes, uint64_t amount, uint64_t wanted) {
  Demand demand{.places = {}, .wanted = wanted};
  for (int node = 0; node < nodes; ++node) demand.places.push_back({NumaMask::Of(node), amount});
  return demand;
}

DescribedHints Described(NodeSets sets) {
  const int fewest = FewestNodes(sets).value_or(Fewest()).nodes;
  return {.sets = std::move(sets), .preferred_nodes = fewest, .groups = {}, .preferred_groups = 0};
}

TEST(NodeSets, NarrowestSetIsTheLowestOfTheNarrowest) {
  struct Case {
    const char* name;
    NodeSets sets;
    uint64_t containing;
    uint64_t expected;  // 0: none
  };
  const Case cases[] = {
      {"nothing wanted: the lowest node", {Mask(0b1100), {}}, 0, 0b0100},
      {"no node at all", {Mask(0), {}}, 0, 0},
      {"alike", {Mask(0b1111), {OnEachOf(4, 2, 5)}}, 0, 0b0111},
      {"containing", {Mask(0b1111), {OnEachOf(4, 2, 5)}}, 0b1000, 0b1011},
      {"containing a node that is not among them", {Mask(0b0111), {}}, 0b1000, 0},
      {"too much", {Mask(0b1111), {OnEachOf(4, 2, 9)}}, 0, 0},
      {"the large node alone",
       {Mask(0b111), {{{{Mask(1), 1}, {Mask(2), 1}, {Mask(4), 9}}, 9}}},
       0,
       0b100},
      {"a place of two nodes is added once",
       {Mask(0b111), {{{{Mask(0b011), 2}, {Mask(0b100), 1}}, 3}}},
       0,
       0b101},
      {"a place without nodes is never added", {Mask(0b1), {{{{Mask(0), 2}}, 1}}}, 0, 0},
      {"each demand has its own nodes",
       {Mask(0b1111), {{{{Mask(1), 1}}, 1}, {{{Mask(8), 1}}, 1}}},
       0,
       0b1001},
      {"sums do not wrap around",
       {Mask(0b11), {{{{Mask(1), ~uint64_t{0}}, {Mask(2), 2}}, 3}}},
       0b11,
       0b11},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(NarrowestSet(c.sets, Mask(c.containing)).value_or(Narrowest()),
              Narrowest{Mask(c.expected)})
        << c.name;
    const bool found = c.expected != 0;
    EXPECT_EQ(NarrowestSet(c.sets, Mask(c.containing)).has_value(), found) << c.name;
    if (c.containing == 0 && found) {
      EXPECT_EQ(FewestNodes(c.sets), Fewest{Mask(c.expected).Count()}) << c.name;
    }
  }
}

TEST(Hints, AreShownFullyWithinEightNodes) {
  const Hints eight({}, Described({NumaMask::FirstNodes(8), {OnEachOf(8, 4, 4)}}));
  EXPECT_TRUE(eight.IsShownFully());
  EXPECT_EQ(eight.Shown().size(), 255U);
  EXPECT_EQ(eight.Shown(), eight.All());
}

TEST(Hints, OfMoreNodesTheNarrowestAreShown) {
  const Hints many({{Mask(0b11), true}},
                   Described({NumaMask::FirstNodes(64) - Mask(0b11), {OnEachOf(64, 4, 8)}}));
  EXPECT_FALSE(many.IsShownFully());
  const HintList shown = many.Shown();
  ASSERT_EQ(shown.size(), Hints::kMaxShown + 1);
  EXPECT_EQ(shown[0], (TopologyHint{Mask(0b11), true})) << "listed hints are always shown";
  EXPECT_EQ(shown[1], (TopologyHint{Mask(0b1100), true}));
  EXPECT_EQ(shown[2], (TopologyHint{Mask(0b10100), true}));
  for (const TopologyHint& hint : shown) EXPECT_EQ(hint.affinity->Count(), 2);
}

TEST(Hints, WithoutAMemberAreEmpty) {
  EXPECT_TRUE(Hints({}, Described({NumaMask::FirstNodes(3), {OnEachOf(3, 1, 4)}})).empty());
  EXPECT_TRUE(Hints().empty());
  EXPECT_FALSE((Hints{{std::nullopt, false}}).empty());
}

// Every node has 4, and 8 are wanted: all pairs are preferred.
Hints Pairs(NumaMask within) { return Hints({}, Described({within, {OnEachOf(64, 4, 8)}})); }

TEST(MergeOnManyNodes, FindsTheWinnerAmongAllSetsOf64) {
  std::vector<std::vector<int>> far_apart(64, std::vector<int>(64, 20));
  far_apart[40][60] = far_apart[60][40] = 11;
  const NumaInfo numa(WithDistances(MakeMachine("numa:64 core:1"), far_apart));
  const NumaMask all = NumaMask::FirstNodes(64);
  const NumaMask upper = all - NumaMask::FirstNodes(30);
  const NumaMask close = NumaMask::Of(40) | NumaMask::Of(60);
  const NumaMask low_pair = NumaMask::Of(30) | NumaMask::Of(31);
  const std::vector<Hints> agree = {Pairs(all), Pairs(upper)};
  EXPECT_EQ(MergeHints(numa, agree, {}), (TopologyHint{low_pair, true}));
  EXPECT_EQ(MergeHints(numa, agree, {.prefer_closest = true}), (TopologyHint{close, true}));
  // Kubelet 1.20 also prefers combinations of different pairs; the search does not.
  EXPECT_EQ(MergeHints(numa, agree, {.as_1_20 = true}), (TopologyHint{low_pair, true}));
  // One list needs three nodes: no masks are equal, and sets of three nodes are best.
  const Hints threes({}, Described({all, {OnEachOf(64, 4, 12)}}));
  const std::vector<Hints> differ = {Pairs(upper), threes};
  EXPECT_EQ(MergeHints(numa, differ, {}),
            (TopologyHint{NumaMask::FromBits(uint64_t{7} << 30), false}));
  for (const auto& lists : {agree, differ}) {
    for (const bool closest : {false, true}) {
      for (const bool as_1_20 : {false, true}) {
        EXPECT_TRUE(MergeWithin({}, numa, lists, {closest, as_1_20}).exact);
      }
    }
  }
}

// Two resources that no equal mask is enough for: the larger need decides the number of nodes, and
// the set is enough for both.
TEST(MergeOnManyNodes, ASetThatIsNotPreferredIsEnoughForEveryResource) {
  const NumaInfo numa(MakeMachine("numa:64 core:1"));
  const NumaMask all = NumaMask::FirstNodes(64);
  Demand upper_half{.places = {}, .wanted = 3};
  for (int node = 32; node < 64; ++node) upper_half.places.push_back({NumaMask::Of(node), 1});
  const Hints cpus = Pairs(all);
  const Hints devices({}, Described({all, {upper_half}}));
  const TopologyHint hint = MergeHints(numa, {cpus, devices}, {});
  EXPECT_EQ(hint, (TopologyHint{NumaMask::FromBits(uint64_t{7} << 32), false}));
  EXPECT_TRUE(cpus.described()->sets.Contains(*hint.affinity));
  EXPECT_TRUE(devices.described()->sets.Contains(*hint.affinity));
}

TEST(MergeOnManyNodes, ReportsThatTheSearchEndedAtItsLimit) {
  const NumaInfo numa(MakeMachine("numa:64 core:1"));
  const Hints pairs = Pairs(NumaMask::FirstNodes(64));
  const Merged merged = MergeWithin({.search_steps = 2}, numa, {pairs}, {.prefer_closest = true});
  EXPECT_FALSE(merged.exact);
  ASSERT_TRUE(merged.hint.affinity);
  EXPECT_TRUE(pairs.described()->sets.Contains(*merged.hint.affinity))
      << "the result is a hint all the same";
}

// Two opposite demands: the more a node has of one, the less it has of the other.
TEST(NodeSets, OppositeDemandsNeedNoSearch) {
  Demand rising{.places = {}, .wanted = 64 * 16 + 1};
  Demand falling{.places = {}, .wanted = 64 * 16 + 1};
  for (int node = 0; node < 64; ++node) {
    rising.places.push_back({NumaMask::Of(node), static_cast<uint64_t>(node)});
    falling.places.push_back({NumaMask::Of(node), static_cast<uint64_t>(63 - node)});
  }
  // 63 of both on each node, 2050 wanted of both: 33 nodes at least, and evenly chosen ones are
  // enough.
  EXPECT_EQ(FewestNodes({NumaMask::FirstNodes(64), {rising, falling}}), Fewest{33});
}

// 64 nodes, all different, under five demands: a knapsack problem. To find out which of the
// narrowest members is the lowest takes too many steps.
NodeSets HardSets() {
  NodeSets sets{.within = NumaMask::FirstNodes(64), .demands = {}};
  uint64_t drawn = 1;
  for (int i = 0; i < 5; ++i) {
    Demand& demand = sets.demands.emplace_back();
    uint64_t sum = 0;
    for (int node = 0; node < 64; ++node) {
      drawn = drawn * 6364136223846793005 + 1442695040888963407;
      demand.places.push_back({NumaMask::Of(node), (drawn >> 33) % 1'000'000 + 1});
      sum += demand.places.back().amount;
    }
    demand.wanted = sum / 2;
  }
  return sets;
}

// The result is a member all the same. That no member has fewer nodes is found out, but not whether
// a lower one has as many.
TEST(NodeSets, ReportThatTheSearchEndedAtItsLimit) {
  const NodeSets sets = HardSets();
  const std::optional<Narrowest> narrowest = NarrowestSet(sets);
  ASSERT_TRUE(narrowest);
  EXPECT_FALSE(narrowest->exact);
  EXPECT_TRUE(sets.Contains(narrowest->set));
  EXPECT_EQ(FewestNodes(sets), Fewest{narrowest->set.Count()});
}

TEST(HintMerger, ReturnsAHintIfTheSearchEndsAtItsLimit) {
  DescribedHints described{.sets = HardSets(),
                           .preferred_nodes = 1,  // no set is preferred
                           .groups = {},
                           .preferred_groups = 0};
  const NumaInfo numa(MakeMachine("socket:64 numa:1 core:1"));
  const Merged merged = MergeWithin({}, numa, {Hints(HintList(), described)}, {});
  EXPECT_FALSE(merged.exact);
  EXPECT_TRUE(described.sets.Contains(*merged.hint.affinity));
  EXPECT_LT(merged.hint.affinity->Count(), 64);

  // If the hints of a resource are not exact, the merge is not exact either.
  described.sets = {.within = NumaMask::FirstNodes(64), .demands = {}};
  described.exact = false;
  EXPECT_FALSE(MergeWithin({}, numa, {Hints(HintList(), described)}, {}).exact);
  described.exact = true;
  EXPECT_TRUE(MergeWithin({}, numa, {Hints(HintList(), described)}, {}).exact);
}

}  // namespace
}  // namespace alignd::topologymanager
