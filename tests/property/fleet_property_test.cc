// Random pods on random fleets: each node answers as a node alone does, on which the same pods are
// placed one after the other; and as the daemon's admission.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/pod_level.h"
#include "alignd/placement/fit.h"
#include "core/crowded_node.h"
#include "core/random_fleet.h"
#include "core/random_planned.h"

namespace alignd::placement {
namespace {

// Nodes that are alike are decided about once: a replica on one of them may be named for another.
std::string WithoutNames(const std::string& cause) {
  static const std::regex name("pod-[0-9]+");
  return std::regex_replace(cause, name, "pod");
}

// What one node alone answers, the score included.
struct Truth {
  Verdict verdict;
  int64_t score = 0;
};

// Place on a copy, as `simulate` does it. Ask agrees with it, and with the daemon's core.
Truth TruthOf(const PlannedNode& node, const PlannedPod& pod, ScoreStrategy strategy) {
  PlannedNode copy = node;
  Truth truth{copy.Place(pod), 0};
  const Verdict asked = node.Ask(pod);
  EXPECT_EQ(asked.outcome, truth.verdict.outcome);
  EXPECT_EQ(asked.stage, truth.verdict.stage);
  EXPECT_EQ(asked.cause, truth.verdict.cause);
  EXPECT_EQ(asked.refusal, truth.verdict.refusal);
  EXPECT_EQ(PlacementsOf(node, asked), PlacementsOf(node, truth.verdict));
  if (asked.admission) {
    const admission::Admission daemon =
        admission::Admit(node.node(), node.state(), pod.pod,
                         [](const auto& query) { return std::optional(query.must_include); });
    // A pod with CPUs and memory as a whole is admitted without devices: its containers are
    // allocated these when they start.
    if (admission::OnThisNode(node.node(), pod.pod).pod_level_managers == PodLevelManagers::kPod) {
      EXPECT_TRUE(daemon.admitted() || truth.verdict.outcome == Outcome::kRefused);
    } else {
      EXPECT_EQ(daemon.admitted(), truth.verdict.outcome == Outcome::kFits);
      EXPECT_EQ(daemon.refusal, asked.admission->refusal);
      EXPECT_EQ(daemon.assignments, asked.admission->assignments);
    }
  }
  if (asked.outcome == Outcome::kFits) truth.score = Score(strategy, node, pod, asked);
  return truth;
}

TEST(FleetProperty, AnswersAsEachNodeAlone) {
  Random random;
  const int runs = Iterations(60);
  int placed = 0;
  std::map<Stage, int> refused;
  for (int run = 0; run < runs; ++run) {
    const std::vector<FleetNode> nodes = RandomFleet(random);
    if (nodes.empty()) continue;
    const ScoreStrategy strategy = random.OneOf(AllScoreStrategies());
    Result<Fleet> fleet = Fleet::Make(nodes, strategy);
    ASSERT_TRUE(fleet.ok()) << fleet.error().Text();
    std::vector<PlannedNode> alone;
    for (const FleetNode& node : nodes) alone.push_back(*MakePlannedNode(node));
    PlannedPod pod;
    for (int step = 0; step < 12; ++step) {
      const std::string name = "pod-" + std::to_string(step);
      const Machine& machine = nodes[0].input.description.machine;
      // Often a replica of the pod before.
      if (step == 0 || random.OnceIn(2)) {
        pod = RandomPlanned(name, machine, random);
        if (random.OnceIn(4)) AddAnnotation(pod, random);
      }
      pod.pod.name = pod.pod.uid = name;
      std::set<std::pair<int64_t, size_t>> fitting;  // minus the score, and the node
      std::map<size_t, Verdict> others;
      for (size_t i = 0; i < nodes.size(); ++i) {
        Truth truth = TruthOf(alone[i], pod, strategy);
        if (truth.verdict.outcome == Outcome::kFits) {
          fitting.emplace(-truth.score, i);
        } else {
          ++refused[truth.verdict.stage];
          others.emplace(i, std::move(truth.verdict));
        }
      }
      std::set<std::pair<int64_t, size_t>> found;
      for (const Fleet::Fitting& fit : fleet->FittingNodes(pod)) {
        found.emplace(-fit.score, fit.node);
      }
      ASSERT_EQ(found, fitting) << "run " << run << " step " << step;
      size_t count = 0;
      for (const AnswerGroup& group : fleet->OtherNodes(pod)) {
        for (const size_t node : group.nodes) {
          ASSERT_TRUE(others.contains(node));
          EXPECT_EQ(group.outcome, others.at(node).outcome);
          ++count;
          EXPECT_EQ(group.stage, others.at(node).stage);
          EXPECT_EQ(WithoutNames(group.cause), WithoutNames(others.at(node).cause));
        }
      }
      ASSERT_EQ(count, others.size());
      const std::optional<size_t> node = fleet->Place(pod);
      ASSERT_EQ(node.has_value(), !fitting.empty());
      if (node) {
        ++placed;
        ASSERT_EQ(*node, fitting.begin()->second);
        alone[*node].Place(pod);
        continue;
      }
      for (const auto& [other, verdict] : others) {
        if (verdict.outcome == Outcome::kUndecided) alone[other].LeaveOpen(pod);
      }
    }
  }
  EXPECT_GT(placed, runs / 4);
  EXPECT_GT(refused[Stage::kValidation], 0);
  EXPECT_GT(refused[Stage::kScheduler], 0);
  EXPECT_GT(refused[Stage::kKubelet], 0);
}

// What `alignctl fit` and libalignd report is what the nodes answer one by one: which can take a
// pod, what it is assigned on the best node, and whether it is refused or cannot be decided.
TEST(FleetProperty, ReportsWhatTheNodesAnswer) {
  Random random;
  const int runs = Iterations(40);
  std::map<std::string, int> seen;
  for (int run = 0; run < runs; ++run) {
    const std::vector<FleetNode> nodes = RandomFleet(random);
    if (nodes.empty()) continue;
    std::vector<PlannedPod> pods;
    for (int i = 0; i < 8; ++i) {
      const std::string name = "pod" + std::to_string(i);
      pods.push_back(RandomPlanned(name, nodes[0].input.description.machine, random));
      pods.back().pod.name = pods.back().pod.uid = name;
      pods.back().owner.clear();
    }
    if (run % 8 == 0) {  // not left to chance, which fails one run in 200
      pods[0].faults.clear();
      pods[0].undecided = {"claims"};
    }
    FitOptions options;
    options.strategy = random.OneOf(AllScoreStrategies());
    const Result<FitResult> result = FitFleet(nodes, pods, options, ForEachInTurn);
    ASSERT_TRUE(result.ok()) << result.error().Text();
    ASSERT_EQ(result->report.entries.size(), pods.size());
    std::vector<PlannedNode> alone;
    for (const FleetNode& node : nodes) alone.push_back(*MakePlannedNode(node));
    int64_t undecided_pods = 0;
    for (size_t i = 0; i < pods.size(); ++i) {
      const FitEntry& entry = result->report.entries[i];
      std::vector<Fleet::Fitting> fitting;
      std::vector<size_t> undecided;
      for (size_t n = 0; n < nodes.size(); ++n) {
        const Truth truth = TruthOf(alone[n], pods[i], options.strategy);
        if (truth.verdict.outcome == Outcome::kFits) fitting.push_back({n, truth.score});
        if (truth.verdict.outcome == Outcome::kUndecided) undecided.push_back(n);
      }
      std::ranges::stable_sort(fitting, std::greater(), &Fleet::Fitting::score);
      ASSERT_EQ(entry.fitting, fitting) << "run " << run << " pod " << i;
      ASSERT_EQ(entry.placed, fitting.empty() ? 0 : 1);
      ASSERT_EQ(entry.undecided, fitting.empty() && !undecided.empty() ? 1 : 0);
      ASSERT_EQ(entry.refused(), fitting.empty() && undecided.empty() ? 1 : 0);
      undecided_pods += entry.undecided;
      ++seen[entry.placed > 0 ? "placed" : entry.undecided > 0 ? "undecided" : "refused"];
      if (fitting.empty()) {
        // Which node has it is not known.
        for (const size_t n : undecided) alone[n].LeaveOpen(pods[i]);
        continue;
      }
      PlannedNode& best = alone[fitting.front().node];
      ASSERT_EQ(entry.first, PlacementsOf(best, best.Ask(pods[i])));
      best.Place(pods[i]);
    }
    EXPECT_EQ(result->report.undecided, undecided_pods);
  }
  EXPECT_GT(seen["placed"], 0);
  EXPECT_GT(seen["undecided"], 0);
  EXPECT_GT(seen["refused"], 0);
}

}  // namespace
}  // namespace alignd::placement
