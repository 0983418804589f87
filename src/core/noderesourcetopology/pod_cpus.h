// The CPUs that pods have for themselves. Private to the topology objects.
#pragma once

#include <map>
#include <string>

#include "alignd/base/cpu_set.h"
#include "alignd/cpumanager/cpu_state.h"

namespace alignd::noderesourcetopology {

// By UID: what the pod is assigned, also CPUs that are offline: they are its own when they come
// back. CPUs that several containers claim are each one's.
inline std::map<std::string, CpuSet> CpusOfPods(const cpumanager::CpuState& state) {
  std::map<std::string, CpuSet> cpus;
  for (const auto& [uid, containers] : state.assignments) cpus[uid] = state.HeldBy(uid);
  for (const auto& [uid, of_pod] : state.pods) cpus[uid] |= of_pod;
  for (const auto& [key, withheld] : state.withheld) cpus[key.pod_uid] |= withheld;
  return cpus;
}

}  // namespace alignd::noderesourcetopology
