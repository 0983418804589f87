// The allocation manager and the end of pods: what is released, and when that is written.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "alignd/admission/admission.h"
#include "alignd/admission/init_containers.h"
#include "alignd/config/kubelet_config.h"
#include "allocation/allocation_manager.h"
#include "allocation/exclusive_needs.h"
#include "allocation/operation.h"
#include "allocation/requested_resize.h"

namespace alignd::allocation {

using admission::NodeState;

void AllocationManager::ContainerStarts(ContainerKey key, std::set<std::string> running) {
  queue_->Post([this, key = std::move(key), running = std::move(running)] {
    const Pod* const known = notes_.WithInit(key.pod_uid);
    if (known == nullptr || IsBeingAdmitted(key.pod_uid)) return;
    if (const auto resize = resizes_.find(key.pod_uid); resize != resizes_.end()) {
      resize->second.started.emplace_back(key, running);
      return;
    }
    Pod pod = *known;
    std::erase_if(pod.containers, [&](const Container& one) {
      return one.name != key.container && one.kind == ContainerKind::kInit &&
             running.contains(one.name);
    });
    // The last request about the pod may have lacked an app container to which nothing is assigned.
    const bool is_listed = std::ranges::count(pod.containers, key.container, &Container::name) > 0;
    if (!is_listed && notes_.RoleOf(key) == ContainerKind::kApp) {
      pod.containers.push_back({key.container, ContainerKind::kApp, {}});
    }
    NodeState next = ledger_.state();
    admission::ContainerStarts(node_, pod, key.container, next);
    if (next == ledger_.state()) return;
    // An init container that runs once more is decided once more.
    notes_.DropReleased(key.pod_uid, ledger_.state().cpu, next.cpu);
    ledger_.Keep(std::move(next));
    ResourcesReleased();
    SaveOrLog("init containers of pod " + key.pod_uid);
  });
}

void AllocationManager::ReleasePod(std::string pod_uid, std::function<void(Result<Done>)> done,
                                   std::function<bool()> still_gone) {
  const bool posted = queue_->Post([this, pod_uid, done, still_gone = std::move(still_gone)] {
    if (still_gone && !still_gone()) return done(Done{});
    Release(pod_uid, done);
  });
  if (!posted) done(AligndStops());
}

PodQuota AllocationManager::QuotaOf(const std::string& pod_uid) const {
  if (!PodLevelResourceManagersOn(node_.config)) return PodQuota::kLift;
  if (const std::optional<bool> keeps = notes_.KeepsQuota(pod_uid)) {
    return *keeps ? PodQuota::kKeep : PodQuota::kLift;
  }
  const std::shared_ptr<const Snapshot> published = snapshot();
  const cpumanager::CpuState& cpu = published->state.cpu;
  const auto parts = cpu.assignments.find(pod_uid);
  if (parts == cpu.assignments.end() || !cpu.pods.contains(pod_uid)) return PodQuota::kAsFound;
  const bool all_own = std::ranges::all_of(parts->second, [&](const auto& part) {
    return cpu.HasOwnCpus({pod_uid, part.first});
  });
  return all_own ? PodQuota::kLift : PodQuota::kKeep;
}

void AllocationManager::Release(const std::string& pod_uid,
                                std::function<void(Result<Done>)> done) {
  queue_->AssertOnThisThread();
  ForgetWaiting(pod_uid);  // before the callers know
  const auto error = [](const std::string& pod, const std::string& message) {
    return Error{ErrorCode::kUnavailable, "pod " + pod + message, "create the pod's sandbox again"};
  };
  const std::string waited = " was released while it waited";
  held_.AnswerPod(pod_uid, [&](const Pod& pod) { return error(NameOrUid(pod), waited); });
  const bool is_admitted = IsBeingAdmitted(pod_uid);
  Cancel(pod_uid,
         error(NameInCalls(pod_uid),
               is_admitted ? " was released while its devices were being allocated" : waited));
  NodeState next = ledger_.state();
  admission::ReleasePod(pod_uid, next);
  notes_.Forget(pod_uid);
  const bool is_assigned = HasAssignment(ledger_.state(), pod_uid);
  ledger_.Keep(std::move(next));
  if (is_assigned) ResourcesReleased();
  kubelet_.Forget({pod_uid});
  pending_pods_.Forget(pod_uid);
  ledger_.Save(std::move(done));
  reboot_.Settle(ledger_.state().devices);
}

void AllocationManager::Cancel(const std::string& pod_uid, const Error& why) {
  CancelResize(pod_uid, why);
  const auto running = operations_.find(pod_uid);
  if (running == operations_.end()) return;
  Operation& operation = *running->second;
  operation.wait_end = WaitEnd::kPodGone;
  for (Caller& caller : operation.behind) operation.waiting.push_back(std::move(caller));
  operation.behind.clear();
  Fail(operation, why);
}

std::string AllocationManager::NameInCalls(const std::string& pod_uid) const {
  const auto running = operations_.find(pod_uid);
  return running == operations_.end() ? pod_uid : NameOrUid(running->second->request.pod);
}

bool AllocationManager::IsBeingAdmitted(const std::string& pod_uid) const {
  const auto running = operations_.find(pod_uid);
  return running != operations_.end() && !running->second->IsRefused();
}

std::set<std::string> AllocationManager::Releasable(const AdmissionRequest& request) const {
  if (!request.stopped) return {};
  std::set<std::string> releasable = request.stopped();
  const std::set<std::string> assigned = admission::PodsIn(ledger_.state());
  std::erase_if(releasable, [&](const std::string& uid) {
    return !assigned.contains(uid) || IsBeingAdmitted(uid) || resizes_.contains(uid);
  });
  return releasable;
}

void AllocationManager::ForgetReleased(const std::set<std::string>& pod_uids) {
  if (pod_uids.empty()) return;
  for (const std::string& uid : pod_uids) {
    notes_.Forget(uid);
    const auto decided = decisions_.Newest(uid, 1);
    const std::string name =
        decided.empty() || decided[0]->name.empty()
            ? uid
            : decided[0]->name_space + "/" + decided[0]->name + " (" + uid + ")";
    spdlog::info("pod {} has stopped and was released: another pod needs its resources", name);
  }
  kubelet_.Forget(pod_uids);
  ResourcesReleased();
}

void AllocationManager::SaveAgain() {
  queue_->Post([this] {
    ledger_.SaveAgain([](const Result<Done>& saved) {
      if (!saved.ok()) spdlog::error("the state files cannot be written: {}", saved.error().Text());
    });
  });
}

void AllocationManager::SaveUnsaved() {
  queue_->Post([this] { SaveOrLog("the state"); });
}

}  // namespace alignd::allocation
