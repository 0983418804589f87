#include "alignd/placement/planned_node.h"

#include <algorithm>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/pod_level.h"
#include "alignd/cpumanager/node_shares.h"
#include "alignd/pod/pod_requests.h"
#include "core/placement/faults.h"
#include "core/placement/node_object.h"
#include "core/placement/running_pod.h"

namespace alignd::placement {
namespace {

// The kubelet refuses the pod.
void SetRefused(Verdict& verdict, Refusal refusal) {
  verdict.outcome = Outcome::kRefused;
  verdict.cause = refusal.reason + ": " + refusal.message;
  verdict.refusal = std::move(refusal);
}

Verdict Ended(Outcome outcome, Stage stage, Refusal refusal, std::string cause = {}) {
  if (cause.empty()) cause = refusal.reason + ": " + refusal.message;
  return {outcome, stage, std::move(refusal), std::nullopt, std::move(cause)};
}

}  // namespace

Result<PlannedNode> PlannedNode::Make(NodeInput input, const KubeletConfig& config,
                                      int64_t pod_limit, const NodeFiles& files) {
  scenario::Scenario scenario;
  scenario.node = input.description;
  scenario.config = config;
  scenario.files = {files.cpu_manager_state, files.memory_manager_state, files.device_checkpoint};
  Result<Allocatable> allocatable = AllocatableOf(input.description.machine, config, pod_limit);
  if (!allocatable.ok()) return allocatable.error();
  if (const Result<Done> checked = CheckStateFiles(files); !checked.ok()) return checked.error();
  Result<scenario::Simulation> simulation = scenario::Simulation::Start(scenario);
  if (!simulation.ok()) {
    Error error = simulation.error();
    scenario.files = {};
    const bool is_by_files = scenario::Simulation::Start(std::move(scenario)).ok();
    if (is_by_files) error.remedy = "give description, configuration and state files of one node";
    return error;
  }
  admission::NodeState state = simulation->state();
  const Result<Done> taken = TakeShares(files, simulation->node(), state.cpu);
  if (!taken.ok()) return taken.error();
  if (input.object_view) placement::Apply(*input.object_view, simulation->node(), state);
  simulation->SetState(std::move(state));
  AddDeviceCounts(simulation->state().devices, allocatable->amounts);
  if (input.object) {
    const Result<Done> used = UseNodeObject(*input.object, config, input, *allocatable);
    if (!used.ok()) return used.error();
  }
  PlannedNode node(*std::move(simulation), *std::move(allocatable), std::move(input));
  node.why_lacks_shares_ = WhyLackShares(files, node.node());
  node.has_shares_ = !files.cpu_shares.empty() && node.why_lacks_shares_.empty();
  node.unlisted_owned_ = UnlistedOwned(files, node.node(), node.input_->owned);
  if (!node.unlisted_owned_.empty()) node.notes_.emplace_back(kOwnersNote);
  if (!node.input_->object_view) node.CountPodsOfFiles();
  return node;
}

PlannedNode::PlannedNode(scenario::Simulation simulation, Allocatable allocatable, NodeInput input)
    : simulation_(std::move(simulation)), allocatable_(std::move(allocatable)), input_([&input] {
        input.description = {};  // the simulation has it
        return std::make_shared<const NodeInput>(std::move(input));
      }()) {
  notes_ = input_->notes;
}

void PlannedNode::CountPodsOfFiles() {
  const admission::NodeState& state = simulation_.state();
  const std::set<std::string> uids = admission::PodsIn(state);
  has_pods_of_files_ = !uids.empty();
  for (const std::string& uid : uids) {
    ResourceList requests;
    const CpuSet cpus = state.cpu.HeldBy(uid);
    if (!cpus.empty()) requests["cpu"] = Quantity(cpus.Count());
    const int64_t millis = cpumanager::SharesOf(state.cpu, uid);
    if (millis > 0) requests["cpu"] += Quantity::Parse(std::to_string(millis) + "m").value();
    for (const memorymanager::Block& block : state.memory.BookedFor(uid)) {
      const auto bytes = static_cast<int64_t>(std::min<uint64_t>(block.size, INT64_MAX));
      requests[block.type] += Quantity(bytes, Quantity::Format::kBinarySi);
    }
    for (const auto& [resource, devices] : state.devices.resources) {
      const auto ids = static_cast<int64_t>(state.devices.PodIds(uid, resource).size());
      if (ids > 0) requests[resource] = Quantity(ids);
    }
    requested_.Add(uid, requests);
  }
}

std::optional<Verdict> PlannedNode::RefusedByScheduler(const PlannedPod& pod,
                                                       const ResourceList& requests) const {
  if (!pod.gates.empty()) {
    return Ended(Outcome::kRefused, Stage::kScheduler,
                 {"SchedulingGated",
                  "Scheduling is blocked due to non-empty scheduling gates: " + Joined(pod.gates)});
  }
  std::vector<std::string> reasons;
  std::vector<std::string> causes;
  for (const Shortage& shortage : requested_.ShortagesOf(allocatable_, pod.pod.uid, requests)) {
    reasons.push_back(Describe(shortage));
    causes.push_back(CauseOf(shortage));
  }
  if (input_->object) {
    for (const std::string& reason : UnmetConstraints(*input_->object, pod)) {
      reasons.push_back(reason);
      causes.push_back(reason);
    }
  }
  if (reasons.empty()) return std::nullopt;
  return Ended(Outcome::kRefused, Stage::kScheduler, {"Unschedulable", Joined(reasons)},
               "Unschedulable: " + Joined(causes));
}

bool PlannedNode::IsNodeOf(const PlannedPod& pod) const {
  return !input_->object || UnmetConstraints(*input_->object, pod).empty();
}

std::optional<Verdict> PlannedNode::BeforeKubelet(const PlannedPod& pod,
                                                  const ResourceList& counted) const {
  if (!pod.faults.empty()) {
    return Ended(Outcome::kRefused, Stage::kValidation, {"Invalid", Joined(pod.faults)});
  }
  const std::string name = NameOf(pod.pod);
  if (names_.contains(name)) {
    return Ended(Outcome::kRefused, Stage::kValidation,
                 {"AlreadyExists", "the node has a pod named " + name});
  }
  if (input_->unusable.empty()) {
    if (std::optional<Verdict> refused = RefusedByScheduler(pod, counted)) return refused;
  }
  // Source: kubernetes pkg/kubelet/lifecycle/predicate.go, rejectPodAdmissionBasedOnOSSelector and
  // rejectPodAdmissionBasedOnOSField.
  if (pod.os_label && pod.os_label != "linux") {
    return Ended(Outcome::kRefused, Stage::kKubelet,
                 {"PodOSSelectorNodeLabelDoesNotMatch",
                  "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"});
  }
  if (!pod.os.empty() && pod.os != "linux") {
    return Ended(
        Outcome::kRefused, Stage::kKubelet,
        {"PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"});
  }
  std::vector<std::string> undecided = UndecidedItself(pod);
  if (undecided.empty()) undecided = UndecidedBefore(pod.pod.uid);
  if (undecided.empty()) return std::nullopt;
  return Ended(Outcome::kUndecided, Stage::kScheduler, {"Undecided", Joined(undecided)});
}

Verdict PlannedNode::PlaceHere(const PlannedPod& pod, const ResourceList& counted) {
  if (std::optional<Verdict> early = BeforeKubelet(pod, counted)) {
    if (early->outcome == Outcome::kUndecided && !UndecidedItself(pod).empty()) {
      SetUndecided(pod.pod);
    }
    return *std::move(early);
  }
  if (input_->object_view) {
    Verdict interpreted = TryKubelet(pod);
    BlurredResources blurred;
    InterpretByObject(pod, interpreted, &blurred);
    if (interpreted.outcome == Outcome::kUndecided) SetUndecided(pod.pod);
    if (interpreted.outcome != Outcome::kFits) return interpreted;
    blurred_ = std::move(blurred);
  }
  if (!guessed_.empty()) {
    Verdict checked = TryKubelet(pod);
    CheckGuesses(pod, checked);
    if (checked.outcome == Outcome::kUndecided) {
      SetUndecided(pod.pod);
      return checked;
    }
  }
  std::erase_if(undecided_, [&pod](const UndecidedPod& one) { return one.uid == pod.pod.uid; });
  const admission::NodeState before = state();
  Verdict verdict = AskKubelet(pod);
  if (verdict.outcome != Outcome::kFits) return verdict;
  Count(pod.pod, counted);
  // Where it is follows from where those are.
  if (!guessed_.empty()) guessed_.Add(node(), Managed(pod), before, state());
  return verdict;
}

Verdict PlannedNode::AskHere(const PlannedPod& pod, const ResourceList& counted) const {
  if (std::optional<Verdict> early = BeforeKubelet(pod, counted)) return *std::move(early);
  Verdict verdict = TryKubelet(pod);
  if (input_->object_view) InterpretByObject(pod, verdict, nullptr);
  if (verdict.outcome != Outcome::kUndecided) CheckGuesses(pod, verdict);
  return verdict;
}

Pod PlannedNode::Managed(const PlannedPod& pod) const {
  return admission::OnThisNode(node(), PodOn(node().config, pod));
}

void PlannedNode::CheckGuesses(const PlannedPod& pod, Verdict& verdict) const {
  if (guessed_.empty()) return;
  const std::string why = guessed_.WhyOpen(node(), Managed(pod), *verdict.admission);
  if (why.empty()) return;
  // A node of objects has no state files, and knows all pods but those that are starting.
  const bool is_of_object = input_->object_view.has_value();
  const std::string whose = " the CPUs, memory and devices of pod " + guessed_.first();
  if (guessed_.first() == in_parts_) {
    verdict = Ended(
        Outcome::kUndecided, Stage::kKubelet,
        {"Undecided", "the node decides about the containers of pod " + in_parts_ +
                          " one by one, as its annotation does not name all of them: it is not "
                          "known which CPUs, memory and devices it has, and whether this pod fits "
                          "depends on " +
                          why + "; name all containers in that annotation"},
        "Undecided: the node decides about the containers of another pod one by one, as its "
        "annotation does not name all of them, and whether this pod fits depends on it; name all "
        "containers in that annotation");
    return;
  }
  if (guessed_.first() == by_many_) {
    verdict = Ended(
        Outcome::kUndecided, Stage::kKubelet,
        {"Undecided",
         "it is not known how the node takes pod " + by_many_ +
             ", whose annotation it follows in part or in another order than the spec, and whether "
             "this pod fits depends on " +
             why + "; remove that annotation with resources"},
        "Undecided: it is not known how the node takes another pod, whose annotation it follows in "
        "part or in another order than the spec, and whether this pod fits depends on it; remove "
        "that annotation with resources");
    return;
  }
  if (guessed_.first() == by_many_inits_) {
    verdict = Ended(
        Outcome::kUndecided, Stage::kKubelet,
        {"Undecided",
         "whether this pod fits depends on " + why + ", of the init containers of pod " +
             by_many_inits_ +
             " and of pods after it: once these have ended, what they had is free again; plan it "
             "after these pods have started, or reduce the requests of their init containers"},
        "Undecided: whether this pod fits depends on whether the init containers of other pods "
        "have ended; plan it after these pods have started, or reduce the requests of their init "
        "containers");
    return;
  }
  const std::string depends = " and whether this pod fits depends on ";
  verdict = Ended(
      Outcome::kUndecided, Stage::kKubelet,
      {"Undecided", is_of_object
                        ? "the object does not have" + whose + ", which starts," + depends + why +
                              "; ask again when a newer object has that pod"
                        : "no state file has" + whose + "," + depends + why +
                              "; add the state files of the node (--state-dir)"},
      is_of_object ? "Undecided: the object does not have what a pod that starts is assigned, and "
                     "whether this pod fits depends on it; ask again when a newer object has that "
                     "pod"
                   : "Undecided: no state file has what pods are assigned that run, and whether "
                     "this pod fits depends on it; add the state files of the node");
}

void PlannedNode::SetUndecided(const Pod& pod, bool is_by_annotation) {
  for (PlannedNode& other : others_) other.SetUndecided(pod, is_by_annotation);
  if (std::ranges::find(undecided_, pod.uid, &UndecidedPod::uid) != undecided_.end()) return;
  undecided_.push_back({pod.uid, NameOf(pod), is_by_annotation});
}

void PlannedNode::InterpretByObject(const PlannedPod& pod, Verdict& verdict,
                                    BlurredResources* blurred) const {
  ObjectDecision interpreted =
      Interpret(*input_->object_view, node(), state(), blurred_, Managed(pod), *verdict.admission);
  if (interpreted.undecided.empty()) {
    if (blurred != nullptr) *blurred = std::move(interpreted.blurred);
    return;
  }
  verdict =
      Ended(Outcome::kUndecided, Stage::kKubelet, {"Undecided", std::move(interpreted.undecided)});
}

// A pod with CPUs and memory as a whole is admitted without devices: its containers are allocated
// them when they start.
Verdict PlannedNode::TryKubelet(const PlannedPod& planned) const {
  scenario::Trial trial = simulation_.Try(PodOn(node().config, planned));
  Verdict verdict;
  verdict.admission = std::move(trial.admission);
  if (verdict.admission->refusal) {
    SetRefused(verdict, *verdict.admission->refusal);
    return verdict;
  }
  if (!trial.started) return verdict;
  if (trial.started->waits) {
    SetRefused(verdict, trial.started->waits->second);
    return verdict;
  }
  for (const Container& container : planned.pod.containers) {
    verdict.admission->assignments[container.name] =
        admission::AssignmentOf(node(), trial.after, {planned.pod.uid, container.name});
  }
  return verdict;
}

Verdict PlannedNode::AskKubelet(const PlannedPod& planned) {
  scenario::StepResult result = simulation_.Run(scenario::AdmitPod{PodOn(node().config, planned)});
  Verdict verdict;
  verdict.admission = std::move(result.admission);
  if (verdict.admission->refusal) {
    SetRefused(verdict, *verdict.admission->refusal);
    return verdict;
  }
  const Pod pod = Managed(planned);
  if (pod.pod_level_managers != PodLevelManagers::kPod) return verdict;
  // Such a pod is admitted without devices: its containers are allocated them when they start.
  const scenario::StepResult started = simulation_.Run(scenario::StartPod{pod.uid});
  if (started.started && started.started->waits) {
    simulation_.Run(scenario::RemovePod{pod.uid});
    SetRefused(verdict, started.started->waits->second);
    return verdict;
  }
  for (const Container& container : pod.containers) {
    verdict.admission->assignments[container.name] =
        admission::AssignmentOf(node(), state(), {pod.uid, container.name});
  }
  return verdict;
}

std::vector<std::string> PlannedNode::KnownPods() const {
  std::vector<std::string> known;
  for (const auto& [uid, requests] : requested_.by_pod()) known.push_back(uid);
  known.insert(known.end(), names_.begin(), names_.end());
  return known;
}

void PlannedNode::Count(const Pod& pod, const ResourceList& requests) {
  requested_.Add(pod.uid, requests);
  names_.insert(NameOf(pod));
}

}  // namespace alignd::placement
