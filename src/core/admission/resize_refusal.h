// The texts of a refused resize. Private to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/admission/resize.h"
#include "alignd/base/cpu_set.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"

namespace alignd::admission {

// What cannot be resized, and to what.
struct ResizeQuestion {
  const Node& node;
  const NodeState& state;
  const ContainerKey& key;
  int64_t count;
  // Whether the node requires whole cores; otherwise the pod does, where `node` does.
  bool is_whole_by_option;
  const ResizeClaims& claimed;
};

// What would help against a refusal that depends on what is free.
struct ResizeRemedies {
  std::optional<int64_t> smaller_count;  // a number of CPUs to which it can be resized now
  bool without_others = false;           // possible if all other pods end
};

Refusal RefuseWithoutPolicy(const ResizeQuestion& asked);
Refusal RefuseOnOneNode(const ResizeQuestion& asked);
Refusal RefusePartOfPod(const ResizeQuestion& asked);
Refusal RefuseBelowOriginal(const ResizeQuestion& asked);
// The resize down to whole cores. `error` is the CPU manager's.
Refusal RefuseSplitCores(const ResizeQuestion& asked, const std::string& error);
// The resize up. `error` is the CPU manager's.
Refusal RefuseForCpus(const ResizeQuestion& asked, const std::string& error,
                      const ResizeRemedies& remedies);
Refusal RefuseForTopology(const ResizeQuestion& asked, const ResizeRemedies& remedies);

}  // namespace alignd::admission
