// Requests that wait: for the kubelet's checkpoint, for the disk, for a plugin.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "allocation/allocation_manager.h"
#include "allocation/plugin_needs.h"

namespace alignd::allocation {

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

void AllocationManager::AnswerOnceSaved(Caller caller) {
  const auto waiting = std::make_shared<Caller>(std::move(caller));
  ledger_.Save([this, waiting](const Result<Done>& saved) {
    if (!saved.ok()) return waiting->done(saved.error());
    Start(std::move(*waiting));
  });
}

// --- Requests that wait for a plugin.

std::optional<EarlyAnswer> AllocationManager::Complete(const Caller& caller, bool pending,
                                                       AdmissionRequest& request) {
  const Result<Done> complete = kubelet_.Complete(ledger_.state(), caller.learned, request);
  if (!complete.ok()) return Outcome(complete.error());
  const admission::NodeState& state = ledger_.state();
  if (auto without =
          AnswerWithoutDevices(FindUnknownDevices(state, request, not_devices_), caller.learned,
                               /*only=*/"", plugins_, inventory_)) {
    return without;
  }
  if (pending) return std::nullopt;  // the decision that is being made needs the same plugins
  if (auto wait = AwaitedPlugin(state, request, plugins_, inventory_)) return *std::move(wait);
  return std::nullopt;
}

void AllocationManager::Respond(Caller caller, EarlyAnswer answer) {
  const auto* const wait = std::get_if<PluginWait>(&answer);
  const Outcome outcome = wait == nullptr ? std::get<Outcome>(std::move(answer)) : wait->why;
  const AdmissionRequest& request = caller.request;
  decisions_.AddUndecided(DecisionAbout(node_, ledger_.state(), request.pod, request.source),
                          outcome);
  if (wait != nullptr && may_wait_ && held_.Hold(caller, *wait)) return ScheduleCheck();
  caller.done(outcome);
}

void AllocationManager::CheckHeld() {
  const auto is_awaited = [this](const std::string& resource) {
    return WaitFor(resource, plugins_, inventory_).has_value();
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
