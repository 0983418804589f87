// Pods that wait for resources that other pods are assigned: their places, and whose turn it is.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocation/allocation_manager.h"
#include "allocation/current_assignment.h"
#include "allocation/exclusive_needs.h"
#include "allocation/operation.h"
#include "allocation/requested_resize.h"
#include "allocation/wait_texts.h"
#include "host/log_event.h"

namespace alignd::allocation {

using WaitClock = std::chrono::steady_clock;

namespace {

// Decisions that one turn makes at most; further ones come after what has been posted meanwhile.
constexpr int kTriesPerTurn = 16;
constexpr size_t kMaxWhyBytes = 4096;
// Of the pods before one that would wait.
constexpr size_t kMaxNamedBefore = 5;

// The name under which it waits: that of the container, if no more of its pod is known.
std::string WaitsAs(const AdmissionRequest& request) {
  return request.pod.is_complete ? "" : request.wanted;
}

Refusal Shortened(Refusal refusal) {
  if (refusal.message.size() > kMaxWhyBytes) {
    refusal.message = refusal.message.substr(0, kMaxWhyBytes) + " (cut)";
  }
  return refusal;
}

void LogEnd(const WaitQueue::Place& place, WaitQueue::Time now, const std::string& how) {
  static host::LineLimit limit("pods that wait no longer");
  if (!place.is_confirmed || !limit.Allow()) return;
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - place.since);
  spdlog::info("pod {} ({}) waits no longer, after {}: {}", place.pod.name, place.pod.uid,
               WaitText(waited), how);
}

std::string Describe(WaitEnd end) {
  switch (end) {
    case WaitEnd::kAdmitted:
      return "admitted";
    case WaitEnd::kExpired:
      return "no call for it came, and its place has expired";
    case WaitEnd::kTimeout:
      return "its time is over (--on-refusal)";
    case WaitEnd::kPodGone:
      return "its sandbox was removed, or the runtime has none for it";
    case WaitEnd::kCannotFit:
      return "also the empty node would refuse it";
    case WaitEnd::kOtherReason:
      return "it is refused or failed for another reason";
  }
  return "";
}

// nullopt: the pod's time is not over.
std::optional<Refusal> RefusalByTimeout(const WaitQueue& queue, const std::string& pod_uid) {
  const WaitQueue::SharedPlace* const failed = queue.FindFailed(pod_uid);
  if (failed == nullptr) return std::nullopt;
  return WaitTimeout(**failed, queue.limits().fail_after.value_or(std::chrono::milliseconds(0)));
}

}  // namespace

WaitingPod AllocationManager::AsWaiting(const AdmissionRequest& request) const {
  const Pod& pod = request.pod;
  return {.uid = pod.uid,
          .name = NameOrUid(pod),
          .priority = pod.priority,
          .needs = ExclusiveNeeds(node_, ledger_.state(), pod),
          .has_part = HasAssignment(ledger_.state(), pod.uid),
          .container = WaitsAs(request)};
}

bool AllocationManager::Join(WaitingPod asking, const AdmissionRequest& request,
                             const Refusal& why) {
  asking.requested = Requested::In(request).pod;
  return waiting_->Join(asking, why, WaitClock::now());
}

std::optional<QueueAnswer> AllocationManager::AskQueue(const Pod& pod) const {
  std::promise<std::optional<QueueAnswer>> answered;
  const bool posted = queue_->Post([this, &pod, &answered] {
    if (!waiting_) return answered.set_value(std::nullopt);
    if (std::optional<Refusal> timeout = RefusalByTimeout(*waiting_, pod.uid)) {
      return answered.set_value(QueueAnswer{*std::move(timeout), {}});
    }
    const WaitingPod asking = AsWaiting({.pod = AsDecided(node_, ledger_.state(), pod)});
    WaitQueue queue = *waiting_;
    queue.SetDevices(AvailableDevices());
    std::vector<WaitQueue::SharedPlace> before =
        queue.PlacesBefore(asking, WaitClock::now(), kMaxNamedBefore);
    if (before.empty()) return answered.set_value(std::nullopt);
    answered.set_value(QueueAnswer{WaitsBehind(asking, *before.front()), std::move(before)});
  });
  if (!posted) return std::nullopt;
  return answered.get_future().get();
}

bool AllocationManager::MustWait(const std::shared_ptr<Operation>& operation) {
  if (!waiting_) return false;
  const AdmissionRequest& request = operation->request;
  if (const std::optional<Refusal> timeout = RefusalByTimeout(*waiting_, request.pod.uid)) {
    NoteCall(request);
    Fail(*operation, *timeout);
    return true;
  }
  if (waiting_->IsEmpty()) return false;
  const WaitingPod asking = AsWaiting(request);
  waiting_->SetDevices(AvailableDevices());
  const WaitQueue::Place* const first = waiting_->FirstBefore(asking, WaitClock::now());
  if (first == nullptr) return false;
  const Refusal behind = WaitsBehind(asking, *first);
  const WaitQueue::Part* const own = waiting_->FindPart(asking.uid, asking.container);
  // What does not wait yet is decided first: the empty node may refuse it, too.
  if (own == nullptr && !operation->decision) return false;
  const Refusal why = own == nullptr ? behind : own->why;
  const bool is_confirmed = own != nullptr && own->is_confirmed;
  if (!Join(asking, request, why)) {
    Fail(*operation, Refusal{behind.reason, behind.message + DescribeFull(*waiting_)});
    return true;
  }
  waiting_->Tried(asking.uid, asking.container, std::nullopt);  // nothing is decided
  if (!is_confirmed) waiting_->Confirm(asking.uid, asking.container, why);
  operation->was_waiting = is_confirmed;
  Wait(operation, behind);
  return true;
}

bool AllocationManager::Reserve(const std::shared_ptr<Operation>& operation,
                                const Refusal& refusal) {
  if (!waiting_ || !operation->by_policy) return false;
  const WaitingPod asking = AsWaiting(operation->request);
  const WaitQueue::Part* const own = waiting_->FindPart(asking.uid, asking.container);
  operation->was_waiting = own != nullptr && own->is_confirmed;
  const Refusal why = Shortened(own == nullptr ? refusal : own->why);
  operation->has_joined = Join(asking, operation->request, why);
  if (!operation->has_joined) return false;
  // Calls that are held were decided earlier, perhaps about fewer containers of the pod.
  const bool is_all = !asking.container.empty() || !held_.HasQueued(asking.uid);
  if (is_all) waiting_->Tried(asking.uid, asking.container, operation->generation);
  const bool is_again = std::ranges::all_of(
      operation->waiting, [](const Caller& caller) { return caller.is_tried_again; });
  // The pods before it have been served since, and now it does not fit: that is news.
  const bool is_explained =
      waiting_->IsExplained(asking.uid, asking.container) && why.reason != kWaitsForEarlierPods;
  if (!is_again || operation->waiting.empty() || !is_explained) return false;
  operation->decision.reset();  // as before
  Wait(operation, why);
  return true;
}

void AllocationManager::WaitIfItHelps(const std::shared_ptr<Operation>& operation, Refusal refusal,
                                      std::optional<bool> fits_without_others) {
  const std::string& uid = operation->request.pod.uid;
  const std::string container = WaitsAs(operation->request);
  const bool may_wait = waiting_ && operation->by_policy;
  const WaitQueue::Part* const own = may_wait ? waiting_->FindPart(uid, container) : nullptr;
  if (own == nullptr) {
    const bool is_full = may_wait && !operation->has_joined;  // else the pod has gone meanwhile
    if (is_full && fits_without_others.value_or(false)) refusal.message += DescribeFull(*waiting_);
    return Fail(*operation, refusal);
  }
  if (!fits_without_others.value_or(own->is_confirmed)) {
    operation->wait_end = WaitEnd::kCannotFit;
    return Fail(*operation, refusal);
  }
  if (fits_without_others) waiting_->Confirm(uid, container, Shortened(refusal));
  Wait(operation, refusal);
}

void AllocationManager::Wait(const std::shared_ptr<Operation>& operation, const Refusal& refusal) {
  const AdmissionRequest& request = operation->request;
  operation->keeps_place = true;
  const WaitQueue::Time now = WaitClock::now();
  NoteCall(request);
  std::vector<Caller> answered;
  for (Caller& caller : operation->waiting) {
    const PluginWait wait{.resource = "",
                          .why = {ErrorCode::kUnavailable,
                                  "the pod waits for resources of other pods: " + refusal.reason,
                                  "the kubelet retries, and the pod keeps its place"}};
    if (!may_wait_ || !held_.Hold(caller, wait).ok()) answered.push_back(std::move(caller));
  }
  operation->waiting = std::move(answered);
  NoteWait(*operation, refusal);
  PublishWaiting();
  const std::string place =
      DescribePlace(*waiting_, request.pod.uid, now, !request.releases_when_refused);
  Finish(*operation, Refusal{refusal.reason, refusal.message + place});
  ScheduleCheck();
  ScheduleExpiry();
  TryWaitingSoon();
}

// The log of decisions and the status show it, with the refusal alone: the position changes.
void AllocationManager::NoteWait(Operation& operation, const Refusal& refusal) {
  if (!operation.decision) return;
  operation.decision->waits = true;
  operation.decision->is_waiting_on = operation.was_waiting;
  if (operation.waiting.empty()) {
    operation.decision->Set(refusal);
    decisions_.Add(*std::move(operation.decision));
    pending_pods_.Answered(Requested::In(operation.request), refusal);
  } else {
    Report(operation, refusal);
  }
  operation.decision.reset();
}

std::vector<Caller> AllocationManager::LeaveQueue(const AdmissionRequest& request, WaitEnd end) {
  const std::string& uid = request.pod.uid;
  if (!waiting_) return {};
  const bool is_admitted = end == WaitEnd::kAdmitted;
  if (is_admitted && waiting_->FindFailed(uid) != nullptr && !AsWaiting(request).needs.empty()) {
    waiting_->ForgetFailed(uid);  // its time was over while it was being admitted
    PublishWaiting();
  }
  const bool has_part = is_admitted && HasAssignment(ledger_.state(), uid);
  return LeaveQueue(uid, WaitsAs(request), end, has_part);
}

std::vector<Caller> AllocationManager::LeaveQueue(const std::string& pod_uid,
                                                  const std::string& container, WaitEnd end,
                                                  bool has_part) {
  const WaitQueue::SharedPlace place = waiting_->Share(pod_uid);
  const WaitQueue::Time now = WaitClock::now();
  if (place == nullptr || !waiting_->Leave(pod_uid, container, end, has_part, now)) return {};
  if (waiting_->Find(pod_uid) == nullptr) LogEnd(*place, now, Describe(end));
  PublishWaiting();
  ScheduleExpiry();
  TryWaitingSoon();
  // Those of its further containers.
  std::vector<Caller> further = held_.TakeQueued(pod_uid);
  for (Caller& caller : further) caller.is_tried_again = false;
  return further;
}

void AllocationManager::NoteCall(const AdmissionRequest& request) {
  if (waiting_) waiting_->Called(request.pod.uid, WaitsAs(request), WaitClock::now());
}

void AllocationManager::ForgetWaiting(const std::string& pod_uid) {
  if (!waiting_) return;
  const WaitQueue::Place* const place = waiting_->Find(pod_uid);
  if (place == nullptr && waiting_->FindFailed(pod_uid) == nullptr) return;
  if (place != nullptr) LogEnd(*place, WaitClock::now(), Describe(WaitEnd::kPodGone));
  waiting_->Forget(pod_uid);
  PublishWaiting();
  TryWaitingSoon();
}

void AllocationManager::SandboxStopped(std::string pod_uid, bool is_removed) {
  queue_->Post([this, pod_uid = std::move(pod_uid), is_removed] {
    if (is_removed) ForgetWaiting(pod_uid);
    // What is being decided about is not held any more.
    const auto end_wait = [&pod_uid](Caller& caller) {
      if (caller.request.pod.uid == pod_uid) caller.request.wait_until.reset();
    };
    if (const auto running = operations_.find(pod_uid); running != operations_.end()) {
      std::ranges::for_each(running->second->waiting, end_wait);
      std::ranges::for_each(running->second->behind, end_wait);
    }
    if (const auto resize = resizes_.find(pod_uid); resize != resizes_.end()) {
      std::ranges::for_each(resize->second.behind, end_wait);
    }
    for (auto& [number, caller] : parked_) end_wait(caller);
    held_.AnswerPod(pod_uid, [](const Pod& pod) {
      return Error{ErrorCode::kUnavailable, "the sandbox of pod " + NameOrUid(pod) + " was stopped",
                   "create the pod's sandbox again"};
    });
  });
}

// --- Whose turn it is.

void AllocationManager::ResourcesReleased() {
  if (!waiting_ || waiting_->IsEmpty()) return;
  waiting_->Released();
  TryWaitingSoon();
}

void AllocationManager::TryWaitingSoon() {
  if (!waiting_ || waiting_->IsEmpty() || std::exchange(try_posted_, true)) return;
  queue_->Post([this] { TryWaiting(); });
}

void AllocationManager::TryWaiting() {
  try_posted_ = false;
  if (stopping_ || !may_wait_) return;
  waiting_->SetDevices(AvailableDevices());
  for (int tries = 0; tries < kTriesPerTurn; ++tries) {
    const std::optional<std::string> uid = waiting_->NextToTry(
        WaitClock::now(), [this](const std::string& pod) { return held_.HasQueued(pod); });
    if (!uid) return;
    for (Caller& caller : held_.TakeQueued(*uid)) Start(std::move(caller));
  }
  TryWaitingSoon();
}

void AllocationManager::ScheduleExpiry() {
  const auto next = waiting_->NextExpiry(WaitClock::now());
  if (!next || (next_expiry_ && *next_expiry_ <= *next)) return;
  next_expiry_ = next;
  queue_->PostAt(*next, [this, next] {
    if (next_expiry_ != next) return;  // another one is posted
    next_expiry_.reset();
    ExpirePlaces();
  });
}

void AllocationManager::ExpirePlaces() {
  const WaitQueue::Time now = WaitClock::now();
  const WaitQueue::Expired expired =
      waiting_->Expire(now, [this](const std::string& pod, const std::string& container) {
        return held_.Holds(pod, container);
      });
  for (const WaitQueue::SharedPlace& place : expired.dropped) {
    LogEnd(*place, now, Describe(WaitEnd::kExpired));
  }
  PublishWaiting();
  for (const WaitQueue::SharedPlace& place : expired.failed) {
    LogEnd(*place, now, Describe(WaitEnd::kTimeout));
    // Each is started again, and then refused.
    for (Caller& caller : held_.TakeQueued(place->pod.uid)) {
      caller.is_tried_again = false;
      Start(std::move(caller));
    }
  }
  ScheduleExpiry();
  TryWaitingSoon();
}

void AllocationManager::PublishWaiting() {
  auto published = std::make_shared<const WaitQueue>(*waiting_);
  const MutexLock lock(waiting_mutex_);
  published_waiting_ = std::move(published);
}

std::shared_ptr<const WaitQueue> AllocationManager::WaitingPods() const {
  const MutexLock lock(waiting_mutex_);
  return published_waiting_;
}

}  // namespace alignd::allocation
