#include "allocation/allocation_manager.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <future>
#include <utility>
#include <variant>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/init_containers.h"
#include "allocation/current_assignment.h"
#include "allocation/decision.h"
#include "allocation/plugin_needs.h"
#include "allocation/reservation.h"

namespace alignd::allocation {

using admission::NodeState;
using devicemanager::PreferenceQuery;

namespace {
// How often a decision asks for preferences again because the free devices have changed meanwhile.
constexpr int kMaxConsultations = 3;

Error Stopping() { return {ErrorCode::kUnavailable, "alignd is stopping", "call it again"}; }

}  // namespace

// One pod that is being admitted. Lives until it is answered, and in the callbacks of plugins that
// have not answered yet.
struct AllocationManager::Operation {
  AdmissionRequest request;
  std::vector<AdmitDone> waiting;  // for this answer
  std::vector<Caller> behind;      // of the same pod, with more containers: decided afterwards
  bool ended = false;              // the plugins' answers are ignored from here on

  std::optional<PodDecision> decision;  // once it is made
  Preferences preferences;
  int consultations = 0;
  size_t awaited = 0;  // answers of plugins

  std::optional<Reservation> reservation;
  std::set<std::string> released;  // stopped pods whose assignments it takes
  std::vector<std::pair<PluginAsk, std::string>> responses;
};

AllocationManager::AllocationManager(admission::Node node, NodeState initial,
                                     CheckpointStore& store, DevicePlugins& plugins,
                                     KubeletAllocation& kubelet, BootRecord* boot)
    : node_(std::move(node)),
      plugins_(plugins),
      kubelet_(kubelet),
      ledger_(node_, std::move(initial), store),
      reboot_(boot, ledger_.state().devices),
      queue_(std::make_shared<TaskQueue>("decision")) {}

template <typename Work>
auto AllocationManager::Posted(Work work) const {
  return [queue = queue_, work = std::move(work)](const auto&... answer) {
    queue->Post([work, answer...] { work(answer...); });
  };
}

AllocationManager::~AllocationManager() {
  queue_->Post([this] {
    stopping_ = true;
    while (!operations_.empty()) {
      Cancel(std::string(operations_.begin()->first), Stopping());
    }
    for (const auto& [number, caller] : std::exchange(learning_, {})) caller.done(Stopping());
  });
  queue_->Stop();
}

// --- Requests.

void AllocationManager::Admit(AdmissionRequest request, AdmitDone done) {
  const auto caller = std::make_shared<Caller>(Caller{std::move(request), std::move(done)});
  if (!queue_->Post([this, caller] { Start(std::move(*caller)); })) caller->done(Stopping());
}

void AllocationManager::Start(Caller caller) {
  queue_->AssertOnThisThread();
  if (stopping_) return caller.done(Stopping());
  AdmissionRequest& request = caller.request;
  const auto running = operations_.find(request.pod.uid);
  const bool pending = running != operations_.end();
  std::optional<Outcome> answer = AnswerWithoutDecision(request, pending);
  if (!answer && !caller.learned && kubelet_.MustLearn(ledger_.state(), request)) {
    return Learn(std::move(caller));
  }
  if (!answer) {
    const Result<Done> complete = kubelet_.Complete(ledger_.state(), caller.learned, request);
    if (!complete.ok()) answer = complete.error();
  }
  if (answer) {
    decisions_.AddUndecided(DecisionAbout(node_, ledger_.state(), request.pod, request.source),
                            *answer);
    return caller.done(*std::move(answer));
  }
  if (!pending) {
    const auto operation = std::make_shared<Operation>();
    operation->request = std::move(request);
    operation->waiting.push_back(std::move(caller.done));
    operations_[operation->request.pod.uid] = operation;
    return Continue(operation);
  }
  Operation& operation = *running->second;
  if (NamesNoMoreThan(request, operation.request)) {
    operation.waiting.push_back(std::move(caller.done));
  } else {
    operation.behind.push_back(std::move(caller));
  }
}

std::optional<Outcome> AllocationManager::AnswerWithoutDecision(const AdmissionRequest& request,
                                                                bool pending) {
  const Pod& pod = request.pod;
  const ContainerKey wanted{pod.uid, request.wanted};
  if (auto refusal = RefuseResize(ledger_.state(), pod, request.wanted)) return *refusal;
  notes_.SawPod(pod);
  if (const Result<Done> taken = TakeOver(wanted); !taken.ok()) return taken.error();
  if (auto wait = reboot_.Check(wanted, ledger_.state().devices, inventory_, plugins_)) return wait;
  const NodeState& state = ledger_.state();
  const KubeletAllocatedPod& allocated = request.kubelet_allocated;
  // Devices that are assigned can be bound without a decision.
  const bool can_bind = kubelet_.AreBound(pod.uid, allocated) ||
                        (!pending && HasDevicesOf(state, pod.uid, allocated));
  if (!can_bind || !IsDecided(node_, state, request, notes_.admitted(), pending)) {
    return std::nullopt;
  }
  const Result<Done> bound = kubelet_.Bind(state, pod.uid, allocated);
  if (!bound.ok()) return bound.error();
  return AssignmentsOf(node_, snapshot()->state, pod);
}

void AllocationManager::Learn(Caller caller) {
  const std::string pod_uid = caller.request.pod.uid;
  const uint64_t number = learn_count_++;
  learning_.emplace(number, std::move(caller));
  kubelet_.Learn(pod_uid, Posted([this, number](const KubeletAllocation::Learned& learned) {
                   auto waiting = learning_.extract(number);
                   if (!waiting) return;  // answered when alignd began to stop
                   waiting.mapped().learned = learned;
                   Start(std::move(waiting.mapped()));
                 }));
}

Result<Done> AllocationManager::TakeOver(const ContainerKey& key) {
  Result<std::optional<NodeState>> next = kubelet_.TakeOver(key, ledger_.state());
  if (!next.ok()) return next.error();
  if (!*next) return Done{};
  return ledger_.Keep(**std::move(next), Hidden());
}

// --- The decision.

void AllocationManager::Continue(const std::shared_ptr<Operation>& operation) {
  const AdmissionRequest& request = operation->request;
  const NodeState& state = ledger_.state();
  if (const auto wait = AwaitedPlugin(state, request, plugins_)) {
    operation->decision = DecisionAbout(node_, state, request.pod, request.source);
    return Fail(*operation, *wait);
  }
  const bool may_ask = operation->consultations < kMaxConsultations;
  Decision made = Decide(node_, state, request, kubelet_, operation->preferences, may_ask,
                         [&] { return Releasable(request); });
  if (!made.unanswered.empty()) return AskPreferences(operation, made.unanswered);
  PodDecision& decision =
      operation->decision.emplace(DecisionAbout(node_, state, request.pod, request.source));
  decision.containers = std::move(made.admission.decisions);
  if (made.admission.refusal) {
    decision.available = admission::DescribeAvailable(admission::AvailableByNode(node_, state));
    return Fail(*operation, *made.admission.refusal);
  }
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
  if (asks.empty()) return Commit(*operation, std::move(next));
  ledger_.Reserve(std::move(next));
  ForgetReleased(operation->released);  // also if a plugin fails
  operation->reservation = std::move(reservation);
  operation->awaited = asks.size();
  for (const PluginAsk& ask : asks) {
    plugins_.Allocate(ask.resource, ask.ids,
                      Posted([this, operation, ask](const Result<std::string>& response) {
                        OnResponse(*operation, ask, response);
                      }));
  }
}

void AllocationManager::OnResponse(Operation& operation, const PluginAsk& ask,
                                   const Result<std::string>& response) {
  if (operation.ended) return;
  if (!response.ok()) return Fail(operation, UnexpectedAdmissionError(response.error().Text()));
  operation.responses.emplace_back(ask, *response);
  if (--operation.awaited > 0) return;
  NodeState next = ledger_.state();
  for (const auto& [answered, text] : operation.responses) {
    next.devices.allocations[answered.key].at(answered.resource).response = text;
  }
  Commit(operation, std::move(next));
}

void AllocationManager::Commit(Operation& operation, NodeState next) {
  const AdmissionRequest& request = operation.request;
  const Result<Done> bound = kubelet_.Bind(next, request.pod.uid, request.kubelet_allocated);
  if (!bound.ok()) return Fail(operation, bound.error());
  const Result<Done> saved = ledger_.Commit(std::move(next), Hidden(&operation));
  if (!saved.ok()) return Fail(operation, saved.error());
  if (!operation.reservation) ForgetReleased(operation.released);
  operation.reservation.reset();
  Finish(operation, AssignmentsOf(node_, snapshot()->state, request.pod));
}

void AllocationManager::Fail(Operation& operation, const Outcome& why) {
  const bool reserved = operation.reservation.has_value();
  if (reserved) ledger_.GiveBack(*operation.reservation);
  operation.reservation.reset();
  if (reserved && !operation.released.empty()) {  // the stopped pods stay released
    const Result<Done> saved = ledger_.Keep(ledger_.state(), Hidden(&operation));
    if (!saved.ok()) spdlog::error("release of stopped pods: {}", saved.error().Text());
  }
  Finish(operation, why);
}

void AllocationManager::Finish(Operation& operation, const Outcome& outcome) {
  const auto self = operations_.extract(operation.request.pod.uid);  // keeps it alive here
  operation.ended = true;
  if (operation.decision) {
    operation.decision->Set(outcome);
    decisions_.Add(*std::move(operation.decision));
  }
  if (std::holds_alternative<Allocated>(outcome)) notes_.Admitted(operation.request.pod);
  for (const AdmitDone& done : operation.waiting) done(outcome);
  for (Caller& caller : operation.behind) Start(std::move(caller));
}

// --- Releases.

void AllocationManager::ContainerStarts(ContainerKey key) {
  queue_->Post([this, key = std::move(key)] {
    const Pod* const pod = notes_.WithInit(key.pod_uid);
    if (pod == nullptr || operations_.contains(key.pod_uid)) return;
    NodeState next = ledger_.state();
    admission::ContainerStarts(node_, *pod, key.container, next);
    if (next == ledger_.state()) return;
    // An init container that runs once more is decided once more.
    notes_.DropReleased(key.pod_uid, ledger_.state().cpu, next.cpu);
    const Result<Done> saved = ledger_.Keep(std::move(next), Hidden());
    if (!saved.ok()) {
      spdlog::error("init containers of pod {}: {}", key.pod_uid, saved.error().Text());
    }
  });
}

void AllocationManager::ReleasePod(std::string pod_uid, std::function<void(Result<Done>)> done,
                                   std::function<bool()> still_gone) {
  const bool posted = queue_->Post([this, pod_uid, done, still_gone = std::move(still_gone)] {
    done(still_gone && !still_gone() ? Result<Done>(Done{}) : Release(pod_uid));
  });
  if (!posted) done(Stopping());
}

Result<Done> AllocationManager::Release(const std::string& pod_uid) {
  queue_->AssertOnThisThread();
  Cancel(pod_uid, {ErrorCode::kUnavailable,
                   "pod " + pod_uid + " was released while its devices were being allocated",
                   "create the pod's sandbox again"});
  NodeState next = ledger_.state();
  admission::ReleasePod(pod_uid, next);
  notes_.Forget(pod_uid);
  Result<Done> kept = ledger_.Keep(std::move(next), Hidden());
  reboot_.Settle(ledger_.state().devices);
  const Result<Done> forgotten = kubelet_.Forget({pod_uid});
  return kept.ok() ? forgotten : kept;
}

void AllocationManager::Cancel(const std::string& pod_uid, const Error& why) {
  const auto running = operations_.find(pod_uid);
  if (running == operations_.end()) return;
  Operation& operation = *running->second;
  for (Caller& caller : operation.behind) operation.waiting.push_back(std::move(caller.done));
  operation.behind.clear();
  Fail(operation, why);
}

std::set<std::string> AllocationManager::Releasable(const AdmissionRequest& request) const {
  if (!request.stopped) return {};
  std::set<std::string> releasable = request.stopped();
  const std::set<std::string> assigned = admission::PodsIn(ledger_.state());
  std::erase_if(releasable, [&](const std::string& uid) {
    return !assigned.contains(uid) || operations_.contains(uid);
  });
  return releasable;
}

void AllocationManager::ForgetReleased(const std::set<std::string>& pod_uids) {
  if (pod_uids.empty()) return;
  for (const std::string& uid : pod_uids) {
    notes_.Forget(uid);
    spdlog::info("pod {} has stopped and was released: another pod needs its resources", uid);
  }
  const Result<Done> forgotten = kubelet_.Forget(pod_uids);
  // The next change of the bindings removes them from the file.
  if (!forgotten.ok()) spdlog::error("bindings of stopped pods: {}", forgotten.error().Text());
}

std::set<std::string> AllocationManager::KnownPods() {
  std::promise<std::set<std::string>> known;
  KnownPods([&known](std::set<std::string> uids) { known.set_value(std::move(uids)); });
  return known.get_future().get();
}

void AllocationManager::KnownPods(std::function<void(std::set<std::string>)> done) {
  const bool posted = queue_->Post([this, done] {
    std::set<std::string> uids = admission::PodsIn(ledger_.state());
    notes_.AddPodsTo(uids);
    const auto bound = bindings();
    for (const auto& [key, devices] : *bound) uids.insert(key.pod_uid);
    done(std::move(uids));
  });
  if (!posted) done({});
}

// --- What the plugins announce.

void AllocationManager::Announce(const std::string& name,
                                 std::optional<devicemanager::Resource> resource) {
  if (inventory_.Announce(name, std::move(resource))) queue_->Post([this] { TakeAnnouncements(); });
}

void AllocationManager::TakeAnnouncements() {
  queue_->AssertOnThisThread();
  auto [changes, arriving] = inventory_.Take();
  const auto ready = Posted([this, names = arriving] {
    ChangeInventory(inventory_.TakeArrived(names), /*arrived=*/true);
  });
  if (!arriving.empty() && !kubelet_.Prepare(arriving, ready)) {
    changes.merge(inventory_.TakeArrived(arriving));
  }
  ChangeInventory(std::move(changes), /*arrived=*/false);
}

void AllocationManager::ChangeInventory(InventoryChanges changes, bool arrived) {
  NodeState next = ledger_.state();
  for (auto& [name, resource] : changes) {
    if (!resource || resource->registered) reboot_.PluginSettled(name);
    if (!resource) {
      next.devices.resources.erase(name);
      continue;
    }
    if (arrived) kubelet_.Arrive(name, next);
    next.devices.resources[name] = *std::move(resource);
  }
  const Result<Done> saved = ledger_.Keep(std::move(next), Hidden());
  reboot_.Settle(ledger_.state().devices);
  if (!saved.ok()) spdlog::error("save the device inventory: {}", saved.error().Text());
}

// --- The published state.

Result<Done> AllocationManager::SaveAgain() {
  std::promise<Result<Done>> saved;
  const bool posted = queue_->Post([&] { saved.set_value(ledger_.SaveAgain()); });
  return posted ? saved.get_future().get() : Result<Done>(Stopping());
}

std::vector<const Reservation*> AllocationManager::Hidden(const Operation* except) const {
  std::vector<const Reservation*> hidden;
  for (const auto& [uid, operation] : operations_) {
    const bool hides = operation.get() != except && operation->reservation;
    if (hides) hidden.push_back(&*operation->reservation);
  }
  return hidden;
}

}  // namespace alignd::allocation
