#include "alignd/cpumanager/node_shares.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/cpumanager/core_use.h"

namespace alignd::cpumanager {
namespace {

// What one pod requests on one NUMA node.
struct PodShares {
  int64_t running = 0;  // app containers and sidecars
  int64_t sidecars = 0;
  int64_t largest_init = 0;

  void Add(const NodeShare& share) {
    if (share.kind == ContainerKind::kInit) {
      largest_init = std::max(largest_init, share.millis);
      return;
    }
    running += share.millis;
    if (share.kind == ContainerKind::kSidecar) sidecars += share.millis;
  }

  int64_t AtOneTime() const { return std::max(running, largest_init + sidecars); }
};

// The highest of them first: the kubelet assigns the lowest first.
void MoveHighest(int64_t count, CpuSet from, CpuSet& to) {
  std::vector<int> cpus = from.ToVector();
  for (; count > 0 && !cpus.empty(); --count) {
    to.Add(cpus.back());
    cpus.pop_back();
  }
}

CpuSet HeldBackOf(const Machine& machine, const StaticPolicy& policy, const CpuSet& backing,
                  int64_t count) {
  if (count >= backing.Count()) return backing;
  CpuSet held;
  MoveHighest(count, backing & policy.avoided, held);
  std::vector<std::pair<bool, CpuSet>> cores;  // whether it is free as a whole
  for (const CpuGroup& core : machine.cores()) {
    const CpuSet here = core.cpus & (backing - held);
    if (!here.empty()) cores.emplace_back(here == core.cpus, here);
  }
  std::ranges::reverse(cores);
  std::ranges::stable_sort(cores, {}, &std::pair<bool, CpuSet>::first);
  for (const auto& [is_whole, cpus] : cores) {
    if (held.Count() >= count) break;
    MoveHighest(count - held.Count(), cpus, held);
  }
  // The number of CPUs says whether there are whole cores: no core is free in part.
  if (policy.options.full_pcpus_only) held |= GroupsTouching(machine.cores(), held) & backing;
  return held;
}

}  // namespace

int64_t SharesOn(const CpuState& state, int numa_id) {
  std::map<std::string, PodShares> pods;
  for (const auto& [key, share] : state.shares) {
    if (share.numa_id == numa_id) pods[key.pod_uid].Add(share);
  }
  int64_t millis = 0;
  for (const auto& [uid, shares] : pods) millis += shares.AtOneTime();
  return millis;
}

int64_t SharesOf(const CpuState& state, const std::string& pod_uid) {
  PodShares shares;
  for (const auto& [key, share] : state.shares) {
    if (key.pod_uid == pod_uid) shares.Add(share);
  }
  return shares.AtOneTime();
}

CpuSet BackingOn(const Machine& machine, const StaticPolicy& policy, const CpuState& state,
                 int numa_id) {
  const std::optional<int> position = machine.NumaPosition(numa_id);
  if (!position) return {};
  return (machine.CpusInNuma(*position) & state.default_set) - policy.reserved;
}

int64_t BackedOn(const CpuState& state, int numa_id) {
  const bool any = std::ranges::any_of(
      state.shares, [numa_id](const auto& entry) { return entry.second.numa_id == numa_id; });
  if (!any) return 0;
  return std::max<int64_t>(1, (SharesOn(state, numa_id) + kMillisPerCpu - 1) / kMillisPerCpu);
}

bool FitsOn(const Machine& machine, const StaticPolicy& policy, const CpuState& state,
            const ContainerKey& key, const NodeShare& share, int64_t exclusive) {
  CpuState with = state;
  with.shares[key] = share;
  const CpuSet backing = BackingOn(machine, policy, state, share.numa_id);
  return exclusive <= backing.Count() &&
         BackedOn(with, share.numa_id) <= backing.Count() - exclusive;
}

std::set<int> TakeShares(const Machine& machine, const StaticPolicy& policy,
                         const SharedMap<ContainerKey, NodeShare>& shares, CpuState& state) {
  CpuState with = state;
  std::set<int> nodes;
  std::set<int> left;
  for (const auto& [key, share] : shares) {
    nodes.insert(share.numa_id);
    with.shares[key] = share;
    if (state.Find(key) != nullptr || !machine.NumaPosition(share.numa_id)) {
      left.insert(share.numa_id);
    }
  }
  for (const int numa_id : nodes) {
    if (left.contains(numa_id)) continue;
    const int64_t backing = BackingOn(machine, policy, state, numa_id).Count();
    if (BackedOn(with, numa_id) > backing) left.insert(numa_id);
  }
  for (const auto& [key, share] : shares) {
    if (!left.contains(share.numa_id)) state.shares[key] = share;
  }
  return left;
}

CpuSet HeldBack(const Machine& machine, const StaticPolicy& policy, const CpuState& state) {
  CpuSet held;
  if (state.shares.empty()) return held;
  for (const NumaNode& numa : machine.numa()) {
    const int64_t count = BackedOn(state, numa.id);
    if (count == 0) continue;
    held |= HeldBackOf(machine, policy, BackingOn(machine, policy, state, numa.id), count);
  }
  return held;
}

StaticPolicy WithHeldBack(const Machine& machine, StaticPolicy policy, const CpuState& state) {
  const CpuSet held = HeldBack(machine, policy, state);
  policy.avoided |= held;
  return policy;
}

}  // namespace alignd::cpumanager
