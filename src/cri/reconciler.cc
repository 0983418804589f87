#include "cri/reconciler.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>
#include <utility>

#include "alignd/admission/shared_pool.h"

namespace alignd::cri {
namespace {

using Clock = std::chrono::steady_clock;

std::set<std::string> PodsWithGrants(const admission::NodeState& state) {
  std::set<std::string> pods;
  for (const auto& [uid, containers] : state.cpu.assignments) pods.insert(uid);
  for (const auto& [uid, containers] : state.memory.assignments) pods.insert(uid);
  for (const auto& [key, devices] : state.devices.allocations) pods.insert(key.pod_uid);
  return pods;
}

}  // namespace

Reconciler::Reconciler(const admission::Node& node, allocation::AllocationManager& allocation,
                       ContainerRegistry& registry, RuntimeClient& runtime, Options options)
    : node_(node),
      allocation_(allocation),
      registry_(registry),
      runtime_(runtime),
      options_(options) {}

Reconciler::~Reconciler() { Stop(); }

void Reconciler::Start() {
  ListAndRelease();
  thread_ = std::thread([this] { Run(); });
}

void Reconciler::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  runtime_.Stop();
  if (thread_.joinable()) thread_.join();
}

void Reconciler::Nudge() {
  {
    const MutexLock lock(mutex_);
    nudged_ = true;
  }
  wake_.NotifyAll();
}

void Reconciler::Relist() {
  {
    const MutexLock lock(mutex_);
    relist_ = true;
    nudged_ = true;
  }
  wake_.NotifyAll();
}

void Reconciler::BeforeStart(const std::string& container_id,
                             std::function<void(Result<Done>)> done) {
  if (MayStart(container_id, /*listed=*/false).ok()) {
    done(Done{});
    return;
  }
  const bool known = registry_.KeyOf(container_id).has_value();
  bool stopping = false;
  {
    const MutexLock lock(mutex_);
    stopping = stopping_;
    if (!stopping) {
      waiters_.push_back({container_id, std::move(done), Clock::now() + options_.start_patience});
      nudged_ = true;
      if (!known) relist_ = true;
    }
  }
  if (stopping) {
    done(Error{ErrorCode::kUnavailable, "alignd is stopping"});
    return;
  }
  wake_.NotifyAll();
}

void Reconciler::ReleaseStopped(std::function<void(bool)> done) {
  const std::set<std::string> stopped = registry_.StoppedPods(std::chrono::milliseconds(0));
  const std::set<std::string> holding = PodsWithGrants(allocation_.snapshot()->state);
  std::vector<std::string> releasable;
  std::ranges::set_intersection(stopped, holding, std::back_inserter(releasable));
  if (releasable.empty()) {
    done(false);
    return;
  }
  // Releases are carried out in the order in which they are posted: the last one answers for all.
  for (size_t i = 0; i < releasable.size(); ++i) {
    const bool last = i + 1 == releasable.size();
    allocation_.ReleasePod(
        releasable[i],
        [uid = releasable[i], last, done](Result<Done> released) {
          if (!released.ok()) spdlog::error("release of pod {}: {}", uid, released.error().Text());
          if (last) done(true);
        },
        [this, uid = releasable[i]] { return registry_.IsGone(uid); });
  }
}

void Reconciler::Run() {
  bool retry = !MoveContainers();
  for (;;) {
    std::vector<Waiter> waiters;
    bool stopping = false;
    bool relist = false;
    {
      const MutexLock lock(mutex_);
      const Clock::time_point deadline =
          retry ? std::min(next_listing_, Clock::now() + options_.retry) : next_listing_;
      while (!stopping_ && !nudged_ && Clock::now() < deadline) {
        wake_.WaitUntil(mutex_, deadline);
      }
      nudged_ = false;
      stopping = stopping_;
      relist = std::exchange(relist_, false);
      waiters = std::exchange(waiters_, {});
    }
    if (stopping) {
      for (const Waiter& waiter : waiters) {
        waiter.done(Error{ErrorCode::kUnavailable, "alignd is stopping"});
      }
      return;
    }
    bool listed = (relist || Clock::now() >= next_listing_) && ListAndRelease();
    bool moved = MoveContainers();
    if (!moved && !listed && !waiters.empty()) {
      // What could not be moved may have ended meanwhile.
      listed = ListAndRelease();
      moved = MoveContainers();
    }
    if (!moved) next_listing_ = std::min(next_listing_, Clock::now() + options_.retry);
    const bool waiting = AnswerWaiters(std::move(waiters), listed);
    retry = !moved || waiting;
  }
}

bool Reconciler::AnswerWaiters(std::vector<Waiter> waiters, bool listed) {
  std::vector<Waiter> patient;
  for (Waiter& waiter : waiters) {
    waiter.listed = waiter.listed || listed;
    const Result<Done> safe = MayStart(waiter.container_id, waiter.listed);
    if (safe.ok() || Clock::now() >= waiter.deadline) {
      waiter.done(safe);
    } else {
      patient.push_back(std::move(waiter));
    }
  }
  const MutexLock lock(mutex_);
  std::ranges::move(patient, std::back_inserter(waiters_));
  return !patient.empty();
}

bool Reconciler::ListAndRelease() {
  registry_.BeginListing();
  const Result<RuntimeListing> listing = runtime_.List();
  if (!listing.ok()) {
    spdlog::warn("cannot ask the runtime what runs: {}", listing.error().Text());
    next_listing_ = Clock::now() + options_.retry;
    return false;
  }
  std::set<std::string> gone = registry_.Resync(
      *listing, PodsWithGrants(allocation_.snapshot()->state), /*at_start=*/!recovered_);
  gone.merge(registry_.StoppedPods(options_.stopped_grace));
  const std::set<std::string> holding = PodsWithGrants(allocation_.snapshot()->state);
  for (const std::string& uid : gone) {
    if (!holding.contains(uid)) continue;
    std::promise<Result<Done>> released;
    allocation_.ReleasePod(
        uid, [&released](Result<Done> result) { released.set_value(result); },
        [this, &uid] { return registry_.IsGone(uid); });
    const Result<Done> result = released.get_future().get();
    if (result.ok()) {
      spdlog::info("pod {} is gone: its CPUs, memory and devices are free again", uid);
    } else {
      spdlog::error("release of pod {}: {}", uid, result.error().Text());
    }
  }
  recovered_ = true;
  next_listing_ = Clock::now() + options_.period;
  return true;
}

// What we are about to tell is marked first, and what was decided is looked at once more then: a
// container that is given CPUs meanwhile either sees our marks when it is to start, or we see what
// it was given.
bool Reconciler::MoveContainers() {
  for (;;) {
    const std::shared_ptr<const allocation::Snapshot> snapshot = allocation_.snapshot();
    const std::vector<admission::CpuSetChange> changes =
        admission::CpuSetChanges(node_, snapshot->state, registry_.Containers());
    for (const auto& [id, cpuset] : changes) registry_.BeginTelling(id, cpuset);
    if (allocation_.snapshot()->generation == snapshot->generation) {
      return changes.empty() || Tell(changes);
    }
  }
}

bool Reconciler::Tell(const std::vector<admission::CpuSetChange>& changes) {
  std::vector<std::promise<Result<Done>>> answers(changes.size());
  for (size_t i = 0; i < changes.size(); ++i) {
    runtime_.UpdateCpuSet(changes[i].id, changes[i].cpuset, [&answer = answers[i]](Result<Done> r) {
      answer.set_value(std::move(r));
    });
  }
  bool all = true;
  for (size_t i = 0; i < changes.size(); ++i) {
    const auto& [id, cpuset] = changes[i];
    const Result<Done> told = answers[i].get_future().get();
    registry_.EndTelling(id, cpuset, told.ok());
    if (told.ok()) {
      spdlog::info("container {} moved to CPUs {}", id, cpuset.ToString());
    } else if (told.error().code == ErrorCode::kNotFound) {
      registry_.RemoveContainer(id);
    } else {
      all = false;
      const MutexLock lock(mutex_);
      if (stopping_) continue;
      spdlog::warn("container {} could not be moved to CPUs {}: {}", id, cpuset.ToString(),
                   told.error().Text());
    }
  }
  return all;
}

Result<Done> Reconciler::MayStart(const std::string& container_id, bool listed) const {
  const std::shared_ptr<const allocation::Snapshot> snapshot = allocation_.snapshot();
  const std::vector<admission::RunningContainer> containers = registry_.Containers();
  const auto self = std::ranges::find(containers, container_id, &admission::RunningContainer::id);
  if (self == containers.end()) {
    if (listed) return Done{};  // the runtime knows what to say of it
    return Error{ErrorCode::kUnavailable,
                 "container " + container_id + " is not known, and the runtime could not be asked"};
  }
  const admission::Grant grant = admission::GrantOf(node_, snapshot->state, self->key);
  if (!grant.cpuset.empty() && self->cpuset != grant.cpuset) {
    return Error{
        ErrorCode::kUnavailable,
        "container " + container_id + " could not be told its CPUs " + grant.cpuset.ToString()};
  }
  if (grant.exclusive.empty()) return Done{};
  std::string in_the_way;
  for (const admission::RunningContainer& other : registry_.Footprints()) {
    // Containers of one pod share what its init containers leave.
    if (other.key.pod_uid == self->key.pod_uid && snapshot->state.cpu.Find(other.key) != nullptr) {
      continue;
    }
    if (other.cpuset.empty() || other.cpuset.Intersects(grant.exclusive)) {
      in_the_way += (in_the_way.empty() ? "" : ", ") + other.id;
    }
  }
  if (in_the_way.empty()) return Done{};
  return Error{ErrorCode::kUnavailable,
               "the exclusive CPUs " + grant.exclusive.ToString() + " of container " +
                   container_id +
                   " are still used by containers that could not be moved: " + in_the_way};
}

}  // namespace alignd::cri
