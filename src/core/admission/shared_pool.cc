#include "alignd/admission/shared_pool.h"

#include <algorithm>
#include <utility>

#include "alignd/admission/assignment.h"

namespace alignd::admission {

CpuSet SharedCpus(const Node& node, const NodeState& state) {
  if (!node.cpu) return {};
  if (!state.cpu.default_set.empty()) return state.cpu.default_set;
  const CpuSet reserved = node.cpu->reserved - state.cpu.offline;
  return reserved.empty() ? node.cpu->reserved : reserved;
}

std::vector<CpuSetChange> CpuSetChanges(const Node& node, const NodeState& state,
                                        const std::vector<RunningContainer>& running) {
  std::vector<CpuSetChange> losing;
  std::vector<CpuSetChange> gaining;
  for (const RunningContainer& container : running) {
    CpuSet target = AssignmentOf(node, state, container.key).cpuset;
    if (target.empty() || target == container.cpuset) continue;
    // A container without an applied cpuset may run anywhere, so every cpuset takes CPUs from it.
    const bool only_gains = !container.cpuset.empty() && target.Contains(container.cpuset);
    (only_gains ? gaining : losing).push_back({container.id, std::move(target)});
  }
  std::ranges::move(gaining, std::back_inserter(losing));
  return losing;
}

}  // namespace alignd::admission
