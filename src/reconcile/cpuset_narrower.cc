#include "reconcile/cpuset_narrower.h"

#include <spdlog/spdlog.h>

#include <cstdlib>
#include <utility>

#include "cgroup/narrow.h"

namespace alignd::reconcile {

using admission::CpuSetChange;

CpusetNarrower::CpusetNarrower(TaskQueue& io, ContainerRegistry& registry,
                               const cgroup::CgroupTree& cgroups, FindCgroup find)
    : registry_(registry),
      cgroups_(cgroups),
      find_(std::move(find)),
      task_(io, [this] { return Run(); }) {}

void CpusetNarrower::Narrow(std::vector<CpuSetChange> changes, NarrowDone done) {
  {
    const MutexLock lock(mutex_);
    if (done_) std::abort();  // the earlier pass would never end
    changes_ = std::move(changes);
    done_ = std::move(done);
  }
  task_.RunSoon();
}

RecurringTask::Clock::time_point CpusetNarrower::Run() {
  std::vector<CpuSetChange> changes;
  NarrowDone done;
  {
    const MutexLock lock(mutex_);
    changes = std::exchange(changes_, {});
    done = std::exchange(done_, nullptr);
  }
  std::set<std::string> refused;
  std::vector<Begun> begun;
  for (CpuSetChange& change : changes) {
    std::optional<std::string> path = find_(change.id);
    if (path && registry_.BeginNarrow(change.id, change.cpuset)) {
      begun.push_back({std::move(change), *std::move(path), Done{}});
    } else {
      refused.insert(change.id);
    }
  }
  SetInSystemd(begun);
  for (const Begun& each : begun) {
    if (!NarrowOne(each)) refused.insert(each.change.id);
  }
  if (done) done(std::move(refused));
  return RecurringTask::kNever;
}

void CpusetNarrower::SetInSystemd(std::vector<Begun>& begun) const {
  std::vector<cgroup::SystemdUnits::UnitCpus> units;
  std::vector<Begun*> in_systemd;
  for (Begun& each : begun) {
    std::optional<std::string> unit = cgroups_.SystemdUnit(each.path);
    if (!unit) continue;
    units.push_back({*std::move(unit), each.change.cpuset});
    in_systemd.push_back(&each);
  }
  if (units.empty()) return;
  std::vector<Result<Done>> results = cgroups_.systemd().SetAllowedCpus(units);
  for (size_t i = 0; i < in_systemd.size(); ++i) in_systemd[i]->prepared = std::move(results[i]);
}

bool CpusetNarrower::NarrowOne(const Begun& begun) {
  const auto& [change, path, prepared] = begun;
  const Result<Done> narrowed =
      prepared.ok() ? cgroup::Narrow(cgroups_, path, change.cpuset) : prepared.error();
  Note(change.id, narrowed);
  if (!narrowed.ok() && narrowed.error().code == ErrorCode::kIo) NoteAllowed(change.id, path);
  return registry_.EndNarrow(change.id, change.cpuset, narrowed.ok());
}

// The runtime is asked next. Its answer would not show that the kernel ignores the set.
void CpusetNarrower::NoteAllowed(const std::string& id, const std::string& path) {
  const Result<cgroup::Cpuset> now = cgroups_.ReadCpus(path);
  if (!now.ok() || now->effective_cpus.empty() || now->cpus.Intersects(now->effective_cpus)) return;
  registry_.KernelAllows(id, now->effective_cpus);
}

// Where no cgroup can be written, every start takes the slow way. That is logged once.
void CpusetNarrower::Note(const std::string& id, const Result<Done>& narrowed) {
  if (narrowed.ok()) {
    fails_ = false;
    return;
  }
  const bool is_news =
      narrowed.error().code != ErrorCode::kNotFound && !std::exchange(fails_, true);
  spdlog::log(is_news ? spdlog::level::warn : spdlog::level::debug,
              "container {}: the runtime is asked to move it, which takes longer: {}", id,
              narrowed.error().Text());
}

}  // namespace alignd::reconcile
