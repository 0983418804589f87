#include "reconcile/runtime_lister.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "alignd/checkpoint/mark_annotation.h"

namespace alignd::reconcile {

namespace {

constexpr size_t kMinDropped = 1'000;  // waiters before those whose callers have gone are dropped

// Whether an unmanaged container has what its key is assigned: it takes over the CPUs of its
// predecessor. It has no devices, and its memory may be on any node.
bool HasAllItIsAssigned(const admission::NodeState& state, const ContainerKey& key) {
  const std::vector<memorymanager::Block>* const memory = state.memory.Find(key);
  return state.cpu.Find(key) != nullptr && (memory == nullptr || memory->empty()) &&
         !state.devices.allocations.contains(key);
}

// By annotation the first pod by name that runs with it.
std::map<std::string, std::string> UnsupportedIn(const RuntimeListing& listing) {
  std::map<std::string, std::string> pods;
  for (const RuntimeListing::Sandbox& sandbox : listing.sandboxes) {
    if (!sandbox.ready) continue;
    const std::string pod = sandbox.name_space + "/" + sandbox.name;
    for (const std::string& name : sandbox.policies.unsupported) {
      std::string& first = pods.try_emplace(name, pod).first->second;
      first = std::min(first, pod);
    }
  }
  return pods;
}

// Of each pod, by UID.
std::map<std::string, const RuntimeListing::Sandbox*> NewestSandboxes(
    const RuntimeListing& listing) {
  std::map<std::string, const RuntimeListing::Sandbox*> newest;
  for (const RuntimeListing::Sandbox& sandbox : listing.sandboxes) {
    const RuntimeListing::Sandbox*& known = newest[sandbox.pod_uid];
    const bool is_later = known == nullptr || std::pair(sandbox.ready, sandbox.created_at) >
                                                  std::pair(known->ready, known->created_at);
    if (is_later) known = &sandbox;
  }
  return newest;
}

// By UID, of the pods of which their annotations say it. One that does not name all containers does
// not show that there are no pod-level resources.
std::map<std::string, bool> PodLevelIn(const RuntimeListing& listing) {
  std::map<std::string, bool> pods;
  const auto newest = NewestSandboxes(listing);
  for (const auto& [uid, sandbox] : newest) {
    if (sandbox->annotated) pods[uid] = sandbox->annotated->has_pod_level;
  }
  for (const RuntimeListing::Container& container : listing.containers) {
    const auto pod = pods.find(container.key.pod_uid);
    if (pod == pods.end() || pod->second) continue;
    const auto& named = newest.at(container.key.pod_uid)->annotated->containers;
    if (!named.contains(container.key.container)) pods.erase(pod);
  }
  return pods;
}

// The roles that marks say. Marks of an earlier version have none, or `init` only. A mark that
// cannot be read is reported by the adopter.
std::map<ContainerKey, ContainerKind> RolesIn(const RuntimeListing& listing) {
  std::map<ContainerKey, ContainerKind> roles;
  for (const RuntimeListing::Marked& marked : listing.marked) {
    const auto mark = checkpoint::ParseMark(marked.key, marked.mark_id, marked.mark);
    if (mark.ok() && mark->role) roles[marked.key] = *mark->role;
  }
  return roles;
}

}  // namespace

std::map<std::string, PodPolicies> PoliciesIn(const RuntimeListing& listing) {
  std::map<std::string, PodPolicies> policies;
  for (const auto& [uid, sandbox] : NewestSandboxes(listing)) {
    PodPolicies asked = sandbox->policies;
    asked.unsupported.clear();  // nothing to follow
    // Without annotations, the pod can have the defaults of its namespace.
    if (AreEmpty(asked) && sandbox->name_space.empty()) continue;
    asked.name_space = sandbox->name_space;
    policies[uid] = std::move(asked);
  }
  return policies;
}

RuntimeLister::RuntimeLister(TaskQueue& io, allocation::AllocationManager& allocation,
                             ContainerRegistry& registry, RuntimeClient& runtime,
                             PodReleaser& releaser, Conditions& conditions,
                             std::function<void(Clock::time_point)> listed,
                             std::function<void()> failed, Options options)
    : allocation_(allocation),
      registry_(registry),
      runtime_(runtime),
      releaser_(releaser),
      conditions_(conditions),
      listed_(std::move(listed)),
      failed_(std::move(failed)),
      options_(options),
      task_(io, [this] { return Run(); }) {}

void RuntimeLister::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  task_.Stop();
  std::vector<Waiter> waiters;
  {
    const MutexLock lock(mutex_);
    waiters.swap(waiters_);
  }
  for (const Waiter& waiter : waiters) waiter.done(!waiter.since && recovered_);
}

void RuntimeLister::Relist() {
  {
    const MutexLock lock(mutex_);
    relist_ = true;
  }
  task_.RunSoon();
}

void RuntimeLister::WhenListed(std::function<void(bool)> done, Cancelled cancelled) {
  if (AddWaiter({.done = done, .since = std::nullopt, .cancelled = std::move(cancelled)})) return;
  done(recovered_);
}

void RuntimeLister::WhenListedAnew(Clock::time_point until, std::function<void(bool)> done,
                                   Cancelled cancelled) {
  const Clock::time_point now = Clock::now();
  if (AddWaiter({.done = done, .since = now, .until = until, .cancelled = std::move(cancelled)})) {
    return;
  }
  done(false);
}

bool RuntimeLister::AddWaiter(Waiter waiter) {
  std::vector<Waiter> gone;  // destroyed without the lock
  {
    const MutexLock lock(mutex_);
    if (stopping_ || (!waiter.since && recovered_)) return false;
    waiters_.push_back(std::move(waiter));
    if (waiters_.size() >= drop_at_) {
      const auto first_gone = std::stable_partition(
          waiters_.begin(), waiters_.end(),
          [](const Waiter& waits) { return waits.cancelled == nullptr || !*waits.cancelled; });
      gone.assign(std::make_move_iterator(first_gone), std::make_move_iterator(waiters_.end()));
      waiters_.erase(first_gone, waiters_.end());
      drop_at_ = std::max(kMinDropped, 2 * waiters_.size());
    }
  }
  task_.RunSoon();
  return true;
}

void RuntimeLister::AnswerWaiters(bool listed) {
  std::vector<Waiter> answered;
  {
    const MutexLock lock(mutex_);
    std::erase_if(waiters_, [&](Waiter& waiter) {
      if (waiter.since && *waiter.since > began_) return false;
      answered.push_back(std::move(waiter));
      return true;
    });
  }
  for (const Waiter& waiter : answered) waiter.done(waiter.since ? listed : bool{recovered_});
}

void RuntimeLister::AnswerLate() {
  std::vector<Waiter> late;
  {
    const MutexLock lock(mutex_);
    std::erase_if(waiters_, [&late, now = Clock::now()](Waiter& waiter) {
      if (waiter.until > now) return false;
      late.push_back(std::move(waiter));
      return true;
    });
  }
  for (const Waiter& waiter : late) waiter.done(false);
}

RuntimeLister::Clock::time_point RuntimeLister::NextLate() const {
  Clock::time_point next =
      under_way_ && !is_silent_ ? began_ + Conditions::kAnswersWithin : RecurringTask::kNever;
  for (const Waiter& waiter : waiters_) next = std::min(next, waiter.until);
  return next;
}

RuntimeLister::Clock::time_point RuntimeLister::Run() {
  std::optional<Result<RuntimeListing>> answer;
  {
    const MutexLock lock(mutex_);
    answer.swap(answer_);
  }
  if (answer && BeginAdoption(*answer)) answer.reset();
  if (!answer) answer = FinishAdoption();
  if (answer) {
    under_way_ = false;
    Take(*answer);
    if (is_requested_) next_requested_ = Clock::now() + options_.pause;
    AnswerWaiters(answer->ok());
  }
  AnswerLate();
  if (under_way_ && !is_silent_ && Clock::now() >= began_ + Conditions::kAnswersWithin) {
    is_silent_ = true;
    conditions_.RuntimeIsSilent();
  }
  {
    const MutexLock lock(mutex_);
    if (under_way_) return NextLate();
    const bool requested = relist_ || !waiters_.empty();
    const Clock::time_point due = requested ? std::min(next_, next_requested_) : next_;
    if (Clock::now() < due) return std::min(due, NextLate());
    is_requested_ = requested;
    relist_ = false;
  }
  Begin();
  const MutexLock lock(mutex_);
  return NextLate();
}

void RuntimeLister::Begin() {
  under_way_ = true;
  is_silent_ = false;
  conditions_.RuntimeAsked();
  began_ = Clock::now();
  registry_.BeginListing();
  runtime_.List([this](Result<RuntimeListing> listing) {
    {
      const MutexLock lock(mutex_);
      answer_ = std::move(listing);
    }
    task_.RunSoon();
  });
}

bool RuntimeLister::BeginAdoption(const Result<RuntimeListing>& listing) {
  if (!listing.ok() || recovered_ || options_.adopter == nullptr) return false;
  adopting_ = *listing;
  options_.adopter->Begin(*adopting_, [this] {
    {
      const MutexLock lock(mutex_);
      adoption_ready_ = true;
    }
    task_.RunSoon();
  });
  return true;
}

std::optional<Result<RuntimeListing>> RuntimeLister::FinishAdoption() {
  {
    const MutexLock lock(mutex_);
    if (!std::exchange(adoption_ready_, false)) return std::nullopt;
  }
  RuntimeListing listing = *std::move(adopting_);
  adopting_.reset();
  const Result<std::set<std::string>> adopted = options_.adopter->Finish(listing);
  has_refused_ = options_.adopter->HasRefused();
  if (!adopted.ok()) return adopted.error();
  if (!adopted->empty() && options_.adopted) options_.adopted(*adopted);
  return listing;
}

void RuntimeLister::Take(const Result<RuntimeListing>& listing) {
  if (!listing.ok()) {
    if (std::exchange(has_refused_, false)) {
      conditions_.RuntimeAnswered();  // the adopter has reported what is wrong with the state files
    } else {
      conditions_.RuntimeFailed(listing.error());
    }
    next_ = Clock::now() + options_.retry;
    failed_();
    return;
  }
  conditions_.RuntimeAnswered();
  if (!recovered_) {
    allocation_.LearnPods(PoliciesIn(*listing), PodLevelIn(*listing), RolesIn(*listing));
  }
  const std::set<std::string> known = allocation_.KnownPods();
  const std::set<std::string> gone = registry_.Resync(*listing, known, /*at_start=*/!recovered_);
  for (const std::string& uid : gone) releaser_.Release(uid);
  // When this returns, the releases are done: a caller that waits for the listing never finds an
  // assignment from before the restart.
  if (!gone.empty()) (void)allocation_.KnownPods();
  releaser_.Look();
  recovered_ = true;
  ReportUnmanaged();
  conditions_.FoundUnsupported(UnsupportedIn(*listing));
  listed_(began_);
  next_ = Clock::now() + options_.period;
}

void RuntimeLister::ReportUnmanaged() {
  const std::shared_ptr<const allocation::Snapshot> snapshot = allocation_.snapshot();
  std::vector<Subject> unmanaged;
  for (const ContainerRegistry::UnmanagedContainer& container : registry_.UnmanagedContainers()) {
    if (HasAllItIsAssigned(snapshot->state, container.key)) continue;
    unmanaged.push_back({container.id, container.key, registry_.PodName(container.key.pod_uid)});
  }
  conditions_.FoundUnmanaged(unmanaged);
}

}  // namespace alignd::reconcile
