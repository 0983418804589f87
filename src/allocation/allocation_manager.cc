#include "allocation/allocation_manager.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "alignd/admission/admission.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/init_containers.h"
#include "allocation/counted_refusal.h"
#include "allocation/held.h"
#include "allocation/operation.h"
#include "allocation/plugin_needs.h"
#include "allocation/reservation.h"

namespace alignd::allocation {

using admission::NodeState;
using devicemanager::PreferenceQuery;

namespace {

// How often a decision asks for preferences anew because the free devices have moved meanwhile.
constexpr int kMaxConsultations = 3;

// What became of it, and when.
void SetOutcome(const Outcome& outcome, PodDecision& decision) {
  decision.time = std::chrono::system_clock::now();
  if (const auto* granted = std::get_if<Allocated>(&outcome))
    decision.assignments = granted->assignments;
  if (const auto* refusal = std::get_if<Refusal>(&outcome)) decision.refusal = *refusal;
  if (const auto* error = std::get_if<Error>(&outcome)) decision.error = *error;
}

}  // namespace

AllocationManager::AllocationManager(admission::Node node, NodeState initial,
                                     CheckpointStore& store, DevicePlugins& plugins,
                                     BindingTable* bindings,
                                     const std::optional<BindingModes>& modes,
                                     KubeletDevices kubelet, BootRecord* boot)
    : node_(std::move(node)),
      plugins_(plugins),
      bindings_(bindings),
      mirrors_(modes.has_value()),
      modes_(modes.value_or(BindingMode::kPreferred)),
      kubelet_(std::move(kubelet)),
      ledger_(node_, std::move(initial), store),
      pod_counts_(modes, node_.topology.scope()),
      boot_(boot),
      queue_(std::make_shared<TaskQueue>("decision")),
      reader_(mirrors_ && kubelet_.read ? std::make_unique<TaskQueue>("kubelet") : nullptr) {
  if (boot_ == nullptr || !boot_->IsEarlier()) return;
  for (const auto& [key, held] : ledger_.state().devices.allocations) {
    for (const auto& [resource, allocation] : held) {
      // Others have long been taken for gone: nobody would ever come for them.
      if (ledger_.state().devices.resources.contains(resource)) of_earlier_boot_.insert(resource);
    }
  }
  SettleBoot();
}

AllocationManager::~AllocationManager() {
  queue_->Post([this] {
    stopping_ = true;
    while (!operations_.empty()) {
      Cancel(std::string(operations_.begin()->first), Stopping());
    }
  });
  if (reader_ != nullptr) reader_->Stop();  // whose callers are told by the decision thread
  queue_->Stop();
}

void AllocationManager::Admit(Pod pod, AdmitDone done, std::string source, std::string wanted,
                              KubeletAllocatedPod counted, StoppedPods stopped) {
  const auto caller =
      std::make_shared<Caller>(Caller{std::move(pod), std::move(done), std::move(source),
                                      std::move(wanted), std::move(counted), std::move(stopped)});
  if (!queue_->Post([this, caller] { Start(std::move(*caller)); })) caller->done(Stopping());
}

void AllocationManager::OnChange(std::function<void(std::shared_ptr<const Snapshot>)> observer) {
  queue_->Post([this, observer = std::move(observer)] { ledger_.OnChange(observer); });
}

void AllocationManager::NoteFault(const Pod& pod, const Error& why) {
  PodDecision decision = DecisionAbout(node_, snapshot()->state, pod, /*source=*/{});
  SetOutcome(why, decision);
  decisions_.Add(std::move(decision));
}

void AllocationManager::Start(Caller caller) {
  queue_->AssertOnThisThread();
  if (stopping_) return caller.done(Stopping());
  const auto running = operations_.find(caller.pod.uid);
  const bool pending = running != operations_.end();
  // There is nothing to decide; who asks why later on finds it beside the decisions.
  const auto turn_away = [&](const Outcome& why) {
    PodDecision decision = DecisionAbout(node_, ledger_.state(), caller.pod, caller.source);
    SetOutcome(why, decision);
    decisions_.Add(std::move(decision));
    caller.done(why);
  };
  if (const auto refusal = RefuseResize(ledger_.state(), caller.pod, caller.wanted)) {
    return turn_away(*refusal);
  }
  notes_.SawPod(caller.pod);
  const Result<Done> taken = TakeOverWanted(caller);
  if (!taken.ok()) return turn_away(taken.error());
  if (const auto wait = AwaitsPluginsOfThisBoot(caller)) return turn_away(*wait);
  if (IsAllocated(caller, pending)) {
    const Result<Done> bound = KeepBound(ledger_.state(), caller.pod.uid, caller.counted);
    if (!bound.ok()) return turn_away(bound.error());
    const Allocated granted = AssignmentsNow(caller.pod);
    NotePlain(caller, granted);
    return caller.done(granted);
  }
  if (reader_ != nullptr && !caller.told &&
      pod_counts_.Lacks(ledger_.state(), caller.wanted, caller.pod, caller.counted)) {
    return ReadCounts(std::move(caller));
  }
  const std::optional<Error> unknown =
      pod_counts_.Complete(ledger_.state(), caller.wanted, caller.told, caller.pod, caller.counted);
  if (unknown) return turn_away(*unknown);
  if (!pending) {
    const auto operation = std::make_shared<Operation>();
    operation->pod = std::move(caller.pod);
    operation->source = std::move(caller.source);
    operation->counted = std::move(caller.counted);
    operation->stopped = std::move(caller.stopped);
    operation->waiting.push_back(std::move(caller.done));
    operations_[operation->pod.uid] = operation;
    return Decide(operation);
  }
  Operation& operation = *running->second;
  if (NamesNoMoreThan(caller.pod, operation.pod) && IsPartOf(caller.counted, operation.counted)) {
    operation.waiting.push_back(std::move(caller.done));
  } else {
    operation.behind.push_back(std::move(caller));
  }
}

void AllocationManager::ReadCounts(Caller caller) {
  const auto shared = std::make_shared<Caller>(std::move(caller));
  const bool posted = reader_->Post([this, shared] {
    const Result<checkpoint::DeviceCheckpoint> read = kubelet_.read();
    if (read.ok()) {
      shared->told = CountsOf(*read, shared->pod.uid);
    } else {
      shared->told = read.error();
    }
    if (!queue_->Post([this, shared] { Start(std::move(*shared)); })) shared->done(Stopping());
  });
  if (!posted) shared->done(Stopping());
}

std::shared_ptr<const checkpoint::Bindings> AllocationManager::bindings() const {
  return bindings_ == nullptr ? std::make_shared<const checkpoint::Bindings>()
                              : bindings_->snapshot();
}

bool AllocationManager::IsAllocated(const Caller& caller, bool pending) const {
  const Pod& pod = caller.pod;
  const bool bound = bindings_ == nullptr || AreBound(*bindings(), pod.uid, caller.counted);
  // What is held can be bound without a decision.
  if (!bound && (pending || !HasKubeletAllocated(ledger_.state(), pod.uid, caller.counted)))
    return false;
  const bool one =
      std::ranges::find(pod.containers, caller.wanted, &Container::name) != pod.containers.end();
  return std::ranges::all_of(pod.containers, [&](const Container& container) {
    if (one && container.name != caller.wanted) return true;
    const bool granted = notes_.granted().contains({pod.uid, container.name});
    // One that was in the shared pool may come again for exclusive CPUs.
    if (granted && !LacksItsCpus(node_, ledger_.state(), pod, container)) return true;
    // What the state says of a pending pod is only reserved.
    return !pending && HasAllItRequests(node_, ledger_.state(), pod, container);
  });
}

Result<Done> AllocationManager::KeepBound(const NodeState& state, const std::string& pod_uid,
                                          const KubeletAllocatedPod& counted) {
  return bindings_ ? bindings_->Set(Bind(state, pod_uid, counted)) : Done{};
}

Allocated AllocationManager::AssignmentsNow(const Pod& pod) const {
  const std::shared_ptr<const Snapshot> now = snapshot();
  Allocated granted;
  granted.generation = now->generation;
  for (const Container& c : pod.containers) {
    granted.assignments[c.name] = admission::AssignmentOf(node_, now->state, {pod.uid, c.name});
  }
  return granted;
}

void AllocationManager::Decide(const std::shared_ptr<Operation>& operation) {
  const Pod& pod = operation->pod;
  const KubeletAllocatedPod& counted = operation->counted;
  if (const auto wait = AwaitedPlugin(ledger_.state(), pod, counted, plugins_)) {
    operation->decision = DecisionAbout(node_, ledger_.state(), pod, operation->source);
    return Fail(*operation, *wait);
  }
  const auto bound = bindings();
  const bool may_ask = operation->consultations < kMaxConsultations;
  std::set<PreferenceQuery> unanswered;
  const auto preferred =
      [&](const PreferenceQuery& query) -> std::optional<std::vector<std::string>> {
    const auto answer = operation->preferences.find(query);
    if (answer != operation->preferences.end()) return answer->second;
    if (may_ask) unanswered.insert(query);
    return std::nullopt;
  };
  const auto admit = [&](const std::set<std::string>& released, bool& untakable) {
    NodeState state = ledger_.state();
    for (const std::string& uid : released) admission::ReleasePod(uid, state);
    std::optional<Refusal> refusal = RefuseKubeletAllocated(state, pod, counted, *bound, modes_);
    untakable = refusal.has_value();
    if (untakable) return admission::Admission{std::move(refusal), {}, std::move(state), {}};
    admission::LendToInitContainers(node_, pod, state);
    return AdmitKubeletAllocated(node_, state, pod, counted, *bound, modes_, preferred);
  };
  bool untakable = false;  // what was counted; whatever the policy says
  admission::Admission admission = admit({}, untakable);
  std::set<std::string> released;
  if (admission.refusal && unanswered.empty()) released = Releasable(*operation);
  if (!released.empty()) {
    bool still_untakable = false;
    admission::Admission roomier = admit(released, still_untakable);
    if (roomier.admitted()) {
      admission = std::move(roomier);
    } else {
      released.clear();  // they may come back and find what they had
    }
  }
  if (!unanswered.empty()) return Consult(operation, unanswered);
  Note(*operation, admission);
  if (admission.refusal && untakable) return Fail(*operation, *admission.refusal);
  if (admission.refusal) {
    Refusal refusal = admission::Explain(node_, ledger_.state(), pod, *admission.refusal);
    refusal.message +=
        ExplainKubeletAllocated(node_, ledger_.state(), pod, counted, *bound, modes_);
    return Fail(*operation, refusal);
  }
  operation->released = std::move(released);
  Take(operation, std::move(admission.next));
}

void AllocationManager::Consult(const std::shared_ptr<Operation>& operation,
                                const std::set<PreferenceQuery>& queries) {
  ++operation->consultations;
  operation->awaited = queries.size();
  for (const PreferenceQuery& query : queries) {
    plugins_.GetPreferredAllocation(query,
                                    [this, queue = queue_, operation, query](const auto& answer) {
                                      queue->Post([this, operation, query, answer] {
                                        if (operation->ended) return;
                                        operation->preferences[query] = answer;
                                        if (--operation->awaited == 0) Decide(operation);
                                      });
                                    });
  }
}

void AllocationManager::Take(const std::shared_ptr<Operation>& operation, NodeState next) {
  Reservation reservation = Difference(operation->pod, ledger_.state(), next);
  const std::vector<PluginAsk> asks =
      PluginAsks(operation->pod, next, reservation, notes_.granted());
  if (asks.empty()) return Conclude(*operation, std::move(next));
  ledger_.Reserve(std::move(next));
  ForgetReleased(operation->released);  // from here on, whatever becomes of the plugins' answers
  operation->reservation = std::move(reservation);
  operation->awaited = asks.size();
  for (const PluginAsk& ask : asks) {
    plugins_.Allocate(ask.resource, ask.ids,
                      [this, queue = queue_, operation, ask](const Result<std::string>& response) {
                        queue->Post([this, operation, ask, response] {
                          OnResponse(*operation, ask.key, ask.resource, response);
                        });
                      });
  }
}

void AllocationManager::OnResponse(Operation& operation, const ContainerKey& key,
                                   const std::string& resource, Result<std::string> response) {
  if (operation.ended) return;
  if (!response.ok()) return Fail(operation, UnexpectedAdmissionError(response.error().Text()));
  operation.responses[key][resource] = *std::move(response);
  if (--operation.awaited > 0) return;
  NodeState next = ledger_.state();
  for (auto& [container, responses] : operation.responses) {
    for (auto& [name, text] : responses) {
      next.devices.allocations[container].at(name).response = std::move(text);
    }
  }
  Conclude(operation, std::move(next));
}

void AllocationManager::Conclude(Operation& operation, NodeState next) {
  // First what the ids became: after a crash in between, bindings of what nobody holds are dropped.
  const Result<Done> bound = KeepBound(next, operation.pod.uid, operation.counted);
  if (!bound.ok()) return Fail(operation, bound.error());
  const Result<Done> saved = ledger_.Commit(std::move(next), Hidden(&operation));
  if (!saved.ok()) return Fail(operation, saved.error());
  if (!operation.reservation) ForgetReleased(operation.released);
  operation.reservation.reset();
  Finish(operation, AssignmentsNow(operation.pod));
}

void AllocationManager::Fail(Operation& operation, const Outcome& why) {
  const bool reserved = operation.reservation.has_value();
  if (reserved) {
    ledger_.GiveBack(*operation.reservation);
    operation.reservation.reset();
  }
  if (reserved && !operation.released.empty()) {  // which stays so
    const Result<Done> saved = ledger_.Keep(ledger_.state(), Hidden(&operation));
    if (!saved.ok()) spdlog::error("release of stopped pods: {}", saved.error().Text());
  }
  Finish(operation, why);
}

void AllocationManager::Finish(Operation& operation, const Outcome& outcome) {
  const auto self = operations_.extract(operation.pod.uid);  // keeps it alive here
  operation.ended = true;
  if (operation.decision) {
    SetOutcome(outcome, *operation.decision);
    decisions_.Add(*std::move(operation.decision));
  }
  if (std::holds_alternative<Allocated>(outcome)) notes_.Allocated(operation.pod);
  for (const AdmitDone& done : operation.waiting) done(outcome);
  for (Caller& caller : operation.behind) Start(std::move(caller));
}

// How it was decided. What becomes of it is added when it is known.
void AllocationManager::Note(Operation& operation, const admission::Admission& admission) {
  PodDecision& decision = operation.decision.emplace(
      DecisionAbout(node_, ledger_.state(), operation.pod, operation.source));
  decision.containers = admission.decisions;
  if (admission.refusal) {
    decision.left =
        admission::DescribeAvailable(admission::AvailableByNode(node_, ledger_.state()));
  }
}

// For those who ask why a pod has no CPUs of its own, or what it had when we started.
void AllocationManager::NotePlain(const Caller& caller, const Allocated& granted) {
  const Pod& pod = caller.pod;
  const bool noted = std::ranges::all_of(pod.containers, [&](const Container& container) {
    return decisions_.HasAssignment({pod.uid, container.name});
  });
  if (noted) return;
  PodDecision decision = DecisionAbout(node_, ledger_.state(), pod, caller.source);
  SetOutcome(granted, decision);
  decisions_.Add(std::move(decision));
}

std::vector<const Reservation*> AllocationManager::Hidden(const Operation* except) const {
  std::vector<const Reservation*> hidden;
  for (const auto& [uid, operation] : operations_) {
    if (operation.get() != except && operation->reservation) {
      hidden.push_back(&*operation->reservation);
    }
  }
  return hidden;
}

}  // namespace alignd::allocation
