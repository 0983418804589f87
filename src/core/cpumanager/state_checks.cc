// Checks of a CpuState: of a loaded one, and of one that alignd made.
#include <string>
#include <utility>

#include "alignd/cpumanager/static_policy.h"

namespace alignd::cpumanager {
namespace {

Error Corrupt(std::string message) { return {ErrorCode::kCorrupt, std::move(message)}; }

std::string Quoted(const CpuSet& cpus) { return "\"" + cpus.ToString() + "\""; }

// pod UID -> all CPUs of the pod.
std::map<std::string, CpuSet> ByPod(const CpuState& state) {
  std::map<std::string, CpuSet> cpus;
  for (const auto& [pod_uid, containers] : state.assignments) cpus[pod_uid];
  for (const auto& [pod_uid, whole] : state.pods) cpus[pod_uid];
  for (auto& [pod_uid, of_pod] : cpus) of_pod = state.HeldBy(pod_uid);
  return cpus;
}

CpuSet Assigned(const CpuState& state) {
  CpuSet cpus;
  for (const auto& [pod_uid, of_pod] : ByPod(state)) cpus |= of_pod;
  return cpus;
}

// The CPUs that several pods are assigned.
CpuSet AssignedTwice(const CpuState& state) {
  CpuSet seen;
  CpuSet twice;
  for (const auto& [pod_uid, of_pod] : ByPod(state)) {
    twice |= seen & of_pod;
    seen |= of_pod;
  }
  return twice;
}

Result<Done> CheckReserved(const StaticPolicy& policy, const CpuState& state) {
  const CpuSet shared = policy.reserved & state.default_set;
  if (policy.options.strict_cpu_reservation) {
    if (shared.empty()) return Done{};
    return Corrupt("some of strictly reserved cpus: " + Quoted(shared) +
                   " are present in defaultCpuSet: " + Quoted(state.default_set));
  }
  if (shared == policy.reserved) return Done{};
  return Corrupt("not all reserved cpus: " + Quoted(policy.reserved) +
                 " are present in defaultCpuSet: " + Quoted(state.default_set));
}

Result<Done> CheckEntries(const CpuState& state) {
  for (const auto& [pod_uid, containers] : state.assignments) {
    for (const auto& [name, cpus] : containers) {
      const std::string subject = "pod: " + pod_uid + ", container: " + name;
      if (cpus.empty()) return Corrupt(subject + " cpuset is empty");
      if (!cpus.Intersects(state.default_set)) continue;
      return Corrupt(subject + " cpuset: " + Quoted(cpus) + " overlaps with default cpuset " +
                     Quoted(state.default_set));
    }
  }
  return Done{};
}

// Problems of the CPUs that resized containers were assigned when they were created.
void CheckOriginals(const CpuState& state, std::vector<std::string>& broken) {
  for (const auto& [pod_uid, containers] : state.originals) {
    if (containers.empty()) broken.push_back("pod " + pod_uid + " has no original CPUs");
    for (const auto& [name, original] : containers) {
      const std::string container = "pod " + pod_uid + ": " + name;
      const CpuSet* const assigned = state.Find({pod_uid, name});
      if (original.empty() && !state.pods.contains(pod_uid)) continue;  // CpuState::WasShared
      if (original.empty()) broken.push_back(container + " has no original CPU");
      if (assigned == nullptr) {
        broken.push_back(container + " has original CPUs and no assignment");
      } else if (!assigned->Contains(original)) {
        broken.push_back(container + " lost its original CPUs " +
                         (original - *assigned).ToString());
      }
    }
  }
}

// Problems of the containers that are being moved.
void CheckMoving(const CpuState& state, std::vector<std::string>& broken) {
  for (const auto& [key, cpus] : state.moving) {
    const std::string container = "pod " + key.pod_uid + ": " + key.container;
    const CpuSet* const assigned = state.Find(key);
    if (cpus.empty()) broken.push_back(container + " is moved to no CPU");
    if (assigned == nullptr || !assigned->Contains(cpus)) {
      broken.push_back(container + " is moved to CPUs " + cpus.ToString() +
                       " that it is not assigned");
    }
  }
}

Result<Done> CheckLoaded(const Machine& machine, const StaticPolicy& policy,
                         const CpuState& state) {
  const CpuSet managed = policy.Managed(machine);
  const CpuSet known = state.default_set | Assigned(state);
  if (state.default_set.empty()) {
    if (state.assignments.empty() && state.pods.empty()) return Done{};
    const bool all_in_use = policy.options.strict_cpu_reservation && known == managed;
    if (!all_in_use) return Corrupt("default cpuset cannot be empty");
  }
  if (const Result<Done> checked = CheckReserved(policy, state); !checked.ok()) return checked;
  if (const Result<Done> checked = CheckEntries(state); !checked.ok()) return checked;
  if (known != managed) {
    return Corrupt("current set of available CPUs " + Quoted(managed) +
                   " doesn't match with CPUs in state " + Quoted(known));
  }
  if (const CpuSet twice = AssignedTwice(state); !twice.empty()) {
    return Corrupt("cpus " + Quoted(twice) + " are assigned to more than one pod");
  }
  return Done{};
}

// Whether a state that is not valid would be on this machine with other reserved CPUs, or another
// strict-cpu-reservation. CPUs that a state with the present reservations lacks were added.
bool IsOfOtherReservations(const Machine& machine, const StaticPolicy& policy,
                           const CpuState& state) {
  const CpuSet known = state.default_set | Assigned(state);
  if (!machine.cpus().Contains(known) || !CheckEntries(state).ok()) return false;
  if (!AssignedTwice(state).empty()) return false;
  const CpuSet missing = machine.cpus() - known;
  if (state.default_set.empty() && missing.empty()) return false;
  if (policy.options.strict_cpu_reservation) return !missing.Contains(policy.reserved);
  return missing.empty() || missing == policy.reserved;
}

}  // namespace

Result<Done> ValidateLoaded(const Machine& machine, const StaticPolicy& policy,
                            const CpuState& state) {
  const Result<Done> checked = CheckLoaded(machine, policy, state);
  if (checked.ok() || !IsOfOtherReservations(machine, policy, state)) return checked;
  Error error = checked.error();
  error.code = ErrorCode::kInvalidArgument;
  return error;
}

CpuSet AddNewCpus(const Machine& machine, const StaticPolicy& policy, CpuState& state) {
  const CpuSet known = state.default_set | Assigned(state);
  CpuSet added = policy.Managed(machine) - known;
  if (added.empty() || known.empty() || IsOfOtherReservations(machine, policy, state)) return {};
  CpuState completed = state;
  completed.default_set |= added;
  if (!CheckLoaded(machine, policy, completed).ok()) return {};
  state = std::move(completed);
  return added;
}

std::vector<std::string> BrokenInvariants(const Machine& machine, const StaticPolicy& policy,
                                          const CpuState& state) {
  std::vector<std::string> broken;
  const auto expect_none = [&](const CpuSet& cpus, const std::string& what) {
    if (!cpus.empty()) broken.push_back("CPUs " + cpus.ToString() + " " + what);
  };
  const CpuSet managed = policy.Managed(machine);
  const CpuSet assigned = Assigned(state);
  const CpuSet shared = state.default_set | state.offline_shared;
  expect_none(assigned & shared, "are assigned and in the default set");
  expect_none(state.default_set & state.offline, "are offline and in the default set");
  expect_none(state.offline_shared - state.offline, "are online and kept out of the default set");
  expect_none(AssignedTwice(state), "are assigned to more than one pod");
  expect_none(assigned & policy.reserved, "are assigned although they are reserved");
  const CpuSet withheld = state.Withheld();
  expect_none(withheld & (assigned | shared), "are withheld and in use");
  expect_none(managed - assigned - shared - withheld, "are lost");
  expect_none((assigned | shared | withheld) - managed, "are not managed");
  for (const auto& [pod_uid, containers] : state.assignments) {
    if (containers.empty()) broken.push_back("pod " + pod_uid + " has no container");
    for (const auto& [name, cpus] : containers) {
      if (cpus.empty()) broken.push_back("pod " + pod_uid + ": " + name + " has no CPU");
    }
  }
  for (const auto& [pod_uid, whole] : state.pods) {
    if (!state.assignments.contains(pod_uid)) {
      broken.push_back("pod " + pod_uid + " has CPUs as a whole and no container");
    }
    expect_none(state.HeldBy(pod_uid) - whole,
                "are assigned to containers of pod " + pod_uid + " without being the pod's");
  }
  for (const auto& [pod_uid, reusable] : state.reusable) {
    expect_none(reusable - state.HeldBy(pod_uid),
                "are reusable by pod " + pod_uid + " without being its own");
  }
  CheckOriginals(state, broken);
  CheckMoving(state, broken);
  for (const auto& [key, share] : state.shares) {
    if (state.Find(key) == nullptr && machine.NumaPosition(share.numa_id)) continue;
    broken.push_back("container " + key.container + " of pod " + key.pod_uid +
                     " has exclusive CPUs, or no NUMA node, and shares the CPUs of one");
  }
  return broken;
}

}  // namespace alignd::cpumanager
