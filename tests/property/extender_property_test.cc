// Random pods on random fleets: `alignctl simulate`, `alignctl fit`, the extender and the daemon's
// core give the same answer for the same pod and node.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/admission/own_policy.h"
#include "alignd/admission/pod_level.h"
#include "alignd/placement/fit.h"
#include "alignd/placement/score.h"
#include "core/random_fleet.h"
#include "core/random_planned.h"
#include "extender/extender.h"

namespace alignd::extender {
namespace {

using placement::Fleet;
using placement::FleetNode;
using placement::Outcome;
using placement::PlannedNode;
using placement::PlannedPod;
using placement::Stage;
using placement::Verdict;

// Whether the daemon admits the pod at once: there is nothing to decide for any of its containers,
// as allocation::HasAllItRequests.
bool IsAdmittedAtOnce(const PlannedNode& node, const PlannedPod& pod) {
  const Pod managed = admission::OnThisNode(node.node(), pod.pod);
  return std::ranges::none_of(managed.containers, [&](const Container& container) {
    return admission::RequestsAssignment(node.node(), node.state(), managed, container) ||
           admission::LacksExclusiveCpus(node.node(), node.state(), managed, container);
  });
}

// What a node alone answers, as `simulate` asks it, and the daemon's core about the same state.
Verdict AnswerAlone(const PlannedNode& node, const PlannedPod& pod) {
  PlannedNode copy = node;
  Verdict verdict = copy.Place(pod);
  if (verdict.admission) {
    const admission::Admission daemon =
        admission::Admit(node.node(), node.state(), pod.pod,
                         [](const auto& query) { return std::optional(query.must_include); });
    // A pod with CPUs and memory as a whole is admitted without devices: its containers are
    // allocated these when they start.
    if (admission::OnThisNode(node.node(), pod.pod).pod_level_managers == PodLevelManagers::kPod) {
      EXPECT_TRUE(daemon.admitted() || verdict.outcome == Outcome::kRefused);
    } else {
      EXPECT_EQ(daemon.admitted(), verdict.outcome == Outcome::kFits);
      EXPECT_EQ(daemon.assignments, verdict.admission->assignments);
    }
  }
  if (verdict.refusal && IsAdmittedAtOnce(node, pod)) {
    EXPECT_NE(verdict.refusal->reason, admission::kPodPolicyError) << verdict.cause;
  }
  return verdict;
}

Extender::NodeChange ChangeTo(const std::string& name, const PlannedNode& node) {
  return {
      .name = name, .node = std::make_shared<const PlannedNode>(node), .pods = node.KnownPods()};
}

// The best `count` of the nodes that fit, in the order of `names`. Of nodes with one score, the
// earlier one is better.
std::vector<std::string> BestOf(const std::map<std::string, int64_t>& fits,
                                const std::vector<std::string>& names, size_t count) {
  std::vector<std::pair<int64_t, size_t>> ordered;
  for (size_t i = 0; i < names.size(); ++i) {
    if (fits.contains(names[i])) ordered.emplace_back(-fits.at(names[i]), i);
  }
  std::ranges::sort(ordered);
  if (ordered.size() > count) ordered.resize(count);
  std::ranges::sort(ordered, {}, &std::pair<int64_t, size_t>::second);
  std::vector<std::string> best;
  for (const auto& [score, position] : ordered) best.push_back(names[position]);
  return best;
}

// Nodes as the API server has them: with the names that pods are bound to, and with what DaemonSets
// and other pods choose nodes by.
void AddNodeObjects(std::vector<FleetNode>& nodes, Random& random) {
  for (FleetNode& node : nodes) {
    const PlannedNode made = *placement::MakePlannedNode(node);
    placement::NodeObject object;
    object.name = node.name;
    object.labels = {{"zone", random.OneOf<std::string>({"a", "b"})}};
    object.capacity["cpu"] = Quantity(made.node().machine.cpus().Count());
    object.allocatable = made.allocatable().amounts;
    object.allocatable["pods"] = Quantity(made.allocatable().pods);
    if (random.OnceIn(4)) object.taints = {{"dedicated", "db", "NoSchedule"}};
    node.input.object = std::move(object);
  }
}

void ChooseNodes(PlannedPod& pod, const std::vector<FleetNode>& nodes, Random& random) {
  if (random.OnceIn(3)) pod.node_name = random.OneOf(nodes).name;
  if (random.OnceIn(20)) pod.node_name = "another";
  if (random.OnceIn(3)) pod.node_selector = {{"zone", random.OneOf<std::string>({"a", "b", "c"})}};
  if (random.OnceIn(2)) pod.tolerations = {{"dedicated", "Exists", "", ""}};
}

TEST(ExtenderProperty, AnswersAsFitSimulateAndTheDaemon) {
  Random random;
  const int runs = Iterations(60);
  std::map<std::string, int> seen;
  for (int run = 0; run < runs; ++run) {
    std::vector<FleetNode> nodes = placement::RandomFleet(random);
    if (nodes.empty()) continue;
    const bool has_objects = random.OnceIn(2);
    if (has_objects) AddNodeObjects(nodes, random);
    const placement::ScoreStrategy strategy = random.OneOf(placement::AllScoreStrategies());
    Result<Fleet> fleet = Fleet::Make(nodes, strategy);
    ASSERT_TRUE(fleet.ok()) << fleet.error().Text();
    std::vector<PlannedNode> alone;
    std::vector<std::string> names;
    for (const FleetNode& node : nodes) {
      alone.push_back(*placement::MakePlannedNode(node));
      names.push_back(node.name);
    }
    // One is fed with files, the other one with objects of the API server.
    Extender of_files({.strategy = strategy, .nodes_per_pod = 1000});
    of_files.SetNodes(nodes, Extender::Clock::now());
    Extender of_changes({.strategy = strategy, .nodes_per_pod = 1000});
    // It asks only as many nodes as it needs.
    const size_t most = random.OneOf(std::vector<size_t>{1, 1, 2, 3});
    Extender of_best({.strategy = strategy, .nodes_per_pod = most});
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (Extender* const extender : {&of_changes, &of_best})
        extender->ChangeNodes({ChangeTo(names[i], alone[i])});
    }
    for (int step = 0; step < 10; ++step) {
      const std::string name = "pod-" + std::to_string(step);
      PlannedPod pod = placement::RandomPlanned(name, nodes[0].input.description.machine, random);
      pod.pod.name = pod.pod.uid = name;
      if (random.OnceIn(4)) placement::AddAnnotation(pod, random);
      if (has_objects) ChooseNodes(pod, nodes, random);
      if (!pod.pod.policies.fault.empty()) {
        for (const PlannedNode& node : alone)
          seen["faulty, admitted at once"] += IsAdmittedAtOnce(node, pod) ? 1 : 0;
      }
      if (!of_files.Concerns(pod)) {  // the extender lets it pass
        for (const PlannedNode& node : alone) AnswerAlone(node, pod);
        continue;
      }
      std::map<std::string, int64_t> fits;
      std::map<std::string, Verdict> others;
      for (size_t i = 0; i < nodes.size(); ++i) {
        Verdict verdict = AnswerAlone(alone[i], pod);
        const bool is_own = admission::OwnPolicy(alone[i].node(), pod.pod).has_value();
        if (is_own && verdict.outcome == Outcome::kFits) ++seen["fits under its own policy"];
        if (pod.without_devices) ++seen["annotated " + std::string(ToString(verdict.outcome))];
        if (verdict.refusal && verdict.refusal->reason == admission::kPodPolicyError) {
          ++seen["refused for its policy"];
        }
        if (verdict.outcome == Outcome::kFits) {
          if (!pod.node_name.empty()) ++seen["fits on the node of its name"];
          EXPECT_TRUE(pod.node_name.empty() || pod.node_name == names[i]);
          fits[names[i]] = placement::Score(strategy, alone[i], pod, verdict);
        } else {
          others.emplace(names[i], std::move(verdict));
        }
      }
      std::map<std::string, int64_t> fleet_fits;
      for (const Fleet::Fitting& fit : fleet->FittingNodes(pod)) {
        fleet_fits[names[fit.node]] = fit.score;
      }
      ASSERT_EQ(fleet_fits, fits) << "run " << run << " step " << step;
      for (Extender* const extender : {&of_files, &of_changes}) {
        const auto filtered = extender->Filter(pod, names, Extender::Clock::now());
        ASSERT_TRUE(filtered.ok()) << filtered.error().Text();
        ASSERT_EQ(filtered->nodes.size(), fits.size()) << "run " << run << " step " << step;
        for (const std::string& node : filtered->nodes) EXPECT_TRUE(fits.contains(node));
        ASSERT_EQ(filtered->failed.size() + filtered->unresolvable.size(), others.size());
        for (const auto& [node, verdict] : others) {
          const bool is_lasting =
              verdict.outcome == Outcome::kUndecided || verdict.stage == Stage::kValidation;
          const auto& reasons = is_lasting ? filtered->unresolvable : filtered->failed;
          ASSERT_TRUE(reasons.contains(node)) << "run " << run << " step " << step;
          EXPECT_EQ(reasons.at(node), verdict.cause);
          ++seen[std::string(ToString(verdict.outcome)) + std::string(ToString(verdict.stage))];
        }
        const auto scores = extender->Prioritize(pod, names);
        ASSERT_TRUE(scores.ok());
        for (const auto& [node, score] : *scores) {
          EXPECT_EQ(score, fits.contains(node) ? fits.at(node) / 10 : 0);
        }
      }
      const auto best = of_best.Filter(pod, names, Extender::Clock::now());
      ASSERT_TRUE(best.ok()) << best.error().Text();
      ASSERT_EQ(best->nodes, BestOf(fits, names, most)) << "run " << run << " step " << step;
      for (const auto* reasons : {&best->failed, &best->unresolvable}) {
        for (const auto& [node, reason] : *reasons) EXPECT_EQ(reason, others.at(node).cause);
      }
      const size_t asked = best->nodes.size() + best->failed.size() + best->unresolvable.size();
      if (best->nodes.size() < most) {
        EXPECT_EQ(asked, names.size());
      } else if (asked < names.size()) {
        ++seen["not asked"];
      }
      const std::optional<size_t> node = fits.empty() ? std::nullopt : fleet->Place(pod);
      if (!node) continue;
      ++seen["fits"];
      alone[*node].Place(pod);
      // The nodes are shown with the pod: the places of all others are dropped.
      for (Extender* const extender : {&of_files, &of_changes, &of_best}) {
        extender->ChangeNodes({ChangeTo(names[*node], alone[*node])});
        ASSERT_EQ(extender->GetCounts().kept_pods, 0U);
      }
    }
  }
  EXPECT_GT(seen["fits"], runs / 4);
  EXPECT_GT(seen["fits under its own policy"], 0);
  EXPECT_GT(seen["refused for its policy"], 0);
  EXPECT_GT(seen["faulty, admitted at once"], 0);
  EXPECT_GT(seen["fits on the node of its name"], 0);
  EXPECT_GT(seen["refusedscheduler"], 0);
  EXPECT_GT(seen["refusedkubelet"], 0);
  EXPECT_GT(seen["refusedvalidation"], 0);
  EXPECT_GT(seen["not asked"], 0);
  EXPECT_GT(seen["annotated fits"], 0);
  EXPECT_GT(seen["annotated refused"], 0);
  EXPECT_GT(seen["annotated undecided"], 0);
}

// `alignctl fit` plans one pod of a DaemonSet for each node that it is for, and says of each what
// `simulate`, the daemon and the extender say of a pod that is bound there.
TEST(ExtenderProperty, AnswersAboutDaemonSetsNodeByNode) {
  Random random;
  const int runs = Iterations(60);
  std::map<std::string, int> seen;
  for (int run = 0; run < runs; ++run) {
    std::vector<FleetNode> nodes = placement::RandomFleet(random);
    if (nodes.empty()) continue;
    AddNodeObjects(nodes, random);
    std::vector<PlannedNode> alone;
    Extender extender({});
    for (const FleetNode& node : nodes) {
      alone.push_back(*placement::MakePlannedNode(node));
      extender.ChangeNodes({ChangeTo(node.name, alone.back())});
    }
    std::vector<PlannedPod> pods;
    for (int i = 0; i < 4; ++i) {
      const std::string name = "daemon" + std::to_string(i);
      pods.push_back(placement::RandomPlanned(name, nodes[0].input.description.machine, random));
      PlannedPod& pod = pods.back();
      pod.pod.name = pod.pod.uid = name;
      pod.owner = "DaemonSet " + pod.pod.name_space + "/" + name;
      pod.faults.clear();
      pod.undecided.clear();
      ChooseNodes(pod, nodes, random);
      pod.node_name.clear();
    }
    const auto result =
        placement::FitFleet(nodes, pods, placement::FitOptions{}, placement::ForEachInTurn);
    ASSERT_TRUE(result.ok()) << result.error().Text();
    for (size_t p = 0; p < pods.size(); ++p) {
      const placement::FitEntry& entry = result->report.entries[p];
      std::vector<std::pair<size_t, int64_t>> placed;
      int64_t wanted = 0;
      int64_t undecided = 0;
      for (size_t i = 0; i < nodes.size(); ++i) {
        PlannedPod pod = pods[p];
        pod.node_name = nodes[i].name;
        if (!alone[i].IsNodeOf(pod)) continue;
        pod.pod.name += "-on-" + std::to_string(i);
        pod.pod.uid = pod.pod.name;
        ++wanted;
        const Verdict verdict = AnswerAlone(alone[i], pod);
        if (extender.Concerns(pod)) {
          const auto filtered = extender.Filter(pod, {nodes[i].name}, Extender::Clock::now());
          ASSERT_TRUE(filtered.ok());
          EXPECT_EQ(filtered->nodes.size(), verdict.outcome == Outcome::kFits ? 1U : 0U);
        }
        alone[i].Place(pod);
        extender.ChangeNodes({ChangeTo(nodes[i].name, alone[i])});
        if (verdict.outcome == Outcome::kFits) placed.emplace_back(i, 1);
        undecided += verdict.outcome == Outcome::kUndecided ? 1 : 0;
        ++seen[std::string(ToString(verdict.outcome))];
      }
      if (wanted == 0) {  // shown as a pod that no node takes
        EXPECT_EQ(entry.placed, 0);
        EXPECT_FALSE(entry.is_complete());
        ++seen["for no node"];
        continue;
      }
      ASSERT_EQ(entry.replicas, wanted) << "run " << run << " pod " << p;
      ASSERT_EQ(entry.placed_on, placed) << "run " << run << " pod " << p;
      ASSERT_EQ(entry.undecided, undecided) << "run " << run << " pod " << p;
    }
  }
  EXPECT_GT(seen["fits"], 0);
  EXPECT_GT(seen["refused"], 0);
  EXPECT_GT(seen["for no node"], 0);
}

}  // namespace
}  // namespace alignd::extender
