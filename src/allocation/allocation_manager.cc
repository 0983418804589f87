#include "allocation/allocation_manager.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <future>
#include <utility>
#include <variant>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/init_containers.h"
#include "alignd/config/kubelet_config.h"
#include "allocation/current_assignment.h"
#include "allocation/decision.h"
#include "allocation/memory_resize.h"
#include "allocation/operation.h"
#include "allocation/plugin_needs.h"
#include "allocation/requested_resize.h"
#include "allocation/reservation.h"
#include "allocation/state_limits.h"

namespace alignd::allocation {

using admission::NodeState;
using devicemanager::PreferenceQuery;
using Clock = std::chrono::steady_clock;

namespace {
// How often a decision asks for preferences again because the free devices have changed meanwhile.
constexpr int kMaxConsultations = 3;

bool IsAssigned(const EarlyAnswer& answer) {
  const auto* const outcome = std::get_if<Outcome>(&answer);
  return outcome != nullptr && std::holds_alternative<Allocated>(*outcome);
}

}  // namespace

AllocationManager::AllocationManager(admission::Node node, NodeState initial,
                                     CheckpointStore& store, DevicePlugins& plugins,
                                     KubeletAllocation& kubelet, BootRecord* boot,
                                     std::set<std::string> not_devices, AllocationEvents& events,
                                     CpuResizes resizes, std::optional<WaitQueue> waiting)
    : node_(std::move(node)),
      not_devices_(std::move(not_devices)),
      allowed_resizes_(resizes),
      plugins_(plugins),
      events_(events),
      kubelet_(kubelet),
      queue_(std::make_shared<TaskQueue>("decision")),
      writer_(
          node_, store, kubelet, [queue = queue_](auto task) { queue->Post(std::move(task)); },
          events),
      ledger_(node_, std::move(initial), writer_),
      explanations_(node_, kubelet_),
      reboot_(boot, ledger_.state().devices, [this](auto task) { writer_.Run(std::move(task)); }),
      waiting_(std::move(waiting)) {
  if (!waiting_) return;
  RenewPlaces();
  PublishWaiting();
  queue_->Post([this] {
    ScheduleExpiry();
    CheckPlacesSoon();
  });
}

AllocationManager::~AllocationManager() {
  std::promise<void> is_idle;
  queue_->Post([this, &is_idle] {
    stopping_ = true;
    const auto operations = operations_;
    for (const auto& [pod_uid, operation] : operations) {
      if (!operation->is_committed) Cancel(pod_uid, AligndStops());
    }
    for (const auto& [number, caller] : std::exchange(parked_, {})) caller.done(AligndStops());
    held_.Answer(AligndStops());
    ledger_.WhenIdle([&is_idle] { is_idle.set_value(); });
  });
  is_idle.get_future().wait();
  explanations_.Stop();  // all callers have been answered
  writer_.Stop();
  queue_->Stop();
}

// --- Requests.

void AllocationManager::Start(Caller caller) {
  queue_->AssertOnThisThread();
  if (stopping_) return caller.done(AligndStops());
  if (caller.request.IsCancelled()) return caller.done(CallerCancelled());
  if (const Result<Done> sound = RequireNames(caller.request); !sound.ok()) {
    spdlog::warn("a pod is refused: {}", sound.error().Text());
    return caller.done(sound.error());
  }
  notes_.KeepRoles(caller.request.pod, caller.request.roles_are_concluded);
  caller.request.pod = AsDecided(node_, ledger_.state(), std::move(caller.request.pod));
  if (caller.request.memory_in_cri.is_estimate) {
    KeepLargeShares(ledger_.state(), caller.request.pod);
  }
  if (PodLevelResourceManagersOn(node_.config)) notes_.NotePodLevel(node_, caller.request.pod);
  DropUnwantedRefusal(caller.request.pod.uid);
  if (const auto resize = resizes_.find(caller.request.pod.uid); resize != resizes_.end()) {
    return resize->second.behind.push_back(std::move(caller));
  }
  const auto running = operations_.find(caller.request.pod.uid);
  const bool pending = running != operations_.end();
  if (ResizeFirst(caller, pending) || RenewShare(caller, pending)) return;
  const std::vector<UnknownDevices> unknown =
      FindUnknownDevices(ledger_.state(), caller.request, not_devices_);
  if (!unknown.empty() && !caller.learned) return Learn(std::move(caller));
  std::optional<EarlyAnswer> answer = AnswerWithoutDecision(caller, unknown, pending);
  if (!answer && !caller.learned && kubelet_.MustLearn(ledger_.state(), caller.request)) {
    return Learn(std::move(caller));
  }
  AdmissionRequest request = caller.request;  // a caller that waits starts again with its own
  if (!answer) answer = Complete(caller, pending, request);
  if (answer && IsAssigned(*answer) && !ledger_.IsSaved(request.pod.uid)) {
    return AnswerOnceSaved(std::move(caller));
  }
  if (answer) return Respond(std::move(caller), *std::move(answer));
  if (!pending) {
    const auto operation = std::make_shared<Operation>();
    operation->request = std::move(request);
    operation->waiting.push_back(std::move(caller));
    operations_[operation->request.pod.uid] = operation;
    return Continue(operation);
  }
  Operation& operation = *running->second;
  const bool same = NamesNoMoreThan(request, operation.request);
  (same ? operation.waiting : operation.behind).push_back(std::move(caller));
}

std::optional<EarlyAnswer> AllocationManager::AnswerWithoutDecision(
    const Caller& caller, const std::vector<UnknownDevices>& unknown, bool pending) {
  const AdmissionRequest& request = caller.request;
  const Pod& pod = request.pod;
  const ContainerKey wanted{pod.uid, request.wanted};
  if (auto refusal = RefuseResize(node_, ledger_.state(), pod, request.wanted, allowed_resizes_)) {
    return Outcome(*refusal);
  }
  if (auto refusal =
          RefuseMemoryResize(node_, ledger_.state(), pod, request.wanted, request.memory_in_cri)) {
    return Outcome(*refusal);
  }
  notes_.SawPod(pod);
  if (const Result<Done> taken = TakeOver(wanted); !taken.ok()) return Outcome(taken.error());
  if (auto wait = reboot_.Check(wanted, ledger_.state().devices, inventory_, plugins_)) return wait;
  if (auto without = AnswerWithoutDevices(unknown, ledger_.state().devices, caller.learned,
                                          request.wanted, plugins_, inventory_)) {
    return without;
  }
  const NodeState& state = ledger_.state();
  if (const auto why = kubelet_.Unallocated(state, request)) {
    return Outcome(why->In(request.source));
  }
  const KubeletAllocatedPod& allocated = request.kubelet_allocated;
  // Devices that are assigned can be bound without a decision.
  const bool can_bind = kubelet_.AreBound(pod.uid, allocated) ||
                        (!pending && HasDevicesOf(state, pod.uid, allocated));
  // What is reserved for a decision that is being made is not assigned yet.
  const std::shared_ptr<const Snapshot> published = snapshot();
  const NodeState& assigned = pending ? published->state : state;
  if (!can_bind || !IsDecided(node_, assigned, request, notes_.admitted(), pending)) {
    return std::nullopt;
  }
  const Result<Done> bound = kubelet_.Bind(state, pod.uid, allocated);
  if (!bound.ok()) return Outcome(bound.error());
  Outcome outcome(AssignmentsOf(node_, published->state, pod));
  // A pod that is admitted again, with its resources from another source.
  const auto newest = decisions_.Newest(pod.uid, 1);
  const bool is_news =
      request.wanted.empty() && !newest.empty() && newest.front()->source != request.source;
  if (is_news) {
    PodDecision again = DecisionAbout(node_, published->state, pod, request.source);
    again.Set(outcome);
    decisions_.Add(std::move(again));
  }
  return outcome;
}

Result<Done> AllocationManager::TakeOver(const ContainerKey& key) {
  Result<std::optional<NodeState>> next = kubelet_.TakeOver(key, ledger_.state());
  if (next.ok() && !*next) return Done{};
  const Result<Done> fits = next.ok() ? RequireReadable(**next) : Result<Done>(next.error());
  if (!fits.ok()) {
    kubelet_.DropUnassigned(ledger_.state(), key.pod_uid);  // some are bound already
    return fits.error();
  }
  ledger_.Keep(**std::move(next));
  SaveOrLog("devices that the kubelet allocated");
  return Done{};
}

void AllocationManager::SaveOrLog(const std::string& what) {
  ledger_.Save([what](const Result<Done>& saved) {
    if (!saved.ok()) spdlog::error("{}: {}", what, saved.error().Text());
  });
}

// --- The decision.

void AllocationManager::Continue(const std::shared_ptr<Operation>& operation) {
  const AdmissionRequest& request = operation->request;
  const NodeState& state = ledger_.state();
  if (AwaitedPlugin(state, request, plugins_, inventory_)) return StartAgain(operation);
  if (MustWait(operation)) return;
  const bool may_ask = operation->consultations < kMaxConsultations;
  const Clock::time_point begun = Clock::now();
  Decision made = Decide(node_, state, request, kubelet_, operation->preferences, may_ask,
                         [&] { return Releasable(request); });
  operation->computed += Clock::now() - begun;
  if (!made.unanswered.empty()) return AskPreferences(operation, made.unanswered);
  PodDecision& decision =
      operation->decision.emplace(DecisionAbout(node_, state, request.pod, request.source));
  decision.wanted = request.wanted;
  decision.containers = std::move(made.admission.decisions);
  decision.refused_at = std::move(made.admission.refused_at);
  operation->before = state;
  if (waiting_) operation->generation = waiting_->generation();
  if (made.admission.refusal) {
    return Refuse(operation, *std::move(made.admission.refusal), made.by_policy);
  }
  if (MustWait(operation)) return;
  operation->released = std::move(made.released);
  AskPlugins(operation, std::move(made.admission.next));
}

void AllocationManager::AskPreferences(const std::shared_ptr<Operation>& operation,
                                       const std::set<PreferenceQuery>& queries) {
  ++operation->consultations;
  operation->awaited = queries.size();
  for (const PreferenceQuery& query : queries) {
    plugins_.GetPreferredAllocation(query, Posted([this, operation, query](const auto& answer) {
                                      if (operation->ended) return;
                                      operation->preferences[query] = answer;
                                      if (--operation->awaited == 0) Continue(operation);
                                    }));
  }
}

void AllocationManager::AskPlugins(const std::shared_ptr<Operation>& operation, NodeState next) {
  const Pod& pod = operation->request.pod;
  Reservation reservation = Difference(pod, ledger_.state(), next);
  const std::vector<PluginAsk> asks = PluginAsks(pod, next, reservation, notes_.admitted());
  operation->is_reserved = !reservation.IsEmpty() || !asks.empty();
  if (operation->is_reserved) {
    ledger_.Reserve(std::move(next), std::move(reservation));
  } else {
    ledger_.Keep(std::move(next));
  }
  ForgetReleased(operation->released);  // also if a plugin fails
  if (asks.empty()) return Commit(operation);
  operation->awaited = asks.size();
  for (const PluginAsk& ask : asks) {
    plugins_.Allocate(
        ask.resource, ask.ids,
        Posted([this, operation, ask, begun = Clock::now()](const Result<std::string>& response) {
          events_.PluginAllocated(ask.resource, Clock::now() - begun);
          OnResponse(operation, ask, response);
        }));
  }
}

void AllocationManager::OnResponse(const std::shared_ptr<Operation>& operation,
                                   const PluginAsk& ask, const Result<std::string>& response) {
  if (operation->ended) return;
  if (!response.ok()) return Fail(*operation, UnexpectedAdmissionError(response.error().Text()));
  operation->responses.emplace_back(ask, *response);
  if (--operation->awaited > 0) return;
  NodeState next = ledger_.state();
  for (const auto& [answered, text] : operation->responses) {
    next.devices.allocations[answered.key].at(answered.resource).response = text;
  }
  if (const Result<Done> fits = RequireReadable(next); !fits.ok()) {
    return Fail(*operation, fits.error());
  }
  ledger_.Amend(std::move(next));
  Commit(operation);
}

void AllocationManager::Commit(const std::shared_ptr<Operation>& operation) {
  const AdmissionRequest& request = operation->request;
  if (operation->is_reserved) {
    const Result<Done> fits = RequireReadable(ledger_.state());
    if (!fits.ok()) return Fail(*operation, fits.error());
  }
  const Result<Done> bound =
      kubelet_.Bind(ledger_.state(), request.pod.uid, request.kubelet_allocated);
  if (!bound.ok()) return Fail(*operation, bound.error());
  operation->is_committed = true;
  // The release of stopped pods is saved, too, also for a pod of which nothing is.
  const bool must_save = operation->is_reserved || !operation->released.empty();
  if (!must_save && ledger_.IsSaved(request.pod.uid)) return Assign(*operation);
  const auto done = [this, operation](const Result<Done>& saved) {
    if (operation->ended) return;
    if (!saved.ok()) {
      operation->keeps_place = true;  // the pod is not at fault: its next call is tried again
      NoteCall(operation->request);
      return Fail(*operation, saved.error());
    }
    Assign(*operation);
  };
  if (operation->is_reserved) return ledger_.Commit(request.pod.uid, done);
  ledger_.Save(done);
}

void AllocationManager::Assign(Operation& operation) {
  Finish(operation, AssignmentsOf(node_, snapshot()->state, operation.request.pod));
}

void AllocationManager::Fail(Operation& operation, const Outcome& why) {
  const std::string& pod_uid = operation.request.pod.uid;
  if (operation.is_reserved) {
    ledger_.GiveBack(pod_uid);
    ResourcesReleased();
  }
  if (operation.is_committed) kubelet_.DropUnassigned(ledger_.state(), pod_uid);
  if (!operation.released.empty()) {  // the stopped pods stay released
    ledger_.Keep(ledger_.state());
    SaveOrLog("release of stopped pods");
  }
  Finish(operation, why);
}

void AllocationManager::Finish(Operation& operation, const Outcome& outcome) {
  const std::string pod_uid = operation.request.pod.uid;
  const auto self = operations_.extract(pod_uid);  // keeps it alive here
  operation.ended = true;
  if (operation.abandoned) *operation.abandoned = true;
  if (operation.decision) Report(operation, outcome);
  if (std::holds_alternative<Allocated>(outcome)) notes_.Admitted(operation.request.pod);
  std::vector<Caller> further;
  if (!operation.keeps_place) {  // before the callers know
    const bool is_admitted = std::holds_alternative<Allocated>(outcome);
    further = LeaveQueue(operation.request, is_admitted ? WaitEnd::kAdmitted : operation.wait_end);
  }
  for (const Caller& caller : operation.waiting) caller.done(outcome);
  for (Caller& caller : further) Start(std::move(caller));
  for (Caller& caller : operation.behind) Start(std::move(caller));
}

void AllocationManager::Report(Operation& operation, const Outcome& outcome) {
  PodDecision& decision = *operation.decision;
  decision.Set(outcome);
  const bool is_news = decisions_.Add(decision);
  events_.Decided(
      {.node = node_,
       .before = *operation.before,
       .pod = operation.request.pod,
       .decision = decision,
       .is_repeated = !is_news,
       .computed = operation.computed,
       .whole = (operation.IsRefused() ? operation.refused : Clock::now()) - operation.begun});
}

void AllocationManager::StartAgain(const std::shared_ptr<Operation>& operation) {
  operations_.erase(operation->request.pod.uid);
  operation->ended = true;
  for (Caller& caller : operation->waiting) Start(std::move(caller));
  for (Caller& caller : operation->behind) Start(std::move(caller));
}

void AllocationManager::EndWaits() {
  may_wait_ = false;
  held_.Answer(AligndStops());
}

// --- What requests have shown.

std::set<std::string> AllocationManager::InitContainers(const std::string& pod_uid) const {
  return notes_.InitContainers(pod_uid);
}

std::optional<bool> AllocationManager::HasPodLevelResources(const std::string& pod_uid) const {
  return notes_.HasPodLevelResources(pod_uid);
}

std::optional<bool> AllocationManager::AnnotatedPodLevel(const std::string& pod_uid) const {
  return notes_.AnnotatedPodLevel(pod_uid);
}

}  // namespace alignd::allocation
