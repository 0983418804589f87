#include "allocation/allocation_manager.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "alignd/admission/admission.h"
#include "alignd/admission/explanation.h"
#include "allocation/held.h"
#include "allocation/reservation.h"

namespace alignd::allocation {

using admission::NodeState;
using devicemanager::PreferenceQuery;

namespace {

// How often a decision asks for preferences anew because the free devices have moved meanwhile.
constexpr int kMaxConsultations = 3;

Error Stopping() { return {ErrorCode::kUnavailable, "alignd is stopping"}; }

bool NamesNoMoreThan(const Pod& pod, const Pod& other) {
  return std::ranges::all_of(pod.containers, [&other](const Container& container) {
    return std::ranges::any_of(other.containers, [&container](const Container& its) {
      return its.name == container.name;
    });
  });
}

std::set<std::string> PodsIn(const NodeState& state) {
  std::set<std::string> pods;
  for (const auto& [uid, containers] : state.cpu.assignments) pods.insert(uid);
  for (const auto& [uid, containers] : state.memory.assignments) pods.insert(uid);
  for (const auto& [key, resources] : state.devices.allocations) pods.insert(key.pod_uid);
  for (const auto& [key, affinity] : state.affinities) pods.insert(key.pod_uid);
  return pods;
}

}  // namespace

// One pod that is being admitted. Lives until it is answered, and in the callbacks of plugins that
// have not answered yet.
struct AllocationManager::Operation {
  Pod pod;
  std::string source;
  std::optional<PodDecision> decision;  // once it is made; its end follows
  std::vector<AdmitDone> waiting;       // for this answer
  std::vector<Caller> behind;           // of the same pod, with more containers: decided afterwards
  bool ended = false;                   // answers that come now are late

  std::map<PreferenceQuery, std::optional<std::vector<std::string>>> preferences;
  int consultations = 0;
  size_t awaited = 0;  // answers of plugins

  std::optional<Reservation> reservation;  // what `state_` has reserved for it
  std::map<ContainerKey, std::map<std::string, std::string>> responses;  // by resource
};

AllocationManager::AllocationManager(admission::Node node, NodeState initial,
                                     CheckpointStore& store, DevicePlugins& plugins)
    : node_(std::move(node)),
      store_(store),
      plugins_(plugins),
      state_(std::move(initial)),
      snapshot_(std::make_shared<const Snapshot>(Snapshot{0, state_})),
      queue_(std::make_shared<TaskQueue>("decision")) {
  RequireSound(state_);
}

AllocationManager::~AllocationManager() {
  queue_->Post([this] {
    stopping_ = true;
    while (!operations_.empty()) {
      const std::string pod_uid = operations_.begin()->first;
      Cancel(pod_uid, Stopping());
    }
  });
  queue_->Stop();
}

void AllocationManager::Admit(Pod pod, AdmitDone done, std::string source) {
  const auto caller =
      std::make_shared<Caller>(Caller{std::move(pod), std::move(done), std::move(source)});
  if (!queue_->Post([this, caller] { Start(std::move(*caller)); })) caller->done(Stopping());
}

void AllocationManager::ReleasePod(std::string pod_uid, std::function<void(Result<Done>)> done,
                                   std::function<bool()> still_gone) {
  const bool posted = queue_->Post([this, pod_uid, done, still_gone = std::move(still_gone)] {
    done(still_gone && !still_gone() ? Result<Done>(Done{}) : Release({pod_uid}));
  });
  if (!posted) done(Stopping());
}

void AllocationManager::ReleaseAllBut(std::set<std::string> live_pod_uids,
                                      std::function<void(Result<std::set<std::string>>)> done,
                                      std::optional<uint64_t> as_of_generation) {
  const bool posted = queue_->Post([this, live = std::move(live_pod_uids), done, as_of_generation] {
    std::set<std::string> gone = PodsIn(snapshot()->state);
    std::erase_if(gone, [&](const std::string& uid) {
      const auto since = since_.find(uid);
      const bool later =
          as_of_generation && since != since_.end() && since->second > *as_of_generation;
      return later || live.contains(uid);
    });
    const Result<Done> released = Release(gone);
    done(released.ok() ? Result(std::move(gone)) : released.error());
  });
  if (!posted) done(Stopping());
}

std::shared_ptr<const Snapshot> AllocationManager::snapshot() const {
  const MutexLock lock(mutex_);
  return snapshot_;
}

void AllocationManager::OnChange(std::function<void(std::shared_ptr<const Snapshot>)> observer) {
  queue_->Post([this, observer = std::move(observer)] { observers_.push_back(observer); });
}

void AllocationManager::SetResource(std::string name, devicemanager::Resource resource) {
  queue_->Post([this, name = std::move(name), resource = std::move(resource)] {
    ChangeInventory(
        [&](devicemanager::DeviceState& devices) { devices.resources[name] = resource; });
  });
}

void AllocationManager::RemoveResource(const std::string& name) {
  queue_->Post([this, name] {
    ChangeInventory([&](devicemanager::DeviceState& devices) { devices.resources.erase(name); });
  });
}

void AllocationManager::Start(Caller caller) {
  queue_->AssertOnThisThread();
  if (stopping_) return caller.done(Stopping());
  const auto running = operations_.find(caller.pod.uid);
  const bool pending = running != operations_.end();
  if (HoldsItsGrant(caller.pod, pending)) return caller.done(GrantsNow(caller.pod));
  if (!pending) {
    const auto operation = std::make_shared<Operation>();
    operation->pod = std::move(caller.pod);
    operation->source = std::move(caller.source);
    operation->waiting.push_back(std::move(caller.done));
    operations_[operation->pod.uid] = operation;
    return Decide(operation);
  }
  Operation& operation = *running->second;
  if (NamesNoMoreThan(caller.pod, operation.pod)) {
    operation.waiting.push_back(std::move(caller.done));
  } else {
    operation.behind.push_back(std::move(caller));
  }
}

bool AllocationManager::HoldsItsGrant(const Pod& pod, bool pending) const {
  return std::ranges::all_of(pod.containers, [&](const Container& container) {
    if (granted_.contains({pod.uid, container.name})) return true;
    // What the state says of a pending pod is only reserved.
    return !pending && HoldsAllItAsks(node_, state_, pod, container);
  });
}

Granted AllocationManager::GrantsNow(const Pod& pod) const {
  const std::shared_ptr<const Snapshot> now = snapshot();
  Granted granted;
  granted.generation = now->generation;
  for (const Container& container : pod.containers) {
    granted.grants[container.name] =
        admission::GrantOf(node_, now->state, {pod.uid, container.name});
  }
  return granted;
}

void AllocationManager::Decide(const std::shared_ptr<Operation>& operation) {
  const bool may_ask = operation->consultations < kMaxConsultations;
  std::set<PreferenceQuery> unanswered;
  const auto preferred =
      [&](const PreferenceQuery& query) -> std::optional<std::vector<std::string>> {
    const auto answer = operation->preferences.find(query);
    if (answer != operation->preferences.end()) return answer->second;
    if (may_ask) unanswered.insert(query);
    return std::nullopt;
  };
  admission::Admission admission = admission::Admit(node_, state_, operation->pod, preferred);
  if (!unanswered.empty()) return Consult(operation, unanswered);
  Note(*operation, admission);
  if (admission.refusal) {
    return Fail(*operation, admission::Explain(node_, state_, operation->pod, *admission.refusal));
  }
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
  RequireSound(next);
  Reservation reservation = Difference(operation->pod, state_, next);
  struct Ask {
    ContainerKey key;
    std::string resource;
    std::vector<std::string> ids;
  };
  std::vector<Ask> asks;
  for (const Container& container : operation->pod.containers) {
    const ContainerKey key{operation->pod.uid, container.name};
    const auto held = next.devices.allocations.find(key);
    if (held == next.devices.allocations.end()) continue;
    for (const auto& [resource, allocation] : held->second) {
      // The second case: a crash came between the plugin's answer and the disk. (A plugin's answer
      // may be empty; then it is asked once more in our next life.)
      const bool restored_without = allocation.response.empty() && !granted_.contains(key);
      if (!reservation.devices.contains({key, resource}) && !restored_without) continue;
      const std::set<std::string> ids = allocation.Ids();
      asks.push_back({key, resource, {ids.begin(), ids.end()}});
    }
  }
  if (asks.empty()) return Conclude(*operation, std::move(next));
  state_ = std::move(next);
  operation->reservation = std::move(reservation);
  operation->awaited = asks.size();
  for (const Ask& ask : asks) {
    plugins_.Allocate(ask.resource, ask.ids,
                      [this, queue = queue_, operation, key = ask.key,
                       resource = ask.resource](const Result<std::string>& response) {
                        queue->Post([this, operation, key, resource, response] {
                          OnResponse(*operation, key, resource, response);
                        });
                      });
  }
}

void AllocationManager::OnResponse(Operation& operation, const ContainerKey& key,
                                   const std::string& resource, Result<std::string> response) {
  if (operation.ended) return;
  if (!response.ok()) return Fail(operation, UnexpectedAdmissionError(response.error().message));
  operation.responses[key][resource] = *std::move(response);
  if (--operation.awaited > 0) return;
  NodeState next = state_;
  for (auto& [container, responses] : operation.responses) {
    for (auto& [name, text] : responses) {
      next.devices.allocations.at(container).at(name).response = std::move(text);
    }
  }
  Conclude(operation, std::move(next));
}

void AllocationManager::Conclude(Operation& operation, NodeState next) {
  const Result<Done> saved = Commit(std::move(next), &operation);
  if (!saved.ok()) return Fail(operation, saved.error());
  operation.reservation.reset();
  Finish(operation, GrantsNow(operation.pod));
}

void AllocationManager::Fail(Operation& operation, const Outcome& why) {
  if (operation.reservation) {
    GiveBack(*operation.reservation, state_);
    operation.reservation.reset();
    RequireSound(state_);
  }
  Finish(operation, why);
}

void AllocationManager::Finish(Operation& operation, const Outcome& outcome) {
  const auto self = operations_.extract(operation.pod.uid);  // keeps it alive here
  operation.ended = true;
  if (operation.decision) {
    PodDecision& decision = *operation.decision;
    decision.time = std::chrono::system_clock::now();
    if (const auto* granted = std::get_if<Granted>(&outcome)) decision.grants = granted->grants;
    if (const auto* refusal = std::get_if<Refusal>(&outcome)) decision.refusal = *refusal;
    if (const auto* error = std::get_if<Error>(&outcome)) decision.error = *error;
    decisions_.Add(std::move(decision));
  }
  if (const Granted* granted = std::get_if<Granted>(&outcome)) {
    for (const Container& container : operation.pod.containers) {
      granted_.insert({operation.pod.uid, container.name});
    }
    since_.try_emplace(operation.pod.uid, granted->generation);
  }
  for (const AdmitDone& done : operation.waiting) done(outcome);
  for (Caller& caller : operation.behind) Start(std::move(caller));
}

// How it was decided. What becomes of it is added when it is known.
void AllocationManager::Note(Operation& operation, const admission::Admission& admission) {
  PodDecision& decision = operation.decision.emplace();
  decision.pod_uid = operation.pod.uid;
  decision.name_space = operation.pod.name_space;
  decision.name = operation.pod.name;
  decision.source = operation.source;
  decision.asked = admission::DescribeAsk(node_, state_, operation.pod);
  decision.containers = admission.decisions;
  if (admission.refusal) {
    decision.left = admission::DescribeRoom(admission::RoomLeft(node_, state_));
  }
}

void AllocationManager::Cancel(const std::string& pod_uid, const Error& why) {
  const auto running = operations_.find(pod_uid);
  if (running == operations_.end()) return;
  Operation& operation = *running->second;
  for (Caller& caller : operation.behind) operation.waiting.push_back(std::move(caller.done));
  operation.behind.clear();
  Fail(operation, why);
}

Result<Done> AllocationManager::Release(const std::set<std::string>& pod_uids) {
  queue_->AssertOnThisThread();
  for (const std::string& uid : pod_uids) {
    Cancel(uid, {ErrorCode::kUnavailable,
                 "pod " + uid + " was released while its devices were being allocated"});
  }
  NodeState next = state_;
  for (const std::string& uid : pod_uids) {
    admission::ReleasePod(uid, next);
    since_.erase(uid);
    std::erase_if(granted_, [&uid](const ContainerKey& key) { return key.pod_uid == uid; });
  }
  return Keep(std::move(next));
}

void AllocationManager::ChangeInventory(
    const std::function<void(devicemanager::DeviceState&)>& change) {
  queue_->AssertOnThisThread();
  NodeState next = state_;
  change(next.devices);
  const Result<Done> saved = Keep(std::move(next));
  if (!saved.ok()) spdlog::error("save the device inventory: {}", saved.error().Text());
}

NodeState AllocationManager::Visible(const NodeState& state, const Operation* except) const {
  NodeState visible = state;
  for (const auto& [uid, operation] : operations_) {
    if (operation.get() == except || !operation->reservation) continue;
    GiveBack(*operation->reservation, visible);
  }
  RequireSound(visible);
  return visible;
}

Result<Done> AllocationManager::Commit(NodeState next, const Operation* granted) {
  NodeState visible = Visible(next, granted);
  if (Result<Done> saved = Save(visible); !saved.ok()) return saved;
  state_ = std::move(next);
  Publish(std::move(visible));
  return Done{};
}

Result<Done> AllocationManager::Keep(NodeState next) {
  RequireSound(next);
  state_ = std::move(next);
  NodeState visible = Visible(state_, nullptr);
  Result<Done> saved = Save(visible);
  Publish(std::move(visible));
  return saved;
}

Result<Done> AllocationManager::Save(const NodeState& visible) {
  if (!unsaved_ && visible == snapshot()->state) return Done{};
  Result<Done> saved = store_.Save(node_, visible);
  unsaved_ = !saved.ok();
  return saved;
}

void AllocationManager::Publish(NodeState visible) {
  const std::shared_ptr<const Snapshot> before = snapshot();
  if (visible == before->state) return;
  const auto after =
      std::make_shared<const Snapshot>(Snapshot{before->generation + 1, std::move(visible)});
  {
    const MutexLock lock(mutex_);
    snapshot_ = after;
  }
  for (const auto& observer : observers_) observer(after);
}

// Going on with a broken state would hand something out twice; the disk still has a sound one.
void AllocationManager::RequireSound([[maybe_unused]] const NodeState& state) const {
#ifndef NDEBUG
  const std::vector<std::string> broken = state.BrokenInvariants(node_);
  if (broken.empty()) return;
  for (const std::string& sentence : broken) {
    std::fprintf(stderr, "alignd: broken invariant: %s\n", sentence.c_str());
  }
  std::abort();
#endif
}

}  // namespace alignd::allocation
