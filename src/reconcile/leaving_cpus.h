// CPUs that a container has to leave, and that are in the shared pool already: a resize has taken
// them from it, or it was found on them at the start.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "reconcile/container_registry.h"

namespace alignd::reconcile {

// Whether the container's exclusive CPUs were changed since it was created. Parts of a pod that has
// CPUs as a whole are never resized.
inline bool WasResized(const admission::NodeState& state, const ContainerKey& key) {
  return state.cpu.HasOwnCpus(key) && !state.cpu.pods.contains(key.pod_uid);
}

// On which the container was when that was last known.
inline const CpuSet& LastPlace(const ContainerRegistry::Footprint& container) {
  return container.last.empty() ? container.cpuset : container.last;
}

// Whether a container that was resized to shared CPUs is alone on the CPUs that it may be on. The
// pool has the reserved CPUs, which are never exclusive. With strict-cpu-reservation, or if all
// reserved CPUs are offline, that shows nothing. A container that came into the pool while they
// were offline has CPUs with others of the pool: nothing else is on exclusive CPUs.
inline bool IsStillAlone(const admission::Node& node, const admission::NodeState& state,
                         const ContainerRegistry::Footprint& container,
                         const std::vector<ContainerRegistry::Footprint>& footprints) {
  if (!node.cpu || node.cpu->options.strict_cpu_reservation) return false;
  if (state.cpu.offline.Contains(node.cpu->reserved)) return false;
  if (!state.cpu.WasShared(container.key) || container.cpuset.Intersects(node.cpu->reserved)) {
    return false;
  }
  return std::ranges::none_of(footprints, [&](const ContainerRegistry::Footprint& other) {
    return other.id != container.id && !state.cpu.RunsOnItsOwn(other.key) &&
           other.cpuset.Intersects(container.cpuset);
  });
}

// Whether such a container may not have left its exclusive CPUs yet: by where it was when that was
// last known. Also while it is not known whether a call or an update has moved it. After a start of
// alignd, it may be on exclusive CPUs if no other container of the pool was on the same ones.
inline bool MayBeOnExclusive(const admission::Node& node, const admission::NodeState& state,
                             const ContainerRegistry::Footprint& container,
                             const std::vector<ContainerRegistry::Footprint>& footprints) {
  if (!node.cpu || !state.cpu.WasShared(container.key)) return false;
  if (container.last_exclusive) return *container.last_exclusive;
  const CpuSet& on = LastPlace(container);
  if (state.cpu.offline.Contains(node.cpu->reserved) || on.Intersects(node.cpu->reserved)) {
    return false;
  }
  return std::ranges::none_of(footprints, [&](const ContainerRegistry::Footprint& other) {
    return other.id != container.id && !state.cpu.RunsOnItsOwn(other.key) &&
           LastPlace(other).Intersects(on);
  });
}

// They are in the shared pool, and no container of the pool comes onto them yet (SharedCpus), but
// for the container that leaves them (`but_of`: its id). A container of which it was never known
// where it is adds none.
inline CpuSet LeavingCpus(const admission::Node& node, const admission::NodeState& state,
                          const std::vector<ContainerRegistry::Footprint>& footprints,
                          const std::string& but_of = {}) {
  CpuSet leaving;
  for (const ContainerRegistry::Footprint& container : footprints) {
    if (!but_of.empty() && container.id == but_of) continue;
    const bool may_be_exclusive = MayBeOnExclusive(node, state, container, footprints);
    const CpuSet* const assigned = state.cpu.Find(container.key);
    if (assigned == nullptr) {
      if (may_be_exclusive) leaving |= LastPlace(container);
      continue;
    }
    if (!WasResized(state, container.key) && !container.is_listed) continue;
    if (!state.cpu.RunsOnItsOwn(container.key)) continue;  // it is in the shared pool itself
    if (may_be_exclusive) {
      leaving |= LastPlace(container) - *assigned;
    } else if (!state.cpu.WasShared(container.key)) {
      leaving |= (container.cpuset.empty() ? container.last : container.cpuset) - *assigned;
    }  // else it leaves the shared pool, which others are in by right
  }
  return leaving;
}

// The part of its CPUs for a container of the shared pool that starts or moves now: `own` is the
// pool, or the part of it on the NUMA node on which the container stays. It gets the rest once that
// is free; if nothing else is on its NUMA node, it runs on the rest of the pool until then. If
// nothing else is in the pool, a container has to run somewhere: the resized containers have no
// right to these CPUs any more.
inline CpuSet SharedCpus(const CpuSet& own, const CpuSet& pool, const CpuSet& leaving) {
  CpuSet now = own - leaving;
  if (now.empty()) now = pool - leaving;
  return now.empty() ? own : now;
}

}  // namespace alignd::reconcile
