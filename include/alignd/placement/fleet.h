// Many nodes: which of them can take a pod, which one is the best, and how many pods fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/placement/fleet_node.h"
#include "alignd/placement/manifest.h"
#include "alignd/placement/planned_node.h"
#include "alignd/placement/score.h"

namespace alignd::placement {

// Calls `work` once for each number below `count`, in any order, also by several threads at once.
using ForEach = std::function<void(size_t count, const std::function<void(size_t)>& work)>;

// One after the other.
void ForEachInTurn(size_t count, const std::function<void(size_t)>& work);

// Nodes that answer a pod with the same words.
struct AnswerGroup {
  Outcome outcome = Outcome::kRefused;
  Stage stage = Stage::kScheduler;
  std::string cause;          // Verdict::cause
  std::vector<size_t> nodes;  // by position in the fleet, ascending

  friend bool operator==(const AnswerGroup&, const AnswerGroup&) = default;
};

// A node that is left out of a fleet, and why.
struct LeftOut {
  std::string node;
  Error error;
};

// Nodes that are equal and have had equal pods share one state and one answer. Not thread-safe.
class Fleet {
 public:
  // With `left_out`, nodes that MakePlannedNode refuses are added to it, and the fleet consists of
  // the others: it can be empty. Nodes with a problem are no such nodes, and a node of objects of
  // the cluster that MakePlannedNode refuses has a problem without `left_out`: they cannot decide
  // about any pod.
  // Errors: kInvalidArgument: as MakePlannedNode, without `left_out`, of another node, or if all
  // nodes have a problem; two nodes have one name; there is no node.
  static Result<Fleet> Make(const std::vector<FleetNode>& nodes, ScoreStrategy strategy,
                            ForEach for_each = ForEachInTurn,
                            std::vector<LeftOut>* left_out = nullptr);

  ScoreStrategy strategy() const { return strategy_; }
  size_t size() const { return names_.size(); }
  const std::string& NameOf(size_t node) const { return names_[node]; }
  // The name in the cluster: that of the Node object, if there is one.
  std::string NodeNameOf(size_t node) const;
  // Whether the pod is not bound to another node.
  bool MayTake(size_t node, const PlannedPod& pod) const {
    return pod.node_name.empty() || pod.node_name == NodeNameOf(node);
  }
  // The nodes that have a problem, by position.
  const std::map<size_t, Error>& problems() const { return problems_; }

  struct Fitting {
    size_t node = 0;
    int64_t score = 0;

    friend bool operator==(const Fitting&, const Fitting&) = default;
  };
  // The nodes that can take the pod, the best one first. Of nodes with one score, the one with the
  // lower position comes first.
  std::vector<Fitting> FittingNodes(const PlannedPod& pod);

  // The other nodes, the largest group first.
  std::vector<AnswerGroup> OtherNodes(const PlannedPod& pod);

  // How many containers FittingNodes would have to decide about: those of the pod, on each kind of
  // node that has not been asked yet.
  int64_t ContainersToDecide(const PlannedPod& pod) const;

  // Whether no node can take the pod, and a node cannot decide about it: it may fit there.
  bool IsUndecided(const PlannedPod& pod);

  // Places the pod on the best node that can take it, and gives that node; nullopt: none can. If
  // the pod fits nowhere and cannot be decided on a node, it may be there: that node is undecided
  // afterwards (PlannedNode::Place).
  std::optional<size_t> Place(const PlannedPod& pod);

  // Places the pod on this node, as Place does, if the node can take it.
  Outcome PlaceOn(size_t node, const PlannedPod& pod);

  // The answer of one node as PlannedNode gives it, without memoised ones. A pod that the fleet has
  // already is refused by kValidation.
  Verdict Ask(size_t node, const PlannedPod& pod) const;

  // The node with all pods that were placed on it.
  const PlannedNode& StateOf(size_t node) const;

 private:
  // What all nodes of one state answer.
  struct Answer {
    Outcome outcome = Outcome::kFits;
    Stage stage = Stage::kKubelet;
    std::string cause;
    int64_t score = 0;
  };

  struct State {
    explicit State(PlannedNode planned) : node(std::move(planned)) {}
    PlannedNode node;
    bool is_shared = false;  // states after it are remembered: several nodes began alike
  };
  using StatePointer = std::shared_ptr<const State>;

  // What is known of pods that differ by names only, also of nodes.
  struct Shape {
    PlannedPod pod;  // without names
    std::map<StatePointer, Answer> answers;
    std::map<StatePointer, StatePointer> after;
    std::set<std::pair<int64_t, size_t>> fitting;  // minus the score, and the node
    // Nodes that cannot decide, ascending; nullopt: not looked for yet.
    std::optional<std::vector<size_t>> undecided;
    bool is_current = false;  // `fitting` and `undecided` are those of the nodes as they are
  };

  explicit Fleet(ScoreStrategy strategy, ForEach for_each)
      : strategy_(strategy), for_each_(std::move(for_each)) {}

  Result<Done> AddNodes(const std::vector<FleetNode>& nodes, std::vector<LeftOut>* left_out);
  bool Knows(const PlannedPod& pod) const;
  Answer AnswerOf(const State& state, const PlannedPod& pod) const;
  const std::vector<size_t>& UndecidedNodes(Shape& shape) const;
  // The shape of the pod, with the answers of all states.
  Shape& Asked(const PlannedPod& pod);
  StatePointer After(Shape& shape, const StatePointer& state, const PlannedPod& pod);
  void Move(size_t node, Shape& shape, const PlannedPod& pod);

  ScoreStrategy strategy_;
  ForEach for_each_;
  std::vector<std::string> names_;
  std::vector<StatePointer> states_;  // by node
  std::map<size_t, Error> problems_;  // by node
  std::vector<std::unique_ptr<Shape>> shapes_;
  std::set<std::string> known_pods_;  // UIDs and names of pods that are on a node
};

}  // namespace alignd::placement
