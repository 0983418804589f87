// What a manager could do where: the words in which the managers and the topology manager talk.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/numa_mask.h"

namespace alignd::topologymanager {

// A NUMA affinity and whether it is the best that the empty machine could offer.
// Source: kubelet pkg/kubelet/cm/topologymanager/topology_manager.go, TopologyHint.
struct TopologyHint {
  std::optional<NumaMask> affinity;  // nullopt: any NUMA node
  bool preferred = false;

  friend bool operator==(const TopologyHint&, const TopologyHint&) = default;
};

using HintList = std::vector<TopologyHint>;

// One provider's answer, by resource name. No entry: no opinion. nullopt: "any, preferred".
// An empty list: no possible allocation ("any, not preferred"). These differ in the merge.
using HintsByResource = std::map<std::string, std::optional<HintList>>;

}  // namespace alignd::topologymanager
