#include "alignd/admission/admission.h"

#include <algorithm>
#include <utility>

#include "alignd/cpumanager/static_policy.h"
#include "alignd/memorymanager/static_policy.h"
#include "alignd/topologymanager/policy.h"

namespace alignd::admission {
namespace {

using devicemanager::PreferredAllocationFn;
using topologymanager::HintsByResource;
using topologymanager::MergedHint;
using topologymanager::TopologyHint;

// The answers of all hint providers, in the kubelet's order: devices, CPUs, memory.
using Answers = std::vector<HintsByResource>;

// Decides about one pod on a working copy of the state. Used once.
class PodAdmission {
 public:
  PodAdmission(const Node& node, const NodeState& state, const Pod& pod,
               const PreferredAllocationFn& preferred)
      : node_(node), pod_(pod), preferred_(preferred), next_(state) {}

  Admission Run(const NodeState& before) {
    const std::optional<Refusal> refusal = Decide();
    Admission admission;
    admission.refusal = refusal;
    admission.decisions = std::move(decisions_);
    if (refusal) {
      admission.next = before;
      if (node_.memory) {
        admission.next.memory =
            memorymanager::AfterRefusal(pod_.uid, before.memory, std::move(next_.memory));
      }
      return admission;
    }
    for (const Container& container : pod_.containers) {
      admission.assignments[container.name] =
          AssignmentOf(node_, next_, {pod_.uid, container.name});
    }
    admission.next = std::move(next_);
    return admission;
  }

 private:
  std::optional<Refusal> Decide() {
    if (node_.topology.kind() == TopologyManagerPolicy::kNone) return DecideWithoutTopology();
    if (node_.topology.scope() == TopologyManagerScope::kPod) return DecidePodScope();
    return DecideContainerScope();
  }

  // Source: kubelet pkg/kubelet/cm/topologymanager/scope.go, admitPolicyNone.
  std::optional<Refusal> DecideWithoutTopology() {
    for (const Container& container : pod_.containers) {
      decisions_.push_back({container.name, {}, std::nullopt, true});
      if (auto refusal = Allocate(container, {std::nullopt, false})) return refusal;
    }
    return std::nullopt;
  }

  // Source: scope_container.go, Admit.
  std::optional<Refusal> DecideContainerScope() {
    for (const Container& container : pod_.containers) {
      const Answers answers = ContainerAnswers(container);
      const MergedHint merged = node_.topology.Merge(answers);
      Note(container, answers, merged.hint);
      if (!merged.admit) return topologymanager::TopologyAffinityError();
      if (auto refusal = AllocateAt(container, merged.hint)) return refusal;
    }
    return std::nullopt;
  }

  // Source: scope_pod.go, Admit.
  std::optional<Refusal> DecidePodScope() {
    const Answers answers = PodAnswers();
    const MergedHint merged = node_.topology.Merge(answers);
    for (const Container& container : pod_.containers) Note(container, answers, merged.hint);
    if (!merged.admit) return topologymanager::TopologyAffinityError();
    for (const Container& container : pod_.containers) {
      if (auto refusal = AllocateAt(container, merged.hint)) return refusal;
    }
    return std::nullopt;
  }

  Answers ContainerAnswers(const Container& container) const {
    Answers answers;
    answers.push_back(devicemanager::ContainerHints(node_.machine, next_.devices, pod_, container));
    answers.push_back(node_.cpu ? cpumanager::ContainerHints(node_.machine, *node_.cpu, next_.cpu,
                                                             pod_, container)
                                : HintsByResource{});
    answers.push_back(node_.memory ? memorymanager::ContainerHints(node_.machine, *node_.memory,
                                                                   next_.memory, pod_, container)
                                   : HintsByResource{});
    return answers;
  }

  Answers PodAnswers() const {
    Answers answers;
    answers.push_back(devicemanager::PodHints(node_.machine, next_.devices, pod_));
    answers.push_back(node_.cpu ? cpumanager::PodHints(node_.machine, *node_.cpu, next_.cpu, pod_)
                                : HintsByResource{});
    answers.push_back(
        node_.memory ? memorymanager::PodHints(node_.machine, *node_.memory, next_.memory, pod_)
                     : HintsByResource{});
    return answers;
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
      return refusal;
    }
    if (node_.cpu) {
      if (auto refusal = cpumanager::Allocate(node_.machine, *node_.cpu, pod_, container, affinity,
                                              next_.cpu)) {
        return refusal;
      }
    }
    if (!node_.memory) return std::nullopt;
    memorymanager::Placement memory = memorymanager::Allocate(node_.machine, *node_.memory, pod_,
                                                              container, affinity, next_.memory);
    std::ranges::find(decisions_, container.name, &ContainerDecision::container)->memory_exact =
        memory.exact;
    return std::move(memory.refusal);
  }

  const Node& node_;
  const Pod& pod_;
  const PreferredAllocationFn& preferred_;
  NodeState next_;
  std::vector<ContainerDecision> decisions_;
};

}  // namespace

Admission Admit(const Node& node, const NodeState& state, const Pod& pod,
                const PreferredAllocationFn& preferred) {
  return PodAdmission(node, state, pod, preferred).Run(state);
}

void StartPod(const Node& node, const Pod& pod, NodeState& state) {
  if (!node.memory) return;
  for (const Container& container : pod.containers) {
    memorymanager::ContainerStarts(pod, container.name, state.memory);
  }
}

}  // namespace alignd::admission
