// What an answer leaves out: where a node learns what a pod requests, and the pods that wait.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/admission/exclusive_needs.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/own_policy.h"
#include "alignd/admission/pod_level.h"
#include "alignd/placement/planned_node.h"
#include "core/admission/own_isolation.h"
#include "core/admission/own_numa.h"
#include "core/admission/own_sharing.h"
#include "core/admission/own_status.h"
#include "core/placement/annotation_conflict.h"
#include "core/placement/running_pod.h"

namespace alignd::placement {
namespace {

// Whether a node that knows a pod from CRI alone assigns something to its containers, which run in
// the shared pool because of its pod-level resources. Where a container has no sizes of its own, a
// kubelet shows those of the pod. Source: EstimateContainer.
bool IsTakenForOrdinary(const admission::Node& node, const admission::NodeState& state,
                        const Pod& pod) {
  if (!HasPodLevelResources(pod) || QosOf(pod) != QosClass::kGuaranteed) return false;
  Pod shown = pod;
  shown.stated_qos = QosClass::kGuaranteed;
  // Its node knows of no pod-level managers.
  shown.pod_level.reset();
  shown.pod_level_managers = PodLevelManagers::kOff;
  for (Container& container : shown.containers) {
    Resources& sizes = container.resources;
    sizes.limits.insert(pod.pod_level->limits.begin(), pod.pod_level->limits.end());
    sizes.requests.insert(sizes.limits.begin(), sizes.limits.end());
  }
  return std::ranges::any_of(shown.containers, [&](const Container& one) {
    return admission::RequestsAssignment(node, state, shown, one);
  });
}

// Whether the label asks for exclusive CPUs that a container does not get, and that is an objection
// to the container alone and not to the whole pod: it is an init container.
bool LacksCpusAlone(const admission::Node& node, const admission::NodeState& state,
                    const Pod& pod) {
  if (admission::ObjectionToLabel(node, state, pod)) return false;
  Pod alone = pod;
  alone.is_complete = false;
  return std::ranges::any_of(pod.containers, [&](const Container& one) {
    alone.containers = {one};
    alone.containers[0].kind = ContainerKind::kApp;  // CRI does not show it
    return admission::ObjectionToLabel(node, state, alone).has_value();
  });
}

// Whether a node that learns the containers of a pod one by one, when they are created, can decide
// otherwise than one that knows the whole pod.
bool DependsOnSource(const admission::Node& node, const admission::NodeState& state,
                     const Pod& pod) {
  const auto needs = [&](const Container& one) {
    return admission::RequestsAssignment(node, state, pod, one);
  };
  if (IsTakenForOrdinary(node, state, pod)) return true;
  if (std::ranges::none_of(pod.containers, needs)) return false;
  // Such a node treats it as without the feature gate.
  if (pod.pod_level_managers != PodLevelManagers::kOff) return true;
  // CRI does not show what a Burstable pod requests of memory: it is refused.
  if (pod.stays_with_memory && QosOf(pod) == QosClass::kBurstable) return true;
  if (admission::IsDecided(node, pod)) {
    // There is no objection to what a pod has already.
    admission::NodeState before = state;
    admission::ReleasePod(pod.uid, before);
    Pod incomplete = pod;
    incomplete.is_complete = false;
    if (admission::ObjectionToStatus(node, before, incomplete) &&
        !admission::ObjectionToStatus(node, before, pod)) {
      return true;
    }
  }
  if (LacksCpusAlone(node, state, pod)) return true;
  if (std::ranges::count_if(pod.containers, needs) < 2) return false;
  // What is wished for or chosen for the first container, a whole pod goes without if the others do
  // not fit then.
  if (admission::IsKeptApart(node, pod) || admission::AsksForIsolation(node, pod)) return true;
  if (node.cpu && node.config.numa_allocate_strategy != NumaAllocateStrategy::kNone) return true;
  const topologymanager::Policy& policy = admission::TopologyOf(node, pod);
  const bool is_whole =
      policy.kind() != TopologyManagerPolicy::kNone && policy.scope() == TopologyManagerScope::kPod;
  const bool has_init = std::ranges::any_of(pod.containers, [&](const Container& one) {
    return one.kind == ContainerKind::kInit && needs(one);
  });
  return is_whole || has_init || policy.kind() == TopologyManagerPolicy::kBestAttainable;
}

// Whether the pod gets a part of the free devices of a resource that are not all alike in their
// NUMA nodes, and which ones those are matters to later pods: it is the choice of the device
// plugin, if it has a preference.
bool MayBePreferred(const admission::Node& node, const admission::NodeState& state,
                    const Pod& pod) {
  const bool aligns = admission::TopologyOf(node, pod).kind() != TopologyManagerPolicy::kNone;
  const bool others_align =
      PodPoliciesAnywhere(node.config).contains(PodPolicy::kNumaTopologyPolicy);
  if (!aligns && !others_align) return false;
  ResourceList wanted;
  for (const Container& container : pod.containers) {
    for (const auto& [resource, amount] : container.resources.limits) wanted[resource] += amount;
  }
  return std::ranges::any_of(state.devices.resources, [&](const auto& one) {
    const Quantity* const amount = Find(wanted, one.first);
    if (amount == nullptr || amount->IsZero()) return false;
    std::map<int, int64_t> by_numa;  // those that are free
    std::set<std::vector<int64_t>> places;
    int64_t all = 0;
    bool has_single_nodes = true;
    const std::set<std::string> allocated = state.devices.AllocatedIds(one.first);
    for (const auto& [id, device] : one.second.devices) {
      if (!device.healthy || allocated.contains(id)) continue;
      ++all;
      places.insert(device.numa);
      has_single_nodes = has_single_nodes && device.numa.size() == 1;
      for (const int64_t numa : device.numa) ++by_numa[static_cast<int>(numa)];
    }
    if (places.size() < 2 || *amount >= Quantity(all)) return false;
    if (!aligns || !has_single_nodes) return true;
    const auto most =
        std::ranges::max_element(by_numa, {}, [](const auto& numa) { return numa.second; });
    return Quantity(most->second) < *amount;
  });
}

}  // namespace

bool IsDecidedInParts(const admission::Node& node, const admission::NodeState& state,
                      const PlannedPod& pod) {
  if (!pod.annotated || !pod.annotated->is_partial) return false;
  const std::optional<PlannedPod> by_annotation = ByAnnotation(pod);
  if (!by_annotation) return false;
  const Pod managed = admission::OnThisNode(node, PodOn(node.config, *by_annotation));
  const auto needing = std::ranges::count_if(managed.containers, [&](const Container& one) {
    return admission::RequestsAssignment(node, state, managed, one);
  });
  return needing > 1 || DependsOnSource(node, state, managed);
}

PlannedNode::Decided PlannedNode::DecidedByAnnotation(const PlannedPod& pod) const {
  return IsDecidedInParts(node(), state(), pod) ? Decided::kInParts : Decided::kWhole;
}

std::vector<std::string> PlannedNode::NotConsidered(const PlannedPod& pod) const {
  std::vector<std::string> fields = pod.not_considered;
  if (input_->object) {
    std::erase(fields, "spec.nodeSelector");
    std::erase(fields, "spec.nodeName");
  }
  if (input_->unusable.empty() && DependsOnSource(node(), state(), Managed(pod))) {
    fields.emplace_back("resources known from CRI alone");
  }
  if (input_->unusable.empty() && MayBePreferred(node(), state(), Managed(pod))) {
    fields.emplace_back("preferences of device plugins");
  }
  if (waiting_.empty()) return fields;
  for (const std::string& kind : admission::ExclusiveNeeds(node(), state(), Managed(pod))) {
    const auto first = waiting_.find(kind);
    if (first == waiting_.end() || first->second == NameOf(pod.pod)) continue;
    fields.push_back("pods that wait (" + first->second + ")");
    break;
  }
  return fields;
}

void PlannedNode::NoteWait(const PlannedPod& pod, const Verdict& answer) {
  const Pod managed = Managed(pod);
  const std::set<std::string> needs = admission::ExclusiveNeeds(node(), state(), managed);
  const auto is_waited_for = [this](const std::string& kind) { return waiting_.contains(kind); };
  if (std::ranges::all_of(needs, is_waited_for)) return;
  if (answer.outcome == Outcome::kFits) {
    // Behind one that waits, it waits too, for all that it needs.
    if (std::ranges::none_of(needs, is_waited_for)) return;
  } else {
    if (answer.outcome != Outcome::kRefused || !answer.admission) return;
    // It stays refused, whatever becomes free.
    if (answer.refusal->reason == admission::kPodPolicyError) return;
    // What also the empty node refuses does not wait. Of an object, it is not known which pods have
    // what is not free.
    if (!is_of_object() && !admission::FitsWithoutOthers(node(), state(), managed)) return;
  }
  for (const std::string& kind : needs) waiting_.try_emplace(kind, NameOf(pod.pod));
}

}  // namespace alignd::placement
