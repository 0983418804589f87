// Which CPUs the containers of the shared pool run on, and which running containers must move to
// match a NodeState.
#pragma once

#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

// The CPUs of containers without exclusive ones: the default set. Empty with cpuManagerPolicy none:
// nobody's CPUs are touched.
// Differs: an empty default set (strict-cpu-reservation on a full node) becomes the reserved CPUs.
// The kubelet then writes an empty cpuset, which runtimes read as "no change", and the shared
// containers stay on CPUs that are somebody's exclusive ones.
CpuSet SharedCpus(const Node& node, const NodeState& state);

// A container as the runtime has it.
struct RunningContainer {
  std::string id;
  ContainerKey key;
  CpuSet cpuset;  // what the runtime was last told; empty: nothing

  friend bool operator==(const RunningContainer&, const RunningContainer&) = default;
};

struct CpuSetChange {
  std::string id;
  CpuSet cpuset;

  friend bool operator==(const CpuSetChange&, const CpuSetChange&) = default;
};

// Only containers whose set really changes, in the order given. Those that lose CPUs come before
// those that only gain, so that nobody is let onto a CPU that another still uses.
std::vector<CpuSetChange> CpuSetChanges(const Node& node, const NodeState& state,
                                        const std::vector<RunningContainer>& running);

}  // namespace alignd::admission
