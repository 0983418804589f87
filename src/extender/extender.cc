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

// A place that has been kept for long enough is dropped when the nodes have been heard again: with
// the API server, at the latest then.
constexpr std::chrono::seconds kUntilShown{60};

constexpr char kUnknownNode[] =
    "the extender does not know the node: add its objects or its description";

// Whether the end of other pods would change nothing.
bool IsUnresolvable(Outcome outcome, placement::Stage stage) {
  return outcome == Outcome::kUndecided || stage == placement::Stage::kValidation;
}

}  // namespace

std::string Extender::NameOf(const PlannedPod& pod) {
  return pod.pod.name_space + "/" + pod.pod.name;
}

bool IsConcerned(const PlannedPod& pod) {
  return !pod.faults.empty() || placement::DependsOnNumaNodes(pod);
}

bool Extender::Concerns(const PlannedPod& pod) const {
  return IsConcerned(pod) || policies_.Concern(pod);
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
    if (const auto found = fleet->problems().find(i); found != fleet->problems().end()) {
      seat.problem = found->second;
    } else {
      seat.base = seat.kept = NodePointer(fleet, &node);
      policies_.Set(fleet->NameOf(i), node.node().config);
    }
    names.insert(fleet->NameOf(i));
    for (std::string& pod : node.KnownPods()) known.emplace(std::move(pod), fleet->NameOf(i));
  }
  policies_.KeepOnly(names);

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
    if (change.node != nullptr) policies_.Set(change.name, change.node->node().config);
    seat.problem = change.problem;
    seat.known = change.pods;
    for (const std::string& pod : change.pods) known_[pod] = change.name;
    names.insert(change.name);
  }
  DropSeen();
  Reseat(names);
  for (const NodeChange& change : changes) {
    if (!change.is_gone) continue;
    seats_.erase(change.name);
    policies_.Remove(change.name);
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

Extender::Shape& Extender::ShapeOf(const PlannedPod& pod) {
  PlannedPod nameless = WithoutNames(pod);
  nameless.pod.stated_qos = QosOf(nameless.pod);  // else, each node would find it out anew
  const auto found =
      std::ranges::find_if(shapes_, [&](const auto& shape) { return shape->pod == nameless; });
  if (found != shapes_.end()) return **found;
  if (shapes_.size() == kMaxShapes) shapes_.erase(shapes_.begin());
  shapes_.push_back(std::make_unique<Shape>());
  shapes_.back()->pod = std::move(nameless);
  return *shapes_.back();
}

std::string Extender::WhyNotAsked(const Seat& seat) {
  if (seat.base != nullptr) return seat.blocked;
  return seat.problem ? seat.problem->Text() : kUnknownNode;
}

std::vector<Extender::Candidate> Extender::CandidatesOf(Shape& shape,
                                                        const std::vector<std::string>& names,
                                                        Clock::time_point now, Filtered& filtered) {
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = seats_.find(names[i]);
    if (found == seats_.end()) {
      filtered.unresolvable[names[i]] = kUnknownNode;
      continue;
    }
    const Seat& seat = found->second;
    std::string why = WhyNotAsked(seat);
    if (why.empty()) {
      candidates.push_back({.position = i, .seat = &seat});
    } else {
      // What is refused without the kept pods, they do not cause.
      if (!seat.blocked.empty() && !filtered.waits &&
          AskedOf(shape, seat.base).answer->outcome == Outcome::kFits) {
        filtered.waits = WaitsFor(seat, names[i], why, now);
      }
      filtered.unresolvable[names[i]] = std::move(why);
    }
  }
  if (!placement::IsScoredFirst(settings_.strategy)) AskAll(shape, candidates);
  ScoreAll(shape, candidates);
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.position < b.position;
  });
  return candidates;
}

void Extender::AskAll(Shape& shape, std::span<const Candidate> candidates) {
  std::vector<std::pair<const PlannedNode* const, Known>*> missing;
  for (const Candidate& candidate : candidates) {
    for (const NodePointer& node : {candidate.seat->kept, candidate.seat->base}) {
      auto& entry = *shape.known.try_emplace(node.get()).first;
      if (entry.second.answer) continue;
      entry.second.answer = Answer{};  // once, if several nodes share one value
      missing.push_back(&entry);
    }
  }
  settings_.for_each(missing.size(), [&](size_t i) {
    Ask(*missing[i]->first, shape.pod, settings_.strategy, missing[i]->second);
  });
}

void Extender::ScoreAll(Shape& shape, std::span<Candidate> candidates) {
  if (!shape.pod.faults.empty()) return;  // no node takes it
  std::vector<std::pair<const Seat*, Known*>> missing;
  for (const Candidate& candidate : candidates) {
    Known& known = shape.known[candidate.seat->kept.get()];
    if (known.score) continue;
    known.score = 0;
    missing.emplace_back(candidate.seat, &known);
  }
  settings_.for_each(missing.size(), [&](size_t i) {
    const auto& [seat, known] = missing[i];
    known->score =
        placement::ScoreFirst(settings_.strategy, *seat->kept, seat->available, shape.pod);
  });
  for (Candidate& candidate : candidates) {
    candidate.score = *shape.known.at(candidate.seat->kept.get()).score;
  }
}

Extender::Known& Extender::AskedOf(Shape& shape, const NodePointer& node) {
  Known& known = shape.known[node.get()];
  if (!known.answer) Ask(*node, shape.pod, settings_.strategy, known);
  return known;
}

int64_t Extender::ScoreOf(Shape& shape, const NodePointer& node) {
  Known& known = AskedOf(shape, node);
  if (known.answer->outcome != Outcome::kFits) return 0;
  if (!known.score) known.score = placement::Score(settings_.strategy, *node, shape.pod, {});
  return *known.score;
}

void Extender::Ask(const PlannedNode& node, const PlannedPod& pod,
                   placement::ScoreStrategy strategy, Known& known) {
  placement::Verdict verdict = node.Ask(pod);
  if (!placement::IsScoredFirst(strategy)) {
    const bool fits = verdict.outcome == Outcome::kFits;
    known.score = fits ? placement::Score(strategy, node, pod, verdict) : 0;
  }
  known.answer = Answer{verdict.outcome, verdict.stage, std::move(verdict.cause)};
}

// The kept pods may come or not.
Extender::Answer Extender::AnswerOfSeat(Shape& shape, const Seat& seat) {
  Answer answer = *AskedOf(shape, seat.kept).answer;
  if (seat.kept == seat.base) return answer;
  // What is refused without them, they do not cause.
  const Answer& without = *AskedOf(shape, seat.base).answer;
  if (without.outcome != Outcome::kFits) return without;
  if (answer.outcome != Outcome::kFits && answer.stage != placement::Stage::kValidation) {
    answer.cause += " (with " + std::to_string(seat.pods.size()) +
                    (seat.pods.size() == 1 ? " pod" : " pods") + " on the way to the node)";
    answer.is_by_kept_pods = true;
  }
  return answer;
}

std::optional<Error> Extender::WaitsFor(const Seat& seat, const std::string& name,
                                        const std::string& cause, Clock::time_point now) const {
  const bool has_young =
      std::ranges::any_of(seat.pods, [&](const std::string& uid) REQUIRES(mutex_) {
        return now - kept_.at(uid).since < settings_.keep_for + kUntilShown;
      });
  if (!has_young) return std::nullopt;
  return Error{ErrorCode::kUnavailable, "PlacesKept: node " + name + ": " + cause,
               "wait until the node shows the pods that were let through, or their places are "
               "dropped; kube-scheduler tries again"};
}

Result<Extender::Filtered> Extender::Filter(const PlannedPod& pod,
                                            const std::vector<std::string>& names,
                                            Clock::time_point now) {
  Filtered filtered;
  if (!Concerns(pod)) {
    filtered.nodes = names;
    return filtered;
  }
  const MutexLock lock(mutex_);
  if (problem_) return *problem_;
  if (deleted_.contains(pod.pod.uid)) {
    return Error{ErrorCode::kUnavailable, "PodDeleted: pod " + NameOf(pod) + " was deleted",
                 "nothing: kube-scheduler learns of it by itself"};
  }
  const bool is_first = !Drop(pod.pod.uid);
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
  const std::vector<Candidate> candidates = CandidatesOf(shape, names, now, filtered);
  std::vector<size_t> fitting;  // positions
  // Mostly, the best ones fit, and a decision takes longer than a score. If not, ever more nodes
  // are asked at a time.
  size_t asked = 0;
  for (size_t more = settings_.nodes_per_pod; asked < candidates.size(); more *= 8) {
    if (fitting.size() == settings_.nodes_per_pod) break;
    const auto batch =
        std::span(candidates).subspan(asked, std::min(more, candidates.size() - asked));
    AskAll(shape, batch);
    asked += batch.size();
    for (const Candidate& candidate : batch) {
      if (fitting.size() == settings_.nodes_per_pod) break;
      const std::string& name = names[candidate.position];
      Answer answer = AnswerOfSeat(shape, *candidate.seat);
      if (answer.is_by_kept_pods && !filtered.waits) {
        filtered.waits = WaitsFor(*candidate.seat, name, answer.cause, now);
      }
      if (answer.outcome == Outcome::kFits) {
        fitting.push_back(candidate.position);
      } else if (IsUnresolvable(answer.outcome, answer.stage)) {
        filtered.unresolvable[name] = std::move(answer.cause);
      } else {
        filtered.failed[name] = std::move(answer.cause);
      }
    }
  }
  std::ranges::sort(fitting);
  for (const size_t position : fitting) filtered.nodes.push_back(names[position]);
  if (filtered.nodes.empty()) {
    if (filtered.waits && !MayWait(pod.pod.uid, now)) filtered.waits.reset();
    return filtered;
  }
  filtered.waits.reset();
  waiting_.erase(pod.pod.uid);
  // An earlier answer may have been sent after all: such a place is not dropped with this answer.
  if (is_first) filtered.place = ++places_;
  kept_[pod.pod.uid] = {pod, filtered.nodes, now, filtered.place};
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
  if (!Concerns(pod)) {
    for (const std::string& name : names) scores.emplace_back(name, 0);
    return scores;
  }
  const MutexLock lock(mutex_);
  if (problem_) return *problem_;
  Shape& shape = ShapeOf(pod);
  if (const auto kept = kept_.find(pod.pod.uid); kept != kept_.end()) {
    KeepOnly(kept->second, pod.pod.uid, names);
  }
  for (const std::string& name : names) {
    const auto seat = seats_.find(name);
    int64_t score = 0;
    if (seat != seats_.end() && seat->second.base != nullptr) {
      // Of the node as it was read: the pod itself is among those that are kept.
      score = ScoreOf(shape, seat->second.base) / kMaxExtenderPriority;
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

std::map<std::string, std::string> Extender::NodeProblems() const {
  const MutexLock lock(mutex_);
  std::map<std::string, std::string> problems;
  for (const auto& [name, seat] : seats_) {
    if (seat.problem) problems.emplace(name, seat.problem->Text());
  }
  return problems;
}

std::string DescribeProblems(const std::map<std::string, std::string>& problems) {
  constexpr size_t kShown = 3;
  std::string text = std::to_string(problems.size()) +
                     (problems.size() == 1 ? " node cannot be used" : " nodes cannot be used");
  size_t shown = 0;
  for (const auto& [name, problem] : problems) {
    if (shown++ == kShown) break;
    text += (shown == 1 ? ": " : " | ") + name + ": " + problem;
  }
  if (problems.size() > kShown) {
    text += " | and " + std::to_string(problems.size() - kShown) + " more";
  }
  return text;
}

}  // namespace alignd::extender
