#include "reconcile/container_mover.h"

#include <algorithm>
#include <utility>

#include "cgroup/parent_cpuset.h"
#include "sync/mutex.h"

namespace alignd::reconcile {
namespace {

using admission::CpuMove;
using admission::MoveStep;

// Answers once after `count` answers, with the first error of them.
class ArrivalCount {
 public:
  ArrivalCount(size_t count, ContainerMover::MoveDone done)
      : missing_(count), done_(std::move(done)) {}

  void Add(const Result<Done>& result) {
    bool is_last = false;
    Result<Done> first = Done{};
    {
      const MutexLock lock(mutex_);
      if (first_.ok() && !result.ok()) first_ = result;
      is_last = --missing_ == 0;
      first = first_;
    }
    if (is_last) done_(first);
  }

 private:
  Mutex mutex_;
  size_t missing_ GUARDED_BY(mutex_);
  Result<Done> first_ GUARDED_BY(mutex_) = Done{};
  const ContainerMover::MoveDone done_;
};

Result<Done> RequireInParentOf(const cgroup::CgroupTree& cgroups, const ContainerSpec& spec,
                               const CpuSet& cpus) {
  const size_t split = spec.cgroup.rfind('/');
  if (split == std::string::npos || split == 0) return Done{};  // there is only the root above it
  return cgroup::RequireInParent(cgroups, spec.cgroup.substr(0, split), {.exclusive = cpus});
}

}  // namespace

void ContainerMover::Move(std::vector<CpuMove> moves, MoveDone done) {
  RequireInParents(moves, [this, moves, done = std::move(done)](const Result<Done>& fits) {
    if (!fits.ok()) return done(fits);
    allocation_.Move(MoveStep::kReserve, moves, [this, moves, done](const Result<Done>& reserved) {
      if (!reserved.ok()) return done(reserved);
      Go(MoveStep::kGo, moves, done);
    });
  });
}

void ContainerMover::RequireInParents(const std::vector<CpuMove>& moves, MoveDone done) {
  std::vector<std::pair<std::string, CpuMove>> containers;  // by id
  for (const admission::RunningContainer& container : registry_.Containers()) {
    const auto move = std::ranges::find(moves, container.key, &CpuMove::key);
    if (move != moves.end()) containers.emplace_back(container.id, *move);
  }
  if (containers.empty()) return done(Done{});
  const auto count = std::make_shared<ArrivalCount>(containers.size(), std::move(done));
  for (const auto& [id, move] : containers) {
    const std::string name = "container " + move.key.container + " of pod " + move.key.pod_uid;
    const auto check = [this, count, name, move = move](const Result<ContainerSpec>& spec) {
      if (spec.ok()) {
        const Result<Done> fits = RequireInParentOf(cgroups_, *spec, move.after);
        return count->Add(fits.ok() ? fits : fits.error().In(name));
      }
      if (IdsOf({move}).empty()) return count->Add(Done{});  // it has ended meanwhile
      count->Add(Error{ErrorCode::kUnavailable,
                       name + ": its cgroup is not known: " + spec.error().message,
                       spec.error().remedy});
    };
    runtime_.FindSpec(id, [this, count, check](const Result<ContainerSpec>& spec) {
      if (io_.Post([check, spec] { check(spec); })) return;
      count->Add(Error{ErrorCode::kUnavailable, "alignd stops", "start alignd again"});
    });
  }
}

void ContainerMover::MoveBack(std::vector<CpuMove> moves, MoveDone done) {
  if (!reconciler_.Recovered()) {  // no container is known: each of them would count as back
    return done(Error{ErrorCode::kUnavailable, "the runtime has not been listed since the start",
                      "see in the log of the runtime why it does not answer"});
  }
  Go(MoveStep::kReturn, moves, [this, moves, done = std::move(done)](const Result<Done>& back) {
    if (!back.ok()) return done(back);
    allocation_.Move(MoveStep::kGiveBack, moves, done);
  });
}

void ContainerMover::Go(MoveStep step, std::vector<CpuMove> moves, MoveDone done) {
  allocation_.Move(step, moves,
                   [this, step, moves, done = std::move(done)](const Result<Done>& published) {
                     if (!published.ok()) return done(published);
                     AwaitArrival(moves, [this, step, moves, done](const Result<Done>& arrived) {
                       done(arrived.ok() ? RequireAllOnline(step, moves) : arrived);
                     });
                   });
}

void ContainerMover::AwaitArrival(const std::vector<CpuMove>& moves, MoveDone done) {
  const std::vector<std::string> ids =
      IdsOf(admission::Unfinished(allocation_.snapshot()->state, moves));
  if (ids.empty()) return done(Done{});
  const auto count = std::make_shared<ArrivalCount>(ids.size(), std::move(done));
  for (const std::string& id : ids) {
    reconciler_.BeforeStart(id, [count](const Result<Done>& arrived) { count->Add(arrived); });
  }
}

Result<Done> ContainerMover::RequireAllOnline(MoveStep step,
                                              const std::vector<CpuMove>& moves) const {
  const auto snapshot = allocation_.snapshot();
  for (const CpuMove& move : admission::Unfinished(snapshot->state, moves)) {
    const CpuSet offline = move.after & snapshot->state.cpu.offline;
    if (step != MoveStep::kGo || offline.empty()) continue;
    return Error{ErrorCode::kUnavailable,
                 "CPUs " + offline.ToString() + ", to which container " + move.key.container +
                     " of pod " + move.key.pod_uid + " moves, have gone offline",
                 "repeat the change"};
  }
  return Done{};
}

std::vector<std::string> ContainerMover::IdsOf(const std::vector<CpuMove>& moves) const {
  std::vector<std::string> ids;
  for (const admission::RunningContainer& container : registry_.Containers()) {
    if (std::ranges::find(moves, container.key, &CpuMove::key) != moves.end()) {
      ids.push_back(container.id);
    }
  }
  return ids;
}

}  // namespace alignd::reconcile
