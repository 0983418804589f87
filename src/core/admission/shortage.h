// What a pod needs, and what the node has too little of. Private to the core.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/saturating_sum.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

// What the pod needs at a time: all containers that run together, or the init container that needs
// most. `amount` gives that of one container.
template <typename Amount>
uint64_t NeededAtOnce(const Pod& pod, const Amount& amount) {
  uint64_t together = 0;
  uint64_t largest_init = 0;
  for (const Container& container : pod.containers) {
    const auto of_container = static_cast<uint64_t>(std::max<int64_t>(amount(container), 0));
    const uint64_t sum = SaturatingSum(together, of_container);
    if (container.kind == ContainerKind::kInit) {
      largest_init = std::max(largest_init, sum);
    } else {
      together = sum;
    }
  }
  return std::max(together, largest_init);
}

// The container's limit of the resource; 0 without one.
int64_t LimitOf(const Container& container, const std::string& resource);

// The resources that device plugins serve and that the pod requests.
std::set<std::string> DevicesOf(const NodeState& state, const Pod& pod);

// Whether a container of the pod is assigned devices of the resource.
bool HasDevices(const NodeState& state, const Pod& pod, const std::string& resource);

// "5 exclusive CPUs are requested, and the node has 3 free of 8". What the whole node has too
// little of, also without alignment; with the same totals as DescribeAvailable. Empty: nothing.
std::string DescribeShortage(const Node& node, const NodeState& state, const Pod& pod);

// "64Mi of hugepages-2Mi are requested, and no NUMA node has as much free (32Mi of 64Mi on NUMA
// node 0, ...)". The types of memory of which the node has enough, and no NUMA node. Empty: there
// is none.
std::string DescribeSpreadMemory(const Node& node, const NodeState& state, const Pod& pod);

// The state after all other pods have released what they have.
NodeState WithoutOthers(const NodeState& state, const std::string& pod_uid);

}  // namespace alignd::admission
