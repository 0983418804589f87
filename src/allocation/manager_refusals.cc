// Refusals that are explained while the next decisions are made.
#include <algorithm>
#include <chrono>
#include <utility>

#include "allocation/allocation_manager.h"
#include "allocation/operation.h"

namespace alignd::allocation {

void AllocationManager::Refuse(const std::shared_ptr<Operation>& operation, Refusal refusal,
                               bool by_policy) {
  operation->by_policy = by_policy;
  if (Reserve(operation, refusal)) return;
  const auto refused = std::make_shared<const RefusedRequest>(RefusedRequest{
      .request = std::shared_ptr<const AdmissionRequest>(operation, &operation->request),
      .state = *operation->before,
      .bindings = kubelet_.bindings(),
      .refusal = std::move(refusal),
      .by_policy = by_policy});
  operation->abandoned = std::make_shared<std::atomic<bool>>(operation->waiting.empty());
  operation->refusal = refused->refusal;
  operation->refused = std::chrono::steady_clock::now();
  const auto done = Posted([this, operation](const std::optional<ExplainedRefusal>& explained) {
    OnExplained(operation, explained);
  });
  if (explanations_.Explain(refused, operation->abandoned, operation->refused, done)) return;
  operation->decision->is_explained = false;
  WaitIfItHelps(operation, WithoutExplanation(*refused), /*fits_without_others=*/std::nullopt);
}

void AllocationManager::OnExplained(const std::shared_ptr<Operation>& operation,
                                    const std::optional<ExplainedRefusal>& explained) {
  if (operation->ended) return;
  if (explained) {
    operation->decision->available = explained->available;
    return WaitIfItHelps(operation, explained->refusal, explained->fits_without_others);
  }
  operation->decision->is_explained = false;
  WaitIfItHelps(operation, *operation->refusal, /*fits_without_others=*/std::nullopt);
}

void AllocationManager::DropUnwantedRefusal(const std::string& pod_uid) {
  const auto running = operations_.find(pod_uid);
  if (running == operations_.end() || !running->second->IsRefused()) return;
  const std::shared_ptr<Operation> operation = running->second;
  if (std::ranges::all_of(operation->waiting,
                          [](const Caller& caller) { return caller.request.IsCancelled(); })) {
    OnExplained(operation, std::nullopt);
  }
}

void AllocationManager::NoteFault(const Pod& pod, const Error& why) {
  pending_pods_.Answered(Requested::In({.pod = pod}), why);
  decisions_.AddUndecided(DecisionAbout(node_, snapshot()->state, pod, /*source=*/{}), why);
}

void AllocationManager::NoteRefusal(const Pod& pod, const std::string& source, const Refusal& why) {
  decisions_.AddUndecided(DecisionAbout(node_, snapshot()->state, pod, source), why);
}

}  // namespace alignd::allocation
