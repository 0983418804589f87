#include "reconcile/cpuset_guard.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>

#include "alignd/admission/assignment.h"
#include "cgroup/node_list.h"
#include "cgroup/pod_quota.h"

namespace alignd::reconcile {
namespace {

using admission::Assignment;
using std::chrono::milliseconds;

// A set that the runtime is being told, or could not be told yet.
constexpr milliseconds kUntilApplied{200};

// Questions to the runtime that are under way at the same time.
constexpr size_t kQuestions = 8;

// What we see the end of lasts until then.
constexpr std::chrono::hours kUntilItEnds{24 * 365};

std::string Or(const std::string& list, const char* none) { return list.empty() ? none : list; }

std::string Describe(const CpuSet& cpus, const std::string& memory_nodes) {
  return "CPUs " + Or(cpus.ToString(), "(none of its own)") +
         (memory_nodes.empty() ? "" : ", memory nodes " + memory_nodes);
}

// Memory nodes are said only where they were granted.
std::string Describe(const cgroup::Cpuset& now, const Assignment& grant) {
  return Describe(now.cpus, grant.memory_nodes.empty() ? "" : now.mems.ToString());
}

bool Matches(const cgroup::Cpuset& now, const Assignment& grant) {
  return now.cpus == grant.cpuset && (grant.memory_nodes.empty() ||
                                      now.mems.ToString() == cgroup::NodeList(grant.memory_nodes));
}

// What is said of a container, for the conditions log.
std::string ConflictOver(const std::string& id) { return "fight over " + id; }
std::string CutOf(const std::string& id) { return "cut of " + id; }

}  // namespace

CpusetGuard::CpusetGuard(const admission::Node& node,
                         const allocation::AllocationManager& allocation,
                         ContainerRegistry& registry, RuntimeClient& runtime,
                         const cgroup::CgroupTree& cgroups, Conditions& conditions,
                         std::function<void()> apply_anew, Options options)
    : node_(node),
      allocation_(allocation),
      registry_(registry),
      runtime_(runtime),
      cgroups_(cgroups),
      conditions_(conditions),
      apply_anew_(std::move(apply_anew)),
      options_(options) {}

CpusetGuard::~CpusetGuard() { Stop(); }

void CpusetGuard::Start() {
  if (!node_.cpu) return;  // nobody's CPUs are touched
  thread_ = std::thread([this] { Run(); });
}

void CpusetGuard::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  watch_.Wake();
  if (thread_.joinable()) thread_.join();
  const MutexLock lock(mutex_);
  while (!asked_.empty()) found_all_.Wait(mutex_);
}

void CpusetGuard::Look() {
  {
    const MutexLock lock(mutex_);
    look_ = true;
  }
  watch_.Wake();
}

void CpusetGuard::Run() {
  Clock::time_point next_round = Clock::now() + options_.round;
  for (;;) {
    Clock::time_point wait_until = next_round;
    for (const auto& [id, due] : due_) wait_until = std::min(wait_until, due);
    for (const std::string& id : watch_.Wait(wait_until)) due_[id] = Clock::now();

    bool look = false;
    {
      const MutexLock lock(mutex_);
      if (stopping_) return;
      look = std::exchange(look_, false);
    }
    TakePaths();
    const bool round = Clock::now() >= next_round;
    if (look || round) Sync();
    AskForPaths();
    if (round) {
      for (const auto& [id, container] : guarded_) due_[id] = Clock::now();
      next_round = Clock::now() + options_.round;
    }
    std::vector<std::string> now;
    for (const auto& [id, due] : due_) {
      if (due <= Clock::now()) now.push_back(id);
    }
    for (const std::string& id : now) {
      due_.erase(id);
      Check(id);
    }
  }
}

void CpusetGuard::Sync() {
  std::map<std::string, Guarded> guarded;
  for (const admission::RunningContainer& container : registry_.Containers()) {
    const auto known = guarded_.find(container.id);
    if (known != guarded_.end()) {
      guarded.insert(guarded_.extract(known));
    } else {
      guarded[container.id].right = Clock::now();
    }
    guarded[container.id].key = container.key;
  }
  for (auto& [id, container] : guarded_) {
    watch_.Remove(id);
    due_.erase(id);
    conditions_.ConflictingManagerGone(ConflictOver(id));
    conditions_.ConflictingManagerGone(CutOf(id));
  }
  guarded_ = std::move(guarded);
  for (const std::string& uid : conditions_.ThrottledPods()) {
    if (registry_.IsGone(uid)) conditions_.QuotaSettled(uid);
  }
  for (const auto& [id, container] : guarded_) {
    if (!container.watched && container.path) due_[id] = Clock::now();
  }
}

void CpusetGuard::AskForPaths() {
  for (auto& [id, container] : guarded_) {
    if (container.path || container.ask > Clock::now()) continue;
    {
      const MutexLock lock(mutex_);
      if (stopping_ || asked_.size() >= kQuestions) return;
      if (!asked_.insert(id).second) continue;
    }
    runtime_.FindSpec(id, [this, id = id](const Result<ContainerSpec>& spec) {
      const MutexLock lock(mutex_);
      answers_.emplace_back(id, spec.ok() ? Result<std::string>(spec->cgroup) : spec.error());
      asked_.erase(id);
      watch_.Wake();
      found_all_.NotifyAll();
    });
  }
}

void CpusetGuard::TakePaths() {
  std::vector<std::pair<std::string, Result<std::string>>> answers;
  {
    const MutexLock lock(mutex_);
    answers = std::exchange(answers_, {});
  }
  for (auto& [id, path] : answers) {
    const auto container = guarded_.find(id);
    if (container == guarded_.end()) continue;
    if (path.ok()) {
      container->second.path = *std::move(path);
      due_[id] = Clock::now();
    } else {
      container->second.ask = Clock::now() + options_.ask_again;
      spdlog::debug("cpuset of container {} is not guarded yet: {}", id, path.error().Text());
    }
  }
}

Subject CpusetGuard::SubjectOf(const std::string& id, const Guarded& container) const {
  return {id, container.key, registry_.PodName(container.key.pod_uid)};
}

void CpusetGuard::CheckSoon(const std::string& id, milliseconds pause) {
  due_[id] = Clock::now() + pause;
}

void CpusetGuard::Check(const std::string& id) {
  const auto found = guarded_.find(id);
  if (found == guarded_.end() || !found->second.path) return;
  Guarded& container = found->second;
  if (!container.watched) {
    const Result<Done> watched = watch_.Add(id, cgroups_.CpusetFiles(*container.path));
    if (!watched.ok() && watched.error().code == ErrorCode::kNotFound) return;  // not started yet
    container.watched = watched.ok();
    // Then it is looked at in every round only.
    if (!watched.ok()) spdlog::debug("container {}: {}", id, watched.error().Text());
  }
  const std::optional<CpuSet> told = registry_.AppliedTo(id);
  const Assignment grant =
      admission::AssignmentOf(node_, allocation_.snapshot()->state, container.key);
  const Result<cgroup::Cpuset> now = cgroups_.ReadCpuset(*container.path);
  if (!now.ok()) {
    if (now.error().code == ErrorCode::kNotFound) {
      container.watched = false;  // it has ended; a restart makes a new one
      watch_.Remove(id);
    } else {
      spdlog::warn("container {}: {}", id, now.error().Text());
    }
    return;
  }
  if (options_.lift_pod_quotas && !grant.exclusive.empty()) {
    LiftPodQuota(container.key.pod_uid, container.path->substr(0, container.path->rfind('/')));
  }
  // What is just being changed says nothing.
  if (!told || *told != grant.cpuset || registry_.AppliedTo(id) != told) {
    container.suspect = false;
    CheckSoon(id, kUntilApplied);
  } else if (Matches(*now, grant)) {
    Right(id, container, grant, *now);
  } else if (!std::exchange(container.suspect, true)) {
    container.noticed = Clock::now();
    CheckSoon(id, options_.confirm);  // a writer may be in the middle of it
  } else {
    Wrong(id, container, grant, *now);
  }
}

// The kubelet writes it anew when it resizes the pod.
void CpusetGuard::LiftPodQuota(const std::string& pod_uid, const std::string& path) {
  const Result<Done> lifted = cgroup::LiftPodQuota(cgroups_, path, pod_uid);
  if (lifted.ok()) {
    conditions_.QuotaSettled(pod_uid);
  } else {
    conditions_.QuotaNotLifted(pod_uid, lifted.error());
  }
}

void CpusetGuard::Right(const std::string& id, Guarded& container, const Assignment& grant,
                        const cgroup::Cpuset& now) {
  container.suspect = false;
  if (container.drift) {
    const auto since = [time = Clock::now()](Clock::time_point then) {
      return std::chrono::duration_cast<milliseconds>(time - then);
    };
    conditions_.Repaired({.time = std::chrono::system_clock::now(),
                          .container = SubjectOf(id, container),
                          .was = container.drift->was,
                          .should = Describe(grant.cpuset, cgroup::NodeList(grant.memory_nodes)),
                          .noticed = since(container.drift->noticed),
                          .lasted = since(container.drift->right_before)});
    container.drift.reset();
    registry_.FoundAsApplied(id);
  }
  container.right = Clock::now();
  SeeWhetherLeftAlone(id, container);
  NoteCut(id, container, now);
}

void CpusetGuard::NoteCut(const std::string& id, Guarded& container, const cgroup::Cpuset& now) {
  // The two files are read one after the other: if a write came in between, the second has more.
  std::string sign;
  if (!(now.cpus - now.effective_cpus).empty()) {
    sign = NameOf(SubjectOf(id, container)) + " has CPUs " + now.cpus.ToString() +
           ", but may use only " + Or(now.effective_cpus.ToString(), "none of them");
  }
  if (sign == container.cut) return;
  container.cut = sign;
  if (sign.empty()) {
    conditions_.ConflictingManagerGone(CutOf(id));
    return;
  }
  conditions_.SawConflictingManager(
      CutOf(id), sign,
      "a cgroup above it is narrower or CPUs are offline: widen cpuset.cpus of its parents "
      "(AllowedCPUs= of their slices)",
      kUntilItEnds);
}

void CpusetGuard::Wrong(const std::string& id, Guarded& container, const Assignment& grant,
                        const cgroup::Cpuset& now) {
  const Clock::time_point time = Clock::now();
  if (!container.drift) {
    container.drift = Drift{Describe(now, grant), container.right, container.noticed};
  }
  // A cgroup without a set of its own is on what its parent has.
  const CpuSet& actual = now.cpus.empty() ? now.effective_cpus : now.cpus;
  if (time < container.backoff_until) {
    Leave(id, container, actual);
    return;
  }
  while (!container.repairs.empty() && time - container.repairs.front() > options_.window) {
    container.repairs.pop_front();
  }
  if (container.repairs.size() >= options_.repairs) {
    container.repairs.clear();
    container.backoff_until =
        time + options_.backoff * (1 << std::min(container.truces++, options_.longest_backoff));
    conditions_.SawConflictingManager(
        ConflictOver(id),
        "somebody keeps moving " + NameOf(SubjectOf(id, container)) + " from CPUs " +
            grant.cpuset.ToString() + " to " + Or(now.cpus.ToString(), "its parent's"),
        "stop the other one (kubelet: cpuManagerPolicy none; tuned, irqbalance and systemd: no CPU "
        "sets for containers); until then it is left there for a while",
        kUntilItEnds);
    Leave(id, container, actual);
    return;
  }
  container.repairs.push_back(time);
  container.suspect = false;
  registry_.FoundElsewhere(id, actual);
  apply_anew_();
  CheckSoon(id, options_.confirm);
}

void CpusetGuard::Leave(const std::string& id, Guarded& container, const CpuSet& cpus) {
  container.kept = true;
  registry_.KeptElsewhere(id, cpus);
  CheckSoon(id, std::chrono::ceil<milliseconds>(container.backoff_until - Clock::now()));
}

// That it is right in the backoff says nothing: what the other one wants and what it was told may
// be the same for a while. Nor does it right after a repair: who comes back sooner than after this
// fights on.
void CpusetGuard::SeeWhetherLeftAlone(const std::string& id, Guarded& container) {
  if (!container.kept) return;
  Clock::time_point until = container.backoff_until;
  if (!container.repairs.empty()) {
    const milliseconds calm = options_.window / static_cast<int64_t>(options_.repairs);
    until = std::max(until, container.repairs.back() + calm);
  }
  const Clock::time_point time = Clock::now();
  if (time < until) {
    CheckSoon(id, std::chrono::ceil<milliseconds>(until - time));
    return;
  }
  container.kept = false;
  conditions_.ConflictingManagerGone(ConflictOver(id));
  registry_.LeftAlone(id);
  apply_anew_();  // somebody may wait for its CPUs
}

}  // namespace alignd::reconcile
