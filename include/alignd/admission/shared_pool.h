// The CPUs of the shared pool, and the cpuset changes that running containers need to match a
// NodeState.
#pragma once

#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

// The CPUs of containers without exclusive CPUs: the default set. Empty with cpuManagerPolicy none:
// alignd then sets no cpuset.
// Differs: if the default set is empty (strict-cpu-reservation on a full node), the reserved CPUs.
// The kubelet then writes an empty cpuset, which runtimes take as "no change". The shared
// containers stay on CPUs that are exclusive to other containers. If all of these are offline, they
// are the set all the same: no container gets exclusive CPUs of another one instead.
CpuSet SharedCpus(const Node& node, const NodeState& state);

// A container as the runtime has it.
struct RunningContainer {
  std::string id;
  ContainerKey key;
  CpuSet cpuset;  // last applied in the runtime; empty: none

  friend bool operator==(const RunningContainer&, const RunningContainer&) = default;
};

struct CpuSetChange {
  std::string id;
  CpuSet cpuset;

  friend bool operator==(const CpuSetChange&, const CpuSetChange&) = default;
};

// Only containers whose set changes, in the given order. Containers that lose CPUs come before
// those that only gain CPUs, so that no container moves to a CPU that another one still uses.
std::vector<CpuSetChange> CpuSetChanges(const Node& node, const NodeState& state,
                                        const std::vector<RunningContainer>& running);

}  // namespace alignd::admission
