#include "core/cpumanager/core_use.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "alignd/cpumanager/cpu_packing.h"
#include "alignd/cpumanager/resize.h"
#include "core/cpumanager/node_cpus.h"

namespace alignd::cpumanager {
namespace {

using topologymanager::TopologyHint;

// One CPU of each core that has one.
CpuSet OneOfEachCore(const Machine& machine, const CpuSet& cpus, const CpuSet& preferred) {
  CpuSet ones;
  for (const CpuGroup& core : machine.cores()) {
    const CpuSet here = core.cpus & cpus;
    if (here.empty()) continue;
    const CpuSet first = here & preferred;
    ones.Add(first.empty() ? here.First() : first.First());
  }
  return ones;
}

Refusal NotAligned(const std::string& text) {
  return {"SMTAlignmentError", "SMT Alignment Error: " + text};
}

// The CPUs of each NUMA node; with prefer-align-cpus-by-uncorecache, of each cache there.
std::vector<CpuSet> PlacesOf(const Machine& machine, const PolicyOptions& options) {
  std::vector<CpuSet> places;
  for (const CpuGroup& node : machine.numa_groups()) {
    if (!options.prefer_align_cpus_by_uncorecache) {
      places.push_back(node.cpus);
      continue;
    }
    for (const CpuGroup& cache : machine.uncores()) places.push_back(cache.cpus & node.cpus);
  }
  return places;
}

// What the options alone would choose, moved to as many cores as possible within each NUMA node or
// cache.
Result<CpuSet> SpreadOut(const Machine& machine, const PolicyOptions& options,
                         const CpuSet& offered, const TopologyHint& affinity, int64_t count) {
  const Result<CpuSet> base = ChooseCpus(machine, options, offered, affinity, count);
  if (!base.ok()) return base.error();
  CpuSet spread;
  for (const CpuSet& place : PlacesOf(machine, options)) {
    const int share = base->CountCommon(place);
    if (share == 0) continue;
    const CpuSet here = offered & place;
    const CpuSet ones = OneOfEachCore(machine, here, {});
    const Result<CpuSet> first = TakeCpus(machine, options, ones, std::min(share, ones.Count()));
    if (!first.ok()) return first.error();
    const Result<CpuSet> rest = TakeCpus(machine, options, here - *first, share - first->Count());
    if (!rest.ok()) return rest.error();
    spread |= *first | *rest;
  }
  return spread;
}

// Whole cores also where cores have different sizes: there, TakeCpus can take parts of them.
ChosenCpus ChooseWhole(const Machine& machine, const StaticPolicy& policy, const CpuSet& offered,
                       const TopologyHint& affinity, int64_t count) {
  const PolicyOptions options = OptionsOf(policy);
  const Result<CpuSet> cpus = ChooseCpus(machine, options, offered, affinity, count);
  if (cpus.ok() && WholeCoresIn(machine, *cpus) == *cpus) return {.cpus = *cpus};
  const auto of_any_size = [&](const CpuSet& from) {
    return ChooseForResize(machine, options,
                           {.kept = {}, .offered = from, .count = count, .nodes = {}});
  };
  const CpuSet near = affinity.affinity ? machine.CpusInNuma(*affinity.affinity) : machine.cpus();
  Result<CpuSet> whole = of_any_size(offered & near);
  // A policy that admits an affinity that is not preferred does not require it.
  if (!whole.ok() && !affinity.preferred) whole = of_any_size(offered);
  if (whole.ok()) return {.cpus = *std::move(whole)};
  return {.refusal = NotAligned(whole.error().message)};
}

}  // namespace

CpuSet GroupsTouching(const std::vector<CpuGroup>& groups, const CpuSet& cpus) {
  CpuSet touched;
  for (const CpuGroup& group : groups) {
    if (group.cpus.Intersects(cpus)) touched |= group.cpus;
  }
  return touched;
}

CpuSet WholeCoresIn(const Machine& machine, const CpuSet& cpus) {
  CpuSet whole;
  for (const CpuGroup& core : machine.cores()) {
    if (cpus.Contains(core.cpus)) whole |= core.cpus;
  }
  return whole;
}

PolicyOptions OptionsOf(const StaticPolicy& policy) {
  PolicyOptions options = policy.options;
  if (policy.cores == CoreUse::kWhole) options.full_pcpus_only = true;
  return options;
}

CpuSet Offered(const Machine& machine, const StaticPolicy& policy, CpuSet free,
               const CpuSet& reusable, const CpuSet& held) {
  free -= policy.avoided;
  switch (policy.cores) {
    case CoreUse::kByOptions:
    case CoreUse::kWholeFirst:
    case CoreUse::kOneOfEachFirst:
      break;
    case CoreUse::kWhole:
      return WholeCoresIn(machine, free);
    case CoreUse::kOneOfEach:
      return OneOfEachCore(machine, free - GroupsTouching(machine.cores(), held), reusable);
  }
  return free;
}

CpuSet NotReusable(const CpuState& state, const std::string& pod_uid) {
  CpuSet held = state.HeldBy(pod_uid);
  if (const auto reusable = state.reusable.find(pod_uid); reusable != state.reusable.end()) {
    held -= reusable->second;
  }
  return held;
}

ChosenCpus ChooseOffered(const Machine& machine, const StaticPolicy& policy, const CpuSet& offered,
                         const TopologyHint& affinity, int64_t count) {
  const std::string wanted = std::to_string(count);
  const std::string has = std::to_string(offered.Count());
  PolicyOptions options = policy.options;
  switch (policy.cores) {
    case CoreUse::kByOptions:
    case CoreUse::kOneOfEachFirst:
      break;
    case CoreUse::kWholeFirst:
      // distribute-cpus-across-numa then distributes cores, where the number of CPUs allows it.
      options.full_pcpus_only = count % machine.cpus_per_core() == 0;
      break;
    case CoreUse::kWhole:
      if (auto refusal = CheckWholeCores(machine, offered, count)) {
        return {.refusal = std::move(refusal)};
      }
      return ChooseWhole(machine, policy, offered, affinity, count);
    case CoreUse::kOneOfEach:
      if (count > offered.Count()) {
        return {.refusal = NotAligned("requested " + wanted +
                                      " cpus, each on a core of its own, and cores with a free "
                                      "CPU = " +
                                      has)};
      }
      break;
  }
  const Result<CpuSet> cpus = policy.cores == CoreUse::kOneOfEachFirst
                                  ? SpreadOut(machine, options, offered, affinity, count)
                                  : ChooseCpus(machine, options, offered, affinity, count);
  if (!cpus.ok()) return {.refusal = UnexpectedAdmissionError(cpus.error().message)};
  return {.cpus = *cpus};
}

CpuSet CanBeAssigned(const Machine& machine, const StaticPolicy& policy, const CpuSet& free) {
  return Offered(machine, policy, free);
}

Result<CpuSet> Preview(const Machine& machine, const StaticPolicy& policy, const CpuSet& free,
                       int64_t count) {
  ChosenCpus chosen =
      ChooseOffered(machine, policy, Offered(machine, policy, free), {std::nullopt, false}, count);
  if (chosen.refusal) return Error{ErrorCode::kInvalidArgument, chosen.refusal->message};
  return std::move(chosen.cpus);
}

}  // namespace alignd::cpumanager
