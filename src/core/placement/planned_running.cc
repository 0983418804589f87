// The pods that are on a planned node already.
#include <algorithm>
#include <utility>

#include "alignd/placement/planned_node.h"
#include "alignd/pod/pod_requests.h"
#include "alignd/pod/resource_name.h"
#include "core/placement/annotation_conflict.h"
#include "core/placement/faults.h"
#include "core/placement/running_pod.h"

namespace alignd::placement {
namespace {

constexpr char kGuessNote[] =
    "no state file has what pods are assigned that run: the CPUs, NUMA nodes and devices that are "
    "shown are one possibility; add the state files for those of the node";

Result<Done> CheckRunning(const PlannedPod& pod, const std::string& name) {
  if (!pod.faults.empty()) {
    return Error{ErrorCode::kInvalidArgument, name + Joined(pod.faults), "correct its manifest"};
  }
  if (pod.has_unknown_overhead) {
    return Error{ErrorCode::kInvalidArgument, name + Joined(pod.undecided),
                 "or give the pod as the API server has it"};
  }
  return Done{};
}

// Without the CPUs and memory of the init containers that have ended, of a pod that runs: alignd
// has released them, and they may be those of another container now. Devices stay with the pod:
// `is_in_state`: the state has them.
PlannedPod WithoutEnded(const admission::Node& node, const admission::NodeState& state,
                        PlannedPod pod, bool is_in_state) {
  if (pod.is_pending) return pod;
  pod.pod.stated_qos = QosOf(pod.pod);  // of all its containers
  const auto has_ended = [&](const Container& one) {
    if (one.kind != ContainerKind::kInit) return false;
    const admission::Assignment known =
        admission::AssignmentOf(node, state, {pod.pod.uid, one.name});
    return known.exclusive.empty() && known.offline.empty() && known.memory_nodes.empty();
  };
  if (is_in_state) {
    std::erase_if(pod.pod.containers, has_ended);
    return pod;
  }
  for (Container& container : pod.pod.containers) {
    if (!has_ended(container)) continue;
    for (ResourceList* const list : {&container.resources.requests, &container.resources.limits}) {
      std::erase_if(*list, [](const auto& one) { return !IsExtendedResource(one.first); });
    }
  }
  return pod;
}

}  // namespace

void PlannedNode::CountRunning(const PlannedPod& pod) {
  const ResourceList requests = RequestsOfPod(pod.pod, pod.overhead);
  Count(pod.pod, requests);
  for (PlannedNode& other : others_) other.Count(pod.pod, requests);
}

std::set<std::string> PlannedNode::UncountedDevices(const PlannedPod& pod,
                                                    const ResourceList& counted) const {
  std::set<std::string> uncounted;
  for (const auto& [resource, amount] : RequestsOfPod(pod.pod, pod.overhead)) {
    if (!state().devices.resources.contains(resource)) continue;
    const Quantity* const known = Find(counted, resource);
    if (known == nullptr || *known < amount) uncounted.insert(resource);
  }
  return uncounted;
}

// What it has if it is not known how the node decides about it: nothing, or up to all that it
// requests.
void PlannedNode::ArriveHere(const PlannedPod& pod, const ResourceList& counted, Decided decided) {
  Count(pod.pod, counted);
  // The node refuses it, and it can stay bound for ever.
  if (IsRefusedByLabel(node(), state(), pod)) return;
  // What its claims add is not known.
  if (!pod.undecided.empty()) return SetUndecided(pod.pod);
  bool is_known = decided == Decided::kWhole && UndecidedItself(pod).empty();
  if (is_known) {
    Verdict verdict = TryKubelet(pod);
    BlurredResources blurred;
    if (input_->object_view) InterpretByObject(pod, verdict, &blurred);
    if (verdict.outcome == Outcome::kFits) CheckGuesses(pod, verdict);
    is_known = verdict.outcome == Outcome::kFits;
    if (is_known) {
      const admission::NodeState before = state();
      AskKubelet(pod);
      blurred_ = std::move(blurred);
      if (!guessed_.empty()) guessed_.Add(node(), Managed(pod), before, state());
    }
  }
  if (is_known) return;
  guessed_.AddAtMost(node(), Managed(pod), state());
  // Of others, the scheduler's sums have as many as the pod can have.
  const std::set<std::string> uncounted = UncountedDevices(pod, counted);
  if (!uncounted.empty()) guessed_.AddUnlisted(node(), Managed(pod), state(), uncounted);
}

bool PlannedNode::IsInState(const PlannedPod& pod) const {
  return admission::PodsIn(state()).contains(pod.pod.uid);
}

std::set<std::string> PlannedNode::UnlistedDevices(const PlannedPod& pod) const {
  std::set<std::string> unlisted;
  for (const auto& [container, devices] : pod.annotated_devices) {
    for (const auto& [resource, amount] : devices) {
      if (!state().devices.resources.contains(resource)) continue;
      const devicemanager::DeviceAllocation* const known =
          state().devices.Find({pod.pod.uid, container}, resource);
      if (known == nullptr || Quantity(std::ssize(known->Ids())) < amount)
        unlisted.insert(resource);
    }
  }
  return unlisted;
}

void PlannedNode::ForgetOwned(const Pod& pod) {
  unlisted_owned_.erase(NameOf(pod));
  unlisted_owned_.erase(pod.uid);
  if (unlisted_owned_.empty()) std::erase(notes_, kOwnersNote);
}

void PlannedNode::RunUnclear(const PlannedPod& reading, const PlannedPod& pod) {
  ForgetOwned(pod.pod);
  if (pod.is_resizing && !IsInState(pod)) {
    Guesses().AddResized(node(), Managed(reading), state());
  } else {
    Guesses().AddAtMost(node(), Managed(reading), state());
  }
  const ResourceList counted = RequestsOfPod(pod.pod, pod.overhead);
  std::set<std::string> devices = UnlistedDevices(pod);
  devices.merge(UncountedDevices(reading, counted));
  if (!devices.empty()) Guesses().AddUnlisted(node(), Managed(pod), state(), devices);
  Count(pod.pod, counted);
}

// A pod that comes after all that the state files have is placed like one that is planned.
void PlannedNode::MayStart(const PlannedPod& pod) {
  if (pod.is_pending && has_shares_ && guessed_.empty()) MayEndInitContainers(pod);
}

Result<Done> PlannedNode::AddRunning(const PlannedPod& planned, IfRefused if_refused) {
  const std::string name = "pod " + NameOf(planned.pod) + ", which runs: ";
  if (const Result<Done> checked = CheckRunning(planned, name); !checked.ok()) return checked;
  if (planned.is_pending && planned.node_name.empty()) return Done{};  // it is on no node
  const bool has_uid = planned.pod.uid != NameOf(planned.pod);
  if (has_pods_of_files_ && !has_uid && !planned.is_pending && !IsInState(planned)) {
    notes_.push_back(name +
                     "it has no metadata.uid, by which the state files name pods, so that what it "
                     "has may count twice; give pods as the API server has them (kubectl get pods "
                     "-o json)");
  }
  std::optional<PlannedPod> here = AsAnnotatedHere(planned);
  // A restart of alignd may have changed whether it ignores devices of annotations: what was
  // assigned before stays assigned.
  if (here && !planned.is_pending) here->annotated_devices = planned.annotated_devices;
  const PlannedPod& pod = here ? *here : planned;
  if (!pod.annotated && others_.empty()) {
    const Result<Done> ran = RunHere(pod, pod, if_refused);
    if (ran.ok()) MayStart(pod);
    return ran;
  }
  const std::optional<PlannedPod> by_annotation = ByAnnotationWhileItRuns(pod);
  const bool is_whole = DecidedByAnnotation(pod) == Decided::kWhole;
  std::optional<PlannedNode> before;
  if (pod.annotated) before = *this;
  std::vector<PlannedNode> others = std::exchange(others_, {});
  std::vector<PlannedNode> more;
  const auto run = [&](PlannedNode& node, IfRefused if_refused_there) -> Result<Done> {
    if (by_annotation) {
      PlannedNode& follows = more.emplace_back(node);
      if (is_whole) {
        const Result<Done> ran = follows.RunHere(*by_annotation, pod, IfRefused::kOpen);
        if (!ran.ok()) return ran;
      } else {
        follows.RunUnclear(*by_annotation, pod);
      }
    }
    if (pod.is_pending && MayBeRefused(pod)) {
      more.emplace_back(node).Count(pod.pod, RequestsOfPod(pod.pod, pod.overhead));
    }
    return node.RunHere(pod, pod, if_refused_there);
  };
  if (const Result<Done> ran = run(*this, if_refused); !ran.ok()) return ran;
  for (PlannedNode& other : others) {
    if (const Result<Done> ran = run(other, IfRefused::kOpen); !ran.ok()) return ran;
  }
  if (const std::optional<bool> added = AddOthers(std::move(others), std::move(more))) {
    if (*added) NoteReadings(pod);
    MayStart(pod);
    return Done{};
  }
  // There are too many ways in which the node can have such pods. Others add none.
  *this = *std::move(before);
  const auto leave_open = [&](PlannedNode& node) {
    node.RunUnclear(pod, pod);
    if (by_annotation) node.RunUnclear(*by_annotation, pod);
  };
  leave_open(*this);
  for (PlannedNode& other : others_) leave_open(other);
  return Done{};
}

Result<Done> PlannedNode::RunHere(const PlannedPod& reading, const PlannedPod& pod,
                                  IfRefused if_refused) {
  const std::string name = "pod " + NameOf(pod.pod) + ", which runs: ";
  ForgetOwned(pod.pod);
  // Its class, and so what it has, follows from its spec, which the node has not done yet.
  const bool stays_open =
      pod.is_resizing && (IsInState(pod) || DependsOnNode(BySpec(reading), node().config));
  if (!stays_open) {
    const Result<Done> placed = PlaceRunning(reading, name, if_refused);
    if (!placed.ok()) return placed;
  } else if (!IsInState(pod)) {
    Guesses().AddResized(node(), Managed(reading), state());
  }
  // With the annotation, it has them already, unless the node is one that would not admit it.
  if (const std::set<std::string> devices = UnlistedDevices(pod); !devices.empty()) {
    Guesses().AddUnlisted(node(), Managed(pod), state(), devices);
    notes_.push_back(name + "an annotation has " + Joined({devices.begin(), devices.end()}) +
                     ", which its spec does not have, and no state file has these devices for it: "
                     "pods that need some are undecided; give state files that are newer than the "
                     "pod, or make annotation and spec equal");
  }
  Count(pod.pod, RequestsOfPod(pod.pod, pod.overhead));
  return Done{};
}

bool PlannedNode::Guess(const PlannedPod& pod, bool comes, const admission::NodeState& before) {
  const Pod unnamed = WithoutNames(pod).pod;
  if (comes && guessed_.empty() && (!coming_pod_ || *coming_pod_ == unnamed)) {
    if (coming_.Add(node(), Managed(pod), before, state())) coming_pod_ = unnamed;
    return false;
  }
  GuessedPlaces places = guessed_.empty() ? coming_ : guessed_;
  if (!places.Add(node(), Managed(pod), before, state())) return false;
  guessed_ = std::move(places);
  return true;
}

GuessedPlaces& PlannedNode::Guesses() {
  if (guessed_.empty()) guessed_ = coming_;
  return guessed_;
}

Result<Done> PlannedNode::PlaceRunning(const PlannedPod& pod, const std::string& name,
                                       IfRefused if_refused) {
  PlannedPod known = AsItRuns(node(), state(), pod);
  known = WithoutEnded(node(), state(), std::move(known), IsInState(known));
  // One that has not started yet, and that the state files do not have, comes after all that they
  // have.
  const bool comes = pod.is_pending && has_shares_;
  if (has_shares_ && why_lacks_shares_.empty() && !comes) {
    why_lacks_shares_ = WhyLackShareOf(Managed(known), node(), state());
  }
  // State files do not have its NUMA node: none is chosen. What depends on it is undecided.
  if (!UnknownShares(known).empty()) known = WithoutShare(node(), std::move(known));
  if (!pod.is_pending && IsInState(known)) {
    // A node that knows it from CRI alone may have assigned its containers less, or nothing.
    const GuessedPlaces& known_before = guessed_.empty() ? coming_ : guessed_;
    GuessedPlaces places = known_before;
    places.AddAtMost(node(), Managed(known), state());
    if (known_before.empty() ? !places.empty() : places != known_before) {
      guessed_ = std::move(places);
      notes_.push_back(
          name +
          "the state files do not have all that it requests: pods whose answer depends "
          "on it are undecided; give state files that are newer than the pod");
      return Done{};
    }
  }
  const admission::NodeState before = state();
  const Verdict verdict = AskKubelet(known);
  if (verdict.outcome == Outcome::kFits) {
    if (Guess(known, comes, before) && std::ranges::find(notes_, kGuessNote) == notes_.end()) {
      notes_.emplace_back(kGuessNote);
    }
    return Done{};
  }
  // A refusal takes from the pod what it has.
  simulation_.SetState(before);
  const bool is_by_order = !guessed_.empty();
  const bool is_open = Guesses().AddWithoutPlace(node(), Managed(known), before);
  if (if_refused == IfRefused::kError && !comes && !is_by_order && (is_open || !IsInState(pod))) {
    return Error{ErrorCode::kInvalidArgument,
                 name + verdict.refusal->reason + ": " + verdict.refusal->message,
                 "give the pods and the state files of the same node and time"};
  }
  if (!is_open) return Done{};
  const std::string& reason = verdict.refusal->reason;
  if (comes) {
    notes_.push_back(name + "it does not fit now, and has not started (" + reason +
                     "): pods that need what it has are undecided");
  } else {
    notes_.push_back(
        name + "it does not fit " +
        (is_by_order ? "beside those before it where they are by the order of the list ("
                     : "now, and runs since before the configuration or the state files, or on "
                       "another node (") +
        reason + "): pods that need what it has are undecided; add the state files of the node");
  }
  return Done{};
}

}  // namespace alignd::placement
