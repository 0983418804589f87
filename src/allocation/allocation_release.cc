// How AllocationManager takes back what it has given away.
#include <spdlog/spdlog.h>

#include <future>
#include <utility>

#include "alignd/admission/admission.h"
#include "alignd/admission/init_containers.h"
#include "alignd/admission/node_state.h"
#include "allocation/allocation_manager.h"
#include "allocation/operation.h"

namespace alignd::allocation {

using admission::NodeState;

void AllocationManager::ContainerStarts(ContainerKey key) {
  queue_->Post([this, key = std::move(key)] {
    const Pod* const pod = notes_.WithInit(key.pod_uid);
    if (pod == nullptr || operations_.contains(key.pod_uid)) return;
    NodeState next = ledger_.state();
    admission::ContainerStarts(node_, *pod, key.container, next);
    if (next == ledger_.state()) return;
    // Those that run once more are to be decided about once more.
    for (const ContainerKey& granted : notes_.AllocatedOf(key.pod_uid)) {
      const bool loses = ledger_.state().cpu.Find(granted) && !next.cpu.Find(granted);
      if (loses) notes_.NoLongerAllocated(granted);
    }
    const Result<Done> saved = ledger_.Keep(std::move(next), Hidden(nullptr));
    if (!saved.ok()) {
      spdlog::error("init containers of pod {}: {}", key.pod_uid, saved.error().Text());
    }
  });
}

void AllocationManager::ReleasePod(std::string pod_uid, std::function<void(Result<Done>)> done,
                                   std::function<bool()> still_gone) {
  const bool posted = queue_->Post([this, pod_uid, done, still_gone = std::move(still_gone)] {
    done(still_gone && !still_gone() ? Result<Done>(Done{}) : Release({pod_uid}));
  });
  if (!posted) done(Stopping());
}

std::set<std::string> AllocationManager::KnownPods() {
  std::promise<std::set<std::string>> known;
  const bool posted = queue_->Post([&] {
    std::set<std::string> uids = admission::PodsIn(ledger_.state());
    notes_.AddPodsTo(uids);
    const auto bound = bindings();
    for (const auto& [key, devices] : *bound) uids.insert(key.pod_uid);
    known.set_value(std::move(uids));
  });
  return posted ? known.get_future().get() : std::set<std::string>();
}

Result<Done> AllocationManager::SaveAgain() {
  std::promise<Result<Done>> saved;
  const bool posted = queue_->Post([&] { saved.set_value(ledger_.SaveAgain()); });
  return posted ? saved.get_future().get() : Result<Done>(Stopping());
}

std::set<std::string> AllocationManager::Releasable(const Operation& operation) const {
  if (!operation.stopped) return {};
  std::set<std::string> releasable = operation.stopped();
  const std::set<std::string> holding = admission::PodsIn(ledger_.state());
  std::erase_if(releasable, [&](const std::string& uid) {
    return !holding.contains(uid) || operations_.contains(uid);
  });
  return releasable;
}

void AllocationManager::ForgetReleased(const std::set<std::string>& pod_uids) {
  for (const std::string& uid : pod_uids) {
    notes_.Forget(uid);
    spdlog::info("pod {} has stopped: what it held goes to who needs it", uid);
  }
  if (bindings_ == nullptr || pod_uids.empty()) return;
  const Result<Done> forgotten = bindings_->Forget(pod_uids);
  // What stands there of a pod that holds nothing is dropped with the next change.
  if (!forgotten.ok()) spdlog::error("bindings of stopped pods: {}", forgotten.error().Text());
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
  NodeState next = ledger_.state();
  for (const std::string& uid : pod_uids) {
    admission::ReleasePod(uid, next);
    notes_.Forget(uid);
  }
  Result<Done> kept = ledger_.Keep(std::move(next), Hidden(nullptr));
  SettleBoot();
  if (bindings_ == nullptr) return kept;
  const Result<Done> forgotten = bindings_->Forget(pod_uids);
  return kept.ok() ? forgotten : kept;
}

}  // namespace alignd::allocation
