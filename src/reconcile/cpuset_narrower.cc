#include "reconcile/cpuset_narrower.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <utility>

namespace alignd::reconcile {
namespace {

using admission::CpuSetChange;

// So many containers are narrowed before other tasks of the queue have their turn: the container
// for which the CPUs are taken is created meanwhile, and needs some. All are written before the
// first is proved: by then, the guard has mostly been notified of the writes, and need not look
// again.
constexpr size_t kTogether = 16;

}  // namespace

CpusetNarrower::CpusetNarrower(TaskQueue& io, ContainerRegistry& registry,
                               const cgroup::CgroupTree& cgroups, FindCgroup find)
    : registry_(registry),
      cgroups_(cgroups),
      find_(std::move(find)),
      first_(io, [this] { return Begin(); }),
      second_(beside_, [this] {
        Work(second_);
        return RecurringTask::kNever;
      }) {}

void CpusetNarrower::Narrow(std::vector<CpuSetChange> changes, NarrowDone done) {
  {
    const MutexLock lock(mutex_);
    if (done_) std::abort();  // the earlier pass would never end
    changes_ = std::move(changes);
    done_ = std::move(done);
  }
  first_.RunSoon();
}

RecurringTask::Clock::time_point CpusetNarrower::Begin() {
  bool is_shared = false;
  {
    const MutexLock lock(mutex_);
    if (!has_begun_) systemd_.reset();
    for (CpuSetChange& change : std::exchange(changes_, {})) {
      std::optional<KnownCgroup> cgroup = find_(change.id);
      if (cgroup) {
        found_.push_back({std::move(change), *std::move(cgroup)});
      } else {
        refused_.insert(std::move(change.id));
      }
    }
    has_begun_ = done_ != nullptr;
    is_shared = found_.size() > kTogether &&
                std::ranges::none_of(found_, [this](const Found& each) { return IsUnit(each); });
    is_shared_ = is_shared;
  }
  if (is_shared) second_.RunSoon();
  Work(first_);
  return RecurringTask::kNever;
}

void CpusetNarrower::Work(RecurringTask& task) {
  std::vector<Found> together;
  {
    const MutexLock lock(mutex_);
    if (&task == &second_ && !is_shared_) return;
    for (; !found_.empty() && together.size() < kTogether; found_.pop_front()) {
      together.push_back(std::move(found_.front()));
    }
    ++working_;
  }
  std::set<std::string> refused = NarrowTogether(std::move(together));
  NarrowDone done;
  {
    const MutexLock lock(mutex_);
    --working_;
    refused_.merge(refused);
    if (!found_.empty()) {
      task.RunSoon();  // after the tasks that wait
      return;
    }
    // Else the other thread ends the pass, or a new one has not begun.
    if (working_ > 0 || !std::exchange(has_begun_, false)) return;
    done = std::exchange(done_, nullptr);
    refused = std::exchange(refused_, {});
  }
  done(refused);
}

std::set<std::string> CpusetNarrower::NarrowTogether(std::vector<Found> found) {
  std::set<std::string> refused;
  std::erase_if(found, [&](const Found& each) {
    const auto& [id, cpuset] = each.change;
    if (registry_.AppliedTo(id) == cpuset) return true;  // the runtime was faster
    const bool begins = registry_.BeginNarrow(id, cpuset);
    if (!begins) refused.insert(id);
    return !begins;
  });
  SetInSystemd(found);
  std::vector<Result<cgroup::Narrowing>> written;
  written.reserve(found.size());
  for (const Found& each : found) written.push_back(Write(each));
  for (size_t i = 0; i < found.size(); ++i) {
    if (!Prove(found[i], written[i])) refused.insert(found[i].change.id);
  }
  return refused;
}

bool CpusetNarrower::IsUnit(const Found& found) const {
  return cgroups_.SystemdUnit(found.cgroup.path).has_value();
}

// If it has taken over none of a group, the others of the pass do not wait for it, too.
void CpusetNarrower::SetInSystemd(std::vector<Found>& found) {
  std::vector<cgroup::SystemdUnits::UnitCpus> units;
  std::vector<Found*> in_systemd;
  for (Found& each : found) {
    std::optional<std::string> unit = cgroups_.SystemdUnit(each.cgroup.path);
    if (!unit) continue;
    units.push_back({*std::move(unit), each.change.cpuset});
    in_systemd.push_back(&each);
  }
  if (units.empty()) return;
  std::optional<Error> failed;
  {
    const MutexLock lock(mutex_);
    failed = systemd_;
  }
  const std::vector<Result<Done>> results = failed
                                                ? std::vector<Result<Done>>(units.size(), *failed)
                                                : cgroups_.systemd().SetAllowedCpus(units);
  for (size_t i = 0; i < in_systemd.size(); ++i) in_systemd[i]->prepared = results[i];
  if (std::ranges::none_of(results, [](const auto& result) { return result.ok(); })) {
    const MutexLock lock(mutex_);
    systemd_ = results.front().error();
  }
}

Result<cgroup::Narrowing> CpusetNarrower::Write(const Found& found) const {
  const auto& [path, open] = found.cgroup;
  if (!found.prepared.ok()) return found.prepared.error();
  if (open) return cgroup::Narrowing::Write(open, path, found.change.cpuset);
  Result<cgroup::CpusetCgroup> opened = cgroups_.OpenCpuset(path);
  if (!opened.ok()) return opened.error();
  return cgroup::Narrowing::Write(std::make_shared<const cgroup::CpusetCgroup>(*std::move(opened)),
                                  path, found.change.cpuset);
}

bool CpusetNarrower::Prove(const Found& found, const Result<cgroup::Narrowing>& narrowing) {
  const auto& [id, cpuset] = found.change;
  const auto began = std::chrono::steady_clock::now();
  const Result<CpuSet> applied = narrowing.ok() ? narrowing->Prove() : narrowing.error();
  Note(id, applied);
  if (!applied.ok() && applied.error().code == ErrorCode::kIo) NoteAllowed(id, found.cgroup.path);
  const bool is_exact = applied.ok() && *applied == cpuset;
  return registry_.EndNarrow(id, cpuset, applied.ok(),
                             is_exact ? std::optional(began) : std::nullopt);
}

// The runtime is asked next. Its answer would not show that the kernel ignores the set.
void CpusetNarrower::NoteAllowed(const std::string& id, const std::string& path) {
  const Result<cgroup::Cpuset> now = cgroups_.ReadCpus(path);
  if (!now.ok() || now->effective_cpus.empty() || now->cpus.Intersects(now->effective_cpus)) return;
  registry_.KernelAllows(id, now->effective_cpus);
}

// Where no cgroup can be written, every start takes the slow way. That is logged once.
void CpusetNarrower::Note(const std::string& id, const Result<CpuSet>& applied) {
  bool is_news = false;
  {
    const MutexLock lock(mutex_);
    const bool fails = !applied.ok() && (fails_ || applied.error().code != ErrorCode::kNotFound);
    is_news = fails && !fails_;
    fails_ = fails;
  }
  if (applied.ok()) return;
  spdlog::log(is_news ? spdlog::level::warn : spdlog::level::debug,
              "container {}: the runtime is asked to move it, which takes longer: {}", id,
              applied.error().Text());
}

}  // namespace alignd::reconcile
