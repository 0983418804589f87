#include "allocation/exclusive_needs.h"

#include <algorithm>

#include "alignd/admission/assignment.h"

namespace alignd::allocation {
namespace {

constexpr char kCpuKind[] = "cpu";
constexpr char kMemoryKind[] = "memory";

bool HasMemory(const ResourceList& amounts) {
  return std::ranges::any_of(amounts, [](const auto& entry) {
    const bool is_memory = entry.first == "memory" || entry.first.starts_with("hugepages-");
    return is_memory && !entry.second.IsZero();
  });
}

}  // namespace

std::set<std::string> ExclusiveNeeds(const admission::Node& node, const admission::NodeState& state,
                                     const Pod& pod) {
  std::set<std::string> needs;
  const bool pins_memory = admission::AssignsMemory(node, pod);
  if (node.cpu && WholePodCpus(pod) > 0) needs.insert(kCpuKind);
  if (pins_memory && pod.pod_level && HasMemory(pod.pod_level->requests)) needs.insert(kMemoryKind);
  for (const Container& container : pod.containers) {
    const bool is_shared = admission::AsksForOneNode(node, pod, container);
    if (node.cpu && (is_shared || ExclusiveCpus(pod, container) > 0)) needs.insert(kCpuKind);
    if (pins_memory && HasMemory(container.resources.requests)) needs.insert(kMemoryKind);
    for (const auto& [resource, amount] : container.resources.limits) {
      if (!amount.IsZero() && state.devices.resources.contains(resource)) needs.insert(resource);
    }
  }
  return needs;
}

bool IsDeviceKind(const std::string& kind) { return kind != kCpuKind && kind != kMemoryKind; }

bool HasAssignment(const admission::NodeState& state, const std::string& pod_uid) {
  if (state.cpu.assignments.contains(pod_uid) || state.cpu.pods.contains(pod_uid)) return true;
  if (state.memory.assignments.contains(pod_uid) || state.memory.pods.contains(pod_uid))
    return true;
  const auto share = state.cpu.shares.lower_bound({pod_uid, ""});
  if (share != state.cpu.shares.end() && share->first.pod_uid == pod_uid) return true;
  return std::ranges::any_of(state.devices.allocations, [&pod_uid](const auto& entry) {
    return entry.first.pod_uid == pod_uid;
  });
}

}  // namespace alignd::allocation
