// A machine and the managers that its configuration enables. Resolved and checked once, at start.
#pragma once

#include <optional>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/machine/machine.h"
#include "alignd/memorymanager/static_policy.h"
#include "alignd/topologymanager/policy.h"

namespace alignd::admission {

// A value, constant after it is made.
struct Node {
  Machine machine;
  KubeletConfig config;
  topologymanager::Policy topology;
  std::optional<cpumanager::StaticPolicy> cpu;        // nullopt: cpuManagerPolicy none
  std::optional<memorymanager::StaticPolicy> memory;  // nullopt: memoryManagerPolicy None
  // The policies that pods can choose in place of policy none, by NumaTopologyPolicy; empty if they
  // can choose none.
  std::vector<topologymanager::Policy> for_pods = {};
  // Whether a pod that is assigned CPUs and memory as a whole is allocated its devices together
  // with these, as every other pod. The kubelet allocates them when its containers start.
  bool allocates_devices_with_pod = false;

  // Errors: kInvalidArgument with the text with which the kubelet refuses to start.
  static Result<Node> Make(Machine machine, KubeletConfig config);
};

}  // namespace alignd::admission
