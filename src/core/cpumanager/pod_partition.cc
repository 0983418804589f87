#include "alignd/cpumanager/pod_partition.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "alignd/base/saturating_sum.h"
#include "alignd/cpumanager/cpu_packing.h"
#include "core/cpumanager/core_use.h"
#include "core/cpumanager/node_cpus.h"
#include "core/pod/exclusive_cpu_count.h"

namespace alignd::cpumanager {
namespace {

using topologymanager::HintsByResource;
using topologymanager::TopologyHint;

using Parts = std::map<std::string, CpuSet>;  // by container

// Why the pod's shared containers would have no CPUs; empty if they have some. Eligible init
// containers end before the others start, so they do not count.
// Source: kubelet pkg/kubelet/cm/cpumanager/policy_static.go, validatePodScopeResources.
std::string WhyNoSharedCpus(const Pod& pod, int64_t budget) {
  uint64_t exclusive = 0;  // of sidecars and apps so far
  bool has_shared = false;
  for (const Container& container : pod.containers) {
    const auto own = static_cast<uint64_t>(ExclusiveCpuCount(pod, container));
    if (container.kind == ContainerKind::kInit) {
      if (own == 0 && exclusive >= static_cast<uint64_t>(budget)) {
        return "pod rejected, pod has shared init containers but no cpus available for them";
      }
      continue;
    }
    has_shared = has_shared || own == 0;
    exclusive = SaturatingSum(exclusive, own);
  }
  if (!has_shared || exclusive < static_cast<uint64_t>(budget)) return {};
  return "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus "
         "for shared containers";
}

// Whether the state has something of the pod that cannot be completed: no CPUs as a whole, CPUs
// that are also assigned elsewhere, parts outside of the whole, or the part of a container without
// that of an earlier one.
bool IsStale(const CpuState& state, const Pod& pod) {
  const auto whole = state.pods.find(pod.uid);
  const auto parts = state.assignments.find(pod.uid);
  if (whole == state.pods.end()) return parts != state.assignments.end();
  if (whole->second.Intersects(state.default_set)) return true;
  for (const auto& [uid, containers] : state.assignments) {
    if (uid != pod.uid && state.HeldBy(uid).Intersects(whole->second)) return true;
  }
  for (const auto& [uid, others] : state.pods) {
    if (uid != pod.uid && others.Intersects(whole->second)) return true;
  }
  if (parts == state.assignments.end()) return false;
  size_t found = 0;
  while (found < pod.containers.size() && parts->second.contains(pod.containers[found].name)) {
    ++found;
  }
  // More parts than the first containers have: a later container, or one that the pod lacks.
  if (found != parts->second.size()) return true;
  return !std::ranges::all_of(
      parts->second, [&](const auto& part) { return whole->second.Contains(part.second); });
}

// The parts of all containers; those of eligible and of init containers that exist stay. A
// container has the CPUs that no sidecar or app before it has of its own. Shared apps and sidecars
// run to the end, so they have what is free in the end.
Result<Parts> Divide(const Machine& machine, const PolicyOptions& options, const Pod& pod,
                     const CpuSet& whole, Parts parts) {
  CpuSet pool = whole;
  for (const Container& container : pod.containers) {
    const int64_t own = ExclusiveCpuCount(pod, container);
    const auto existing = parts.find(container.name);
    if (own == 0) {
      if (container.kind == ContainerKind::kInit) parts.try_emplace(container.name, pool);
      continue;
    }
    if (existing == parts.end()) {
      Result<CpuSet> cpus = TakeCpus(machine, options, pool, own);
      if (!cpus.ok()) return cpus.error();
      parts[container.name] = *std::move(cpus);
    }
    if (container.kind != ContainerKind::kInit) pool -= parts[container.name];
  }
  for (const Container& container : pod.containers) {
    const bool is_shared = ExclusiveCpuCount(pod, container) == 0;
    if (is_shared && container.kind != ContainerKind::kInit) parts[container.name] = pool;
  }
  for (const auto& [container, cpus] : parts) {
    if (cpus.empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   "no CPUs of the pod are free for container " + container};
    }
  }
  return parts;
}

}  // namespace

HintsByResource WholePodHints(const Machine& machine, const StaticPolicy& policy,
                              const CpuState& state, const Pod& pod) {
  const int64_t budget = PodCpuBudget(pod);
  if (budget == 0) return {};
  const topologymanager::Hints none;
  if (!WhyNoSharedCpus(pod, budget).empty()) return {{"cpu", none}};
  const auto over = [&](const CpuSet& cpus) {
    return HintsByResource{{"cpu", HintsOver(machine, policy.options, cpus, {}, budget)}};
  };
  if (IsStale(state, pod)) {
    CpuState released = state;
    ReleasePod(pod.uid, released);
    return over(Offered(machine, policy, released.default_set - policy.reserved));
  }
  const auto whole = state.pods.find(pod.uid);
  if (whole == state.pods.end()) {
    return over(Offered(machine, policy, state.default_set - policy.reserved));
  }
  if (whole->second.Count() != budget) return {{"cpu", none}};
  return over(whole->second);
}

std::optional<Refusal> AllocateWholePod(const Machine& machine, const StaticPolicy& policy,
                                        const Pod& pod, const TopologyHint& affinity,
                                        CpuState& state) {
  for (const Container& container : pod.containers) DropClaim({pod.uid, container.name}, state);
  const int64_t budget = PodCpuBudget(pod);
  if (budget == 0) return std::nullopt;
  if (const std::string text = WhyNoSharedCpus(pod, budget); !text.empty()) {
    return EmptyPodSharedPoolError(text);
  }
  if (IsStale(state, pod)) ReleasePod(pod.uid, state);
  if (!state.pods.contains(pod.uid)) {
    if (auto refusal = CheckOption(machine, policy, state, budget)) return refusal;
    const CpuSet offered = Offered(machine, policy, state.default_set - policy.reserved);
    auto [cpus, refusal] = ChooseOffered(machine, policy, offered, affinity, budget);
    if (refusal) return std::move(refusal);
    state.default_set -= cpus;
    state.pods[pod.uid] = cpus;
  }
  const auto existing = state.assignments.find(pod.uid);
  Result<Parts> parts = Divide(machine, OptionsOf(policy), pod, state.pods.find(pod.uid)->second,
                               existing == state.assignments.end() ? Parts() : existing->second);
  if (!parts.ok()) return UnexpectedAdmissionError(parts.error().message);
  Parts own;  // parts of a whole are never resized
  for (const Container& container : pod.containers) {
    if (ExclusiveCpuCount(pod, container) > 0) own[container.name] = parts->at(container.name);
  }
  state.originals.erase(pod.uid);
  if (!own.empty()) state.originals[pod.uid] = std::move(own);
  state.assignments[pod.uid] = *std::move(parts);
  return std::nullopt;
}

void DropStalePods(CpuState& state) {
  std::vector<std::string> stale;
  for (const auto& [uid, whole] : state.pods) {
    if (whole.Intersects(state.default_set)) stale.push_back(uid);
  }
  for (const std::string& uid : stale) {
    CpuSet lost = state.pods.at(uid);
    state.pods.erase(uid);
    for (const auto& [other, containers] : state.assignments) lost -= state.HeldBy(other);
    for (const auto& [other, whole] : state.pods) lost -= whole;
    state.AddToDefaultSet(lost);
  }
}

}  // namespace alignd::cpumanager
