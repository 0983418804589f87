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

Reconciler::~Reconciler() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void Reconciler::Start() {
  ListAndRelease();
  thread_ = std::thread([this] { Run(); });
}

void Reconciler::Nudge() {
  {
    const MutexLock lock(mutex_);
    nudged_ = true;
  }
  wake_.NotifyAll();
}

void Reconciler::BeforeStart(const std::string& container_id,
                             std::function<void(Result<Done>)> done) {
  if (MayStart(container_id).ok()) {
    done(Done{});
    return;
  }
  bool stopping = false;
  {
    const MutexLock lock(mutex_);
    stopping = stopping_;
    if (!stopping) {
      waiters_.push_back({container_id, std::move(done)});
      nudged_ = true;
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
    {
      const MutexLock lock(mutex_);
      const Clock::time_point deadline =
          retry ? std::min(next_listing_, Clock::now() + options_.retry) : next_listing_;
      while (!stopping_ && !nudged_ && Clock::now() < deadline) {
        wake_.WaitUntil(mutex_, deadline);
      }
      nudged_ = false;
      stopping = stopping_;
      waiters = std::exchange(waiters_, {});
    }
    if (stopping) {
      for (const Waiter& waiter : waiters) {
        waiter.done(Error{ErrorCode::kUnavailable, "alignd is stopping"});
      }
      return;
    }
    if (Clock::now() >= next_listing_) ListAndRelease();
    retry = !MoveContainers();
    for (const Waiter& waiter : waiters) waiter.done(MayStart(waiter.container_id));
  }
}

void Reconciler::ListAndRelease() {
  registry_.BeginListing();
  const Result<RuntimeListing> listing = runtime_.List();
  if (!listing.ok()) {
    spdlog::warn("cannot ask the runtime what runs: {}", listing.error().Text());
    next_listing_ = Clock::now() + options_.retry;
    return;
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
}

bool Reconciler::MoveContainers() {
  const std::shared_ptr<const allocation::Snapshot> snapshot = allocation_.snapshot();
  const std::vector<admission::RunningContainer> containers = registry_.Containers();
  const std::vector<admission::CpuSetChange> changes =
      admission::CpuSetChanges(node_, snapshot->state, containers);
  return changes.empty() || Tell(changes);
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
    if (told.ok()) {
      registry_.SetTold(id, cpuset);
      spdlog::info("container {} moved to CPUs {}", id, cpuset.ToString());
    } else if (told.error().code == ErrorCode::kNotFound) {
      registry_.RemoveContainer(id);
    } else {
      spdlog::warn("container {} could not be moved to CPUs {}: {}", id, cpuset.ToString(),
                   told.error().Text());
      all = false;
    }
  }
  return all;
}

Result<Done> Reconciler::MayStart(const std::string& container_id) const {
  const std::shared_ptr<const allocation::Snapshot> snapshot = allocation_.snapshot();
  const std::vector<admission::RunningContainer> containers = registry_.Containers();
  const auto self = std::ranges::find(containers, container_id, &admission::RunningContainer::id);
  if (self == containers.end()) return Done{};  // not ours: the runtime knows what to say of it
  const admission::Grant grant = admission::GrantOf(node_, snapshot->state, self->key);
  if (!grant.cpuset.empty() && self->cpuset != grant.cpuset) {
    return Error{
        ErrorCode::kUnavailable,
        "container " + container_id + " could not be told its CPUs " + grant.cpuset.ToString()};
  }
  if (grant.exclusive.empty()) return Done{};
  std::string in_the_way;
  for (const admission::RunningContainer& other : containers) {
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
