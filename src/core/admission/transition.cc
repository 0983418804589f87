#include "alignd/admission/transition.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "alignd/admission/admission.h"
#include "alignd/admission/cpu_moves.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/own_policy.h"
#include "alignd/admission/pod_level.h"
#include "alignd/admission/shared_pool.h"
#include "alignd/cpumanager/resize.h"
#include "alignd/memorymanager/fit_to_machine.h"
#include "core/admission/fixed_settings.h"
#include "core/admission/held_resources.h"
#include "core/admission/moved_unit.h"
#include "core/admission/own_cpus.h"
#include "core/admission/shared_node.h"

namespace alignd::admission {
namespace {

// No device is allocated: containers keep theirs.
std::optional<std::vector<std::string>> NoPreference(
    const devicemanager::PreferenceQuery& /*query*/) {
  return std::nullopt;
}

CpuSet ExclusiveCpusIn(const cpumanager::CpuState& state) {
  CpuSet cpus;
  for (const auto& [uid, containers] : state.assignments) cpus |= state.HeldBy(uid);
  return cpus;
}

std::vector<std::string> NotesOn(const Node& before, const Node& after) {
  std::vector<std::string> notes;
  if (!before.cpu && after.cpu) {
    notes.push_back(
        "cpuManagerPolicy static: containers that run now stay in the shared pool; those that are "
        "entitled to exclusive CPUs are assigned them when they are created again");
  }
  if (before.cpu && !after.cpu) {
    notes.push_back(
        "cpuManagerPolicy none: containers that run now keep the CPUs of the shared pool until "
        "they are created again");
  }
  if (!before.memory && after.memory) {
    notes.push_back(
        "memoryManagerPolicy Static: the memory of containers that run now counts as free; it is "
        "assigned when they are created again");
  }
  return notes;
}

// The change of one node. Used once.
class Plan {
 public:
  Plan(const Node& before, const Node& after, const NodeState& state, MayMove may_move)
      : before_(before), after_(after), given_(state), may_move_(may_move), next_(state) {}

  Transition Run() {
    transition_.faults = FaultsOfFixedSettings(before_, after_, given_);
    transition_.notes = NotesOn(before_, after_);
    for (const ContainerKey& key : HoldersIn(given_)) {
      ContainerTransition& container = containers_[key];
      container.key = key;
      container.before = AssignmentOf(before_, given_, key);
    }
    if (transition_.faults.empty()) {
      RequireManagers();
      RebuildMemory();
      RebuildCpus();
      PlaceAll();
      Check();
    }
    return Finish();
  }

 private:
  void Refuse(const ContainerKey& key, std::string why) {
    ContainerTransition& container = containers_[key];
    if (container.fate == Fate::kRefused) return;  // the first reason
    container.fate = Fate::kRefused;
    container.why = std::move(why);
  }

  // Without a manager, what its containers are assigned would not be kept for them.
  void RequireManagers() {
    for (auto& [key, container] : containers_) {
      if (!after_.cpu && !OwnCpus(key).empty()) {
        Refuse(key, "it has exclusive CPUs, and cpuManagerPolicy none has none");
      } else if (!after_.memory && given_.memory.Find(key) != nullptr) {
        Refuse(key, "it is assigned memory, and memoryManagerPolicy None assigns none");
      }
    }
  }

  // The blocks stay; the nodes get the reservations of the new configuration.
  void RebuildMemory() {
    if (!after_.memory) {
      next_.memory = {};
      return;
    }
    if (!before_.memory) next_.memory = {};
    std::map<ContainerKey, std::string> refused;
    next_.memory = memorymanager::Rebooked(after_.machine, *after_.memory, next_.memory, refused);
    for (auto& [key, why] : refused) Refuse(key, why);
  }

  bool ChangesTopology() const {
    const KubeletConfig& now = before_.config;
    const KubeletConfig& then = after_.config;
    return now.topology_manager_policy != then.topology_manager_policy ||
           now.topology_manager_scope != then.topology_manager_scope ||
           now.topology_manager_policy_options != then.topology_manager_policy_options;
  }

  void RebuildCpus() {
    if (!after_.cpu || !before_.cpu) next_.cpu = {};
    next_.cpu.reusable.clear();
    EndSharesWithPolicy(after_, next_, transition_.notes);
    if (ChangesTopology()) next_.affinities.clear();
    SetDefault({});
  }

  // All managed CPUs but the exclusive ones, the withheld ones and `kept_free` are the shared pool.
  void SetDefault(const CpuSet& kept_free) {
    if (!after_.cpu) return;
    next_.cpu.default_set = next_.cpu.offline_shared = {};
    next_.cpu.AddToDefaultSet(after_.cpu->Managed(after_.machine) - ExclusiveCpusIn(next_.cpu) -
                              next_.cpu.Withheld() - kept_free);
  }

  // Containers that are decided about together.
  std::vector<HoldingUnit> Units() const {
    std::map<std::string, HoldingUnit> pods;
    std::vector<HoldingUnit> units;
    for (const auto& [key, container] : containers_) {
      const topologymanager::Policy& topology =
          TopologyOf(after_, OwnPolicy(after_, given_, key.pod_uid));
      if (topology.kind() != TopologyManagerPolicy::kNone &&
          topology.scope() == TopologyManagerScope::kPod) {
        pods[key.pod_uid].pod_uid = key.pod_uid;
        pods[key.pod_uid].containers.push_back(key.container);
      } else {
        units.push_back({key.pod_uid, {key.container}});
      }
    }
    for (auto& [uid, unit] : pods) units.push_back(std::move(unit));
    return units;
  }

  // The exclusive CPUs of the container, also those that are offline.
  CpuSet OwnCpus(const ContainerKey& key) const {
    const CpuSet* const assigned = given_.cpu.Find(key);
    const bool is_own = IsolationOf(given_, key) == Isolation::kContainer;
    return assigned != nullptr && is_own ? *assigned : CpuSet();
  }

  CpuSet CpusOf(const HoldingUnit& unit) const {
    CpuSet cpus;
    for (const std::string& name : unit.containers) cpus |= OwnCpus({unit.pod_uid, name});
    return cpus;
  }

  std::string PlaceOf(const HoldingUnit& unit) const {
    return DescribePlace(after_.machine, given_, unit);
  }

  // Why the new configuration does not admit the containers where they are; empty: it does, and
  // their affinity is stored.
  std::string WhyNotHere(const HoldingUnit& unit) {
    if (after_.cpu) {
      const CpuSet taken = CpusOf(unit) & after_.cpu->reserved;
      if (!taken.empty()) return "CPUs " + taken.ToString() + " become reserved";
    }
    if (!ChangesTopology()) return "";
    const Pod pod = HoldingPod(after_, next_, unit);
    Admission admission = Admit(after_, next_, pod, NoPreference);
    if (!admission.admitted()) {
      return "topologyManagerPolicy " + std::string(ToString(TopologyOf(after_, pod).kind())) +
             " does not admit " + PlaceOf(unit);
    }
    if (!HaveSameAssignments(admission.next, next_)) {
      return "the new configuration would assign something else than " + PlaceOf(unit);
    }
    next_.affinities = std::move(admission.next.affinities);
    return "";
  }

  bool IsRefused(const HoldingUnit& unit) const {
    return std::ranges::any_of(unit.containers, [&](const std::string& name) {
      return containers_.at({unit.pod_uid, name}).fate == Fate::kRefused;
    });
  }

  void RefuseUnit(const HoldingUnit& unit, const std::string& why) {
    for (const std::string& name : unit.containers) Refuse({unit.pod_uid, name}, why);
  }

  void PlaceAll() {
    std::vector<std::pair<HoldingUnit, std::string>> movers;
    for (const HoldingUnit& unit : Units()) {
      if (IsRefused(unit)) continue;
      std::string why = WhyNotHere(unit);
      if (!why.empty()) movers.emplace_back(unit, std::move(why));
    }
    std::ranges::stable_sort(movers, [this](const auto& a, const auto& b) {
      return CpusOf(a.first).Count() > CpusOf(b.first).Count();
    });
    for (const auto& [unit, why] : movers) Place(unit, why);
    SetDefault({});
  }

  // CPUs that moved containers leave go to no other one, as none can wait for another one to leave.
  // Nor do CPUs that are still reserved: until the configuration changes, they cannot be assigned.
  void Place(const HoldingUnit& unit, const std::string& why) {
    const std::string obstacle = Immovable(unit);
    if (!obstacle.empty()) return RefuseUnit(unit, why + "; " + obstacle);
    const CpuSet own = CpusOf(unit);
    const NodeState before = next_;
    for (const std::string& name : unit.containers) {
      cpumanager::ReleaseContainer({unit.pod_uid, name}, next_.cpu);
    }
    next_.cpu.shares = before.cpu.shares;  // they stay
    SetDefault(before_.cpu ? left_ | before_.cpu->reserved : left_);
    const Pod pod = HoldingPod(after_, before, unit);
    const Node node = HoldingBackBeside(after_, next_, own);
    Admission admission = Admit(node, next_, pod, NoPreference);
    if (!admission.admitted()) {
      const Refusal refusal = Explain(node, next_, pod, *admission.refusal);
      next_ = before;
      return RefuseUnit(unit, why + "; it fits nowhere else: " + refusal.message);
    }
    next_ = std::move(admission.next);
    next_.chosen_policies = before.chosen_policies;  // the pod still asks for the same
    next_.cpu.reusable.clear();
    if (const std::string wrong = MakeMovable(after_, given_, unit, next_); !wrong.empty()) {
      next_ = before;
      return RefuseUnit(unit, why + "; " + wrong);
    }
    KeepOriginalCounts(unit, before);
    left_ |= own - next_.cpu.HeldBy(unit.pod_uid);
    for (const std::string& name : unit.containers) {
      ContainerTransition& container = containers_[{unit.pod_uid, name}];
      const CpuSet* const now = next_.cpu.Find(container.key);
      if ((now == nullptr ? CpuSet() : *now) == OwnCpus(container.key)) continue;
      container.fate = Fate::kMoves;
      container.why = why;
    }
  }

  // Why the containers cannot move; empty: they can.
  std::string Immovable(const HoldingUnit& unit) const {
    if (CpusOf(unit).empty()) return "it has no exclusive CPUs, and memory and devices do not move";
    if (may_move_ == MayMove::kNever) {
      return "running containers do not move: delete or resize its pod, then repeat the change";
    }
    if (HasSharedCpus(given_.cpu, unit.pod_uid)) {
      return "containers of its pod have CPUs together (one is an ended init container)";
    }
    return "";
  }

  // A container that was resized can be resized to as few CPUs as before.
  void KeepOriginalCounts(const HoldingUnit& unit, const NodeState& before) {
    const auto originals = before.cpu.originals.find(unit.pod_uid);
    if (originals == before.cpu.originals.end()) return;
    for (const std::string& name : unit.containers) {
      const auto original = originals->second.find(name);
      const CpuSet* const now = next_.cpu.Find({unit.pod_uid, name});
      if (original == originals->second.end() || now == nullptr) continue;
      Result<CpuSet> kept = cpumanager::ChooseForResize(
          after_.machine, CpuPolicyOf(after_, before, unit.pod_uid).options,
          {.kept = {}, .offered = *now, .count = original->second.Count()});
      next_.cpu.originals[unit.pod_uid][name] = kept.ok() ? *std::move(kept) : *now;
    }
  }

  void Check() {
    const bool refused = std::ranges::any_of(
        containers_, [](const auto& entry) { return entry.second.fate == Fate::kRefused; });
    if (refused) return;
    transition_.faults = next_.BrokenInvariants(after_);
    AddFaultsOfShares(before_, given_, after_, next_, transition_.faults);
  }

  Transition Finish() {
    transition_.shared_before = SharedCpus(before_, given_);
    for (auto& [key, container] : containers_) transition_.containers.push_back(container);
    const bool is_admitted = transition_.IsAdmitted();
    transition_.next = is_admitted ? std::move(next_) : given_;
    const Node& node = is_admitted ? after_ : before_;
    transition_.shared_after = SharedCpus(node, transition_.next);
    for (ContainerTransition& container : transition_.containers) {
      container.after = AssignmentOf(node, transition_.next, container.key);
    }
    return std::move(transition_);
  }

  const Node& before_;
  const Node& after_;
  const NodeState& given_;
  const MayMove may_move_;
  NodeState next_;
  CpuSet left_;  // by containers that move
  std::map<ContainerKey, ContainerTransition> containers_;
  Transition transition_;
};

// The moves are made before the change. Then the configuration must admit the containers where they
// are, as `moved` says, which is the plan after the moves; otherwise the plan is refused.
void RequireAdmittedAfterMoves(const Node& before, const NodeState& state, const Transition& moved,
                               Transition& plan) {
  if (moved.IsAdmitted()) return;
  plan.faults = moved.faults;
  plan.next = state;
  plan.shared_after = SharedCpus(before, state);
  for (size_t i = 0; i < plan.containers.size(); ++i) {
    ContainerTransition& container = plan.containers[i];
    const ContainerTransition& then = moved.containers[i];
    if (then.fate == Fate::kRefused) {
      container.why += (container.why.empty() ? "" : "; ") +
                       ("on CPUs " + container.after.exclusive.ToString() + ": " + then.why);
      container.fate = Fate::kRefused;
    }
    container.after = container.before;
  }
}

}  // namespace

bool Transition::IsAdmitted() const {
  return faults.empty() && std::ranges::none_of(containers, [](const auto& container) {
           return container.fate == Fate::kRefused;
         });
}

bool Transition::HasMoves() const {
  return std::ranges::any_of(containers,
                             [](const auto& container) { return container.fate == Fate::kMoves; });
}

Transition PlanTransition(const Node& before, const Node& after, const NodeState& state,
                          MayMove may_move) {
  Transition plan = Plan(before, after, state, may_move).Run();
  if (!plan.IsAdmitted() || !plan.HasMoves()) return plan;
  const std::vector<CpuMove> moves = MovesIn(plan);
  const Result<NodeState> reserved = AfterStep(MoveStep::kReserve, before, state, moves);
  if (!reserved.ok()) {
    Transition refused = Plan(before, after, state, MayMove::kNever).Run();
    refused.faults.push_back(reserved.error().Text());
    return refused;
  }
  const NodeState moved = *AfterStep(MoveStep::kEnd, before, *reserved, moves);
  RequireAdmittedAfterMoves(before, state, Plan(before, after, moved, MayMove::kNever).Run(), plan);
  return plan;
}

}  // namespace alignd::admission
