// The state files of a node that is planned with.
#pragma once

#include <map>
#include <set>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/cpumanager/cpu_state.h"
#include "alignd/pod/pod.h"

namespace alignd::placement {

// The files of a node that has pods already; empty: no such file. A value.
struct NodeFiles {
  std::string cpu_manager_state;
  std::string memory_manager_state;
  std::string device_checkpoint;  // kubelet_internal_checkpoint
  std::string cpu_shares = {};    // of alignd

  friend bool operator==(const NodeFiles&, const NodeFiles&) = default;
};

// Why no file says what containers of the shared pool request that stay on one NUMA node, where
// pods can ask for that; empty: one does, pods cannot, or there are no files.
std::string WhyLackShares(const NodeFiles& files, const admission::Node& node);

// Why a cpu_shares that fits does not say on which NUMA node a pod that runs stays. Empty: it does,
// or the pod does not ask for it. `pod`: as OnThisNode has it.
std::string WhyLackShareOf(const Pod& pod, const admission::Node& node,
                           const admission::NodeState& state);

// Adds what cpu_shares says, where pods can ask for it, unless it is out of date. `state` comes
// from cpu_manager_state. Errors: kInvalidArgument: it cannot be read, or cpu_manager_state does
// not leave that much.
Result<Done> TakeShares(const NodeFiles& files, const admission::Node& node,
                        cpumanager::CpuState& state);

// Of what containers had when the node was described (NodeInput::owned), what no state file has;
// with `memory`, where containers with CPUs or devices can have it pinned.
std::map<std::string, std::set<std::string>> UnlistedOwned(
    const NodeFiles& files, const admission::Node& node,
    std::map<std::string, std::set<std::string>> owned);

// Whether cpu_manager_state, memory_manager_state and cpu_shares can be read.
// Errors: as the parsers of the checkpoints, with the name of the file.
Result<Done> CheckStateFiles(const NodeFiles& files);

}  // namespace alignd::placement
