// What the extender answers kube-scheduler: which nodes can take a pod, and which of them is best.
// Between two calls it keeps the places of the pods that it has let through.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/placement/fleet.h"
#include "extender/node_policies.h"
#include "sync/mutex.h"

namespace alignd::extender {

// Thread-safe. Times are given, so that tests need not wait.
//
// kube-scheduler does not say where a pod goes. So a pod that was let through to some nodes has a
// place kept on each of them: later pods must fit with it and without it. The place is dropped
// - when the nodes, as they are read, have the pod;
// - when the pod is deleted;
// - when kube-scheduler asks about the pod again, or asks for scores of fewer nodes;
// - when the nodes are read at least `keep_for` after the answer, and do not have the pod.
//
// The nodes come all at once (SetNodes), or one by one as they change (ChangeNodes).
class Extender {
 public:
  using Clock = std::chrono::steady_clock;

  struct Settings {
    placement::ScoreStrategy strategy = placement::ScoreStrategy::kByLeastAllocated;
    // The best nodes that a pod is let through to. With one, its place is known.
    size_t nodes_per_pod = 1;
    std::chrono::seconds keep_for{60};
    // How the nodes are asked about a pod of a new kind.
    placement::ForEach for_each = placement::ForEachInTurn;
  };

  explicit Extender(Settings settings) : settings_(settings) {}

  // The nodes, or why they could not be read: until they can, every call is answered with that
  // error. `as_of`: all pods that were bound until then are shown; places that were kept `keep_for`
  // before it are dropped.
  void SetNodes(const Result<std::vector<placement::FleetNode>>& nodes, Clock::time_point as_of);

  // A node that has changed.
  struct NodeChange {
    std::string name;
    bool is_gone = false;
    std::shared_ptr<const placement::PlannedNode> node = {};  // null: it is gone, or `problem`
    std::optional<Error> problem = {};   // why nothing is let through to the node
    std::vector<std::string> pods = {};  // of the node: UIDs, and NAMESPACE/NAME
  };
  // Nodes that have changed; the others are as they were. Ends a problem.
  void ChangeNodes(const std::vector<NodeChange>& changes);
  // What was changed so far shows all pods that were bound until `current`: places that were kept
  // `keep_for` before it are dropped.
  void DropPlacesBefore(Clock::time_point current);
  // Pods of these UIDs have been deleted: their places are dropped, and later calls about them keep
  // none.
  void DropPlacesOf(const std::set<std::string>& deleted, Clock::time_point now);
  // Why nothing is known of the nodes now: every call is answered with it.
  void SetProblem(Error problem);

  struct Filtered {
    std::vector<std::string> nodes;  // in the order of the request
    // The other nodes that were asked: if enough nodes with higher scores fit, a node is not asked.
    std::map<std::string, std::string> failed;  // with the reason; if other pods end, they may fit
    std::map<std::string, std::string> unresolvable;  // the end of other pods changes nothing
    uint64_t place = 0;  // for DropPlace; 0: none is kept, or an earlier answer kept one, too
    // If no node takes the pod: one refuses it only for the pods on their way to it. The end of
    // that is no change of the cluster, for which kube-scheduler waits. Not for longer than
    // kLongestWait: kube-scheduler preempts no pods for one whose call has failed.
    std::optional<Error> waits = {};
  };
  static constexpr std::chrono::seconds kLongestWait{20};
  // After that, a pod that still waits begins anew.
  static constexpr std::chrono::minutes kWaitsAgain{5};
  // Errors: the nodes could not be read.
  Result<Filtered> Filter(const placement::PlannedPod& pod, const std::vector<std::string>& names,
                          Clock::time_point now);

  // The answer of Filter is not sent. A place of another answer about the pod stays kept.
  void DropPlace(const std::string& uid, uint64_t place);

  // Name and score, 0 to 10, of all names in their order.
  // Errors: as Filter.
  Result<std::vector<std::pair<std::string, int64_t>>> Prioritize(
      const placement::PlannedPod& pod, const std::vector<std::string>& names);

  // Why calls are answered with an error; nullopt: they are not.
  std::optional<Error> Problem() const;

  struct Counts {
    size_t nodes = 0;
    size_t nodes_with_problem = 0;
    size_t kept_pods = 0;
    uint64_t dropped = 0;  // after keep_for, without having been seen
  };
  Counts GetCounts() const;

  // Of the nodes that cannot be used, the names and the reasons.
  std::map<std::string, std::string> NodeProblems() const;

  // Whether the nodes are asked about the pod: it is one of IsConcerned, or it is one by the
  // configuration of some node (NodePolicies). Does not wait for other calls.
  bool Concerns(const placement::PlannedPod& pod) const;

 private:
  using NodePointer = std::shared_ptr<const placement::PlannedNode>;

  // One node.
  struct Seat {
    NodePointer base;  // as it was read; null: it is gone, or `problem`
    NodePointer kept;  // with the pods that may be on their way; base if there is none
    std::vector<ResourceList> available;  // of `kept`, for scores; empty: they do not read it
    std::optional<Error> problem;         // why it cannot be used
    std::vector<std::string> known;       // of ChangeNodes: what of known_ is of this node
    std::vector<std::string> pods;        // their UIDs, in the order of the answers
    std::string blocked;                  // why nothing can be said: a kept pod no longer fits
  };
  struct Kept {
    placement::PlannedPod pod;
    std::vector<std::string> nodes;
    Clock::time_point since;
    uint64_t place = 0;  // as in Filtered
  };
  struct Answer {
    placement::Outcome outcome = placement::Outcome::kRefused;
    placement::Stage stage = placement::Stage::kScheduler;
    std::string cause;
    bool is_by_kept_pods = false;  // without them, it fits
  };
  // What is known of a node about a pod.
  struct Known {
    std::optional<Answer> answer;
    // 0 to 100; of no meaning for a node on which the pod does not fit.
    std::optional<int64_t> score;
  };
  // Pods that differ by their names only.
  struct Shape {
    placement::PlannedPod pod;  // without names
    std::unordered_map<const placement::PlannedNode*, Known> known;
  };
  // A node that can be asked about a pod.
  struct Candidate {
    size_t position = 0;  // in the request
    const Seat* seat = nullptr;
    int64_t score = 0;
  };

  static std::string NameOf(const placement::PlannedPod& pod);  // NAMESPACE/NAME
  Shape& ShapeOf(const placement::PlannedPod& pod) REQUIRES(mutex_);
  // The nodes of these names that can be asked, the best one first; why the others cannot is
  // written to `filtered`.
  std::vector<Candidate> CandidatesOf(Shape& shape, const std::vector<std::string>& names,
                                      Clock::time_point now, Filtered& filtered) REQUIRES(mutex_);
  // Asks these candidates and sets the scores of those that have none.
  void AskAll(Shape& shape, std::span<const Candidate> candidates) REQUIRES(mutex_);
  void ScoreAll(Shape& shape, std::span<Candidate> candidates) REQUIRES(mutex_);
  Known& AskedOf(Shape& shape, const NodePointer& node) REQUIRES(mutex_);
  int64_t ScoreOf(Shape& shape, const NodePointer& node) REQUIRES(mutex_);  // 0: it does not fit
  static std::string WhyNotAsked(const Seat& seat);  // empty: it can be asked
  static void Ask(const placement::PlannedNode& node, const placement::PlannedPod& pod,
                  placement::ScoreStrategy strategy, Known& known);
  Answer AnswerOfSeat(Shape& shape, const Seat& seat) REQUIRES(mutex_);
  // The answer to a pod that only kept pods keep from the node; nullopt: kube-scheduler need not
  // ask again.
  std::optional<Error> WaitsFor(const Seat& seat, const std::string& name, const std::string& cause,
                                Clock::time_point now) const REQUIRES(mutex_);
  // In extender_places.cc:
  // Drops pods that the nodes have.
  void DropSeen() REQUIRES(mutex_);
  // Drops old pods, and gives the nodes that kept a place for them.
  std::set<std::string> DropBefore(Clock::time_point current) REQUIRES(mutex_);
  // Places what is kept on the nodes of these names.
  void Reseat(const std::set<std::string>& names) REQUIRES(mutex_);
  void Forget(const NodePointer& node) REQUIRES(mutex_);
  // Whether there was a place.
  bool Drop(const std::string& uid) REQUIRES(mutex_);
  void DropNamesakesOf(const placement::PlannedPod& pod) REQUIRES(mutex_);
  void NoteDeleted(const std::string& uid, Clock::time_point now) REQUIRES(mutex_);
  // Whether the pod may still wait for places. The first answer counts.
  bool MayWait(const std::string& uid, Clock::time_point now) REQUIRES(mutex_);
  void KeepOnly(Kept& kept, const std::string& uid, const std::vector<std::string>& nodes)
      REQUIRES(mutex_);
  // With the pods that the seat keeps.
  void Place(Seat& seat) REQUIRES(mutex_);
  void SetKept(Seat& seat, NodePointer node) REQUIRES(mutex_);

  const Settings settings_;
  // Of all nodes as they could be read last: a node that is not readable now has its policies.
  NodePolicies policies_;
  mutable Mutex mutex_;
  std::optional<Error> problem_ GUARDED_BY(mutex_) = Error{
      ErrorCode::kUnavailable, "the nodes have not been read yet", "try again"};
  std::map<std::string, Seat> seats_ GUARDED_BY(mutex_);
  std::map<std::string, Kept> kept_ GUARDED_BY(mutex_);          // by UID
  std::map<std::string, std::string> known_ GUARDED_BY(mutex_);  // UIDs and names, with the node
  // UIDs of pods that were deleted: a call about one can still be on its way.
  std::set<std::string> deleted_ GUARDED_BY(mutex_);
  std::deque<std::pair<Clock::time_point, std::string>> deletions_ GUARDED_BY(mutex_);  // the same
  std::map<std::string, Clock::time_point> waiting_ GUARDED_BY(mutex_);  // UIDs, since when
  std::vector<std::unique_ptr<Shape>> shapes_ GUARDED_BY(mutex_);
  uint64_t dropped_ GUARDED_BY(mutex_) = 0;
  uint64_t places_ GUARDED_BY(mutex_) = 0;  // that were kept so far
};

// "5 nodes cannot be used: w1: REASON | w2: REASON | w3: REASON | and 2 more", of NodeProblems.
std::string DescribeProblems(const std::map<std::string, std::string>& problems);

// Whether nodes are asked about the pod, whatever their configuration. kube-scheduler itself knows
// all about others: they are let through, unless Extender::Concerns.
bool IsConcerned(const placement::PlannedPod& pod);

}  // namespace alignd::extender
