#include "alignd/topologymanager/merge_explanation.h"

#include <gtest/gtest.h>

#include "core/machine_builder.h"

namespace alignd::topologymanager {
namespace {

constexpr uint64_t k0 = 1;
constexpr uint64_t k1 = 2;
constexpr uint64_t k01 = 3;
constexpr uint64_t k2 = 4;

TopologyHint Yes(uint64_t bits) { return {NumaMask::FromBits(bits), true}; }
TopologyHint No(uint64_t bits) { return {NumaMask::FromBits(bits), false}; }

std::string Positions(NumaMask mask) { return mask.ToString(); }

std::vector<std::string> Lines(const MergeExplanation& explanation) {
  std::vector<std::string> lines;
  for (const Candidate& candidate : explanation.candidates) {
    lines.push_back(candidate.hint.affinity->ToString() + (candidate.hint.preferred ? "!" : "") +
                    " " + candidate.verdict);
  }
  lines.insert(lines.end(), explanation.notes.begin(), explanation.notes.end());
  return lines;
}

struct Case {
  std::string name;
  std::vector<Hints> lists;
  MergeRules rules;
  std::vector<std::string> lines;
};

TEST(MergeExplanation, NamesTheReasonsAgainstTheOthers) {
  const std::vector<Case> cases = {
      {"both nodes are as good",
       {{Yes(k0), Yes(k1), No(k01)}},
       {},
       {"{0}! best", "{1}! as good, but {0} is lower",
        "{0,1} not preferred: not all hints with this intersection are preferred"}},
      {"a narrow hint inside a wide one is not preferred",
       {{Yes(k0), Yes(k01)}, {Yes(k01)}},
       {},
       {"{0,1}! best", "{0} not preferred: the hints with this intersection are not equal"}},
      {"the same in 1.20",
       {{Yes(k0), Yes(k01)}, {Yes(k01)}},
       {.prefer_closest = false, .as_1_20 = true},
       {"{0}! best", "{0,1}! 2 NUMA nodes, more than {0} has"}},
      {"preferred and wider",
       {{Yes(k0), Yes(k01)}},
       {},
       {"{0}! best", "{0,1}! 2 NUMA nodes, more than {0} has"}},
      {"nothing is preferred, one resource needs two nodes",
       {{No(k0), No(k01), No(k01 | k2)}, {No(k01), No(k01 | k2)}},
       {},
       {"{0,1} best",
        "{0} 1 NUMA node, fewer than the 2 NUMA nodes that a resource needs at least; {0,1} is "
        "closer to that number",
        "{0,1,2} 3 NUMA nodes, more than the 2 NUMA nodes that a resource needs at least"}},
      {"nothing in common",
       {{Yes(k0)}, {Yes(k1)}},
       {},
       {"no combination of hints has a NUMA node in common"}},
      {"no opinion at all", {}, {}, {"{0,1,2}! best"}},
  };
  const NumaInfo numa(MakeMachine("socket:3 numa:1 core:2"));
  for (const Case& c : cases) {
    const MergeExplanation explanation = ExplainMerge(numa, c.lists, c.rules, Positions);
    EXPECT_EQ(Lines(explanation), c.lines) << c.name;
    const TopologyHint merged = MergeHints(numa, c.lists, c.rules);
    if (!explanation.candidates.empty()) {
      EXPECT_EQ(explanation.candidates.front().hint, merged) << c.name;
    }
  }
}

TEST(MergeExplanation, NamesTheDecidingDistance) {
  const Machine machine = WithDistances(MakeMachine("socket:3 numa:1 core:1"),
                                        {{10, 30, 12}, {30, 10, 30}, {12, 30, 10}});
  const std::vector<Hints> lists = {{Yes(k01), Yes(k0 | k2)}};
  EXPECT_EQ(Lines(ExplainMerge(NumaInfo(machine), lists, {.prefer_closest = true, .as_1_20 = false},
                               Positions)),
            (std::vector<std::string>{"{0,2}! best",
                                      "{0,1}! as many NUMA nodes, but farther apart than {0,2} "
                                      "(average distance 20.0, not 11.0)"}));
}

TEST(MergeExplanation, ListsNoMoreThanItsLimitAndCountsTheRest) {
  HintList every;
  for (uint64_t bits = 1; bits < 32; ++bits) every.push_back(Yes(bits));
  const MergeExplanation explanation =
      ExplainMerge(NumaInfo(MakeMachine("socket:5 numa:1 core:1")), {every}, {}, Positions);
  EXPECT_EQ(explanation.candidates.size(), MergeExplanation::kMaxCandidates);
  EXPECT_EQ(explanation.left_out, 31 - MergeExplanation::kMaxCandidates);
}

TEST(MergeExplanation, NamesTheHintsThatSingleNumaNodeIgnores) {
  const Machine machine = MakeMachine("socket:2 numa:1 core:2");
  KubeletConfig config;
  config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  const Policy policy = *Policy::Make(machine, config);
  const HintsByResource fits = {{"cpu", HintList{Yes(k0), No(k01)}}, {"memory", std::nullopt}};
  EXPECT_EQ(Lines(ExplainMerge(policy, fits, Positions)),
            (std::vector<std::string>{"{0}! best",
                                      "only preferred hints for one NUMA node are considered"}));
  const HintsByResource too_wide = {{"cpu", HintList{Yes(k01)}}, {"example.com/gpu", HintList{}}};
  EXPECT_EQ(Lines(ExplainMerge(policy, too_wide, Positions)),
            (std::vector<std::string>{"cpu has no preferred hint for a single NUMA node",
                                      "example.com/gpu fits nowhere"}));
  const std::string text = "node 1";
  const HintsByResource second = {{"cpu", HintList{Yes(k1), Yes(k0)}}};
  EXPECT_EQ(ExplainMerge(policy, second, [&](NumaMask) { return text; }).candidates.at(1).verdict,
            "as good, but node 1 is lower");
}

TEST(MergeExplanation, ReportsThatAProvidersSearchEnded) {
  KubeletConfig config;
  config.topology_manager_policy = TopologyManagerPolicy::kRestricted;
  const Result<Policy> policy = Policy::Make(MakeMachine("socket:2 numa:1 core:2"), config);
  ASSERT_TRUE(policy.ok());
  DescribedHints described{.sets = {.within = NumaMask::FirstNodes(2), .demands = {}},
                           .preferred_nodes = 2,
                           .groups = {},
                           .preferred_groups = 0,
                           .exact = false};
  const HintsByResource hints = {{"memory", Hints(HintList(), described)}};
  EXPECT_EQ(ExplainMerge(*policy, hints, Positions).notes,
            std::vector<std::string>{"the search for the fewest NUMA nodes for memory "
                                     "ended at its limit: a narrower set may be preferred"});
  described.exact = true;
  EXPECT_EQ(ExplainMerge(*policy, {{"memory", Hints(HintList(), described)}}, Positions).notes,
            std::vector<std::string>{});
}

}  // namespace
}  // namespace alignd::topologymanager
