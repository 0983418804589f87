// Pods that a node admits, for tests of planning.
#pragma once

#include "alignd/admission/pod_level.h"
#include "alignd/scenario/simulation.h"

namespace alignd::placement {

// Whether the pod has CPUs and memory as a whole on that node.
inline bool IsWhole(const scenario::Simulation& simulation, const Pod& pod) {
  return admission::OnThisNode(simulation.node(), pod).pod_level_managers == PodLevelManagers::kPod;
}

// Whether the node admits the pod and, of one with CPUs as a whole, allocates its devices, which
// come with the start of its containers.
inline bool AdmitsWithDevices(scenario::Simulation& simulation, const Pod& pod) {
  if (!simulation.Run(scenario::AdmitPod{pod}).admission->admitted()) return false;
  if (!IsWhole(simulation, pod)) return true;
  if (!simulation.Run(scenario::StartPod{pod.uid}).started->waits) return true;
  simulation.Run(scenario::RemovePod{pod.uid});
  return false;
}

}  // namespace alignd::placement
