// The CPU sets of the registry's containers.
#include <algorithm>
#include <utility>

#include "reconcile/container_registry.h"

namespace alignd::reconcile {
namespace {

// Of two sets where empty means "anywhere".
CpuSet Together(const CpuSet& a, const CpuSet& b) {
  return a.empty() || b.empty() ? CpuSet() : a | b;
}

}  // namespace

ContainerRegistry::Container* ContainerRegistry::Find(const std::string& id) {
  const auto found = containers_.find(id);
  return found == containers_.end() ? nullptr : &found->second;
}

CpuSet ContainerRegistry::FootprintOf(const Container& container) {
  CpuSet cpus = container.footprint;
  // Without a CPU that it may use, a cgroup of version 2 uses those of its parent.
  if (container.allowed && !cpus.empty() && !cpus.Intersects(*container.allowed)) {
    cpus |= *container.allowed;
  }
  if (container.elsewhere) cpus = Together(cpus, *container.elsewhere);
  if (container.kept) cpus = Together(cpus, *container.kept);
  if (container.writing) cpus = Together(cpus, *container.writing);
  return cpus;
}

// --- Updates by the runtime.

void ContainerRegistry::BeginApply(const std::string& id, const CpuSet& cpuset) {
  const MutexLock lock(mutex_);
  Container* const container = Find(id);
  if (container == nullptr) return;
  container->before = {container->footprint, container->certain, container->narrowed};
  if (!container->footprint.empty()) container->footprint |= cpuset;
  container->certain = container->narrowed = container->narrowing = false;
  container->disturbed = container->calls > 0;
  ++container->applying;
}

void ContainerRegistry::EndApply(const std::string& id, const CpuSet& cpuset, bool taken,
                                 std::optional<bool> is_exclusive) {
  const MutexLock lock(mutex_);
  Container* const container = Find(id);
  if (container == nullptr) return;
  // It may have become known during the update.
  container->applying = std::max(container->applying - 1, 0);
  container->narrowing = false;
  container->before.reset();
  container->outcome_known = taken && !container->disturbed;
  if (!container->outcome_known) return;
  container->footprint = cpuset;
  container->certain = true;
  container->is_listed = false;
  container->last = cpuset;
  container->last_exclusive = is_exclusive;
  container->elsewhere.reset();
}

void ContainerRegistry::DropApply(const std::string& id) {
  const MutexLock lock(mutex_);
  Container* const container = Find(id);
  if (container == nullptr) return;
  container->applying = std::max(container->applying - 1, 0);
  const auto before = std::exchange(container->before, std::nullopt);
  if (!before || container->disturbed) return;
  container->footprint = before->footprint;
  container->certain = before->certain;
  container->narrowed = before->narrowed;
}

// --- Our writes to cgroups.

// A call that is under way, or that has failed and may still be executed, could undo the write. A
// container that another program keeps moving stays where it is.
bool ContainerRegistry::MayNarrow(const Container& container) {
  return container.outcome_known && container.calls == 0 && container.applying == 0 &&
         !container.writing && !container.kept;
}

bool ContainerRegistry::BeginNarrow(const std::string& id, const CpuSet& cpuset) {
  const MutexLock lock(mutex_);
  Container* const container = Find(id);
  if (container == nullptr || !MayNarrow(*container)) return false;
  // The set was planned some time ago: since then, the container may have left some of its CPUs,
  // and an exclusive container may have started on them.
  const CpuSet now = FootprintOf(*container);
  if (now.empty() || !now.Contains(cpuset)) return false;
  container->writing = cpuset;
  container->narrowing = true;
  container->certain = container->narrowed = false;
  return true;
}

bool ContainerRegistry::EndNarrow(const std::string& id, const CpuSet& cpuset, bool proved,
                                  std::optional<Clock::time_point> exact) {
  const MutexLock lock(mutex_);
  Container* const container = Find(id);
  if (container == nullptr) return false;
  container->writing.reset();
  if (!std::exchange(container->narrowing, false)) {
    // The write may have come after what another call has set meanwhile.
    container->footprint = Together(container->footprint, cpuset);
    container->certain = container->narrowed = false;
    return false;
  }
  if (!proved) return false;
  container->footprint = container->last = cpuset;
  container->narrowed = true;
  container->exact = exact;
  container->elsewhere.reset();
  return true;
}

bool ContainerRegistry::IsWritten(const std::string& id) const {
  const MutexLock lock(mutex_);
  const auto found = containers_.find(id);
  return found != containers_.end() && found->second.writing.has_value();
}

std::optional<CpuSet> ContainerRegistry::ExactSince(const std::string& id,
                                                    Clock::time_point time) const {
  const MutexLock lock(mutex_);
  const auto found = containers_.find(id);
  if (found == containers_.end()) return std::nullopt;
  const Container& container = found->second;
  if (!container.narrowed || !container.exact || *container.exact <= time) return std::nullopt;
  if (container.calls > 0 || container.writing) return std::nullopt;
  return container.footprint;
}

// --- Other programs.

void ContainerRegistry::FoundElsewhere(const std::string& id, const CpuSet& cpus) {
  const MutexLock lock(mutex_);
  Container* const container = Find(id);
  if (container == nullptr) return;
  container->elsewhere = cpus;
  if (!cpus.empty()) {
    container->last = cpus;
    container->last_exclusive.reset();
  }
  container->certain = container->narrowed = container->narrowing = false;
  // An update under way may have been applied before that change.
  container->disturbed = true;
}

void ContainerRegistry::FoundAsApplied(const std::string& id) {
  const MutexLock lock(mutex_);
  Container* const container = Find(id);
  if (container != nullptr) container->elsewhere.reset();
}

void ContainerRegistry::KeptElsewhere(const std::string& id, const CpuSet& cpus) {
  const MutexLock lock(mutex_);
  Container* const container = Find(id);
  if (container == nullptr) return;
  std::optional<CpuSet>& kept = container->kept;
  kept = kept ? Together(*kept, cpus) : cpus;
}

bool ContainerRegistry::KernelAllows(const std::string& id, const std::optional<CpuSet>& cpus) {
  const MutexLock lock(mutex_);
  Container* const container = Find(id);
  if (container == nullptr || container->allowed == cpus) return false;
  container->allowed = cpus;
  return true;
}

std::optional<CpuSet> ContainerRegistry::OutsideItsSet(const std::string& id) const {
  const MutexLock lock(mutex_);
  const auto found = containers_.find(id);
  if (found == containers_.end() || !found->second.allowed) return std::nullopt;
  const CpuSet& set = found->second.footprint;
  return set.Intersects(*found->second.allowed) ? std::nullopt : found->second.allowed;
}

void ContainerRegistry::LeftAlone(const std::string& id) {
  const MutexLock lock(mutex_);
  Container* const container = Find(id);
  if (container != nullptr) container->kept.reset();
}

std::optional<CpuSet> ContainerRegistry::KeptOn(const std::string& id) const {
  const MutexLock lock(mutex_);
  const auto found = containers_.find(id);
  return found == containers_.end() ? std::nullopt : found->second.kept;
}

std::optional<CpuSet> ContainerRegistry::FoundOn(const std::string& id) const {
  const MutexLock lock(mutex_);
  const auto found = containers_.find(id);
  return found == containers_.end() ? std::nullopt : found->second.elsewhere;
}

std::optional<CpuSet> ContainerRegistry::AppliedTo(const std::string& id) const {
  const MutexLock lock(mutex_);
  const auto found = containers_.find(id);
  if (found == containers_.end()) return std::nullopt;
  const Container& container = found->second;
  if (!container.certain && !container.narrowed) return std::nullopt;
  if (container.calls > 0 || container.writing) return std::nullopt;
  return container.footprint;
}

// --- Calls of other clients.

void ContainerRegistry::BeginContainerCall(const std::string& id, bool changes_cpus,
                                           const CpuSet& cpus) {
  const MutexLock lock(mutex_);
  CallBegins();
  Container* const container = Find(id);
  if (container == nullptr) return;
  ++container->calls;
  container->disturbed = true;
  container->narrowing = false;
  // A start may put the container where the runtime's record says.
  if (!changes_cpus && !container->narrowed) return;
  container->footprint = changes_cpus ? Together(container->footprint, cpus) : CpuSet();
  MayComeOnto(*container, cpus);
  container->certain = container->narrowed = false;
  if (changes_cpus) container->outcome_known = false;
}

void ContainerRegistry::ContainerCallSets(const std::string& id, const CpuSet& cpus) {
  const MutexLock lock(mutex_);
  Container* const container = Find(id);
  if (container == nullptr) return;
  container->footprint = Together(container->footprint, cpus);
  MayComeOnto(*container, cpus);
}

// If a further call takes them from it before an update of ours has shown where it is, it has to
// leave them.
void ContainerRegistry::MayComeOnto(Container& container, const CpuSet& exclusive) {
  if (exclusive.empty()) return;
  container.last = container.last_exclusive == true ? container.last | exclusive : exclusive;
  container.last_exclusive = true;
}

bool ContainerRegistry::EndContainerCall(const std::string& id, bool changes_cpus, bool may_go_on) {
  const MutexLock lock(mutex_);
  CallEnds();
  Container* const container = Find(id);
  if (container == nullptr) return false;
  if (container->calls > 0) {
    --container->calls;
  } else if (changes_cpus) {
    container->footprint = {};  // it became known during the call
  }
  container->disturbed = true;
  container->narrowing = false;
  if (changes_cpus || may_go_on) container->outcome_known = false;
  if (changes_cpus) container->certain = container->narrowed = false;
  return !container->certain;
}

// --- Snapshots.

std::vector<admission::RunningContainer> ContainerRegistry::Containers() const {
  const MutexLock lock(mutex_);
  std::vector<admission::RunningContainer> containers;
  containers.reserve(containers_.size());
  for (const auto& [id, container] : containers_) {
    const bool is_certain = container.certain && !container.writing;
    containers.push_back({id, container.key, is_certain ? container.footprint : CpuSet()});
  }
  return containers;
}

std::vector<ContainerRegistry::Footprint> ContainerRegistry::Footprints() const {
  const MutexLock lock(mutex_);
  std::vector<Footprint> containers;
  containers.reserve(containers_.size());
  for (const auto& [id, container] : containers_) {
    containers.push_back({id, container.key, FootprintOf(container), MayNarrow(container),
                          container.writing.has_value(), container.calls > 0,
                          container.elsewhere.has_value(), container.is_listed, container.last,
                          container.last_exclusive});
  }
  return containers;
}

}  // namespace alignd::reconcile
