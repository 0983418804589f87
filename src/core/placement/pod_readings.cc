// Pods whose annotation differs from their spec. A node takes such a pod as the spec has it, or as
// the annotation has it, or refuses it. A node that ignores the devices of annotations takes a pod
// with or without them. What later pods are answered is what holds in all cases.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "alignd/placement/planned_node.h"
#include "alignd/pod/pod_requests.h"
#include "core/placement/annotation_conflict.h"
#include "core/placement/faults.h"
#include "core/placement/running_pod.h"

namespace alignd::placement {
namespace {

// "pod default/a (and default/b; default/c)".
std::string Named(const std::vector<std::string>& names) {
  std::string text = "pod " + names.front();
  if (names.size() > 1) text += " (and " + Joined({names.begin() + 1, names.end()}) + ")";
  return text;
}

Verdict Undecided(Stage stage, std::string why, std::string cause) {
  return {Outcome::kUndecided, stage, Refusal{"Undecided", std::move(why)}, std::nullopt,
          "Undecided: " + std::move(cause)};
}

// Of a pod that is decided in parts, a refusal of the whole pod by the managers says nothing.
bool MayFit(const Verdict& verdict, bool is_whole) {
  return verdict.outcome != Outcome::kRefused || (!is_whole && verdict.admission.has_value());
}

// Nothing is known that all readings have in common.
Verdict UndecidedByReading(const PlannedPod& pod) {
  std::vector<std::string> reasons = pod.undecided;
  reasons.push_back(pod.annotation_conflict);
  return Undecided(Stage::kScheduler, Joined(reasons), Joined(reasons));
}

// What the answer about a pod depends on whose annotation does not contradict its spec.
std::string WhyOpen(const admission::Node& node, bool is_whole) {
  if (!node.config.annotated_extended_resources) {
    const std::string ignores =
        "alignd of the node ignores the extended resources of annotations "
        "(annotatedExtendedResources is false). ";
    if (is_whole) {
      return ignores +
             "It takes this pod with its devices only if it asks the kubelet's Pods API, and "
             "whether the pod fits depends on it; remove the annotation with resources";
    }
    return ignores +
           "If it does not ask the kubelet's Pods API, it decides about the containers of this pod "
           "one by one, as the annotation does not name all of them; remove the annotation with "
           "resources, or name all containers in it";
  }
  if (is_whole) {
    return "the annotation with resources has the containers in another order than the spec, a "
           "node that does not ask the kubelet's Pods API decides in that order, and whether the "
           "pod fits depends on it; list the containers in the annotation alignd.io/resources as "
           "the spec does, or remove the annotation";
  }
  return "the annotation with resources does not name all containers, and a node that does not ask "
         "the kubelet's Pods API decides about the others when they are created; name all "
         "containers in the annotation, or remove it";
}

// Of a pod that the node takes as its spec has it or as its annotation has it, and that it does not
// refuse for the annotation.
Verdict Agreed(const admission::Node& node, Verdict by_spec, Verdict by_annotation, bool is_whole) {
  const bool is_same =
      is_whole ? by_annotation.outcome == by_spec.outcome
               : by_spec.outcome == Outcome::kRefused && !MayFit(by_annotation, is_whole);
  if (by_spec.outcome == Outcome::kUndecided || is_same) return by_spec;
  if (by_annotation.outcome == Outcome::kUndecided) return by_annotation;
  const std::string why = WhyOpen(node, is_whole);
  return Undecided(Stage::kKubelet, why, why);
}

// The stored affinities matter to their own pods alone.
bool HasTheSame(const admission::NodeState& one, const admission::NodeState& other) {
  return one.cpu == other.cpu && one.memory == other.memory && one.devices == other.devices &&
         one.chosen_policies == other.chosen_policies;
}

}  // namespace

void PlannedNode::Compare(Verdict other, Verdict& verdict) const {
  if (other.outcome == verdict.outcome || verdict.outcome == Outcome::kUndecided) return;
  if (other.outcome == Outcome::kUndecided) {
    verdict = std::move(other);
    return;
  }
  constexpr char kDepends[] = "whether this pod fits depends on ";
  const bool ignores = !node().config.annotated_extended_resources;
  std::vector<std::string> ways;
  if (!contradicted_.empty()) {
    ways.push_back(Named(contradicted_) +
                   ", whose annotation contradicts its spec: as one of both has it, or not at all");
  }
  if (!otherwise_.empty()) {
    ways.push_back(Named(otherwise_) +
                   (ignores ? ", of whose annotation it ignores the extended resources: with "
                              "devices or without"
                            : ", whose annotation does not name all containers in the order of the "
                              "spec: in which order, and when"));
  }
  std::string inits;
  if (!with_inits_.empty()) {
    inits = "whether the init containers of " + Named(with_inits_) +
            " have ended, which have more than its other containers reuse";
  }
  if (ways.empty()) {
    constexpr char kRemedy[] =
        "; plan it after that pod has started, or reduce the requests of these init containers";
    verdict =
        Undecided(Stage::kKubelet, kDepends + inits + kRemedy,
                  std::string(kDepends) +
                      "whether the init containers of another pod have ended, which have more "
                      "than its other containers reuse" +
                      kRemedy);
    return;
  }
  if (!inits.empty()) inits = ", or on " + inits;
  std::string cause = "how the node takes another pod, ";
  if (!contradicted_.empty()) {
    cause += "whose annotation contradicts its spec";
  } else {
    cause += ignores ? "of whose annotation it ignores the extended resources"
                     : "whose annotation does not name all containers in the order of the spec";
  }
  const std::string remedy = contradicted_.empty()
                                 ? "; remove the annotation"
                                 : "; make annotation and spec equal, or remove the annotation";
  verdict =
      Undecided(Stage::kKubelet, kDepends + ("how the node takes " + Joined(ways)) + inits + remedy,
                kDepends + cause + remedy);
}

bool PlannedNode::IsAlike(const PlannedNode& other) const {
  return HasTheSame(state(), other.state()) && requested_.by_pod() == other.requested_.by_pod() &&
         names_ == other.names_ && undecided_ == other.undecided_ && blurred_ == other.blurred_ &&
         guessed_ == other.guessed_ && coming_ == other.coming_ &&
         coming_pod_ == other.coming_pod_ && why_lacks_shares_ == other.why_lacks_shares_ &&
         unlisted_owned_ == other.unlisted_owned_;
}

std::string UndecidedByAnnotation(const admission::Node& node, const admission::NodeState& state,
                                  const PlannedPod& planned) {
  const PlannedPod pod =
      node.config.annotated_extended_resources ? planned : WithoutAnnotatedDevices(planned);
  if (!pod.annotation_conflict.empty()) return pod.annotation_conflict;
  const std::optional<PlannedPod> by_annotation = ByAnnotation(pod);
  if (!by_annotation) return {};
  const auto fits = [&](const PlannedPod& reading) {
    const auto prefer_none = [](const devicemanager::PreferenceQuery& query) {
      return std::optional(query.must_include);
    };
    return admission::Admit(node, state, PodOn(node.config, reading), prefer_none).admitted();
  };
  // In parts, a node may admit what it refuses as a whole.
  if (IsDecidedInParts(node, state, pod)) return WhyOpen(node, /*is_whole=*/false);
  return fits(pod) == fits(*by_annotation) ? "" : WhyOpen(node, /*is_whole=*/true);
}

std::optional<PlannedPod> PlannedNode::AsAnnotatedHere(const PlannedPod& pod) const {
  if (node().config.annotated_extended_resources) return std::nullopt;
  if (!pod.annotated && !pod.without_devices) return std::nullopt;
  return WithoutAnnotatedDevices(pod);
}

Verdict PlannedNode::Place(const PlannedPod& planned) {
  const std::optional<PlannedPod> here = AsAnnotatedHere(planned);
  const PlannedPod& pod = here ? *here : planned;
  return pod.annotated ? PlaceAnnotated(pod, MayBeRefused(pod)) : PlacePlain(pod);
}

Verdict PlannedNode::PlacePlain(const PlannedPod& pod) {
  const ResourceList requests = RequestsOfPod(pod.pod, pod.overhead);
  Verdict verdict = PlaceHere(pod, requests);
  NoteWait(pod, verdict);
  for (PlannedNode& other : others_) {
    Verdict there = other.PlaceHere(pod, requests);
    NoteWait(pod, there);
    Compare(std::move(there), verdict);
  }
  MayEndInitContainers(pod);
  return verdict;
}

Verdict PlannedNode::Ask(const PlannedPod& planned) const {
  const std::optional<PlannedPod> here = AsAnnotatedHere(planned);
  const PlannedPod& pod = here ? *here : planned;
  if (pod.annotated) return AskAnnotated(pod, MayBeRefused(pod));
  const ResourceList requests = RequestsOfPod(pod.pod, pod.overhead);
  Verdict verdict = AskHere(pod, requests);
  for (const PlannedNode& other : others_) Compare(other.AskHere(pod, requests), verdict);
  return verdict;
}

void PlannedNode::LeaveOpen(const PlannedPod& planned) {
  const std::optional<PlannedPod> here = AsAnnotatedHere(planned);
  const PlannedPod& pod = here ? *here : planned;
  // Two that are open leave no more open than one.
  if (pod.annotated && undecided_.empty()) {
    PlaceAnnotated(pod, /*may_refuse=*/true);
  } else {
    SetUndecided(pod.pod);
  }
}

Verdict PlannedNode::AskAnnotated(const PlannedPod& pod, bool may_refuse) const {
  const ResourceList requests = RequestsOfPod(pod.pod, pod.overhead);
  Verdict by_spec = AskHere(pod, requests);
  if (!input_->unusable.empty()) return by_spec;
  const std::optional<PlannedPod> by_annotation = ByAnnotation(pod);
  const bool is_whole = DecidedByAnnotation(pod) == Decided::kWhole;
  bool is_open = false;
  const auto ask = [&](const PlannedNode& node, Verdict verdict) {
    is_open = is_open || verdict.outcome != Outcome::kRefused;
    if (!by_annotation) return verdict;
    Verdict annotated = node.AskHere(*by_annotation, requests);
    is_open = is_open || MayFit(annotated, is_whole);
    return may_refuse ? verdict
                      : Agreed(node.node(), std::move(verdict), std::move(annotated), is_whole);
  };
  Verdict verdict = ask(*this, std::move(by_spec));
  for (const PlannedNode& other : others_) {
    Verdict there = ask(other, other.AskHere(pod, requests));
    if (!may_refuse) Compare(std::move(there), verdict);
  }
  return may_refuse && is_open ? UndecidedByReading(pod) : verdict;
}

Verdict PlannedNode::PlaceAnnotated(const PlannedPod& pod, bool may_refuse) {
  const ResourceList requests = RequestsOfPod(pod.pod, pod.overhead);
  if (!input_->unusable.empty()) return PlaceHere(pod, requests);
  Verdict verdict = AskAnnotated(pod, may_refuse);
  const std::optional<PlannedPod> by_annotation = ByAnnotation(pod);
  const bool is_whole = DecidedByAnnotation(pod) == Decided::kWhole;
  PlannedNode without_pod = *this;
  std::vector<PlannedNode> others = std::exchange(others_, {});
  std::vector<PlannedNode> more;
  std::vector<PlannedNode> with_inits;
  std::vector<std::pair<const PlannedPod*, Verdict>> answers;
  const auto place = [&](PlannedNode& node) {
    PlannedNode before = node;
    const auto place_on = [&answers, &requests](PlannedNode& there, const PlannedPod& reading) {
      return answers.emplace_back(&reading, there.PlaceHere(reading, requests)).second;
    };
    const bool fits = place_on(node, pod).outcome != Outcome::kRefused;
    const auto end_init_containers = [&](PlannedNode& there, const PlannedPod& reading) {
      std::optional<PlannedNode> earlier = there.EndInitContainers(reading);
      if (earlier) with_inits.push_back(*std::move(earlier));
    };
    end_init_containers(node, pod);
    if (by_annotation) {
      PlannedNode follows = before;
      const bool may_fit = MayFit(place_on(follows, *by_annotation), is_whole);
      if (may_fit && !is_whole) {
        follows = before;
        if (follows.guessed_.empty()) follows.in_parts_ = NameOf(pod.pod);
        follows.ArriveHere(*by_annotation, requests, Decided::kInParts);
      }
      end_init_containers(follows, *by_annotation);
      if (may_fit || (fits && !may_refuse)) more.push_back(std::move(follows));
    }
    // Refused, or on another node, it is not here.
    if (fits && verdict.outcome != Outcome::kFits) more.push_back(std::move(before));
  };
  place(*this);
  for (PlannedNode& other : others) place(other);
  const bool has_inits = !with_inits.empty();
  std::optional<bool> added = AddOthers(std::move(others), std::move(more));
  if (added && *added) NoteReadings(pod);
  if (added && has_inits) {
    added = AddOthers(std::exchange(others_, {}), std::move(with_inits));
    if (added && *added) NoteInitContainers(pod.pod);
  }
  if (!added) {
    // What is known holds without the pod alone.
    *this = std::move(without_pod);
    if (verdict.outcome != Outcome::kFits) {
      SetUndecided(pod.pod, /*is_by_annotation=*/true);
      return verdict;  // no later pod is decided
    }
    // It is on the node, as one of both has it.
    const auto take = [&](PlannedNode& node) {
      if (node.guessed_.empty()) node.by_many_ = NameOf(pod.pod);
      node.ArriveHere(pod, requests, Decided::kInParts);
      if (!by_annotation) return;
      node.guessed_.AddAtMost(node.node(), node.Managed(*by_annotation), node.state());
    };
    take(*this);
    for (PlannedNode& other : others_) take(other);
  }
  for (const auto& [reading, answer] : answers) NoteWait(*reading, answer);
  return verdict;
}

void PlannedNode::AddArriving(const PlannedPod& planned) {
  const std::optional<PlannedPod> here = AsAnnotatedHere(planned);
  const PlannedPod& pod = here ? *here : planned;
  const ResourceList requests = RequestsOfPod(pod.pod, pod.overhead);
  const std::optional<PlannedPod> by_annotation = ByAnnotation(pod);
  const Decided decided = DecidedByAnnotation(pod);
  std::vector<PlannedNode> others = std::exchange(others_, {});
  std::vector<PlannedNode> more;
  const auto add = [&](PlannedNode& node) {
    if (by_annotation) more.emplace_back(node).ArriveHere(*by_annotation, requests, decided);
    if (MayBeRefused(pod)) more.emplace_back(node).Count(pod.pod, requests);
    node.ArriveHere(pod, requests, Decided::kWhole);
  };
  add(*this);
  for (PlannedNode& other : others) add(other);
  const std::optional<bool> added = AddOthers(std::move(others), std::move(more));
  if (!added) return SetUndecided(pod.pod, /*is_by_annotation=*/true);
  if (*added) NoteReadings(pod);
}

std::optional<bool> PlannedNode::AddOthers(std::vector<PlannedNode> others,
                                           std::vector<PlannedNode> more) {
  others_.clear();
  const size_t count = others.size();
  std::ranges::move(more, std::back_inserter(others));
  size_t before = 0;
  for (size_t i = 0; i < others.size(); ++i) {
    const auto is_known = [&](const PlannedNode& one) { return one.IsAlike(others[i]); };
    if (!is_known(*this) && std::ranges::none_of(others_, is_known)) {
      others_.push_back(std::move(others[i]));
    }
    if (i < count) before = others_.size();
  }
  if (1 + others_.size() > kMaxReadings) {
    others_.erase(others_.begin() + static_cast<std::ptrdiff_t>(before), others_.end());
    return std::nullopt;
  }
  return others_.size() > before;
}

void PlannedNode::NoteReadings(const PlannedPod& pod) {
  const bool is_agreed = pod.annotation_conflict.empty();
  std::vector<std::string>& names = is_agreed ? otherwise_ : contradicted_;
  names.push_back(NameOf(pod.pod));
  if (names.size() > 1) return;
  const char* const what =
      !is_agreed ? " has an annotation that contradicts its spec: "
      : node().config.annotated_extended_resources
          ? " has an annotation that does not name all containers in the order of the spec: "
          : " has an annotation of which the node ignores the extended resources: ";
  notes_.push_back(
      Named(names) + what +
      "what pods after it are assigned, and what is free, is shown as it is if the node takes that "
      "pod as the spec has it");
}

}  // namespace alignd::placement
