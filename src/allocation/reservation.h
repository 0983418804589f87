// What a pod has been given while its plugins are still being asked: kept out of everyone's reach,
// and taken back exactly if they fail.
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
  std::set<ContainerKey> cpu;                              // got exclusive CPUs
  std::set<ContainerKey> memory;                           // got memory blocks
  std::set<std::pair<ContainerKey, std::string>> devices;  // container and resource
  // The pod's affinities before; nullopt: it had none.
  std::map<ContainerKey, std::optional<topologymanager::TopologyHint>> affinities;
  // CPUs that init containers leave for reuse: this pod's before, and all of them afterwards.
  ReusableCpus reusable_before;
  ReusableCpus reusable_after;
};

// What the containers of `pod` hold in `after` and did not hold in `before`.
Reservation Difference(const Pod& pod, const admission::NodeState& before,
                       const admission::NodeState& after);

// Takes it out of a state that contains it. What the pod held before stays, and so does everything
// that others got since. An init container whose memory was lent to a new container has the rest of
// it only: the lent part is free then.
void GiveBack(const Reservation& reservation, admission::NodeState& state);

}  // namespace alignd::allocation
