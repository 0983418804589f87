#include "alignd/admission/exclusive_needs.h"

#include <algorithm>

#include "alignd/admission/assignment.h"

namespace alignd::admission {
namespace {

bool HasMemory(const ResourceList& amounts) {
  return std::ranges::any_of(amounts, [](const auto& entry) {
    const bool is_memory = entry.first == "memory" || entry.first.starts_with("hugepages-");
    return is_memory && !entry.second.IsZero();
  });
}

}  // namespace

std::set<std::string> ExclusiveNeeds(const Node& node, const NodeState& state, const Pod& pod) {
  std::set<std::string> needs;
  const bool pins_memory = AssignsMemory(node, pod);
  if (node.cpu && WholePodCpus(pod) > 0) needs.insert(kCpuKind);
  if (pins_memory && pod.pod_level && HasMemory(pod.pod_level->requests)) needs.insert(kMemoryKind);
  for (const Container& container : pod.containers) {
    const bool is_shared = AsksForOneNode(node, pod, container);
    if (node.cpu && (is_shared || ExclusiveCpus(pod, container) > 0)) needs.insert(kCpuKind);
    if (pins_memory && HasMemory(container.resources.requests)) needs.insert(kMemoryKind);
    for (const auto& [resource, amount] : container.resources.limits) {
      if (!amount.IsZero() && state.devices.resources.contains(resource)) needs.insert(resource);
    }
  }
  return needs;
}

}  // namespace alignd::admission
