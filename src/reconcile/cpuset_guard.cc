#include "reconcile/cpuset_guard.h"

#include <spdlog/spdlog.h>
#include <sys/inotify.h>

#include <algorithm>
#include <cstdint>

#include "alignd/admission/assignment.h"
#include "cgroup/node_list.h"
#include "host/log_event.h"

namespace alignd::reconcile {
namespace {

using admission::Assignment;
using std::chrono::milliseconds;

// Pause before the next check while an update of the container is under way or has failed.
constexpr milliseconds kUntilApplied{200};

constexpr size_t kMaxQuestions = 8;  // to the runtime, under way at the same time

std::string Or(const std::string& list, const char* none) { return list.empty() ? none : list; }

std::string Describe(const CpuSet& cpus, const std::string& memory_nodes) {
  return "CPUs " + Or(cpus.ToString(), "(none of its own)") +
         (memory_nodes.empty() ? "" : ", memory nodes " + memory_nodes);
}

// Names memory nodes only if the container is assigned some.
std::string Describe(const cgroup::Cpuset& now, const Assignment& assignment) {
  return Describe(now.cpus, assignment.memory_nodes.empty() ? "" : now.mems.ToString());
}

bool Matches(const cgroup::Cpuset& now, const Assignment& assignment) {
  return now.cpus == assignment.cpuset &&
         (assignment.memory_nodes.empty() ||
          now.mems.ToString() == cgroup::NodeList(assignment.memory_nodes));
}

// The key of a condition.
std::string ConflictOver(const std::string& id) { return "conflict over " + id; }

}  // namespace

CpusetGuard::CpusetGuard(TaskQueue& io, std::shared_ptr<host::EventLoop> events,
                         const admission::Node& node,
                         const allocation::AllocationManager& allocation,
                         ContainerRegistry& registry, RuntimeClient& runtime,
                         const cgroup::CgroupTree& cgroups, Conditions& conditions,
                         PodCpuGuard* pods, std::function<void()> apply_again, Options options)
    : node_(node),
      allocation_(allocation),
      registry_(registry),
      runtime_(runtime),
      cgroups_(cgroups),
      conditions_(conditions),
      pods_(pods),
      apply_again_(std::move(apply_again)),
      options_(options),
      systemd_(cgroups, registry),
      task_(io, [this] { return Run(); }),
      watch_(std::move(events), [this](const host::FileWatch::Change& change) {
        {
          const MutexLock lock(mutex_);
          changed_[change.key] = Clock::now();
        }
        task_.RunSoon();
      }) {}

void CpusetGuard::Start() {
  if (!node_.cpu) return;  // alignd does not manage CPUs
  next_round_ = Clock::now() + options_.round;
  task_.RunSoon();
}

void CpusetGuard::Look() {
  if (!node_.cpu) return;
  {
    const MutexLock lock(mutex_);
    look_ = true;
  }
  task_.RunSoon();
}

CpusetGuard::Clock::time_point CpusetGuard::Run() {
  bool look = false;
  {
    const MutexLock lock(mutex_);
    look = std::exchange(look_, false);
  }
  TakeWrites();
  TakePaths();
  const bool round = Clock::now() >= next_round_;
  if (look || round) Sync();
  AskForPaths();
  if (round) {
    for (const auto& [id, container] : guarded_) due_[id] = Clock::now();
    next_round_ = Clock::now() + options_.round;
  }
  std::vector<std::string> now;
  for (const auto& [id, due] : due_) {
    if (due <= Clock::now()) now.push_back(id);
  }
  for (const std::string& id : now) {
    due_.erase(id);
    Check(id);
  }
  systemd_.Correct();
  Clock::time_point next = next_round_;
  for (const auto& [id, due] : due_) next = std::min(next, due);
  if (!written_.empty()) next = std::min<Clock::time_point>(next, Clock::now() + options_.confirm);
  return next;
}

void CpusetGuard::TakeWrites() {
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, noticed] : std::exchange(changed_, {})) {
      systemd_.Changed(id);
      written_[id] = noticed;
    }
  }
  std::erase_if(written_, [this](const auto& entry) {
    const auto& [id, noticed] = entry;
    if (IsProved(id, noticed)) return true;
    if (registry_.IsWritten(id)) return false;
    const auto container = guarded_.find(id);
    // A wrong cpuset is read again after `confirm`, also if the writer has gone on meanwhile.
    const bool confirming = container != guarded_.end() && container->second.suspect &&
                            due_.contains(id) && container->second.backoff_until <= Clock::now();
    if (!confirming) due_[id] = Clock::now();
    return true;
  });
}

// Of containers with memory nodes, the proof has not read these. Of those with exclusive CPUs, the
// pod's quota is to be looked at, too.
bool CpusetGuard::IsProved(const std::string& id, Clock::time_point noticed) {
  const std::optional<CpuSet> cpus = registry_.ExactSince(id, noticed);
  const auto container = guarded_.find(id);
  if (!cpus || container == guarded_.end() || !container->second.watched) return false;
  Assignment assignment =
      admission::AssignmentOf(node_, allocation_.snapshot()->state, container->second.key);
  if (!assignment.memory_nodes.empty() || !assignment.exclusive.empty()) return false;
  assignment.cpuset = *cpus;
  container->second.look_above.reset();
  FoundCorrect(id, container->second, assignment, {*cpus, {}, *cpus, {}});
  return true;
}

void CpusetGuard::Sync() {
  std::map<std::string, Guarded> guarded;
  for (const admission::RunningContainer& container : registry_.Containers()) {
    const auto known = guarded_.find(container.id);
    if (known != guarded_.end()) {
      guarded.insert(guarded_.extract(known));
    } else {
      guarded[container.id].correct = Clock::now();
    }
    guarded[container.id].key = container.key;
  }
  for (auto& [id, container] : guarded_) {
    watch_.Remove(id);
    due_.erase(id);
    systemd_.Changed(id);
    conditions_.ConflictingManagerGone(ConflictOver(id));
    CutEnded(id);
  }
  guarded_ = std::move(guarded);
  for (const std::string& uid : conditions_.PodsWithConditions()) {
    if (registry_.IsGone(uid)) conditions_.PodGone(uid);
  }
  if (pods_ != nullptr) pods_->Look();
  for (const auto& [id, container] : guarded_) {
    if (!container.watched && container.path) due_[id] = Clock::now();
  }
}

void CpusetGuard::AskForPaths() {
  for (auto& [id, container] : guarded_) {
    if (container.path || container.ask > Clock::now()) continue;
    {
      const MutexLock lock(mutex_);
      if (asked_.size() >= kMaxQuestions) return;
      if (!asked_.insert(id).second) continue;
    }
    runtime_.FindSpec(id, [this, id = id](const Result<ContainerSpec>& spec) {
      {
        const MutexLock lock(mutex_);
        answers_.emplace_back(id, spec.ok() ? Result<std::string>(spec->cgroup) : spec.error());
        asked_.erase(id);
      }
      task_.RunSoon();
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

std::vector<ContainerCgroup> CpusetGuard::Cgroups() const {
  std::vector<ContainerCgroup> cgroups;
  for (const auto& [id, container] : guarded_) {
    if (container.path) cgroups.push_back({SubjectOf(id, container), *container.path});
  }
  return cgroups;
}

std::optional<KnownCgroup> CpusetGuard::CgroupOf(const std::string& id) const {
  const auto container = guarded_.find(id);
  if (container == guarded_.end() || !container->second.path) return std::nullopt;
  return KnownCgroup{*container->second.path, container->second.watched};
}

void CpusetGuard::CheckSoon(const std::string& id, milliseconds pause) {
  due_[id] = Clock::now() + pause;
}

std::shared_ptr<const cgroup::CpusetCgroup> CpusetGuard::Open(const std::string& id,
                                                              Guarded& container) {
  if (container.watched) return container.watched;
  Result<cgroup::CpusetCgroup> opened = cgroups_.OpenCpuset(*container.path);
  if (!opened.ok()) {
    static host::LineLimit limit("cgroups of containers that cannot be opened");
    if (opened.error().code != ErrorCode::kNotFound && limit.Allow()) {
      spdlog::warn("container {}: {}", id, opened.error().Text());
    }
    return nullptr;
  }
  auto cgroup = std::make_shared<const cgroup::CpusetCgroup>(*std::move(opened));
  for (const std::filesystem::path& file : cgroups_.CpusetFiles(*container.path)) {
    const Result<Done> watched = watch_.Add(id, file, IN_MODIFY);
    if (watched.ok()) continue;
    watch_.Remove(id);
    if (watched.error().code == ErrorCode::kNotFound) return nullptr;
    // Then only the checks of all containers read it.
    spdlog::debug("container {}: {}", id, watched.error().Text());
    return cgroup;
  }
  return container.watched = std::move(cgroup);
}

void CpusetGuard::Check(const std::string& id) {
  const auto found = guarded_.find(id);
  if (found == guarded_.end() || !found->second.path) return;
  Guarded& container = found->second;
  const bool was_watched = container.watched != nullptr;
  const std::shared_ptr<const cgroup::CpusetCgroup> cgroup = Open(id, container);
  if (!cgroup) return;
  const std::optional<CpuSet> applied = registry_.AppliedTo(id);
  Assignment assignment =
      admission::AssignmentOf(node_, allocation_.snapshot()->state, container.key);
  const Result<cgroup::Cpuset> now =
      assignment.memory_nodes.empty() ? cgroup->ReadCpus() : cgroup->Read();
  if (!now.ok()) {
    if (now.error().code == ErrorCode::kNotFound) {
      container.watched.reset();  // the container has ended, or there is a new one of that path
      if (was_watched) CheckSoon(id, milliseconds(0));
      watch_.Remove(id);
    } else {
      spdlog::warn("container {}: {}", id, now.error().Text());
    }
    return;
  }
  if (pods_ != nullptr && !assignment.exclusive.empty()) {
    pods_->Guard(container.key.pod_uid, container.path->substr(0, container.path->rfind('/')));
  }
  // While an update is under way, the files prove nothing.
  if (!applied || applied->empty() || registry_.AppliedTo(id) != applied) {
    container.suspect = false;
    FindCauseAbove(id, container, assignment);
    CheckSoon(id, kUntilApplied);
    return;
  }
  container.look_above.reset();
  written_.erase(id);
  assignment.cpuset = *applied;  // the container may get more CPUs later
  if (Matches(*now, assignment)) {
    FoundCorrect(id, container, assignment, *now);
  } else if (!std::exchange(container.suspect, true)) {
    container.noticed = Clock::now();
    if (options_.suspected) options_.suspected();
    CheckSoon(id, options_.confirm);  // a writer may have written only a part yet
  } else {
    FoundWrong(id, container, assignment, *now);
  }
}

void CpusetGuard::FoundCorrect(const std::string& id, Guarded& container,
                               const Assignment& assignment, const cgroup::Cpuset& now) {
  container.suspect = false;
  if (container.drift) {
    const auto since = [time = Clock::now()](Clock::time_point then) {
      return std::chrono::duration_cast<milliseconds>(time - then);
    };
    conditions_.Repaired(
        {.time = std::chrono::system_clock::now(),
         .container = SubjectOf(id, container),
         .was = container.drift->was,
         .should = Describe(assignment.cpuset, cgroup::NodeList(assignment.memory_nodes)),
         .noticed = since(container.drift->noticed),
         .lasted = since(container.drift->correct_until)});
    container.drift.reset();
    registry_.FoundAsApplied(id);
  }
  container.correct = Clock::now();
  systemd_.Found(SubjectOf(id, container), *container.path, assignment.cpuset);
  CheckConflictEnded(id, container);
  ReportCut(id, container, assignment, now);
}

void CpusetGuard::FoundWrong(const std::string& id, Guarded& container,
                             const Assignment& assignment, const cgroup::Cpuset& now) {
  const Clock::time_point time = Clock::now();
  if (!container.drift) {
    container.drift = Drift{Describe(now, assignment), container.correct, container.noticed};
  }
  // A cgroup without a set of its own has the set of its parent.
  const CpuSet& actual = now.cpus.empty() ? now.effective_cpus : now.cpus;
  if (time < container.backoff_until) {
    LeaveOn(id, container, actual);
    return;
  }
  while (!container.repairs.empty() && time - container.repairs.front() > options_.window) {
    container.repairs.pop_front();
  }
  if (container.repairs.size() >= options_.repairs) {
    container.repairs.clear();
    container.backoff_until =
        time + options_.backoff * (1 << std::min(container.backoffs++, options_.longest_backoff));
    conditions_.SawConflictingManager(
        ConflictOver(id),
        "another program keeps moving " + NameOf(SubjectOf(id, container)) + " from CPUs " +
            assignment.cpuset.ToString() + " to " +
            (now.cpus.empty() ? "its parent's CPUs" : "CPUs " + now.cpus.ToString()),
        "stop that program (kubelet: set cpuManagerPolicy: none; tuned, irqbalance, systemd: set "
        "no CPU sets for containers); alignd restores the CPUs again after a backoff",
        kUntilItEnds);
    LeaveOn(id, container, actual);
    return;
  }
  container.repairs.push_back(time);
  container.suspect = false;
  registry_.FoundElsewhere(id, actual);
  apply_again_();
  CheckSoon(id, options_.confirm);
}

void CpusetGuard::LeaveOn(const std::string& id, Guarded& container, const CpuSet& cpus) {
  container.kept = true;
  registry_.KeptElsewhere(id, cpus);
  CheckSoon(id, std::chrono::ceil<milliseconds>(container.backoff_until - Clock::now()));
}

// A correct cpuset during the backoff proves nothing: for a while, the other program may want the
// same set. Nor does one right after a repair: if the other program writes again within
// `window` / `repairs`, the conflict goes on.
void CpusetGuard::CheckConflictEnded(const std::string& id, Guarded& container) {
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
  apply_again_();  // a container may wait for these CPUs
}

}  // namespace alignd::reconcile
