#include "core/placement/numa_rules.h"

namespace alignd::placement {

bool HasOtherRules(const admission::Node& node) {
  return node.config.compatibility == Compatibility::k1_20 ||
         (node.cpu && node.cpu->options.align_by_socket) ||
         node.config.numa_allocate_strategy == NumaAllocateStrategy::kAllNodes;
}

bool KeepsOnOneNode(const admission::Node& node, const topologymanager::Policy& policy) {
  return !HasOtherRules(node) && (policy.kind() == TopologyManagerPolicy::kSingleNumaNode ||
                                  policy.kind() == TopologyManagerPolicy::kRestricted);
}

bool HasOneHint(const topologymanager::Policy& policy) {
  return policy.kind() != TopologyManagerPolicy::kNone &&
         policy.scope() == TopologyManagerScope::kPod;
}

}  // namespace alignd::placement
