#include "reconcile/cpuset_updater.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "alignd/admission/assignment.h"
#include "cgroup/node_list.h"
#include "host/log_event.h"
#include "reconcile/leaving_cpus.h"

namespace alignd::reconcile {
namespace {

using admission::Assignment;
using admission::RunningContainer;

Error Stopping() {
  return {ErrorCode::kUnavailable, "alignd is stopping", "repeat the call when it runs again"};
}

std::string Describe(const CpuSet& cpus, const std::vector<int>& memory_nodes) {
  return "CPUs " + cpus.ToString() +
         (memory_nodes.empty() ? "" : ", memory nodes " + cgroup::NodeList(memory_nodes));
}

// A set is applied again if it may have changed meanwhile: after a call of another client, or after
// alignd's start. Then the container has not moved.
void LogMove(const Subject& container, const CpuSet& before, const CpuSet& now,
             const std::string& what) {
  if (before.empty() || before == now) {
    spdlog::debug("{} confirmed on {}", NameOf(container), what);
  } else {
    host::LogFields fields = {{"POD_UID", container.key.pod_uid},
                              {"CONTAINER", container.key.container},
                              {"RESOURCE", "cpu"}};
    host::AddPodName(container.pod, fields);
    host::LogEvent(host::kLogContainerMoved, spdlog::level::info, fields,
                   NameOf(container) + " moved from CPUs " + before.ToString() + " to " + what);
  }
}

// What to do about a start that is delayed.
constexpr char kRemedy[] =
    "alignd keeps trying, and the kubelet's next attempt succeeds once they have moved; `alignctl "
    "status` shows which containers cannot be moved; delete the pod of such a container to free "
    "its CPUs";

constexpr size_t kMaxNamed = 5;  // containers in a message

}  // namespace

CpusetUpdater::CpusetUpdater(TaskQueue& background, const admission::Node& node,
                             allocation::AllocationManager& allocation, ContainerRegistry& registry,
                             RuntimeClient& runtime, CpusetNarrower& narrower,
                             Conditions& conditions, Relist relist, Options options)
    : node_(node),
      allocation_(allocation),
      registry_(registry),
      runtime_(runtime),
      narrower_(narrower),
      conditions_(conditions),
      relist_(std::move(relist)),
      options_(options),
      task_(background, [this] { return Run(); }) {}

void CpusetUpdater::Stop() {
  std::vector<Waiter> unanswered;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    unanswered.swap(waiters_);
  }
  task_.Stop();
  for (const Waiter& waiter : unanswered) waiter.done(Stopping());
}

void CpusetUpdater::BeforeStart(const std::string& named, std::function<void(Result<Done>)> done) {
  bool stopping = false;
  {
    const MutexLock lock(mutex_);
    stopping = stopping_;
  }
  if (stopping) {  // a late answer of a plugin; the allocation manager may be destroyed
    done(Stopping());
    return;
  }
  if (MayStart(named, /*listed=*/false, /*why=*/{}).ok()) {
    done(Done{});
    return;
  }
  {
    const MutexLock lock(mutex_);
    stopping = stopping_;
    if (!stopping) {
      const Clock::time_point now = Clock::now();
      waiters_.push_back({named, std::move(done), now, now + options_.start_patience});
    }
  }
  if (stopping) {
    done(Stopping());
    return;
  }
  task_.RunSoon();
  if (!registry_.ContainerNamed(named)) relist_();
}

void CpusetUpdater::RuntimeFailed() {
  const MutexLock lock(mutex_);
  has_failed_ = true;
}

void CpusetUpdater::Listed(Clock::time_point began) {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(has_failed_, false)) {
      for (auto& [id, failure] : failures_) failure.retry = Clock::now();
    }
    for (Waiter& waiter : waiters_) waiter.listed = waiter.listed || waiter.since <= began;
  }
  task_.RunSoon();
}

CpusetUpdater::Clock::time_point CpusetUpdater::Run() {
  AnswerWaiters(/*planned=*/false);  // those for which all is ready do not wait for the next plan
  Update();
  AnswerWaiters(/*planned=*/true);
  const MutexLock lock(mutex_);
  for (const auto& [id, update] : applying_) {
    if (checked_ - update.since >= Conditions::kAnswersWithin) conditions_.UpdateIsSilent(id);
  }
  return NextDue();
}

CpusetUpdater::Clock::time_point CpusetUpdater::NextDue() const {
  Clock::time_point due = RecurringTask::kNever;
  for (const Waiter& waiter : waiters_) due = std::min(due, waiter.deadline);
  for (const auto& [id, failure] : failures_) {
    // Those that were due then, and were not begun, are begun when others have ended (more_due_).
    const bool is_begun = applying_.contains(id) || failure.retry <= checked_;
    if (!is_begun) due = std::min(due, failure.retry);
  }
  due = std::min(due, deferred_due_);
  for (const auto& [id, wait] : waits_) {
    const Clock::time_point shown = wait.since + options_.wait_shown;
    if (shown > checked_) due = std::min(due, shown);
  }
  if (narrowing_) {
    const Clock::time_point slow = *narrowing_ + options_.narrow_patience;
    if (slow > checked_) due = std::min(due, slow);
  }
  for (const auto& [id, update] : applying_) {
    const Clock::time_point slow = update.since + options_.slow;
    if (more_due_ && slow > checked_) due = std::min(due, slow);
    const Clock::time_point silent = update.since + Conditions::kAnswersWithin;
    if (silent > checked_) due = std::min(due, silent);
  }
  return due;
}

void CpusetUpdater::Narrow(const std::vector<Change>& all) {
  std::vector<Change> changes;
  std::ranges::copy_if(all, std::back_inserter(changes),
                       [](const Change& change) { return change.narrow && change.now.may_narrow; });
  if (changes.empty()) return;
  {
    const MutexLock lock(mutex_);
    if (stopping_ || narrowing_) return;
    narrowing_ = Clock::now();
  }
  std::vector<admission::CpuSetChange> narrow;
  for (Change& change : changes) {
    change.cpuset &= change.now.cpuset;
    narrow.push_back({change.id, change.cpuset});
  }
  narrower_.Narrow(std::move(narrow),
                   [this, changes = std::move(changes)](const std::set<std::string>& refused) {
                     Narrowed(changes, refused);
                   });
}

void CpusetUpdater::Narrowed(const std::vector<Change>& changes,
                             const std::set<std::string>& refused) {
  {
    const MutexLock lock(mutex_);
    narrowing_.reset();
    not_narrowed_.insert(refused.begin(), refused.end());
  }
  task_.RunSoon();
  // After that: a container waits for these CPUs.
  for (const Change& change : changes) {
    if (refused.contains(change.id)) continue;
    LogMove({change.id, change.now.key, registry_.PodName(change.now.key.pod_uid)},
            change.now.cpuset, change.cpuset, "CPUs " + change.cpuset.ToString());
  }
}

// The updates are marked in the registry first, and the snapshot is read again after that. If a
// container is allocated CPUs in between, either its start finds these marks, or this loop finds
// the new snapshot.
void CpusetUpdater::Update() {
  bool asked_for = false;  // by a waiter that has not been checked yet
  for (;;) {
    const std::shared_ptr<const allocation::Snapshot> snapshot = allocation_.snapshot();
    std::vector<Change> all = Changes(snapshot->state);
    Narrow(all);
    std::vector<Change> changes = DueChanges(snapshot->state, std::move(all), asked_for);
    for (const Change& change : changes) registry_.BeginApply(change.id, change.cpuset);
    if (allocation_.snapshot()->generation != snapshot->generation) {
      // Nothing has been sent to the runtime.
      for (const Change& change : changes) registry_.DropApply(change.id);
      continue;
    }
    for (Change& change : changes) {
      const ContainerKey& key = change.now.key;
      change.is_exclusive = snapshot->state.cpu.RunsOnItsOwn(key) &&
                            snapshot->state.cpu.Find(key)->Contains(change.cpuset);
      Apply(change, admission::AssignmentOf(node_, snapshot->state, change.now.key).memory_nodes);
    }
    return;
  }
}

void CpusetUpdater::Apply(const Change& change, const std::vector<int>& memory_nodes) {
  const ContainerKey& key = change.now.key;
  const Subject container{change.id, key, registry_.PodName(key.pod_uid)};
  const std::string what = Describe(change.cpuset, memory_nodes);
  {
    const MutexLock lock(mutex_);
    applying_[change.id] = {Clock::now(), change.deferred};
  }
  conditions_.UpdateBegun(container, what);
  runtime_.UpdateCpuSet(
      change.id, change.cpuset, memory_nodes,
      [this, change, container, what, began = Clock::now()](const Result<Done>& result) {
        if (result.ok()) {
          LogMove(container, change.now.cpuset, change.cpuset, what);
        } else if (result.error().code != ErrorCode::kNotFound) {
          const MutexLock lock(mutex_);
          // A first failure may only mean that the container has ended. One that came late is in
          // the log already.
          const bool is_late = Clock::now() - began >= Conditions::kAnswersWithin;
          if (!stopping_ && (is_late || failures_.contains(change.id) ||
                             result.error().code == ErrorCode::kDeadlineExceeded)) {
            conditions_.UpdateFailed(container, what, result.error());
          }
        }
        conditions_.UpdateAnswered(change.id);
        Applied(change, result);
      });
}

void CpusetUpdater::Applied(const Change& change, const Result<Done>& result) {
  registry_.EndApply(change.id, change.cpuset, result.ok(), change.is_exclusive);
  const bool gone = !result.ok() && result.error().code == ErrorCode::kNotFound;
  if (gone) registry_.RemoveContainer(change.id);
  bool look_again = false;
  {
    const MutexLock lock(mutex_);
    if (result.ok() || gone) {
      not_narrowed_.erase(change.id);
      if (!gone && !registry_.AppliedTo(change.id)) disturbed_.insert(change.id);
      if (failures_.erase(change.id) > 0) conditions_.UpdateSettled(change.id);
    } else {
      Failure& failure = failures_[change.id];
      failure.error = result.error().Text();
      const auto pause = options_.first_retry * (int64_t{1} << std::min(failure.times++, 10));
      failure.retry = Clock::now() + std::min<Clock::duration>(pause, options_.last_retry);
      // The container may have ended, which a listing shows.
      look_again = failure.times == 1 && !stopping_;
    }
  }
  if (look_again) relist_();
  {
    const MutexLock lock(mutex_);
    applying_.erase(change.id);
  }
  task_.RunSoon();
}

void CpusetUpdater::AnswerWaiters(bool planned) {
  std::vector<std::pair<Waiter, Result<Done>>> answers;
  {
    const MutexLock lock(mutex_);
    if (waiters_.empty()) return;
    const Reasons why = WhyNotMoved();
    std::erase_if(waiters_, [&](Waiter& waiter) {
      Result<Done> safe = MayStart(waiter.named, waiter.listed, why);
      const bool over = safe.ok() || (planned && Clock::now() >= waiter.deadline);
      if (over) answers.emplace_back(std::move(waiter), std::move(safe));
      return over;
    });
  }
  for (const auto& [waiter, answer] : answers) waiter.done(answer);
}

CpusetUpdater::Reasons CpusetUpdater::WhyNotMoved() const {
  Reasons why;
  for (const auto& [id, wait] : waits_) why[id] = wait.why;
  for (const auto& [id, failure] : failures_) {
    why[id] = failure.error +
              (failure.times == 1 ? ", once" : ", " + std::to_string(failure.times) + " times");
  }
  for (const auto& [id, update] : applying_) {
    const auto waits =
        std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - update.since);
    std::string& reason = why[id];
    reason += reason.empty() ? "" : "; now ";
    reason += waits < Conditions::kAnswersWithin
                  ? "the runtime is being asked to move it"
                  : "the runtime has not answered for " + std::to_string(waits.count()) + " s";
  }
  return why;
}

Result<Done> CpusetUpdater::MayStart(const std::string& named, bool listed,
                                     const Reasons& why) const {
  const std::shared_ptr<const allocation::Snapshot> snapshot = allocation_.snapshot();
  const std::string container_id = registry_.ContainerNamed(named).value_or(named);
  const std::vector<RunningContainer> containers = registry_.Containers();
  const auto self = std::ranges::find(containers, container_id, &RunningContainer::id);
  if (self == containers.end()) {
    if (listed) return Done{};  // the runtime answers for it
    return Error{ErrorCode::kUnavailable,
                 "container " + named + " is not known, and the runtime could not be listed",
                 "start the runtime, or see in its log why it does not answer"};
  }
  const auto name_of = [this](const auto& container) {
    return NameOf({container.id, container.key, registry_.PodName(container.key.pod_uid)});
  };
  const auto reason_of = [&](const std::string& id) {
    const auto known = why.find(id);
    return known == why.end() ? "its update has not begun yet" : known->second;
  };
  const Assignment assignment = admission::AssignmentOf(node_, snapshot->state, self->key);
  const CpuSet own = assignment.KeptFromOthers();
  const std::vector<ContainerRegistry::Footprint> footprints = registry_.Footprints();
  // A shared container may start without the CPUs that a resized container has not left yet.
  const bool is_applied =
      assignment.cpuset.empty() || self->cpuset == assignment.cpuset ||
      (own.empty() &&
       self->cpuset == SharedCpus(assignment.cpuset, admission::SharedCpus(node_, snapshot->state),
                                  LeavingCpus(node_, snapshot->state, footprints)));
  if (!is_applied) {
    return Error{ErrorCode::kUnavailable,
                 "the CPUs " + assignment.cpuset.ToString() + " of " + name_of(*self) +
                     " could not be applied (" + reason_of(container_id) + ")",
                 kRemedy};
  }
  if (own.empty()) return Done{};
  std::string in_the_way;
  std::string remedy = kRemedy;
  size_t count = 0;
  for (const ContainerRegistry::Footprint& other : footprints) {
    if (!IsOn(snapshot->state, other, self->key, own, /*at_start=*/false)) continue;
    if (++count > kMaxNamed) continue;
    in_the_way += (count == 1 ? "" : ", ") + name_of(other);
    if (const std::optional<CpuSet> kept = registry_.KeptOn(other.id)) {
      in_the_way += " (which another program keeps moving to " +
                    (kept->empty() ? "other CPUs" : "CPUs " + kept->ToString()) + ")";
      remedy = "stop that program; see the conditions in `alignctl status`";
    } else if (const std::optional<CpuSet> outside = registry_.OutsideItsSet(other.id)) {
      in_the_way += " (which the kernel keeps on CPUs " + outside->ToString() +
                    ", the only ones of the cgroup above it)";
      remedy = "widen cpuset.cpus of its parents (AllowedCPUs= of their slices)";
    } else {
      const bool moved = registry_.FoundOn(other.id).has_value();
      in_the_way +=
          (moved ? " (which another program has moved; " : " (") + reason_of(other.id) + ")";
    }
  }
  if (count == 0) return Done{};
  if (count > kMaxNamed) in_the_way += " and " + std::to_string(count - kMaxNamed) + " more";
  return Error{ErrorCode::kUnavailable,
               "the exclusive CPUs " + own.ToString() + " of " + name_of(*self) +
                   " are still used by containers that could not be moved: " + in_the_way,
               remedy};
}

}  // namespace alignd::reconcile
