// What is reserved for a pod while its plugins are asked. No other pod gets it. If a plugin fails,
// exactly this is released.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::allocation {

using ReusableCpus = decltype(cpumanager::CpuState::reusable);

// The difference that one admission made for one pod. A value.
struct Reservation {
  std::string pod_uid;
  std::set<ContainerKey> cpu;                              // with new exclusive CPUs
  std::set<ContainerKey> memory;                           // with new memory blocks
  std::set<std::pair<ContainerKey, std::string>> devices;  // container and resource
  // The pod's affinities before; nullopt: it had none.
  std::map<ContainerKey, std::optional<topologymanager::TopologyHint>> affinities;
  // CPUs of init containers that can be reused: this pod's before, and all of them afterwards.
  ReusableCpus reusable_before;
  ReusableCpus reusable_after;

  // Whether no resource is reserved.
  bool IsEmpty() const { return cpu.empty() && memory.empty() && devices.empty(); }
};

// What the containers of `pod` are assigned in `after` and not in `before`.
Reservation Difference(const Pod& pod, const admission::NodeState& before,
                       const admission::NodeState& after);

// Removes it from a state that contains it. Earlier assignments of the pod stay, and so do those of
// other pods since. If memory of an init container was lent to a new container, the init container
// keeps only the rest, and the lent part is free.
void GiveBack(const Reservation& reservation, admission::NodeState& state);

}  // namespace alignd::allocation
