#include "allocation/exclusive_needs.h"

#include <algorithm>

namespace alignd::allocation {

bool IsDeviceKind(const std::string& kind) {
  return kind != admission::kCpuKind && kind != admission::kMemoryKind;
}

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
