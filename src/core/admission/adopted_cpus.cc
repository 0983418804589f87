#include "core/admission/adopted_cpus.h"

#include <algorithm>
#include <set>
#include <utility>

#include "alignd/cpumanager/node_shares.h"
#include "alignd/cpumanager/static_policy.h"

namespace alignd::admission {
namespace {

using cpumanager::CpuState;

// What one container would be assigned.
struct Claim {
  const MarkedContainer* container = nullptr;
  CpuSet cpus;   // of the container; empty: it claims none
  CpuSet whole;  // of its pod as a whole; contains `cpus`, or is empty
  bool is_contested = false;

  const CpuSet& All() const { return whole.empty() ? cpus : whole; }
};

void AddNote(const MarkedContainer& container, std::string text, std::vector<AdoptionNote>& notes) {
  notes.push_back({container.id, container.key, container.pod, std::move(text)});
}

// The other pods that are assigned some of these CPUs, their containers, and which.
std::string Holders(const CpuState& state, const std::string& pod_uid, const CpuSet& cpus) {
  std::string holders;
  const auto add = [&](const CpuSet& assigned, const std::string& to) {
    if (!assigned.Intersects(cpus)) return;
    holders += (holders.empty() ? "" : ", ") + ("CPUs " + (assigned & cpus).ToString()) +
               " are assigned to " + to;
  };
  for (const auto& [uid, whole] : state.pods) {
    if (uid != pod_uid) add(whole, "pod " + uid + " as a whole");
  }
  for (const auto& [uid, containers] : state.assignments) {
    if (uid == pod_uid || state.pods.contains(uid)) continue;
    for (const auto& [name, assigned] : containers) {
      add(assigned, "container " + name + " of pod " + uid);
    }
  }
  return holders;
}

CpuSet OfOtherPods(const CpuState& state, const std::string& pod_uid) {
  std::set<std::string> uids;
  for (const auto& [uid, containers] : state.assignments) uids.insert(uid);
  for (const auto& [uid, whole] : state.pods) uids.insert(uid);
  uids.erase(pod_uid);
  CpuSet cpus;
  for (const std::string& uid : uids) cpus |= state.HeldBy(uid);
  return cpus;
}

// Why a container cannot be assigned CPUs of a pod that has `whole`, or none as a whole; empty: it
// can.
std::string WhyNotInPod(const CpuState& state, const std::string& pod_uid, const CpuSet& whole) {
  const auto known = state.pods.find(pod_uid);
  const bool is_whole = known != state.pods.end();
  if (is_whole ? known->second == whole : whole.empty() || !state.assignments.contains(pod_uid)) {
    return "";
  }
  return "its mark says that its pod has " +
         (whole.empty() ? "no CPUs" : "CPUs " + whole.ToString()) + " as a whole, and " +
         (is_whole ? "CPUs " + known->second.ToString() + " are assigned to it as a whole"
                   : "nothing is assigned to it as a whole");
}

// The CPUs on which runtime and cgroup have the container, if they are as many as it requests, and
// none is reserved, as in the shared pool; otherwise none.
CpuSet RequestedCpus(const Node& node, const MarkedContainer& container) {
  if (container.record.Intersects(node.cpu->reserved)) return {};
  const bool agree = container.record == container.cgroup;
  const bool is_whole = container.record.Count() * cpumanager::kMillisPerCpu == container.millis;
  return agree && is_whole ? container.record : CpuSet();
}

Claim ClaimOf(const Node& node, const MarkedContainer& container, Adoption& adoption) {
  Claim claim{.container = &container, .cpus = {}, .whole = {}};
  const CpuState& state = adoption.next.cpu;
  if (state.Find(container.key) != nullptr) return claim;
  if (container.by_runtime && container.by_runtime->empty()) {
    AddNote(
        container,
        "the state files contradict the runtime about this container, and it is not known which "
        "CPUs it has: the runtime says CPUs " +
            container.record.ToString() + "; it runs in the shared pool",
        adoption.unknown);
    return claim;
  }
  const bool was_shared = state.WasShared(container.key);
  if (container.mark.cpus.empty() && !container.by_runtime && !was_shared) return claim;
  const CpuSet assignable = node.cpu->Managed(node.machine) - node.cpu->reserved;
  const bool is_part = IsPartOfPod(node, container);
  const CpuSet whole = is_part ? container.mark.whole.cpus & assignable : CpuSet();
  std::string why = WhyNotInPod(state, container.key.pod_uid, whole);
  if (is_part && container.mark.whole.cpu_parts.empty()) {
    why =
        "its mark does not say how the CPUs of its pod are divided: the pod has too many "
        "containers for that; it runs in the shared pool";
  }
  if (!why.empty()) {
    if (container.runs) AddNote(container, std::move(why), adoption.unknown);
    return claim;
  }
  // A part is neither resized nor moved.
  const FoundCpus found = is_part                ? FoundCpus{container.mark.cpus, ""}
                          : container.by_runtime ? FoundCpus{*container.by_runtime, ""}
                          : was_shared           ? FoundCpus{RequestedCpus(node, container), ""}
                                                 : FindCpus(node, container);
  const CpuSet cpus = found.cpus & assignable;
  if (!found.doubt.empty() && container.runs) AddNote(container, found.doubt, adoption.unknown);
  if (cpus != found.cpus && container.runs) {
    AddNote(container,
            "CPUs " + (found.cpus - cpus).ToString() +
                " cannot be assigned to it any more: they are offline, absent or reserved",
            adoption.unknown);
  }
  const bool has_parts = std::ranges::any_of(container.mark.whole.cpu_parts, [&](const auto& part) {
    return part.second.Intersects(assignable);
  });
  if (is_part ? !has_parts : cpus.empty()) return claim;
  if (const CpuSet all = cpus | whole; all.Intersects(OfOtherPods(state, container.key.pod_uid))) {
    if (container.runs && !was_shared) {  // else the runtime has not heard of its last resize
      AddNote(container,
              "its mark says that it has CPUs " + all.ToString() + " exclusively, but " +
                  Holders(state, container.key.pod_uid, all) +
                  " in the state files; it runs in the shared pool",
              adoption.unknown);
    }
    return claim;
  }
  claim.cpus = cpus;
  claim.whole = whole;
  return claim;
}

// Names the containers of other pods that claim some of the CPUs, and marks both as contested.
std::string Rivals(Claim& claim, std::vector<Claim>& claims) {
  std::string rivals;
  for (Claim& other : claims) {
    if (other.container->key.pod_uid == claim.container->key.pod_uid) continue;
    if (!other.All().Intersects(claim.All())) continue;
    if (claim.container->runs && !other.container->runs) continue;  // that one yields
    claim.is_contested = true;
    rivals += (rivals.empty() ? "" : ", ") + NameOf(*other.container) + " (CPUs " +
              other.All().ToString() + ")";
  }
  return rivals;
}

// The parts of all containers, and which are their own. What the state has stays.
void AssignParts(const WholePodMark& mark, const CpuSet& whole, const std::string& pod_uid,
                 CpuState& state) {
  state.pods[pod_uid] = whole;
  for (const auto& [container, marked] : mark.cpu_parts) {
    const CpuSet part = marked & whole;  // the others are offline, absent or reserved
    if (!part.empty()) state.assignments[pod_uid].try_emplace(container, part);
  }
}

void AssignClaim(const Claim& claim, CpuState& state) {
  const ContainerKey& key = claim.container->key;
  state.default_set -= claim.All();
  state.offline_shared -= claim.All();
  if (!claim.whole.empty()) {
    return AssignParts(claim.container->mark.whole, claim.whole, key.pod_uid, state);
  }
  state.assignments[key.pod_uid][key.container] = claim.cpus;
}

// Where a container whose claim is contested may be, except the CPUs that are assigned: those are
// not free in any case.
CpuSet Withholdable(const Node& node, const Claim& claim, const CpuState& state) {
  const MarkedContainer& container = *claim.container;
  const CpuSet assignable = node.cpu->Managed(node.machine) - node.cpu->reserved;
  return ((claim.All() | container.record | container.cgroup) & assignable) -
         OfOtherPods(state, container.key.pod_uid) - state.HeldBy(container.key.pod_uid);
}

// In a pod with CPUs as a whole, each container with CPUs of its own has an entry. Not from a mark
// that says something else of the pod.
void AdoptOwnParts(const MarkedContainer& container, CpuState& state) {
  const std::string& uid = container.key.pod_uid;
  const WholePodMark& mark = container.mark.whole;
  const CpuSet& whole = state.pods.at(uid);
  if (!mark.cpus.Contains(whole)) return;
  for (const std::string& name : mark.own) {
    const CpuSet* const assigned = state.Find({uid, name});
    if (assigned == nullptr || *assigned != (mark.cpu_parts.at(name) & whole)) continue;
    state.originals[uid].try_emplace(name, *assigned);
  }
}

// A container that was resized keeps the CPUs with which it was created.
void AdoptOriginal(const MarkedContainer& container, CpuState& state) {
  if (state.pods.contains(container.key.pod_uid)) return AdoptOwnParts(container, state);
  const CpuSet* const assigned = state.Find(container.key);
  const CpuSet& original = container.mark.Original();
  if (assigned == nullptr || original.empty() || original == *assigned) return;
  if (!assigned->Contains(original)) return;
  const auto pod = state.originals.find(container.key.pod_uid);
  if (pod != state.originals.end() && pod->second.contains(container.key.container)) return;
  state.originals[container.key.pod_uid][container.key.container] = original;
}

}  // namespace

std::string NameOf(const MarkedContainer& container) {
  return "container " + container.key.container + " of pod " +
         (container.pod.empty() ? container.key.pod_uid : container.pod);
}

bool IsPartOfPod(const Node& node, const MarkedContainer& container) {
  return !container.mark.whole.cpus.empty() && PodLevelResourceManagersOn(node.config);
}

bool IsOnSharedCpus(const MarkedContainer& container) {
  return !container.record.empty() && container.record != container.mark.cpus &&
         container.millis % cpumanager::kMillisPerCpu != 0;
}

FoundCpus FindCpus(const Node& node, const MarkedContainer& container) {
  if (IsOnSharedCpus(container)) return {};
  if (CpuSet requested = RequestedCpus(node, container); !requested.empty()) {
    return {std::move(requested), ""};
  }
  const CpuSet& mark = container.mark.cpus;
  const CpuSet& record = container.record;
  const CpuSet& cgroup = container.cgroup;
  const auto differs = [&](const CpuSet& cpus) { return !cpus.empty() && cpus != mark; };
  if (!differs(record) && !differs(cgroup)) return {mark, ""};
  const auto says = [](const char* what, const CpuSet& cpus) {
    return std::string(what) + (cpus.empty() ? " no CPUs" : " CPUs " + cpus.ToString());
  };
  const std::string all = says("its mark says", mark) + ", " + says("the runtime", record) + ", " +
                          says("and its cgroup", cgroup);
  if (record == mark || cgroup == mark) {
    return {mark, all + ": it is assigned those of its mark"};
  }
  // The mark stays when alignd moves the container: to as many other CPUs.
  if (record == cgroup && record.Count() == mark.Count()) return {record, ""};
  const CpuSet& resized = record.empty() ? cgroup : record;
  if (!resized.Contains(container.mark.Original())) {
    return {mark, all +
                      "; a resize keeps the CPUs of the mark, so another program set the others: "
                      "it is assigned those of its mark"};
  }
  if (record.empty() || cgroup.empty() || record == cgroup) return {resized, ""};
  return {resized, all + ": it is assigned those of the runtime"};
}

std::vector<CpuSet> AdoptCpus(const Node& node, const std::vector<MarkedContainer>& containers,
                              Adoption& adoption) {
  std::vector<CpuSet> given(containers.size());
  if (!node.cpu) return given;
  std::vector<Claim> claims;
  for (const MarkedContainer& container : containers) {
    claims.push_back(ClaimOf(node, container, adoption));
  }
  for (Claim& claim : claims) {
    const std::string rivals = claim.All().empty() ? "" : Rivals(claim, claims);
    if (rivals.empty() || !claim.container->runs) continue;
    AddNote(
        *claim.container,
        "it has CPUs " + claim.All().ToString() + " by its mark, and so has " + rivals +
            ": it is not known whose they are, so that they are assigned to no container, and no "
            "other pod gets them",
        adoption.unknown);
  }
  CpuState& state = adoption.next.cpu;
  // Those that run first: marks of containers of one pod can contradict each other.
  for (const bool runs : {true, false}) {
    for (size_t i = 0; i < claims.size(); ++i) {
      const Claim& claim = claims[i];
      const MarkedContainer& container = *claim.container;
      if (claim.All().empty() || claim.is_contested || container.runs != runs) continue;
      std::string why = WhyNotInPod(state, container.key.pod_uid, claim.whole);
      if (!why.empty()) {
        if (runs) AddNote(container, std::move(why), adoption.unknown);
        continue;
      }
      AssignClaim(claim, state);
      given[i] = claim.cpus;
    }
  }
  for (const Claim& claim : claims) {
    if (!claim.is_contested || !claim.container->runs) continue;
    cpumanager::Withhold(claim.container->key, Withholdable(node, claim, state), state);
  }
  for (const MarkedContainer& container : containers) AdoptOriginal(container, state);
  return given;
}

}  // namespace alignd::admission
