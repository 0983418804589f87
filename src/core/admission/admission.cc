#include "alignd/admission/admission.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/own_policy.h"
#include "alignd/admission/pod_level.h"
#include "alignd/cpumanager/node_shares.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/memorymanager/static_policy.h"
#include "alignd/topologymanager/policy.h"
#include "core/admission/own_cpus.h"
#include "core/admission/own_defaults.h"
#include "core/admission/own_placement.h"
#include "core/admission/own_status.h"
#include "core/admission/pod_answers.h"
#include "core/admission/remedy.h"
#include "core/admission/shared_node.h"
#include "core/admission/whole_pod.h"

namespace alignd::admission {
namespace {

using devicemanager::PreferredAllocationFn;
using topologymanager::HintsByResource;
using topologymanager::MergedHint;
using topologymanager::TopologyHint;

// Whether the topology policy may refuse, or takes every merged hint, as best-effort does.
enum class Alignment { kByPolicy, kBestEffort };

// The CPU manager's policy for a pod that asks for more than the number of its CPUs.
struct OwnNeeds {
  const cpumanager::StaticPolicy& cpu;
  // The same and the pod, without what it stays away from and what a scheduler has decided. What
  // the empty node offers is compared with these: otherwise a pod could weaken best-attainable.
  const cpumanager::StaticPolicy& free_cpu;
  const Pod& free_pod;
};

// Decides about one pod on a working copy of the state. Used once.
class PodAdmission {
 public:
  // `own`: nullopt for a pod that the node's policy alone decides.
  PodAdmission(const Node& node, const NodeState& state, const Pod& pod,
               const PreferredAllocationFn& preferred, std::optional<OwnNeeds> own = {},
               Alignment alignment = Alignment::kByPolicy)
      : node_(node),
        topology_(TopologyOf(node, pod)),
        cpu_(own ? &own->cpu : (node.cpu ? &*node.cpu : nullptr)),
        free_cpu_(own ? &own->free_cpu : cpu_),
        pod_(pod),
        free_pod_(own ? own->free_pod : pod),
        preferred_(preferred),
        alignment_(alignment),
        next_(state) {
    // Exclusive CPUs come in place of what a container has shared of a NUMA node until now.
    for (const Container& container : pod.containers) {
      if (RequestsCpus(node, pod, container)) next_.cpu.shares.erase({pod.uid, container.name});
    }
  }

  Admission Run(const NodeState& before) {
    const std::optional<Refusal> refusal = Decide();
    Admission admission;
    admission.refusal = refusal;
    admission.refused_at = std::move(refused_at_);
    admission.decisions = std::move(decisions_);
    if (refusal) {
      admission.next = AfterRefusal(before);
      return admission;
    }
    for (const Container& container : pod_.containers) {
      admission.assignments[container.name] =
          AssignmentOf(node_, next_, {pod_.uid, container.name});
    }
    admission.next = std::move(next_);
    PodPolicies chosen = PoliciesAfter(node_, before, admission.next, pod_);
    if (!AreEmpty(chosen)) {
      admission.next.chosen_policies[pod_.uid] = std::move(chosen);
    } else {
      admission.next.chosen_policies.erase(pod_.uid);
    }
    return admission;
  }

 private:
  NodeState AfterRefusal(const NodeState& before) {
    NodeState after = before;
    if (pod_.pod_level_managers == PodLevelManagers::kPod) {
      // The kubelet releases also what the pod had before.
      ReleasePod(pod_.uid, after);
      memorymanager::ReleasePod(pod_.uid, next_.memory);
      after.memory = std::move(next_.memory);
      return after;
    }
    if (!node_.memory) return after;
    after.memory = memorymanager::AfterRefusal(pod_.uid, before.memory, std::move(next_.memory));
    return after;
  }

  std::optional<Refusal> Decide() {
    const bool is_whole = pod_.pod_level_managers == PodLevelManagers::kPod;
    if (is_whole && !pod_.containers.empty()) return DecideWholePod();
    if (topology_.kind() == TopologyManagerPolicy::kNone) return DecideWithoutTopology();
    if (topology_.scope() == TopologyManagerScope::kPod) return DecidePodScope();
    return DecideContainerScope();
  }

  // Source: kubelet pkg/kubelet/cm/topologymanager/scope.go, admitPolicyNone.
  std::optional<Refusal> DecideWithoutTopology() {
    for (const Container& container : pod_.containers) {
      decisions_.push_back({container.name, {}, std::nullopt, true});
      if (auto refusal = Allocate(container, {DecidedNodes(node_, pod_), false})) return refusal;
    }
    return std::nullopt;
  }

  // Source: scope_container.go, Admit.
  std::optional<Refusal> DecideContainerScope() {
    for (const Container& container : pod_.containers) {
      const Answers answers = ContainerAnswers(node_, CpuFor(container), next_, pod_, container);
      const MergedHint merged = topology_.Merge(answers);
      Note(container, answers, merged.hint);
      if (!IsAligned(merged, decisions_.size() - 1)) {
        refused_at_ = {container.name, RefusedBy::kTopology};
        return AffinityRefusal(pod_);
      }
      if (auto refusal = AllocateAt(container, merged.hint)) return refusal;
    }
    return std::nullopt;
  }

  // Source: scope_pod.go, Admit.
  std::optional<Refusal> DecidePodScope() {
    const MergedHint merged = MergeForPod(PodAnswers(node_, Cpu(), next_, pod_));
    if (refused_at_) return AffinityRefusal(pod_);
    for (const Container& container : pod_.containers) {
      if (auto refusal = AllocateAt(container, merged.hint)) return refusal;
    }
    return std::nullopt;
  }

  // Source: scope_pod.go, admitUsingPodResources.
  std::optional<Refusal> DecideWholePod() {
    const MergedHint merged = MergeForPod(AnswersForWholePod(node_, Cpu(), next_, pod_));
    if (refused_at_) return AffinityRefusal(pod_);
    for (const Container& container : pod_.containers) {
      next_.affinities[{pod_.uid, container.name}] = merged.hint;
    }
    WholePodPlacement placement = AllocateWholePod(node_, Cpu(), pod_, merged.hint,
                                                   MemoryAffinity(merged.hint), preferred_, next_);
    for (ContainerDecision& decision : decisions_) decision.memory_exact = placement.memory_exact;
    if (placement.refusal) refused_at_ = {placement.container, placement.by};
    return std::move(placement.refusal);
  }

  // Whether the policy admits the container at this position of the pod with the merged hint.
  bool IsAligned(const MergedHint& merged, size_t position) {
    if (merged.admit || alignment_ == Alignment::kBestEffort) return true;
    if (topology_.kind() != TopologyManagerPolicy::kBestAttainable) return false;
    const std::vector<ContainerDecision>& attainable = AttainableDecisions();
    // If the empty node has too little for the containers before, a manager refuses the pod.
    if (position >= attainable.size()) return true;
    return !topologymanager::AlignsBetter(*attainable[position].affinity, merged.hint);
  }

  // What the empty node would offer to each container: the pod is placed there as best-effort would
  // do it, since of several containers each one has only what those before it leave. Unhealthy
  // devices stay unhealthy: no pod that ends brings them back.
  const std::vector<ContainerDecision>& AttainableDecisions() {
    if (!attainable_) {
      const PreferredAllocationFn any = [](const devicemanager::PreferenceQuery&) {
        return std::nullopt;
      };
      const NodeState empty = EmptyState(node_, next_);
      std::optional<OwnNeeds> own;
      if (free_cpu_ != nullptr) own.emplace(OwnNeeds{*free_cpu_, *free_cpu_, free_pod_});
      attainable_ = PodAdmission(node_, empty, free_pod_, any, own, Alignment::kBestEffort)
                        .Run(empty)
                        .decisions;
    }
    return *attainable_;
  }

  // One hint for all containers. Sets `refused_at_` if the policy does not admit it.
  MergedHint MergeForPod(const Answers& answers) {
    const MergedHint merged = topology_.Merge(answers);
    for (const Container& container : pod_.containers) Note(container, answers, merged.hint);
    if (!IsAligned(merged, 0)) {
      refused_at_ = {pod_.containers.empty() ? std::string() : pod_.containers.front().name,
                     RefusedBy::kTopology};
    }
    return merged;
  }

  // The policy without CPUs that containers of the shared pool need where they are. Until the next
  // call, and for the present state.
  const cpumanager::StaticPolicy* Cpu() {
    if (cpu_ == nullptr || next_.cpu.shares.empty()) return cpu_;
    with_held_back_ = cpumanager::WithHeldBack(node_.machine, *cpu_, next_.cpu);
    return &*with_held_back_;
  }

  // The same for one container. Until the next call.
  const cpumanager::StaticPolicy* CpuFor(const Container& container) {
    const cpumanager::StaticPolicy* const cpu = Cpu();
    if (cpu == nullptr || cpu->avoided_by.empty()) return cpu;
    for_container_ = cpu->For(container.name);
    return &*for_container_;
  }

  void Note(const Container& container, const Answers& answers, const TopologyHint& merged) {
    ContainerDecision& decision = decisions_.emplace_back();
    decision.container = container.name;
    for (const HintsByResource& answer : answers) {
      decision.hints.insert(answer.begin(), answer.end());
    }
    decision.affinity = merged;
  }

  std::optional<Refusal> AllocateAt(const Container& container, const TopologyHint& affinity) {
    next_.affinities[{pod_.uid, container.name}] = affinity;
    return Allocate(container, affinity);
  }

  std::optional<Refusal> Allocate(const Container& container, const TopologyHint& affinity) {
    if (auto refusal = devicemanager::Allocate(node_.machine, pod_, container, affinity, preferred_,
                                               next_.devices)) {
      refused_at_ = {container.name, RefusedBy::kDevices};
      return refusal;
    }
    if (const cpumanager::StaticPolicy* const cpu = CpuFor(container)) {
      auto refusal =
          cpumanager::Allocate(node_.machine, *cpu, pod_, container, affinity, next_.cpu);
      if (!refusal) {
        refusal = AllocateSharedNode(node_, pod_, container, affinity, MustAlign(), next_);
      }
      if (refusal) {
        refused_at_ = {container.name, RefusedBy::kCpus};
        return refusal;
      }
    }
    if (!node_.memory) return std::nullopt;
    const std::optional<TopologyHint> own = SharedNodeOf(node_, next_, pod_, container);
    const bool had_memory = next_.memory.Find({pod_.uid, container.name}) != nullptr;
    memorymanager::Placement memory =
        memorymanager::Allocate(node_.machine, *node_.memory, pod_, container,
                                own ? *own : MemoryAffinity(affinity), next_.memory);
    std::ranges::find(decisions_, container.name, &ContainerDecision::container)->memory_exact =
        memory.exact;
    // What it had before stays where it is: AllocateSharedNode has chosen its NUMA node by that.
    if (own && !had_memory && !memory.refusal) {
      memory.refusal = RefuseMemoryElsewhere(node_, next_, pod_, container, *own);
    }
    if (memory.refusal) refused_at_ = {container.name, RefusedBy::kMemory};
    return std::move(memory.refusal);
  }

  // Whether a share of another NUMA node than those of the affinity would be against the policy.
  bool MustAlign() const {
    return alignment_ == Alignment::kByPolicy &&
           (topology_.kind() == TopologyManagerPolicy::kRestricted ||
            topology_.kind() == TopologyManagerPolicy::kSingleNumaNode);
  }

  // A scheduler can decide on CPUs and memory of different NUMA nodes. Only best-effort, and no
  // topology policy, admit that.
  TopologyHint MemoryAffinity(const TopologyHint& affinity) const {
    const std::optional<NumaMask> decided = DecidedMemoryNodes(node_, pod_);
    if (!decided) return affinity;
    const NumaMask common = affinity.affinity ? *decided & *affinity.affinity : NumaMask();
    return {common.empty() ? *decided : common, affinity.preferred};
  }

  const Node& node_;
  const topologymanager::Policy& topology_;  // that applies to the pod
  const cpumanager::StaticPolicy* cpu_;      // as well; null: no CPUs are assigned
  const cpumanager::StaticPolicy* free_cpu_;
  std::optional<cpumanager::StaticPolicy> with_held_back_;  // Cpu()
  std::optional<cpumanager::StaticPolicy> for_container_;   // CpuFor()
  const Pod& pod_;
  const Pod& free_pod_;
  const PreferredAllocationFn& preferred_;
  const Alignment alignment_;
  NodeState next_;
  std::optional<std::vector<ContainerDecision>> attainable_;  // once asked for
  std::vector<ContainerDecision> decisions_;
  std::optional<RefusalPoint> refused_at_;
};

// A pod that asks for more of its CPUs than their number.
Admission AdmitWithOwnCpus(const Node& node, const NodeState& state, const Pod& asking,
                           const PreferredAllocationFn& preferred) {
  const Pod free_pod = WithoutDecision(asking);
  const Pod pod = WithOpenDecision(node, state, asking);
  const cpumanager::StaticPolicy free_cpu = CpuPolicyWith(node, ChosenPolicies(node, pod));
  cpumanager::StaticPolicy policy = free_cpu;
  RestrictToDecided(node, state, pod, policy);
  return PlaceByPolicies(node, state, pod, policy, [&](const cpumanager::StaticPolicy& cpu) {
    return PodAdmission(node, state, pod, preferred, OwnNeeds{cpu, free_cpu, free_pod}).Run(state);
  });
}

// `pod` as from OnThisNode.
Admission AdmitHere(const Node& node, const NodeState& state, const Pod& pod,
                    const PreferredAllocationFn& preferred) {
  if (auto refusal = RefuseOwnPolicy(node, state, pod)) {
    return {std::move(refusal), std::nullopt, {}, state, {}};
  }
  // What the pod has, it keeps: here, a decision can only have come later.
  if (!node.cpu) return PodAdmission(node, state, WithoutDecision(pod), preferred).Run(state);
  const bool has_policies = !AreEmpty(pod.policies) || DefaultsOf(node, pod) != PlacementPolicies();
  if (!has_policies && node.config.numa_allocate_strategy == NumaAllocateStrategy::kNone) {
    return PodAdmission(node, state, pod, preferred).Run(state);
  }
  return AdmitWithOwnCpus(node, state, pod, preferred);
}

}  // namespace

Admission Admit(const Node& node, const NodeState& state, const Pod& pod,
                const PreferredAllocationFn& preferred) {
  if (pod.policies.sharing != CpuSharing() || DefaultsOf(node, pod).prefers_shared_cpus) {
    return AdmitHere(node, state, OnThisNode(node, KeepingItsCpus(node, state, pod)), preferred);
  }
  if (StaysWithMemory(node, pod) != pod.stays_with_memory) {
    return AdmitHere(node, state, OnThisNode(node, pod), preferred);
  }
  if (PodLevelManagersOf(node, pod) != pod.pod_level_managers) {
    return AdmitHere(node, state, OnThisNode(node, pod), preferred);
  }
  return AdmitHere(node, state, pod, preferred);
}

StartedPod StartPod(const Node& node, const Pod& pod, const PreferredAllocationFn& preferred,
                    NodeState& state) {
  StartedPod started;
  const bool needs_devices = PodLevelManagersOf(node, pod) == PodLevelManagers::kPod;
  for (const Container& container : pod.containers) {
    if (node.memory) memorymanager::ContainerStarts(pod, container.name, state.memory);
    const ContainerKey key{pod.uid, container.name};
    if (!needs_devices || state.devices.allocations.contains(key)) continue;
    const auto stored = state.affinities.find(key);
    const TopologyHint affinity =
        stored == state.affinities.end() ? TopologyHint{std::nullopt, false} : stored->second;
    NodeState with_devices = state;
    if (auto refusal = devicemanager::Allocate(node.machine, pod, container, affinity, preferred,
                                               with_devices.devices)) {
      started.waits = {container.name, *std::move(refusal)};
      return started;
    }
    state = std::move(with_devices);
    if (const auto devices = state.devices.allocations.find(key);
        devices != state.devices.allocations.end()) {
      started.devices[container.name] = devices->second;
    }
  }
  return started;
}

}  // namespace alignd::admission
