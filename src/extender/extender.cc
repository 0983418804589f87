#include "extender/extender.h"

#include <algorithm>
#include <set>

#include "alignd/placement/score.h"

namespace alignd::extender {
namespace {

using placement::Outcome;
using placement::PlannedNode;
using placement::PlannedPod;

// As Fleet: more kinds of pods at a time are seldom.
constexpr size_t kMaxShapes = 64;
// Of kube-scheduler: k8s.io/kube-scheduler/extender/v1, MaxExtenderPriority.
constexpr int64_t kMaxExtenderPriority = 10;

constexpr char kUnknownNode[] =
    "the extender does not know the node: add its objects or its description";

std::string NameOf(const PlannedPod& pod) { return pod.pod.name_space + "/" + pod.pod.name; }

// Whether the end of other pods would change nothing.
bool IsUnresolvable(Outcome outcome, placement::Stage stage) {
  return outcome == Outcome::kUndecided || stage == placement::Stage::kValidation;
}

}  // namespace

bool IsConcerned(const PlannedPod& pod) {
  return !pod.faults.empty() || placement::DependsOnNumaNodes(pod);
}

void Extender::SetNodes(const Result<std::vector<placement::FleetNode>>& nodes,
                        Clock::time_point as_of) {
  // Nodes that are equal share one value.
  std::shared_ptr<const placement::Fleet> fleet;
  std::optional<Error> problem;
  if (nodes.ok()) {
    Result<placement::Fleet> made = placement::Fleet::Make(*nodes, settings_.strategy);
    if (made.ok()) fleet = std::make_shared<const placement::Fleet>(*std::move(made));
    if (!made.ok()) problem = made.error();
  } else {
    problem = nodes.error();
  }
  if (problem) {
    SetProblem(*std::move(problem));  // what is kept stays kept
    return;
  }
  std::map<std::string, Seat> seats;
  std::map<std::string, std::string> known;
  std::set<std::string> names;
  for (size_t i = 0; i < fleet->size(); ++i) {
    const PlannedNode& node = fleet->StateOf(i);
    Seat& seat = seats[fleet->NameOf(i)];
    seat.base = seat.kept = NodePointer(fleet, &node);
    names.insert(fleet->NameOf(i));
    for (std::string& pod : node.KnownPods()) known.emplace(std::move(pod), fleet->NameOf(i));
  }

  const MutexLock lock(mutex_);
  problem_.reset();
  seats_ = std::move(seats);
  known_ = std::move(known);
  shapes_.clear();
  DropSeen();
  DropBefore(as_of);
  Reseat(names);
}

void Extender::ChangeNodes(const std::vector<NodeChange>& changes) {
  const MutexLock lock(mutex_);
  problem_.reset();
  std::set<std::string> names;
  for (const NodeChange& change : changes) {
    Seat& seat = seats_[change.name];
    SetKept(seat, nullptr);
    Forget(seat.base);
    for (const std::string& pod : seat.known) {
      const auto known = known_.find(pod);
      if (known != known_.end() && known->second == change.name) known_.erase(known);
    }
    seat.base = change.node;
    seat.problem = change.problem;
    seat.known = change.pods;
    for (const std::string& pod : change.pods) known_[pod] = change.name;
    names.insert(change.name);
  }
  DropSeen();
  Reseat(names);
  for (const NodeChange& change : changes) {
    if (change.is_gone) seats_.erase(change.name);
  }
}

void Extender::DropPlacesBefore(Clock::time_point current) {
  const MutexLock lock(mutex_);
  Reseat(DropBefore(current));
}

void Extender::SetProblem(Error problem) {
  const MutexLock lock(mutex_);
  problem_ = std::move(problem);
}

void Extender::DropSeen() {
  std::set<std::string> names;
  for (auto kept = kept_.begin(); kept != kept_.end();) {
    if (known_.contains(kept->first)) {
      names.insert(kept->second.nodes.begin(), kept->second.nodes.end());
      kept = kept_.erase(kept);
    } else {
      ++kept;
    }
  }
  Reseat(names);
}

std::set<std::string> Extender::DropBefore(Clock::time_point current) {
  std::set<std::string> names;
  for (auto kept = kept_.begin(); kept != kept_.end();) {
    if (current - kept->second.since >= settings_.keep_for) {
      names.insert(kept->second.nodes.begin(), kept->second.nodes.end());
      kept = kept_.erase(kept);
      ++dropped_;
    } else {
      ++kept;
    }
  }
  return names;
}

void Extender::Reseat(const std::set<std::string>& names) {
  std::vector<const Kept*> in_order;
  for (const auto& [uid, kept] : kept_) in_order.push_back(&kept);
  std::ranges::stable_sort(in_order, {}, [](const Kept* kept) { return kept->since; });
  for (const std::string& name : names) {
    const auto seat = seats_.find(name);
    if (seat != seats_.end()) seat->second.pods.clear();
  }
  for (const Kept* const kept : in_order) {
    for (const std::string& name : kept->nodes) {
      const auto seat = names.contains(name) ? seats_.find(name) : seats_.end();
      if (seat != seats_.end()) seat->second.pods.push_back(kept->pod.pod.uid);
    }
  }
  for (const std::string& name : names) {
    const auto seat = seats_.find(name);
    if (seat != seats_.end()) Place(seat->second);
  }
}

void Extender::Forget(const NodePointer& node) {
  // The address can be that of another node later.
  for (const auto& shape : shapes_) shape->answers.erase(node.get());
}

void Extender::SetKept(Seat& seat, NodePointer node) {
  if (seat.kept != seat.base) Forget(seat.kept);
  seat.kept = std::move(node);
}

void Extender::Place(Seat& seat) {
  seat.blocked.clear();
  if (seat.pods.empty() || seat.base == nullptr) {
    SetKept(seat, seat.base);
    return;
  }
  auto node = std::make_shared<PlannedNode>(*seat.base);
  for (const std::string& uid : seat.pods) {
    const PlannedPod& pod = kept_.at(uid).pod;
    if (node->Place(pod).outcome == Outcome::kFits) continue;
    seat.blocked = "pod " + NameOf(pod) +
                   " was let through to the node before, and can no longer be placed there; wait "
                   "until the node shows it, or its place is dropped";
  }
  SetKept(seat, std::move(node));
}

void Extender::KeepOnly(Kept& kept, const std::string& uid, const std::vector<std::string>& nodes) {
  for (const std::string& name : kept.nodes) {
    const auto seat = seats_.find(name);
    if (seat == seats_.end() || std::ranges::find(nodes, name) != nodes.end()) continue;
    std::erase(seat->second.pods, uid);
    Place(seat->second);
  }
  std::erase_if(kept.nodes, [&](const std::string& name) {
    return std::ranges::find(nodes, name) == nodes.end();
  });
}

void Extender::Drop(const std::string& uid) {
  const auto kept = kept_.find(uid);
  if (kept == kept_.end()) return;
  KeepOnly(kept->second, uid, {});
  kept_.erase(kept);
}

// There is one pod of a name: an earlier one with another UID is gone.
void Extender::DropNamesakesOf(const PlannedPod& pod) {
  const auto namesake = std::ranges::find_if(
      kept_, [&](const auto& kept) { return NameOf(kept.second.pod) == NameOf(pod); });
  if (namesake != kept_.end()) Drop(std::string(namesake->first));
}

Extender::Shape& Extender::ShapeOf(const PlannedPod& pod) {
  PlannedPod nameless = WithoutNames(pod);
  const auto found =
      std::ranges::find_if(shapes_, [&](const auto& shape) { return shape->pod == nameless; });
  if (found != shapes_.end()) return **found;
  if (shapes_.size() == kMaxShapes) shapes_.erase(shapes_.begin());
  shapes_.push_back(std::make_unique<Shape>());
  shapes_.back()->pod = std::move(nameless);
  return *shapes_.back();
}

void Extender::AskAll(Shape& shape, const std::vector<std::string>& names) {
  std::vector<std::pair<const PlannedNode* const, Answer>*> missing;
  for (const std::string& name : names) {
    const auto seat = seats_.find(name);
    if (seat == seats_.end() || seat->second.kept == nullptr) continue;
    const auto [answer, is_new] = shape.answers.try_emplace(seat->second.kept.get());
    if (is_new) missing.push_back(&*answer);
  }
  const placement::ScoreStrategy strategy = settings_.strategy;
  settings_.for_each(missing.size(), [&](size_t i) {
    missing[i]->second = AnswerOfNode(*missing[i]->first, shape.pod, strategy);
  });
}

const Extender::Answer& Extender::AnswerOf(Shape& shape, const NodePointer& node) {
  const auto [known, is_new] = shape.answers.try_emplace(node.get());
  if (is_new) known->second = AnswerOfNode(*node, shape.pod, settings_.strategy);
  return known->second;
}

Extender::Answer Extender::AnswerOfNode(const PlannedNode& node, const PlannedPod& pod,
                                        placement::ScoreStrategy strategy) {
  placement::Verdict verdict = node.Ask(pod);
  Answer answer{verdict.outcome, verdict.stage, std::move(verdict.cause), 0};
  if (verdict.outcome == Outcome::kFits) {
    answer.score = placement::Score(strategy, node, pod, verdict);
  }
  return answer;
}

// The kept pods may come or not.
Extender::Answer Extender::AnswerOfSeat(Shape& shape, const Seat& seat) {
  if (seat.base == nullptr) {
    return {Outcome::kUndecided, placement::Stage::kKubelet,
            seat.problem ? seat.problem->Text() : std::string(kUnknownNode), 0};
  }
  if (!seat.blocked.empty()) {
    return {Outcome::kUndecided, placement::Stage::kKubelet, seat.blocked, 0};
  }
  Answer answer = AnswerOf(shape, seat.kept);
  if (seat.kept == seat.base) return answer;
  if (answer.outcome == Outcome::kFits) {
    const Answer& without = AnswerOf(shape, seat.base);
    if (without.outcome != Outcome::kFits) return without;
  } else if (answer.stage != placement::Stage::kValidation) {
    answer.cause += " (with " + std::to_string(seat.pods.size()) +
                    (seat.pods.size() == 1 ? " pod" : " pods") + " on the way to the node)";
  }
  return answer;
}

Result<Extender::Filtered> Extender::Filter(const PlannedPod& pod,
                                            const std::vector<std::string>& names,
                                            Clock::time_point now) {
  Filtered filtered;
  if (!IsConcerned(pod)) {
    filtered.nodes = names;
    return filtered;
  }
  const MutexLock lock(mutex_);
  if (problem_) return *problem_;
  Drop(pod.pod.uid);
  DropNamesakesOf(pod);
  if (known_.contains(pod.pod.uid) || known_.contains(NameOf(pod))) {
    // An earlier pod of that name, whose end is not known here yet. kube-scheduler repeats a call
    // that has failed; a pod that no node can take would wait for a change of the cluster.
    return Error{ErrorCode::kUnavailable,
                 "AlreadyExists: a node has a pod named " + NameOf(pod) +
                     " or with its UID, as the nodes were read last",
                 "wait until its end is known; kube-scheduler tries again"};
  }
  Shape& shape = ShapeOf(pod);
  AskAll(shape, names);
  std::vector<std::pair<int64_t, size_t>> fitting;  // minus the score, and the position
  for (size_t i = 0; i < names.size(); ++i) {
    const auto seat = seats_.find(names[i]);
    if (seat == seats_.end()) {
      filtered.unresolvable[names[i]] = kUnknownNode;
      continue;
    }
    Answer answer = AnswerOfSeat(shape, seat->second);
    if (answer.outcome == Outcome::kFits) {
      fitting.emplace_back(-answer.score, i);
    } else if (IsUnresolvable(answer.outcome, answer.stage)) {
      filtered.unresolvable[names[i]] = std::move(answer.cause);
    } else {
      filtered.failed[names[i]] = std::move(answer.cause);
    }
  }
  std::ranges::sort(fitting);
  if (fitting.size() > settings_.nodes_per_pod) fitting.resize(settings_.nodes_per_pod);
  std::ranges::sort(fitting, {}, &std::pair<int64_t, size_t>::second);
  for (const auto& [score, i] : fitting) {
    if (filtered.nodes.empty() || filtered.nodes.back() != names[i]) {
      filtered.nodes.push_back(names[i]);
    }
  }
  if (filtered.nodes.empty()) return filtered;
  kept_[pod.pod.uid] = {pod, filtered.nodes, now};
  for (const std::string& name : filtered.nodes) {
    Seat& seat = seats_.at(name);
    seat.pods.push_back(pod.pod.uid);
    Place(seat);
  }
  return filtered;
}

Result<std::vector<std::pair<std::string, int64_t>>> Extender::Prioritize(
    const PlannedPod& pod, const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, int64_t>> scores;
  const MutexLock lock(mutex_);
  if (problem_) return *problem_;
  const bool is_concerned = IsConcerned(pod);
  Shape* const shape = is_concerned ? &ShapeOf(pod) : nullptr;
  if (const auto kept = kept_.find(pod.pod.uid); kept != kept_.end()) {
    KeepOnly(kept->second, pod.pod.uid, names);
  }
  for (const std::string& name : names) {
    const auto seat = seats_.find(name);
    int64_t score = 0;
    if (is_concerned && seat != seats_.end() && seat->second.base != nullptr) {
      // Of the node as it was read: the pod itself is among those that are kept.
      score = AnswerOf(*shape, seat->second.base).score / kMaxExtenderPriority;
    }
    scores.emplace_back(name, score);
  }
  return scores;
}

std::optional<Error> Extender::Problem() const {
  const MutexLock lock(mutex_);
  return problem_;
}

Extender::Counts Extender::GetCounts() const {
  const MutexLock lock(mutex_);
  Counts counts{.nodes = seats_.size(), .kept_pods = kept_.size(), .dropped = dropped_};
  for (const auto& [name, seat] : seats_) {
    counts.nodes_with_problem += seat.problem ? 1 : 0;
  }
  return counts;
}

}  // namespace alignd::extender
