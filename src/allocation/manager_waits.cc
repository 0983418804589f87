// Requests that wait: for the kubelet's checkpoint, for the disk, for a plugin.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "allocation/allocation_manager.h"
#include "allocation/operation.h"
#include "allocation/plugin_needs.h"

namespace alignd::allocation {

void AllocationManager::Admit(AdmissionRequest request, AdmitDone done) {
  AdmitDone noted = [this, requested = Requested::In(request), cancelled = request.cancelled,
                     done = std::move(done)](const Outcome& outcome) {
    // A caller that has cancelled asks again, or its pod is deleted.
    if (cancelled == nullptr || !*cancelled) pending_pods_.Answered(requested, outcome);
    done(outcome);
  };
  const auto caller = std::make_shared<Caller>(Caller{std::move(request), std::move(noted)});
  if (!queue_->Post([this, caller] { Start(std::move(*caller)); })) caller->done(AligndStops());
}

void AllocationManager::Learn(Caller caller) {
  const std::string pod_uid = caller.request.pod.uid;
  const uint64_t number = Park(std::move(caller));
  kubelet_.Learn(pod_uid, Posted([this, number](const KubeletAllocation::Learned& learned) {
                   std::optional<Caller> waiting = TakeParked(number);
                   if (!waiting) return;
                   waiting->learned = learned;
                   Start(*std::move(waiting));
                 }));
}

void AllocationManager::AnswerOnceSaved(Caller caller) {
  ledger_.Save([this, number = Park(std::move(caller))](const Result<Done>& saved) {
    std::optional<Caller> waiting = TakeParked(number);
    if (!waiting) return;
    if (!saved.ok()) return waiting->done(saved.error());
    Start(*std::move(waiting));
  });
}

uint64_t AllocationManager::Park(Caller caller) {
  const uint64_t number = park_count_++;
  parked_.emplace(number, std::move(caller));
  return number;
}

std::optional<Caller> AllocationManager::TakeParked(uint64_t number) {
  auto waiting = parked_.extract(number);
  if (!waiting) return std::nullopt;
  return std::move(waiting.mapped());
}

// --- Callers that have cancelled.

void AllocationManager::DropCancelled() {
  if (drop_posted_.exchange(true)) return;  // a flood of callers that go costs one look at all
  queue_->Post([this] { AnswerCancelled(); });
}

void AllocationManager::AnswerCancelled() {
  drop_posted_ = false;  // before the look
  std::vector<Caller> cancelled;
  const auto take_from = [&cancelled](std::vector<Caller>& callers) {
    const auto first =
        std::stable_partition(callers.begin(), callers.end(),
                              [](const Caller& caller) { return !caller.request.IsCancelled(); });
    cancelled.insert(cancelled.end(), std::make_move_iterator(first),
                     std::make_move_iterator(callers.end()));
    callers.erase(first, callers.end());
  };
  for (const auto& [pod_uid, operation] : operations_) {
    take_from(operation->waiting);
    take_from(operation->behind);
    if (operation->abandoned && operation->waiting.empty()) *operation->abandoned = true;
  }
  for (auto& [pod_uid, resize] : resizes_) take_from(resize.behind);
  for (auto entry = parked_.begin(); entry != parked_.end();) {
    if (!entry->second.request.IsCancelled()) {
      ++entry;
      continue;
    }
    cancelled.push_back(std::move(entry->second));
    entry = parked_.erase(entry);
  }
  for (const Caller& caller : cancelled) caller.done(CallerCancelled());
  CheckHeld();
}

// --- Requests that wait for a plugin.

std::optional<EarlyAnswer> AllocationManager::Complete(const Caller& caller, bool pending,
                                                       AdmissionRequest& request) {
  const Result<Done> complete = kubelet_.Complete(ledger_.state(), caller.learned, request);
  if (!complete.ok()) return Outcome(complete.error());
  const admission::NodeState& state = ledger_.state();
  if (auto without = AnswerWithoutDevices(FindUnknownDevices(state, request, not_devices_),
                                          state.devices, caller.learned,
                                          /*only=*/"", plugins_, inventory_)) {
    return without;
  }
  if (pending) return std::nullopt;  // the decision that is being made needs the same plugins
  if (auto wait = AwaitedPlugin(state, request, plugins_, inventory_)) return *std::move(wait);
  return std::nullopt;
}

void AllocationManager::Respond(Caller caller, EarlyAnswer answer) {
  const auto* const wait = std::get_if<PluginWait>(&answer);
  Outcome outcome = wait == nullptr ? std::get<Outcome>(std::move(answer)) : wait->why;
  const AdmissionRequest& request = caller.request;
  PodDecision about = DecisionAbout(node_, ledger_.state(), request.pod, request.source);
  about.wanted = request.wanted;
  bool is_held = false;
  if (wait != nullptr && may_wait_) {
    const Result<Done> held = held_.Hold(caller, *wait);
    is_held = held.ok();
    if (!is_held) outcome = held.error();
  }
  about.waits = is_held;
  decisions_.AddUndecided(std::move(about), outcome);
  if (wait != nullptr) NoteCall(request);
  if (is_held) return ScheduleCheck();
  std::vector<Caller> further;
  if (wait == nullptr && !std::holds_alternative<Allocated>(outcome)) {
    further = LeaveQueue(request, WaitEnd::kOtherReason);  // before the caller knows
  }
  caller.done(outcome);
  for (Caller& other : further) Start(std::move(other));
}

void AllocationManager::CheckHeld() {
  const auto is_awaited = [this](const std::string& resource) {
    return WaitFor(resource, ledger_.state().devices, plugins_, inventory_).has_value();
  };
  for (Caller& caller : held_.Take(is_awaited)) Start(std::move(caller));
  ScheduleCheck();
}

void AllocationManager::ScheduleCheck() {
  const auto next = held_.NextCheck();
  if (!next || (next_check_ && *next_check_ <= *next)) return;
  next_check_ = next;
  queue_->PostAt(*next, [this, next] {
    if (next_check_ != next) return;  // another one is posted
    next_check_.reset();
    CheckHeld();
  });
}

}  // namespace alignd::allocation
