#include "reconcile/cpuset_updater.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "alignd/admission/assignment.h"
#include "cgroup/node_list.h"

namespace alignd::reconcile {
namespace {

using admission::Assignment;
using admission::CpuSetChange;
using admission::RunningContainer;

Error Stopping() { return {ErrorCode::kUnavailable, "alignd is stopping"}; }

std::string Describe(const CpuSet& cpus, const std::vector<int>& memory_nodes) {
  return "CPUs " + cpus.ToString() +
         (memory_nodes.empty() ? "" : ", memory nodes " + cgroup::NodeList(memory_nodes));
}

// Whoever was told the same once more, for nobody knew whether it still had it (after a call of
// somebody else, or our own start), has not moved.
void LogMove(const Subject& container, const CpuSet& before, const CpuSet& now,
             const std::string& what) {
  if (before.empty() || before == now) {
    spdlog::debug("{} confirmed on {}", NameOf(container), what);
  } else {
    spdlog::info("{} moved from CPUs {} to {}", NameOf(container), before.ToString(), what);
  }
}

// What to do about a start that is held up.
constexpr char kRemedy[] =
    "alignd goes on trying, and the container starts with the next attempt after that; `alignctl "
    "status` shows what cannot be moved; whose pod is deleted is in nobody's way";

// In a message that is to be read.
constexpr size_t kMaxNamed = 5;

}  // namespace

CpusetUpdater::CpusetUpdater(const admission::Node& node, allocation::AllocationManager& allocation,
                             ContainerRegistry& registry, RuntimeClient& runtime,
                             Conditions& conditions, Relist relist, Options options)
    : node_(node),
      allocation_(allocation),
      registry_(registry),
      runtime_(runtime),
      conditions_(conditions),
      relist_(std::move(relist)),
      options_(options) {}

CpusetUpdater::~CpusetUpdater() { Stop(); }

void CpusetUpdater::Start() {
  thread_ = std::thread([this] { Run(); });
}

void CpusetUpdater::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
  const MutexLock lock(mutex_);
  while (!applying_.empty()) wake_.Wait(mutex_);
}

void CpusetUpdater::Nudge() {
  {
    const MutexLock lock(mutex_);
    nudged_ = true;
  }
  wake_.NotifyAll();
}

void CpusetUpdater::BeforeStart(const std::string& named, std::function<void(Result<Done>)> done) {
  bool stopping = false;
  {
    const MutexLock lock(mutex_);
    stopping = stopping_;
  }
  if (stopping) {  // a late answer of a plugin; what is given away may be gone
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
      nudged_ = true;
    }
  }
  if (stopping) {
    done(Stopping());
    return;
  }
  wake_.NotifyAll();
  if (!registry_.ContainerNamed(named)) relist_();
}

void CpusetUpdater::Listed(Clock::time_point began) {
  {
    const MutexLock lock(mutex_);
    for (Waiter& waiter : waiters_) waiter.listed = waiter.listed || waiter.since <= began;
    nudged_ = true;
  }
  wake_.NotifyAll();
}

void CpusetUpdater::Run() {
  for (;;) {
    std::vector<Waiter> abandoned;
    bool stop = false;
    {
      const MutexLock lock(mutex_);
      for (;;) {
        const Clock::time_point due = NextDue();
        if (stopping_ || nudged_ || Clock::now() >= due) break;
        wake_.WaitUntil(mutex_, due);
      }
      nudged_ = false;
      stop = stopping_;
      if (stop) abandoned = std::exchange(waiters_, {});
    }
    for (const Waiter& waiter : abandoned) waiter.done(Stopping());
    if (stop) return;
    Move();
    AnswerWaiters();
  }
}

CpusetUpdater::Clock::time_point CpusetUpdater::NextDue() const {
  Clock::time_point due = Clock::now() + std::chrono::hours(1);
  for (const Waiter& waiter : waiters_) due = std::min(due, waiter.deadline);
  for (const auto& [id, failure] : failures_) {
    if (!applying_.contains(id)) due = std::min(due, failure.retry);
  }
  if (more_due_) {
    for (const auto& [id, since] : applying_) {
      const Clock::time_point slow = since + options_.slow;
      if (slow > looked_) due = std::min(due, slow);
    }
  }
  return due;
}

// What we are about to tell is marked first, and what was decided is looked at once more then: a
// container that is given CPUs meanwhile either sees our marks when it is to start, or we see what
// it was given.
void CpusetUpdater::Move() {
  bool asked_for = false;  // by somebody who waits and has not been looked at yet
  for (;;) {
    const std::shared_ptr<const allocation::Snapshot> snapshot = allocation_.snapshot();
    const std::vector<CpuSetChange> changes = DueChanges(snapshot->state, asked_for);
    std::map<std::string, CpuSet> before;
    if (!changes.empty()) {
      for (RunningContainer& container : registry_.Footprints()) {
        before[container.id] = std::move(container.cpuset);
      }
    }
    for (const auto& [id, cpuset] : changes) registry_.BeginApply(id, cpuset);
    if (allocation_.snapshot()->generation != snapshot->generation) continue;
    for (const CpuSetChange& change : changes) {
      const std::optional<ContainerKey> key = registry_.KeyOf(change.id);
      if (!key) continue;  // gone meanwhile
      Apply(change, admission::AssignmentOf(node_, snapshot->state, *key).memory_nodes,
            before[change.id]);
    }
    return;
  }
}

std::vector<CpuSetChange> CpusetUpdater::DueChanges(const admission::NodeState& state,
                                                    bool& asked_for) {
  std::vector<CpuSetChange> changes =
      admission::CpuSetChanges(node_, state, registry_.Containers());
  std::set<std::string> wrong;
  for (const CpuSetChange& change : changes) wrong.insert(change.id);
  const std::set<std::string> too_early = TooEarly(state, changes);

  const MutexLock lock(mutex_);
  const Clock::time_point now = looked_ = Clock::now();
  std::erase_if(failures_, [&](const auto& entry) REQUIRES(mutex_) {
    const bool settled = !wrong.contains(entry.first) && !applying_.contains(entry.first);
    if (settled) conditions_.UpdateSettled(entry.first);
    return settled;
  });
  asked_for = asked_for || std::ranges::any_of(waiters_, &Waiter::fresh);
  for (Waiter& waiter : waiters_) waiter.fresh = false;
  std::erase_if(changes, [&](const CpuSetChange& change) REQUIRES(mutex_) {
    if (applying_.contains(change.id)) return true;
    const auto failure = failures_.find(change.id);
    if (failure == failures_.end()) return too_early.contains(change.id);
    if (too_early.contains(change.id)) {
      failure->second.retry = std::max(failure->second.retry, now + options_.first_retry);
      return true;
    }
    return failure->second.retry > now && !asked_for;
  });
  // Those that failed are few, and whoever asks for them is not to wait once more.
  const auto others = std::stable_partition(
      changes.begin(), changes.end(),
      [&](const CpuSetChange& change) REQUIRES(mutex_) { return failures_.contains(change.id); });
  const size_t failed = static_cast<size_t>(others - changes.begin());
  const size_t most = std::max(Room(now), failed);
  more_due_ = changes.size() > most;
  if (more_due_) changes.resize(most);
  return changes;
}

size_t CpusetUpdater::Room(Clock::time_point now) const {
  size_t told = 0;
  for (const auto& [id, since] : applying_) told += now - since < options_.slow ? 1 : 0;
  return options_.most_at_once - std::min(told, options_.most_at_once);
}

// Exclusive CPUs are left by one before the other comes.
std::set<std::string> CpusetUpdater::TooEarly(const admission::NodeState& state,
                                              const std::vector<CpuSetChange>& changes) const {
  std::set<std::string> too_early;
  if (changes.empty()) return too_early;
  const std::vector<RunningContainer> footprints = registry_.Footprints();
  std::map<std::string, const RunningContainer*> by_id;
  for (const RunningContainer& container : footprints) by_id[container.id] = &container;
  for (const auto& [id, cpuset] : changes) {
    const auto self = by_id.find(id);
    if (self == by_id.end() || self->second->cpuset.empty()) continue;
    const RunningContainer& container = *self->second;
    const CpuSet gained = cpuset - container.cpuset;
    // Who loses CPUs as well is in somebody's way himself.
    if (gained.empty() || !cpuset.Contains(container.cpuset)) continue;
    const bool exclusive = state.cpu.Find(container.key) != nullptr;
    const bool wait = std::ranges::any_of(footprints, [&](const RunningContainer& other) {
      return other.key.pod_uid != container.key.pod_uid && other.cpuset.Intersects(gained) &&
             (exclusive || state.cpu.Find(other.key) != nullptr);
    });
    if (wait) too_early.insert(id);
  }
  return too_early;
}

void CpusetUpdater::Apply(const CpuSetChange& change, const std::vector<int>& memory_nodes,
                          const CpuSet& before) {
  const ContainerKey key = registry_.KeyOf(change.id).value_or(ContainerKey{});
  const Subject container{change.id, key, registry_.PodName(key.pod_uid)};
  const std::string what = Describe(change.cpuset, memory_nodes);
  {
    const MutexLock lock(mutex_);
    applying_[change.id] = Clock::now();
  }
  conditions_.UpdateBegun(container, what);
  runtime_.UpdateCpuSet(
      change.id, change.cpuset, memory_nodes,
      [this, change, container, before, what](const Result<Done>& result) {
        if (result.ok()) {
          LogMove(container, before, change.cpuset, what);
        } else if (result.error().code != ErrorCode::kNotFound) {
          const MutexLock lock(mutex_);
          // The first time it may have ended: then nothing is wrong.
          if (!stopping_ && (failures_.contains(change.id) ||
                             result.error().code == ErrorCode::kDeadlineExceeded)) {
            conditions_.UpdateFailed(container, what, result.error());
          }
        }
        conditions_.UpdateAnswered(change.id);
        Applied(change, result);
      });
}

void CpusetUpdater::Applied(const CpuSetChange& change, const Result<Done>& result) {
  registry_.EndApply(change.id, change.cpuset, result.ok());
  const bool gone = !result.ok() && result.error().code == ErrorCode::kNotFound;
  if (gone) registry_.RemoveContainer(change.id);
  bool look_again = false;
  {
    const MutexLock lock(mutex_);
    if (result.ok() || gone) {
      if (failures_.erase(change.id) > 0) conditions_.UpdateSettled(change.id);
    } else {
      Failure& failure = failures_[change.id];
      failure.error = result.error().Text();
      const auto pause = options_.first_retry * (int64_t{1} << std::min(failure.times++, 10));
      failure.retry = Clock::now() + std::min<Clock::duration>(pause, options_.last_retry);
      // It may have ended, which nobody tells us.
      look_again = failure.times == 1 && !stopping_;
    }
  }
  if (look_again) relist_();
  // Nobody may touch us once the last call is over and Stop knows.
  const MutexLock lock(mutex_);
  applying_.erase(change.id);
  nudged_ = true;
  wake_.NotifyAll();
}

void CpusetUpdater::AnswerWaiters() {
  std::vector<std::pair<Waiter, Result<Done>>> answers;
  {
    const MutexLock lock(mutex_);
    if (waiters_.empty()) return;
    const Reasons why = WhyNotMoved();
    std::erase_if(waiters_, [&](Waiter& waiter) {
      Result<Done> safe = MayStart(waiter.named, waiter.listed, why);
      const bool over = safe.ok() || Clock::now() >= waiter.deadline;
      if (over) answers.emplace_back(std::move(waiter), std::move(safe));
      return over;
    });
  }
  for (const auto& [waiter, answer] : answers) waiter.done(answer);
}

CpusetUpdater::Reasons CpusetUpdater::WhyNotMoved() const {
  Reasons why;
  for (const auto& [id, failure] : failures_) {
    why[id] = failure.error +
              (failure.times == 1 ? ", once" : ", " + std::to_string(failure.times) + " times");
  }
  for (const auto& [id, since] : applying_) {
    const auto waits = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - since);
    std::string& reason = why[id];
    reason += reason.empty() ? "" : "; now ";
    reason += waits < Conditions::kAnswersWithin
                  ? "the runtime is being told"
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
    if (listed) return Done{};  // the runtime knows what to say of it
    return Error{ErrorCode::kUnavailable,
                 "container " + named + " is not known, and the runtime could not be asked"};
  }
  const auto name_of = [this](const RunningContainer& container) {
    return NameOf({container.id, container.key, registry_.PodName(container.key.pod_uid)});
  };
  const auto reason_of = [&](const std::string& id) {
    const auto known = why.find(id);
    return known == why.end() ? "it has not been told yet" : known->second;
  };
  const Assignment grant = admission::AssignmentOf(node_, snapshot->state, self->key);
  if (!grant.cpuset.empty() && self->cpuset != grant.cpuset) {
    return Error{ErrorCode::kUnavailable,
                 name_of(*self) + " could not be told its CPUs " + grant.cpuset.ToString() + " (" +
                     reason_of(container_id) + ")",
                 kRemedy};
  }
  if (grant.exclusive.empty()) return Done{};
  std::string in_the_way;
  std::string remedy = kRemedy;
  size_t count = 0;
  for (const RunningContainer& other : registry_.Footprints()) {
    // Containers of one pod share what its init containers leave.
    if (other.key.pod_uid == self->key.pod_uid && snapshot->state.cpu.Find(other.key) != nullptr) {
      continue;
    }
    if (!other.cpuset.empty() && !other.cpuset.Intersects(grant.exclusive)) continue;
    if (++count > kMaxNamed) continue;
    in_the_way += (count == 1 ? "" : ", ") + name_of(other);
    if (const std::optional<CpuSet> kept = registry_.KeptOn(other.id)) {
      in_the_way += " (which somebody else keeps moving to " +
                    (kept->empty() ? "other CPUs" : "CPUs " + kept->ToString()) + ")";
      remedy = "stop the other one; `alignctl status` says more";
    } else {
      const bool strayed = registry_.FoundOn(other.id).has_value();
      in_the_way +=
          (strayed ? " (which somebody else has moved; " : " (") + reason_of(other.id) + ")";
    }
  }
  if (count == 0) return Done{};
  if (count > kMaxNamed) in_the_way += " and " + std::to_string(count - kMaxNamed) + " more";
  return Error{ErrorCode::kUnavailable,
               "the exclusive CPUs " + grant.exclusive.ToString() + " of " + name_of(*self) +
                   " are still used by what could not be moved: " + in_the_way,
               remedy};
}

}  // namespace alignd::reconcile
