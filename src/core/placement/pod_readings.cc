// Pods whose annotation contradicts their spec. A node takes such a pod as the spec has it, or as
// the annotation has it, or refuses it. What later pods are answered is what holds in all cases.
#include <algorithm>
#include <utility>

#include "alignd/placement/planned_node.h"
#include "alignd/pod/pod_requests.h"
#include "core/placement/annotation_conflict.h"
#include "core/placement/faults.h"
#include "core/placement/running_pod.h"

namespace alignd::placement {
namespace {

// All readings of two such pods.
constexpr size_t kMaxReadings = 9;

Verdict Undecided(Stage stage, std::string why, std::string cause) {
  return {Outcome::kUndecided, stage, Refusal{"Undecided", std::move(why)}, std::nullopt,
          "Undecided: " + std::move(cause)};
}

// Of a pod that is decided in parts, the kubelet's refusal of the whole pod says nothing.
bool MayFit(const Verdict& verdict, bool is_whole) {
  return verdict.outcome != Outcome::kRefused || (!is_whole && verdict.stage == Stage::kKubelet);
}

// Nothing is known that all readings have in common.
Verdict UndecidedByReading(const PlannedPod& pod) {
  std::vector<std::string> reasons = pod.undecided;
  reasons.push_back(pod.annotation_conflict);
  return Undecided(Stage::kScheduler, Joined(reasons), Joined(reasons));
}

}  // namespace

void PlannedNode::Compare(Verdict other, Verdict& verdict) const {
  if (other.outcome == verdict.outcome || verdict.outcome == Outcome::kUndecided) return;
  if (other.outcome == Outcome::kUndecided) {
    verdict = std::move(other);
    return;
  }
  verdict = Undecided(
      Stage::kKubelet,
      "whether this pod fits depends on how the node takes pod " + contradicted_ +
          ", whose annotation contradicts its spec: as one of both has it, or not at all; make "
          "both equal, or remove the annotation",
      "whether this pod fits depends on how the node takes another pod, whose annotation "
      "contradicts its spec; make both equal, or remove the annotation");
}

Verdict PlannedNode::Place(const PlannedPod& pod) {
  if (!pod.annotation_conflict.empty()) return PlaceContradicted(pod);
  const ResourceList requests = RequestsOfPod(pod.pod, pod.overhead);
  Verdict verdict = PlaceHere(pod, requests);
  for (PlannedNode& other : others_) Compare(other.PlaceHere(pod, requests), verdict);
  return verdict;
}

Verdict PlannedNode::Ask(const PlannedPod& pod) const {
  if (!pod.annotation_conflict.empty()) return AskContradicted(pod);
  const ResourceList requests = RequestsOfPod(pod.pod, pod.overhead);
  Verdict verdict = AskHere(pod, requests);
  for (const PlannedNode& other : others_) Compare(other.AskHere(pod, requests), verdict);
  return verdict;
}

Verdict PlannedNode::AskContradicted(const PlannedPod& pod) const {
  const ResourceList requests = RequestsOfPod(pod.pod, pod.overhead);
  Verdict by_spec = AskHere(pod, requests);
  if (!input_->unusable.empty()) return by_spec;
  const std::optional<PlannedPod> by_annotation = ByAnnotation(pod);
  const bool is_whole = DecidedByAnnotation(pod) == Decided::kWhole;
  const auto may_fit = [&](const PlannedNode& node, Outcome outcome) {
    return outcome != Outcome::kRefused ||
           (by_annotation && MayFit(node.AskHere(*by_annotation, requests), is_whole));
  };
  const bool is_open = may_fit(*this, by_spec.outcome) ||
                       std::ranges::any_of(others_, [&](const PlannedNode& other) {
                         return may_fit(other, other.AskHere(pod, requests).outcome);
                       });
  return is_open ? UndecidedByReading(pod) : by_spec;
}

Verdict PlannedNode::PlaceContradicted(const PlannedPod& pod) {
  const ResourceList requests = RequestsOfPod(pod.pod, pod.overhead);
  if (!input_->unusable.empty()) return PlaceHere(pod, requests);
  const std::optional<PlannedPod> by_annotation = ByAnnotation(pod);
  const bool is_whole = DecidedByAnnotation(pod) == Decided::kWhole;
  PlannedNode without_pod = *this;
  std::vector<PlannedNode> others = std::exchange(others_, {});
  std::vector<PlannedNode> more;
  const auto place = [&](PlannedNode& node) {
    PlannedNode before = node;
    Verdict by_spec = node.PlaceHere(pod, requests);
    if (by_annotation) {
      PlannedNode follows = before;
      const Verdict verdict = follows.PlaceHere(*by_annotation, requests);
      if (MayFit(verdict, is_whole)) more.push_back(std::move(follows));
    }
    if (by_spec.outcome != Outcome::kRefused) more.push_back(std::move(before));
    return by_spec;
  };
  Verdict by_spec = place(*this);
  for (PlannedNode& other : others) place(other);
  const bool is_open = !more.empty();
  const bool is_known = AddOthers(std::move(others), std::move(more), pod);
  if (!is_open) return by_spec;
  if (!is_known || !is_whole) {
    // What is known holds without the pod alone.
    *this = std::move(without_pod);
    SetUndecided(pod.pod);
  }
  return UndecidedByReading(pod);
}

void PlannedNode::AddArriving(const PlannedPod& pod) {
  const ResourceList requests = RequestsOfPod(pod.pod, pod.overhead);
  const std::optional<PlannedPod> by_annotation = ByAnnotation(pod);
  const Decided decided = DecidedByAnnotation(pod);
  std::vector<PlannedNode> others = std::exchange(others_, {});
  std::vector<PlannedNode> more;
  const auto add = [&](PlannedNode& node) {
    if (by_annotation) more.emplace_back(node).ArriveHere(*by_annotation, requests, decided);
    if (pod.annotated) more.emplace_back(node).Count(pod.pod, requests);
    node.ArriveHere(pod, requests, Decided::kWhole);
  };
  add(*this);
  for (PlannedNode& other : others) add(other);
  if (!AddOthers(std::move(others), std::move(more), pod)) SetUndecided(pod.pod);
}

bool PlannedNode::AddOthers(std::vector<PlannedNode> others, std::vector<PlannedNode> more,
                            const PlannedPod& pod) {
  others_ = std::move(others);
  if (more.empty()) return true;
  if (1 + others_.size() + more.size() > kMaxReadings) return false;
  if (contradicted_.empty()) {
    contradicted_ = NameOf(pod.pod);
    notes_.push_back("pod " + contradicted_ +
                     " has an annotation that contradicts its spec: what pods after it are "
                     "assigned, and what is free, is shown as it is if the node takes that pod as "
                     "the spec has it");
  }
  others_.insert(others_.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
  return true;
}

}  // namespace alignd::placement
