// The answer of a fleet about pods: the nodes that can take each, the reasons of the others, where
// the pods are placed, and what another configuration would admit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/base/result.h"
#include "alignd/placement/fleet.h"

namespace alignd::placement {

// Nodes that do not take a pod, or of which too little is known.
struct RefusingNodes {
  AnswerGroup group;
  // The whole message of the first of these nodes; of the kubelet with its explanation.
  std::string example;
};

// What a container is assigned.
struct ContainerPlacement {
  admission::Assignment assignment;
  std::vector<int> cpu_nodes;  // ids of the NUMA nodes of its exclusive CPUs
  // Of a node that is known from an object: the numbers of CPUs and devices are the node's, the ids
  // are not; the NUMA nodes are if there is one.
  bool is_of_object = false;

  friend bool operator==(const ContainerPlacement&, const ContainerPlacement&) = default;
};

// By container; empty: the pod does not fit.
using Placements = std::map<std::string, ContainerPlacement>;
Placements PlacementsOf(const PlannedNode& node, const Verdict& verdict);

// A pod, or the replicas of one object: pods that differ by their names only.
struct FitEntry {
  PlannedPod pod;        // the first one
  std::string name;      // "Pod default/web", or the owner: "Deployment default/web"
  int64_t replicas = 0;  // wanted; with `is_fill`, as many as fit
  bool is_fill = false;
  bool is_limited = false;  // more would fit than kMaxFill
  int64_t placed = 0;
  // Of those that were not placed: some node cannot decide about them. The others are refused.
  int64_t undecided = 0;
  // About the first pod, with all entries before it placed.
  std::vector<Fleet::Fitting> fitting;  // the best node first
  std::vector<RefusingNodes> others;
  Placements first;  // of the first pod, on the best node; empty: it fits nowhere
  std::vector<std::string> not_considered;  // PlannedNode::NotConsidered, on that node
  // Node and number of pods there, by position of the node.
  std::vector<std::pair<size_t, int64_t>> placed_on;
  // Why the first pod that was not placed fits nowhere, or cannot be decided; empty: all were
  // placed.
  std::vector<RefusingNodes> rest;
  bool is_rest_undecided = false;

  // With `is_fill`, one for an entry of which none is placed.
  int64_t wanted() const { return is_fill ? std::max<int64_t>(placed, 1) : replicas; }
  int64_t refused() const { return wanted() - placed - undecided; }
  bool is_complete() const { return placed == wanted(); }
};

struct FitReport {
  std::vector<FitEntry> entries;
  int64_t pods = 0;       // wanted; with `fill`, those that are placed and one for each that is not
  int64_t admitted = 0;   // placed
  int64_t undecided = 0;  // FitEntry::undecided

  int64_t refused() const { return pods - admitted - undecided; }

  bool is_complete() const;
};

// How many pods of one object are placed at most if as many are wanted as fit.
inline constexpr int64_t kMaxFill = 100'000;

// A run decides about so many containers of pods on nodes at most: some ten minutes of one CPU.
inline constexpr int64_t kMaxDecidedContainers = 30'000'000;

// Places the pods one after the other, each on the best node that can take it. With `fill`, as many
// pods like each as fit, but one of a DaemonSet.
// Errors: kInvalidArgument: more than `decidable` containers would have to be decided about; those
// that are, are subtracted from it.
Result<FitReport> Fit(Fleet& fleet, const std::vector<PlannedPod>& pods, bool fill,
                      int64_t& decidable);

// What nodes with another configuration would admit.
struct Comparison {
  ConfigChange change;
  FitReport report;
  // Nodes that cannot have the configuration, by reason.
  std::vector<std::pair<std::string, std::vector<std::string>>> left_out;
  size_t nodes = 0;  // the others
};

// Errors: kInvalidArgument: as Fleet::Make and Fit.
Result<Comparison> Compare(const std::vector<FleetNode>& nodes, const ConfigChange& change,
                           ScoreStrategy strategy, const std::vector<PlannedPod>& pods, bool fill,
                           const ForEach& for_each, int64_t& decidable);

// Everything that `alignctl fit` and the library report.
struct FitResult {
  std::string score;               // the strategy
  std::vector<std::string> nodes;  // names by position
  FitReport report;
  std::vector<Comparison> comparisons;
  std::vector<std::string> skipped;  // objects without pods
  // Nodes that have a problem, with it. They decide about no pod.
  std::vector<std::pair<std::string, Error>> unusable;
  // What a user should know about the nodes, and how many nodes each text is about.
  std::vector<std::pair<std::string, size_t>> notes;
  std::vector<std::string> fleet_notes;  // likewise, about what was left out of the fleet
};

struct FitOptions {
  ScoreStrategy strategy = ScoreStrategy::kByLeastAllocated;
  bool fill = false;
  std::vector<ConfigChange> changes;  // at most kMaxComparisons
};

inline constexpr size_t kMaxComparisons = 100;

// Errors: kInvalidArgument: as Fleet::Make; a change that is wrong whatever the node; more than
// kMaxComparisons or kMaxDecidedContainers.
Result<FitResult> FitFleet(const std::vector<FleetNode>& nodes, const std::vector<PlannedPod>& pods,
                           const FitOptions& options, const ForEach& for_each);

// One JSON object on one line; docs/fleet-planning.md describes it.
std::string FitJson(const FitResult& result);

// Why the pod does not fit: what was asked, what is free on each NUMA node, which pods have the
// rest, and what would help, as far as the node is known. Empty: it fits.
std::string ExplainedMessage(const PlannedNode& node, const PlannedPod& pod,
                             const Verdict& verdict);

// What becomes of one pod on one node, as one JSON object on one line: `outcome`, `stage`,
// `reason`, `message`, `cause`, `not_considered`, and by container the `assignments`.
std::string VerdictJson(const PlannedNode& node, const PlannedPod& pod, const Verdict& verdict);

}  // namespace alignd::placement
