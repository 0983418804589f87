// Which containers the cpuset updater moves next, and how.
#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "reconcile/cpuset_updater.h"
#include "reconcile/leaving_cpus.h"

namespace alignd::reconcile {

using Footprint = ContainerRegistry::Footprint;

namespace {

constexpr size_t kMaxWaitedFor = 5;  // containers in a message

// "container a of pod b (on CPUs 1-3), container c of pod d (on CPUs 4) and 3 more".
std::string ListOf(const std::vector<const Footprint*>& containers,
                   const ContainerRegistry& registry) {
  std::string list;
  for (size_t i = 0; i < std::min(containers.size(), kMaxWaitedFor); ++i) {
    const Footprint& one = *containers[i];
    list += (list.empty() ? "" : ", ") +
            NameOf({one.id, one.key, registry.PodName(one.key.pod_uid)}) +
            (one.cpuset.empty() ? " (it is not known on which CPUs)"
                                : " (on CPUs " + one.cpuset.ToString() + ")");
  }
  if (containers.size() > kMaxWaitedFor) {
    list += " and " + std::to_string(containers.size() - kMaxWaitedFor) + " more";
  }
  return list;
}

// The containers of a cycle, each of which waits for another one of them; empty: there is none.
std::vector<std::string> CycleIn(std::map<std::string, std::set<std::string>> waits) {
  // One that waits for none that waits itself is in no cycle, and so on.
  const auto is_stuck = [&waits](const std::string& id) { return waits.contains(id); };
  const auto is_free = [&](const auto& entry) {
    return std::ranges::none_of(entry.second, is_stuck);
  };
  while (std::erase_if(waits, is_free) > 0) continue;
  if (waits.empty()) return {};
  std::vector<std::string> path{waits.begin()->first};
  for (;;) {
    const std::string& next = *std::ranges::find_if(waits.at(path.back()), is_stuck);
    if (const auto known = std::ranges::find(path, next); known != path.end()) {
      return {known, path.end()};
    }
    path.push_back(next);
  }
}

// Whether some of the CPUs are assigned to another container alone, or to another pod as a whole.
bool IsOfAnother(const admission::NodeState& state, const ContainerKey& key, const CpuSet& cpus) {
  for (const auto& [uid, containers] : state.cpu.assignments) {
    for (const auto& [name, assigned] : containers) {
      const ContainerKey other{uid, name};
      if (other == key || !state.cpu.RunsOnItsOwn(other)) continue;
      if (assigned.Intersects(cpus)) return true;
    }
  }
  return std::ranges::any_of(state.cpu.pods, [&](const auto& whole) {
    return whole.first != key.pod_uid && whole.second.Intersects(cpus);
  });
}

}  // namespace

std::vector<CpusetUpdater::Change> CpusetUpdater::Changes(const admission::NodeState& state) const {
  // Before the registry is read: an update that ends in between is not begun a second time. Its end
  // requests another run.
  std::set<std::string> applying;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, update] : applying_) applying.insert(id);
  }
  const std::vector<Footprint> all = registry_.Footprints();
  const CpuSet leaving = LeavingCpus(node_, state, all);
  const CpuSet pool = admission::SharedCpus(node_, state);
  std::vector<Change> changes;
  for (auto& [id, cpuset] : admission::CpuSetChanges(node_, state, registry_.Containers())) {
    const auto now = std::ranges::lower_bound(all, id, {}, &Footprint::id);
    if (now == all.end() || now->id != id) continue;  // added in between: requests another run
    const bool is_applying = applying.contains(id);
    if (cpuset.Intersects(leaving) && !state.cpu.RunsOnItsOwn(now->key)) {
      const bool is_leaving = MayBeOnExclusive(node_, state, *now, all);
      cpuset = SharedCpus(cpuset, pool, is_leaving ? LeavingCpus(node_, state, all, id) : leaving);
      // It gets the others when they are free; their update requests another run.
      if (registry_.AppliedTo(id) == cpuset) continue;
    }
    changes.push_back(
        {.id = id, .cpuset = std::move(cpuset), .now = *now, .applying = is_applying});
  }
  const MutexLock lock(mutex_);
  std::set<std::string> starting;
  for (const Waiter& waiter : waiters_) {
    starting.insert(registry_.ContainerNamed(waiter.named).value_or(waiter.named));
  }
  for (Change& change : changes) {
    const CpuSet& now = change.now.cpuset;
    const bool may_defer = !failures_.contains(change.id) && !starting.contains(change.id);
    // The call that resizes a container to shared CPUs moves it, with its quota.
    const bool is_resized = !state.cpu.RunsOnItsOwn(change.now.key) && waiters_.empty() &&
                            MayBeOnExclusive(node_, state, change.now, all);
    change.deferred = may_defer && is_resized;
    if (now.empty()) continue;  // it may be anywhere
    const bool leaves = !change.cpuset.Contains(now);
    // No other container waits for its CPUs, so it goes in one step.
    const bool is_moved = state.cpu.moving.contains(change.now.key);
    // Resized to fewer CPUs, and then to others: it leaves the former first, so that no two
    // containers wait for each other.
    if (leaves && !is_moved && state.cpu.RunsOnItsOwn(change.now.key) &&
        change.cpuset.Intersects(now)) {
      const CpuSet staying = change.cpuset & now;
      // If it has left as far as alignd can have it leave, another program keeps it elsewhere.
      if (registry_.AppliedTo(change.id) != staying) change.cpuset = staying;
    }
    change.narrow = leaves && !is_moved && change.cpuset.Intersects(now) &&
                    (change.now.may_narrow || change.now.is_written) &&
                    !not_narrowed_.contains(change.id);
    const bool may_wait = !leaves && !change.now.was_moved && !change.now.is_listed;
    change.deferred = may_defer && (may_wait || is_resized);
  }
  return changes;
}

std::vector<CpusetUpdater::Change> CpusetUpdater::DueChanges(const admission::NodeState& state,
                                                             std::vector<Change> changes,
                                                             bool& asked_for) {
  std::set<std::string_view> wrong;
  for (const Change& change : changes) wrong.insert(change.id);
  const Footprints footprints = changes.empty() ? Footprints() : registry_.Footprints();
  Waits too_early = TooEarly(state, changes, footprints);

  const MutexLock lock(mutex_);
  const Clock::time_point now = checked_ = Clock::now();
  NoteWaits(state, changes, too_early, now);
  StepAside(state, footprints, changes, too_early);
  BreakCycle(state, footprints, changes, too_early);
  std::erase_if(failures_, [&](const auto& entry) REQUIRES(mutex_) {
    const bool settled = !wrong.contains(entry.first) && !applying_.contains(entry.first);
    if (settled) conditions_.UpdateSettled(entry.first);
    return settled;
  });
  std::erase_if(not_narrowed_, [&](const std::string& id) { return !wrong.contains(id); });
  std::erase_if(disturbed_, [&](const std::string& id) { return !wrong.contains(id); });
  std::erase_if(deferred_, [&](const auto& entry) { return !wrong.contains(entry.first); });
  asked_for = asked_for || std::ranges::any_of(waiters_, &Waiter::fresh);
  for (Waiter& waiter : waiters_) waiter.fresh = false;
  std::erase_if(changes, [&](const Change& change) REQUIRES(mutex_) {
    if (change.applying) return true;
    // The runtime has taken an update during that call, whose end requests a run.
    if (change.now.has_calls && disturbed_.contains(change.id)) return true;
    disturbed_.erase(change.id);
    if (change.narrow && !NarrowingHangs(now)) return true;
    const auto failure = failures_.find(change.id);
    if (failure == failures_.end()) return too_early.contains(change.id);
    if (too_early.contains(change.id)) {
      failure->second.retry = std::max(failure->second.retry, now + options_.first_retry);
      return true;
    }
    if (asked_for) failure->second.retry = std::min(failure->second.retry, now);
    return failure->second.retry > now;
  });
  HoldDeferred(changes, now);
  // First those that have failed: a waiter for one of them has waited already. But all of them may
  // hang, so while others wait, they have half of the places.
  const auto fails = [&](const Change& one) REQUIRES(mutex_) { return failures_.contains(one.id); };
  const auto others = std::stable_partition(changes.begin(), changes.end(), fails);
  const size_t again = Available(now, options_.max_at_once / 2, /*failed=*/true);
  if (others != changes.end() && others - changes.begin() > static_cast<ptrdiff_t>(again)) {
    std::rotate(changes.begin() + static_cast<ptrdiff_t>(again), others, changes.end());
  }
  const size_t limit = Available(now, options_.max_at_once, /*failed=*/false);
  more_due_ = changes.size() > limit;
  if (more_due_) changes.resize(limit);
  return changes;
}

// Each update costs the runtime a process, and with it time that a container which is being started
// would miss. A start that waits is such a call as well.
void CpusetUpdater::HoldDeferred(std::vector<Change>& changes, Clock::time_point now) {
  deferred_due_ = RecurringTask::kNever;
  std::vector<std::pair<Clock::time_point, std::string>> deferred;
  for (const Change& change : changes) {
    if (!change.deferred) continue;
    deferred.emplace_back(deferred_.try_emplace(change.id, now).first->second, change.id);
  }
  if (deferred.empty()) return;
  const auto& [since, oldest] = *std::ranges::min_element(deferred);
  // Also for that long after it became due: a call that causes it may still be on its way.
  const Clock::time_point last = waiters_.empty() ? registry_.LastCall() : now;
  const Clock::time_point quiet = std::max(last, since) + options_.quiet;
  Clock::time_point begin = std::min(quiet, since + options_.defer_at_most);
  for (const auto& [id, update] : applying_) {  // one by one; one that hangs does not count
    if (update.deferred) begin = std::max(begin, update.since + options_.slow);
  }
  std::optional<std::string> next;
  if (begin <= now) {
    next = oldest;
  } else {
    deferred_due_ = begin;
  }
  std::erase_if(changes,
                [&](const Change& change) { return change.deferred && change.id != next; });
}

size_t CpusetUpdater::Available(Clock::time_point now, size_t limit, bool failed) const {
  size_t under_way = 0;
  for (const auto& [id, update] : applying_) {
    if (failed && !failures_.contains(id)) continue;
    under_way += now - update.since < options_.slow ? 1 : 0;
  }
  return limit - std::min(under_way, limit);
}

// A container leaves exclusive CPUs before another container comes onto them.
CpusetUpdater::Waits CpusetUpdater::TooEarly(const admission::NodeState& state,
                                             const std::vector<Change>& changes,
                                             const Footprints& footprints) const {
  Waits too_early;
  std::vector<const Footprint*> exclusive;
  for (const Footprint& footprint : footprints) {
    if (state.cpu.RunsOnItsOwn(footprint.key)) exclusive.push_back(&footprint);
  }
  for (const Change& change : changes) {
    const CpuSet& now = change.now.cpuset;
    const ContainerKey& key = change.now.key;
    if (state.cpu.RunsOnItsOwn(key)) {
      // One that has left the pool for them before, and was resized since, is alone on those it
      // has.
      const bool is_alone = IsStillAlone(node_, state, change.now, footprints);
      const CpuSet added = is_alone && !now.empty() ? change.cpuset - now : Added(state, change);
      for (const Footprint& other : footprints) {
        if (other.id == change.id) continue;
        // If the state is not true, one that may be anywhere is not even on its original CPUs.
        const bool is_found = now.empty() && other.is_listed && !other.cpuset.empty();
        const CpuSet& cpus = is_found ? change.cpuset : added;
        if (cpus.empty() || !IsOn(state, other, key, cpus, /*at_start=*/now.empty())) continue;
        too_early[change.id].push_back(&other);
      }
      continue;
    }
    const CpuSet gained = change.cpuset - now;
    // A container that also loses CPUs may block another container, so it does not wait.
    if (now.empty() || gained.empty() || !change.cpuset.Contains(now)) continue;
    for (const Footprint* const other : exclusive) {
      if (other->key.pod_uid == key.pod_uid) continue;
      // A resize may have taken CPUs from it on which it still is.
      const bool is_on =
          other->cpuset.empty() ? WasResized(state, other->key) : other->cpuset.Intersects(gained);
      if (is_on) too_early[change.id].push_back(other);
    }
  }
  return too_early;
}

// While one waits in the shared pool, CPUs of the pool may be assigned to another container, which
// cannot start before the first one has left them.
void CpusetUpdater::StepAside(const admission::NodeState& state, const Footprints& footprints,
                              std::vector<Change>& changes, Waits& waits) const {
  const CpuSet pool = admission::SharedCpus(node_, state);
  for (Change& change : changes) {
    const ContainerKey& key = change.now.key;
    if (change.applying || !waits.contains(change.id)) continue;
    if (!state.cpu.RunsOnItsOwn(key) || state.cpu.moving.contains(key)) continue;
    CpuSet staying = change.now.cpuset & pool;
    if (MayBeOnExclusive(node_, state, change.now, footprints)) {
      // It is not in the pool. It goes there only if its former CPUs are another container's now,
      // and not onto CPUs that a third one has not left.
      if (!IsOfAnother(state, key, LastPlace(change.now))) continue;
      staying =
          FirstStep(state, footprints, change) - LeavingCpus(node_, state, footprints, change.id);
    }
    if (staying.empty() || staying == change.now.cpuset) continue;
    // If it has left as far as alignd can have it leave, another program keeps it elsewhere.
    if (registry_.AppliedTo(change.id) == staying) continue;
    change.cpuset = std::move(staying);
    waits.erase(change.id);
  }
}

// Containers that keep some of their CPUs leave the others first (Changes). So those that wait for
// each other are on none of their own, or it is not known where they are.
void CpusetUpdater::BreakCycle(const admission::NodeState& state, const Footprints& footprints,
                               std::vector<Change>& changes, Waits& waits) const {
  std::map<std::string, std::set<std::string>> graph;
  std::map<std::string, Change*> by_id;
  for (Change& change : changes) {
    const auto wait = waits.find(change.id);
    if (change.applying || wait == waits.end()) continue;
    if (!state.cpu.RunsOnItsOwn(change.now.key)) continue;
    by_id[change.id] = &change;
    for (const Footprint* other : wait->second) graph[change.id].insert(other->id);
  }
  const std::vector<std::string> cycle = CycleIn(std::move(graph));
  if (cycle.empty()) return;
  std::map<std::string, CpuSet> steps;
  for (const std::string& each : cycle) {
    steps[each] = FirstStep(state, footprints, *by_id.at(each));
  }
  // One whose updates fail does not help. One that may be anywhere is in the way of all others, but
  // if one was found on its CPUs, that one is on wrong CPUs for sure.
  const std::string& id =
      *std::ranges::min_element(cycle, {}, [&](const std::string& each) REQUIRES(mutex_) {
        const Change& change = *by_id.at(each);
        const CpuSet& step = steps.at(each);
        const bool goes_home = change.now.cpuset.empty() && change.cpuset.Contains(step);
        return std::tuple(step.empty(), failures_.contains(each), !goes_home,
                          change.now.cpuset.empty(), change.cpuset.Count(), each);
      });
  Change& change = *by_id.at(id);
  if (!steps.at(id).empty()) {
    change.cpuset = steps.at(id);
  } else if (const auto wait = waits_.find(id);
             wait == waits_.end() || wait->second.shown.empty()) {
    return;  // others may still leave
  }
  // Without a first step, it comes onto CPUs on which another one is: the condition says so.
  waits.erase(id);
}

// One that may be anywhere goes onto its original CPUs, unless another one was found there. Others
// go into the shared pool, where they disturb no container with exclusive CPUs.
CpuSet CpusetUpdater::FirstStep(const admission::NodeState& state, const Footprints& footprints,
                                const Change& change) const {
  if (change.now.cpuset.empty()) {
    CpuSet home = change.cpuset & state.cpu.OriginalOf(change.now.key);
    const bool is_free = std::ranges::none_of(footprints, [&](const Footprint& other) {
      return other.id != change.id && other.is_listed && !other.cpuset.empty() &&
             IsOn(state, other, change.now.key, home, /*at_start=*/true);
    });
    if (is_free && !home.empty()) return home;
  }
  CpuSet step = admission::SharedCpus(node_, state);
  for (const Footprint& other : footprints) {
    if (other.id != change.id && state.cpu.RunsOnItsOwn(other.key)) step -= other.cpuset;
  }
  // If it has gone there, another program keeps it elsewhere.
  return registry_.AppliedTo(change.id) == step ? CpuSet() : step;
}

void CpusetUpdater::NoteWaits(const admission::NodeState& state, const std::vector<Change>& changes,
                              const Waits& waits, Clock::time_point now) {
  std::erase_if(waits_, [&](const auto& entry) REQUIRES(mutex_) {
    const bool is_over = !waits.contains(entry.first);
    if (is_over && !entry.second.shown.empty() && !failures_.contains(entry.first)) {
      conditions_.UpdateSettled(entry.first);
    }
    return is_over;
  });
  for (const Change& change : changes) {
    const auto others = waits.find(change.id);
    if (others == waits.end() || !state.cpu.RunsOnItsOwn(change.now.key)) continue;
    Wait& wait = waits_.try_emplace(change.id, Wait{.since = now}).first->second;
    wait.why =
        "it waits until other containers have left its CPUs: " + ListOf(others->second, registry_);
    if (now - wait.since < options_.wait_shown || wait.shown == wait.why) continue;
    wait.shown = wait.why;
    conditions_.UpdateWaits({change.id, change.now.key, registry_.PodName(change.now.key.pod_uid)},
                            "CPUs " + change.cpuset.ToString(), wait.why);
  }
}

// Where the container is may not be known, as after a restart of alignd in the middle of a resize.
// It is on its original CPUs then, and perhaps not yet on those that were added. One that was in
// the shared pool has been on its CPUs with others.
CpuSet CpusetUpdater::Added(const admission::NodeState& state, const Change& change) {
  const CpuSet& now = change.now.cpuset;
  const bool was_shared = state.cpu.WasShared(change.now.key);
  if (was_shared && !change.cpuset.Contains(now)) return change.cpuset;
  return change.cpuset - (now.empty() ? state.cpu.OriginalOf(change.now.key) : now);
}

// A container that may be anywhere is on its own CPUs and on those that a resize has taken from it,
// if it has exclusive ones. After a restart of alignd all containers may be anywhere: then those
// with exclusive CPUs do not wait for each other.
bool CpusetUpdater::IsOn(const admission::NodeState& state, const Footprint& other,
                         const ContainerKey& key, const CpuSet& cpus, bool at_start) {
  // Nothing moves it, so it is where it was when its CPUs were withheld.
  if (const auto claim = state.cpu.withheld.find(other.key); claim != state.cpu.withheld.end()) {
    return (other.cpuset.empty() ? claim->second : other.cpuset).Intersects(cpus);
  }
  const CpuSet* const own = state.cpu.RunsOnItsOwn(other.key) ? state.cpu.Find(other.key) : nullptr;
  const bool same_pod = other.key.pod_uid == key.pod_uid;
  if (other.cpuset.empty()) return own == nullptr || (!same_pod && !at_start);
  // Containers of one pod share the CPUs of its ended init containers.
  if (own != nullptr && same_pod) return (other.cpuset - *own).Intersects(cpus);
  return other.cpuset.Intersects(cpus);
}

}  // namespace alignd::reconcile
