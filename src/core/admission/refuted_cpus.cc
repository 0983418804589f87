#include "core/admission/refuted_cpus.h"

#include <algorithm>
#include <utility>

#include "alignd/cpumanager/static_policy.h"
#include "core/admission/adopted_cpus.h"

namespace alignd::admission {
namespace {

using cpumanager::CpuState;

// Where a running container is exclusively, as far as that is known.
struct Whereabouts {
  MarkedContainer* container = nullptr;
  CpuSet cpus;                // empty: not known; in a pod with CPUs as a whole, those of the pod
  bool mark_agrees = false;   // the mark says so, too; or it was resized since
  bool is_elsewhere = false;  // neither a resize nor a move explains it with what the state has
  bool is_refuted = false;
};

// What the state has for the container, or for its pod as a whole.
CpuSet EntryOf(const CpuState& state, const ContainerKey& key) {
  if (const auto whole = state.pods.find(key.pod_uid); whole != state.pods.end()) {
    return whole->second;
  }
  const CpuSet* const cpus = state.Find(key);
  return cpus == nullptr ? CpuSet() : *cpus;
}

// After a resize that was interrupted, runtime and state have different sets, both with the CPUs of
// the creation; in the middle of a move, the state has all of those on which the container is.
bool IsExplained(const CpuState& state, const MarkedContainer& container, const CpuSet& cpus) {
  const CpuSet entry = EntryOf(state, container.key);
  if (entry.empty()) return false;
  if (entry.Contains(cpus) || cpus.Contains(entry)) return true;
  const auto both_have = [&](const CpuSet& original) {
    return !original.empty() && entry.Contains(original) && cpus.Contains(original);
  };
  if (both_have(container.mark.Original())) return true;
  return state.Find(container.key) != nullptr && both_have(state.OriginalOf(container.key));
}

Whereabouts Locate(const Node& node, const CpuState& state, MarkedContainer& container) {
  Whereabouts found{.container = &container, .cpus = {}};
  const CpuSet& record = container.record;
  const AssignmentMark& mark = container.mark;
  const CpuSet assignable = node.cpu->Managed(node.machine) - node.cpu->reserved;
  if (record.empty() || !assignable.Contains(record)) return found;
  // Where one is that was resized to shared CPUs or from them, neither mark nor entry explains.
  if (state.WasShared(container.key) || IsOnSharedCpus(container)) return found;
  const bool is_marked = !mark.cpus.empty();
  if (is_marked && record == mark.cpus) {
    found.cpus = IsPartOfPod(node, container) ? mark.whole.cpus & assignable : record;
    found.mark_agrees = true;
  } else if (IsPartOfPod(node, container) || state.pods.contains(container.key.pod_uid)) {
    return found;  // a part is neither resized nor moved
  } else if (!container.cgroup.empty() && container.cgroup != record) {
    return found;  // another program has moved it
  } else if (is_marked && record.Contains(mark.Original())) {
    found.cpus = record;
    found.mark_agrees = true;
  } else if (record.Count() == mark.cpus.Count() ||
             record.Count() == EntryOf(state, container.key).Count()) {
    found.cpus = record;  // it was moved
  }
  found.is_elsewhere = !found.cpus.empty() && !IsExplained(state, container, found.cpus);
  return found;
}

// The assignments of the state: of a container, or of a pod as a whole, then without a container.
std::vector<std::pair<ContainerKey, CpuSet>> EntriesOf(const CpuState& state) {
  std::vector<std::pair<ContainerKey, CpuSet>> entries;
  for (const auto& [uid, whole] : state.pods) entries.push_back({{uid, ""}, whole});
  for (const auto& [uid, containers] : state.assignments) {
    if (state.pods.contains(uid)) continue;
    for (const auto& [name, cpus] : containers) entries.push_back({{uid, name}, cpus});
  }
  return entries;
}

bool IsOf(const ContainerKey& entry, const ContainerKey& container) {
  return entry.pod_uid == container.pod_uid &&
         (entry.container.empty() || entry.container == container.container);
}

void Drop(const ContainerKey& entry, CpuState& state) {
  if (entry.container.empty() || state.pods.contains(entry.pod_uid)) {
    cpumanager::ReleasePod(entry.pod_uid, state);
  } else {
    cpumanager::ReleaseContainer(entry, state);
  }
}

// Whether `by` proves that the entry is not true: it is on these CPUs, and the entry's containers,
// if any run, are not. One witness is not enough: another program may have moved `by` past alignd.
bool Refutes(const Whereabouts& by, const std::pair<ContainerKey, CpuSet>& entry,
             const std::vector<Whereabouts>& all) {
  const auto& [key, cpus] = entry;
  if (by.cpus.empty() || !by.is_elsewhere || key.pod_uid == by.container->key.pod_uid) return false;
  if (!cpus.Intersects(by.cpus)) return false;
  bool has_witness = by.mark_agrees || by.is_refuted;
  for (const Whereabouts& other : all) {
    if (!IsOf(key, other.container->key)) continue;
    const CpuSet& record = other.container->record;
    if (record.empty() || (record | other.container->cgroup).Intersects(by.cpus)) return false;
    has_witness = has_witness || other.is_elsewhere;
  }
  return has_witness;
}

}  // namespace

std::vector<AdoptionNote> DropRefutedCpus(const Node& node,
                                          std::vector<MarkedContainer>& containers,
                                          CpuState& state) {
  std::vector<AdoptionNote> notes;
  if (!node.cpu) return notes;
  std::vector<Whereabouts> all;
  for (MarkedContainer& container : containers) {
    if (container.runs) all.push_back(Locate(node, state, container));
  }
  const auto refute = [&](const ContainerKey& entry) {
    Drop(entry, state);
    for (Whereabouts& one : all) {
      if (!IsOf(entry, one.container->key)) continue;
      one.is_refuted = true;
      one.is_elsewhere = !one.cpus.empty();
      one.container->by_runtime = one.cpus;
    }
  };
  // Each round removes an entry. What one is assigned instead may refute a further one.
  for (bool again = true; again;) {
    again = false;
    for (Whereabouts& by : all) {
      for (const auto& entry : EntriesOf(state)) {
        if (!Refutes(by, entry, all)) continue;
        const ContainerKey& key = entry.first;
        const auto other = std::ranges::find_if(
            all, [&](const Whereabouts& one) { return IsOf(key, one.container->key); });
        const bool runs = other != all.end();
        notes.push_back(
            {.id = runs ? other->container->id : "",
             .key = key,
             .pod = runs ? other->container->pod : "",
             .text =
                 "the state files have CPUs " + entry.second.ToString() + " for " +
                 (key.container.empty() ? "" : "container " + key.container + " of ") + "pod " +
                 (runs && !other->container->pod.empty() ? other->container->pod : key.pod_uid) +
                 ", but " + NameOf(*by.container) + " runs exclusively on CPUs " +
                 by.cpus.ToString()});
        const bool is_whole = state.pods.contains(by.container->key.pod_uid);
        refute(key);
        refute(is_whole ? ContainerKey{by.container->key.pod_uid, ""} : by.container->key);
        again = true;
      }
    }
  }
  return notes;
}

}  // namespace alignd::admission
