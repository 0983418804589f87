// CPUs that a container has to leave, and that are in the shared pool already: a resize has taken
// them from it, or it was found on them at the start.
#pragma once

#include <algorithm>
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

// Whether a container that was resized to shared CPUs is still on its exclusive ones. The pool has
// the reserved CPUs, which are never exclusive. With strict-cpu-reservation, or if all reserved
// CPUs are offline, that shows nothing. A container that came into the pool while they were offline
// has CPUs with others of the pool: nothing else is on exclusive CPUs.
inline bool IsStillExclusive(const admission::Node& node, const admission::NodeState& state,
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

// They are in the shared pool, and no container of the pool comes onto them yet (SharedCpus). A
// container of which it is not known where it is adds none, unless it has been on the CPUs that it
// was assigned at the start.
inline CpuSet LeavingCpus(const admission::Node& node, const admission::NodeState& state,
                          const std::vector<ContainerRegistry::Footprint>& footprints) {
  CpuSet leaving;
  for (const ContainerRegistry::Footprint& container : footprints) {
    const CpuSet& on = container.cpuset.empty() ? container.assumed : container.cpuset;
    const CpuSet* const assigned = state.cpu.Find(container.key);
    if (assigned == nullptr) {
      if (IsStillExclusive(node, state, container, footprints)) leaving |= on;
      continue;
    }
    if (!WasResized(state, container.key) && !container.is_listed) continue;
    if (!state.cpu.RunsOnItsOwn(container.key)) continue;  // it is in the shared pool itself
    // It leaves the shared pool, which others are in by right.
    if (state.cpu.WasShared(container.key) &&
        !IsStillExclusive(node, state, container, footprints)) {
      continue;
    }
    leaving |= on - *assigned;
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
