#include "alignd/cpumanager/static_policy.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "alignd/cpumanager/config_problems.h"
#include "alignd/cpumanager/cpu_packing.h"
#include "core/cpumanager/core_use.h"
#include "core/cpumanager/node_cpus.h"
#include "core/pod/exclusive_cpu_count.h"

namespace alignd::cpumanager {
namespace {

using topologymanager::TopologyHint;

Error Refused(std::string message, std::string remedy) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)};
}

// The CPUs of kubeReserved and systemReserved, as a whole number.
Result<int64_t> ReservedCount(const Machine& machine, const KubeletConfig& config, int listed) {
  uint64_t memory_bytes = 0;
  for (const NumaNode& node : machine.numa()) memory_bytes += node.memory_bytes;
  const Result<ResourceList> reservation = NodeReservation(config, memory_bytes, listed);
  if (!reservation.ok()) return reservation.error();
  const Quantity* cpu = Find(*reservation, "cpu");
  if (cpu == nullptr || cpu->IsZero()) {
    return Refused(
        "[cpumanager] unable to determine reserved CPU resources for static policy",
        "the static policy needs reserved CPUs: set reservedSystemCPUs, such as \"0\", or "
        "cpu in kubeReserved or systemReserved");
  }
  return cpu->Value();
}

// The CPUs on the NUMA nodes of the affinity; with align-by-socket, on the sockets of these nodes.
CpuSet AlignedTo(NumaMask affinity, const Machine& machine, const PolicyOptions& options) {
  const CpuSet on_nodes = machine.CpusInNuma(affinity);
  if (!options.align_by_socket) return on_nodes;
  return GroupsTouching(machine.sockets(), on_nodes);
}

// Later containers of the pod can reuse the CPUs of an init container, but not those of a container
// that keeps running. Source: policy_static.go, updateCPUsToReuse.
void UpdateReusable(const std::string& pod_uid, ContainerKind kind, const CpuSet& cpus,
                    CpuState& state) {
  std::erase_if(state.reusable, [&](const auto& entry) { return entry.first != pod_uid; });
  CpuSet& reusable = state.reusable[pod_uid];
  if (kind == ContainerKind::kInit) {
    reusable |= cpus;
  } else {
    reusable -= cpus;
  }
  if (reusable.empty()) state.reusable.erase(pod_uid);
}

void ForgetOriginal(const ContainerKey& key, CpuState& state) {
  const auto of_pod = state.originals.find(key.pod_uid);
  if (of_pod == state.originals.end() || !of_pod->second.contains(key.container)) return;
  auto& originals = state.originals[key.pod_uid];
  originals.erase(key.container);
  if (originals.empty()) state.originals.erase(key.pod_uid);
}

}  // namespace

void ReturnToDefaultSet(CpuSet cpus, CpuState& state) {
  for (const auto& [pod_uid, containers] : state.assignments) {
    for (const auto& [name, exclusive] : containers) cpus -= exclusive;
  }
  for (const auto& [pod_uid, of_pod] : state.pods) cpus -= of_pod;
  cpus -= state.Withheld();
  state.AddToDefaultSet(cpus);
  for (auto& [pod_uid, reusable] : state.reusable) reusable -= cpus;
  std::erase_if(state.reusable, [](const auto& entry) { return entry.second.empty(); });
}

std::optional<Refusal> CheckWholeCores(const Machine& machine, const CpuSet& free, int64_t count) {
  const int per_core = machine.cpus_per_core();
  if (count % per_core != 0) {
    return Refusal{"SMTAlignmentError",
                   "SMT Alignment Error: requested " + std::to_string(count) +
                       " cpus not multiple cpus per core = " + std::to_string(per_core)};
  }
  if (count > free.Count()) {
    return Refusal{
        "SMTAlignmentError",
        "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = " +
            std::to_string(free.Count()) + ", requested CPUs = " + std::to_string(count) +
            ", CPUs per core = " + std::to_string(per_core)};
  }
  return std::nullopt;
}

std::optional<Refusal> CheckOption(const Machine& machine, const StaticPolicy& policy,
                                   const CpuState& state, int64_t count) {
  if (!policy.options.full_pcpus_only) return std::nullopt;
  const CpuSet free =
      state.default_set - GroupsTouching(machine.cores(), policy.reserved) - policy.avoided;
  return CheckWholeCores(machine, free, count);
}

Result<CpuSet> ChooseCpus(const Machine& machine, const PolicyOptions& options,
                          const CpuSet& allocatable, const TopologyHint& affinity, int64_t count) {
  CpuSet chosen;
  if (affinity.affinity) {
    const CpuSet aligned = allocatable & AlignedTo(*affinity.affinity, machine, options);
    Result<CpuSet> part =
        TakeCpus(machine, options, aligned, std::min<int64_t>(count, aligned.Count()));
    if (!part.ok()) return part.error();
    chosen = *std::move(part);
  }
  const Result<CpuSet> rest =
      TakeCpus(machine, options, allocatable - chosen, count - chosen.Count());
  if (!rest.ok()) return rest.error();
  return chosen | *rest;
}

CpuSet StaticPolicy::Managed(const Machine& machine) const {
  return options.strict_cpu_reservation ? machine.cpus() - reserved : machine.cpus();
}

StaticPolicy StaticPolicy::For(std::string_view container) const {
  StaticPolicy policy = *this;
  policy.avoided_by.clear();
  const auto own = avoided_by.find(container);
  if (own != avoided_by.end()) policy.avoided |= own->second;
  return policy;
}

Result<CpuSet> ReservedSystemCpus(const Machine& machine, const KubeletConfig& config) {
  const std::string& list = config.reserved_system_cpus;
  Result<CpuSet> cpus = CpuSet::Parse(list);
  if (!cpus.ok()) return cpus.error().In("unable to parse reserved-cpus list");
  if (!machine.cpus().Contains(*cpus)) {
    return Refused(
        "reserved-cpus: " + list + " is not a subset of online-cpus: " + machine.cpus().ToString(),
        "remove " + (*cpus - machine.cpus()).ToString() + ", which is not online, from the list");
  }
  return cpus;
}

Result<StaticPolicy> MakeStaticPolicy(const Machine& machine, const KubeletConfig& config) {
  const Result<CpuSet> listed = ReservedSystemCpus(machine, config);
  if (!listed.ok()) return listed.error();
  const Result<int64_t> count = ReservedCount(machine, config, listed->Count());
  if (!count.ok()) return count.error();
  const Result<PolicyOptions> options = ParsePolicyOptions(config, machine);
  if (!options.ok()) return options.error();

  StaticPolicy policy{.options = *options, .reserved = *listed};
  if (listed->empty()) {
    const Result<CpuSet> reserved = TakeCpus(machine, *options, machine.cpus(), *count);
    if (reserved.ok()) policy.reserved = *reserved;  // otherwise the error below
  }
  if (policy.reserved.Count() != *count) {
    return Refused(
        "new static policy error: [cpumanager] unable to reserve the required amount of CPUs "
        "(size of " +
            policy.reserved.ToString() + " did not equal " + std::to_string(*count) + ")",
        "reserve fewer CPUs: the machine has " + std::to_string(machine.cpus().Count()));
  }
  if (config.numa_allocate_strategy == NumaAllocateStrategy::kAllNodes) {
    policy.options.distribute_cpus_across_numa = true;
    policy.options.on_most_numa_nodes = true;
  }
  return policy;
}

std::vector<ConfigProblem> FindProblems(const Machine& machine, const KubeletConfig& config) {
  std::vector<ConfigProblem> problems;
  const Result<CpuSet> listed = ReservedSystemCpus(machine, config);
  if (!listed.ok()) {
    problems.push_back({"reservedSystemCPUs", config.reserved_system_cpus, listed.error()});
  }
  const bool is_static = config.cpu_manager_policy == CpuManagerPolicy::kStatic;
  const Result<int64_t> count =
      is_static && listed.ok() ? ReservedCount(machine, config, listed->Count()) : int64_t{0};
  if (!count.ok()) {
    problems.push_back({"reservedSystemCPUs", config.reserved_system_cpus, count.error()});
  }
  PolicyOptions options;
  const std::vector<ConfigProblem> of_options = FindOptionProblems(machine, config, options);
  problems.insert(problems.end(), of_options.begin(), of_options.end());
  if (!is_static || !problems.empty()) return problems;
  // What is left depends on all of the above: whether that many CPUs can be chosen.
  const Result<StaticPolicy> made = MakeStaticPolicy(machine, config);
  if (made.ok()) return problems;
  const auto amount = [](const ResourceList& list) {
    const Quantity* const cpu = Find(list, "cpu");
    return cpu == nullptr ? std::string("0") : cpu->ToString();
  };
  problems.push_back({"kubeReserved.cpu + systemReserved.cpu",
                      amount(config.kube_reserved) + " + " + amount(config.system_reserved),
                      made.error()});
  return problems;
}

CpuState InitialState(const Machine& machine, const StaticPolicy& policy) {
  return {.default_set = policy.Managed(machine),
          .assignments = {},
          .pods = {},
          .originals = {},
          .reusable = {}};
}

std::optional<Refusal> Allocate(const Machine& machine, const StaticPolicy& policy, const Pod& pod,
                                const Container& container, const TopologyHint& affinity,
                                CpuState& state) {
  DropClaim({pod.uid, container.name}, state);
  const int64_t count = ExclusiveCpuCount(pod, container);
  if (count == 0) return std::nullopt;
  if (const CpuSet* assigned = state.Find({pod.uid, container.name})) {
    UpdateReusable(pod.uid, container.kind, *assigned, state);
    return std::nullopt;
  }
  if (auto refusal = CheckOption(machine, policy, state, count)) return refusal;
  CpuSet reusable;
  if (const auto of_pod = state.reusable.find(pod.uid); of_pod != state.reusable.end()) {
    reusable = of_pod->second - state.offline;
  }
  const CpuSet offered = Offered(machine, policy, (state.default_set - policy.reserved) | reusable,
                                 reusable, NotReusable(state, pod.uid));
  auto [cpus, refusal] = ChooseOffered(machine, policy, offered, affinity, count);
  if (refusal) return std::move(refusal);
  state.default_set -= cpus;
  state.assignments[pod.uid][container.name] = cpus;
  ForgetOriginal({pod.uid, container.name}, state);  // it is created with these
  state.shares.erase({pod.uid, container.name});
  // From before topology scope container was configured: the pod's containers have parts of it.
  if (state.pods.contains(pod.uid)) {
    state.pods[pod.uid] |= cpus;
    state.originals[pod.uid][container.name] = cpus;
  }
  UpdateReusable(pod.uid, container.kind, cpus, state);
  return std::nullopt;
}

void SetOffline(const CpuSet& offline, CpuState& state) {
  const CpuSet shared = state.default_set | state.offline_shared;
  state.offline = offline;
  state.default_set = shared - offline;
  state.offline_shared = shared & offline;
}

void Withhold(const ContainerKey& key, const CpuSet& cpus, CpuState& state) {
  state.default_set -= cpus;
  state.offline_shared -= cpus;
  state.withheld[key] = cpus;
}

void DropClaim(const ContainerKey& key, CpuState& state) {
  const auto claim = state.withheld.find(key);
  if (claim == state.withheld.end()) return;
  const CpuSet cpus = claim->second;
  state.withheld.erase(key);
  ReturnToDefaultSet(cpus, state);
}

void RemoveAssignment(const ContainerKey& key, CpuState& state) {
  auto& containers = state.assignments[key.pod_uid];
  containers.erase(key.container);
  if (containers.empty()) state.assignments.erase(key.pod_uid);
}

void ReleaseContainer(const ContainerKey& key, CpuState& state) {
  DropClaim(key, state);
  state.shares.erase(key);
  ForgetOriginal(key, state);
  const CpuSet* assigned = state.Find(key);
  if (assigned == nullptr) return;
  CpuSet cpus = *assigned;
  state.moving.erase(key);
  RemoveAssignment(key, state);
  // What other containers of the pod are recorded with stays, unless the pod has CPUs as a whole.
  const bool is_last = !state.assignments.contains(key.pod_uid);
  if (is_last && state.pods.contains(key.pod_uid)) ReleasePod(key.pod_uid, state);
  ReturnToDefaultSet(std::move(cpus), state);
}

void ReleasePod(const std::string& pod_uid, CpuState& state) {
  std::vector<ContainerKey> claims;
  for (const auto& [key, cpus] : state.withheld) {
    if (key.pod_uid == pod_uid) claims.push_back(key);
  }
  for (const ContainerKey& key : claims) DropClaim(key, state);
  erase_if(state.shares, [&pod_uid](const auto& entry) { return entry.first.pod_uid == pod_uid; });
  state.reusable.erase(pod_uid);
  CpuSet cpus = state.HeldBy(pod_uid);
  state.assignments.erase(pod_uid);
  state.originals.erase(pod_uid);
  erase_if(state.moving, [&pod_uid](const auto& entry) { return entry.first.pod_uid == pod_uid; });
  state.pods.erase(pod_uid);
  ReturnToDefaultSet(std::move(cpus), state);
}

}  // namespace alignd::cpumanager
