#include "alignd/placement/object_view.h"

#include <algorithm>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/own_policy.h"
#include "alignd/cpumanager/node_shares.h"
#include "core/admission/own_isolation.h"
#include "core/admission/own_numa.h"
#include "core/placement/cpu_numbers.h"
#include "core/placement/ended_inits.h"
#include "core/pod/exclusive_cpu_count.h"

namespace alignd::placement {
namespace {

using admission::AsksForOneNode;
using admission::AssignsMemory;
using admission::Node;
using admission::NodeState;
using admission::TopologyOf;

constexpr char kCpu[] = "cpu";
constexpr char kMemory[] = "memory";
constexpr char kAskAgain[] =
    "; ask again when a newer object shows it, or give the output of alignctl topology -o json, "
    "made on that node, with its state files";

// The resources of a container that are on NUMA nodes, and of which the object has no ids. Also
// devices of which it requests 0: it is aligned with those that it could reuse of an init
// container. Source: kubelet pkg/kubelet/cm/devicemanager/topology_hints.go,
// generateDeviceTopologyHints.
std::set<std::string> PlacedResources(const Node& node, const NodeState& state, const Pod& pod,
                                      const Container& container) {
  std::set<std::string> resources;
  if (node.cpu && ExclusiveCpuCount(pod, container) > 0) resources.insert(kCpu);
  for (const auto& [name, amount] : container.resources.limits) {
    const auto known = state.devices.resources.find(name);
    if (known == state.devices.resources.end() || amount.Sign() < 0) continue;
    const auto& devices = known->second.devices;
    if (std::ranges::any_of(devices, [](const auto& one) { return !one.second.numa.empty(); })) {
      resources.insert(name);
    }
  }
  return resources;
}

// Whether each device is on one NUMA node: then the NUMA node says which of them are alike.
bool IsOnSingleNodes(const NodeState& state, const std::string& resource) {
  const auto& devices = state.devices.resources.find(resource)->second.devices;
  return std::ranges::all_of(devices, [](const auto& one) { return one.second.numa.size() == 1; });
}

std::string ManyNodes(const std::string& resource, const Pod& pod) {
  return resource + ": how much of it pod " + pod.name_space + "/" + pod.name +
         " has on each of several NUMA nodes is the node's choice" + kAskAgain;
}

// Whether numaAllocateStrategy chooses between NUMA nodes with as many free CPUs by what their
// sockets have free, and this chooses for the pod. Of two NUMA nodes, these have as many, too.
bool IsPlacedBySockets(const Node& node, const NodeState& state, const Pod& pod) {
  if (!node.cpu || node.config.numa_allocate_strategy == NumaAllocateStrategy::kNone ||
      node.machine.numa_count() <= 2) {
    return false;
  }
  const bool has_cpus = std::ranges::any_of(
      pod.containers, [&](const Container& one) { return ExclusiveCpuCount(pod, one) > 0; });
  if (!has_cpus) return false;
  const CpuSet free = state.cpu.default_set - node.cpu->reserved -
                      cpumanager::HeldBack(node.machine, *node.cpu, state.cpu);
  std::set<int> numbers;
  for (const CpuGroup& numa : node.machine.numa_groups()) {
    const int count = free.CountCommon(numa.cpus);
    if (count > 0 && !numbers.insert(count).second) return true;
  }
  return false;
}

// Follows the containers of one pod in their order.
class Follower {
 public:
  Follower(const ObjectView& view, const Node& node, const NodeState& state, const Pod& pod,
           const BlurredResources& blurred)
      : view_(view),
        node_(node),
        state_(state),
        pod_(pod),
        aligns_(TopologyOf(node, pod).kind() != TopologyManagerPolicy::kNone),
        others_may_(PodPoliciesAnywhere(node.config).contains(PodPolicy::kNumaTopologyPolicy)),
        others_share_(MayShareNodes(node)),
        by_sockets_(IsPlacedBySockets(node, state, pod)),
        by_preference_(node.machine.numa_count() > 1 &&
                       (admission::AsksForIsolation(node, pod) || PrefersCpuNumbers(node, pod))),
        blurred_(blurred) {}

  // Whether the container's decision depends on what is not known. With scope pod, all containers
  // have one hint, from what is free before the pod: asked with what was blurred then.
  std::string WhyUnknown(const Container& container, const BlurredResources& blurred) const {
    for (const std::string& resource : PlacedResources(node_, state_, pod_, container)) {
      const auto found = blurred.find(resource);
      if (found != blurred.end() && Concerns(found->second)) return found->second.why;
    }
    const auto memory = blurred.find(kMemory);
    if (memory == blurred.end() || !Concerns(memory->second)) return {};
    return admission::RequestsMemory(node_, pod_, container) ? memory->second.why : std::string();
  }

  // What a NUMA node has for a container that stays on it depends on where all others have CPUs.
  std::string WhyUnknownShare(const Container& container, const BlurredResources& blurred) const {
    const auto found = blurred.find(kCpu);
    if (found == blurred.end() || !AsksForOneNode(node_, pod_, container)) return {};
    return found->second.why;
  }

  // With full-pcpus-only, each container counts the free cores that those before it have left. They
  // are not those that it may reuse.
  std::string WhyUnknownCores(const Container& container) const {
    if (ExclusiveCpuCount(pod_, container) == 0) return {};
    if (init_with_cpus_ > 1) return WhyUnknownReuse();
    const auto found = blurred_.find(kCpu);
    return found == blurred_.end() || !Concerns(found->second) ? "" : found->second.why;
  }

  void Allocated(const Container& container, const admission::ContainerDecision& decision) {
    for (const std::string& resource : PlacedResources(node_, state_, pod_, container)) {
      Allocated(container, decision, resource);
      placed_.insert(resource);
    }
    if (admission::RequestsMemory(node_, pod_, container)) placed_.insert(kMemory);
    const bool is_init = container.kind == ContainerKind::kInit;
    if (is_init && ExclusiveCpuCount(pod_, container) > 0) ++init_with_cpus_;
  }

  // Init containers keep what later containers have not reused, which can be any part of it. Once
  // they have ended, it is free. `next`: with the pod.
  void Ended(const NodeState& next) {
    for (const std::string& resource : of_init_) BlurAmount(resource);
    const NodeState later = WithoutInitContainers(node_, pod_, next);
    if (FreesCpus(node_.machine, next, later)) BlurAmount(kCpu);
    if (FreesMemory(next, later)) BlurAmount(kMemory);
    if (!by_preference_) return;
    // Whether the pod fits is as without. Its NUMA nodes are not.
    for (const std::string& resource : placed_) {
      BlurPlaces(resource, resource + ": pod " + pod_.name_space + "/" + pod_.name +
                               " prefers certain CPUs by an annotation, and the object does not "
                               "say on which NUMA nodes these are" +
                               kAskAgain);
    }
  }

  const BlurredResources& blurred() const { return blurred_; }

 private:
  bool Concerns(const Blurred& blurred) const { return aligns_ || !blurred.only_places; }

  void BlurPlaces(const std::string& resource, std::string why) {
    blurred_.try_emplace(resource, Blurred{std::move(why), /*only_places=*/true});
  }

  void BlurAmount(const std::string& resource) {
    Blurred& blurred = blurred_[resource];
    if (!blurred.why.empty() && !blurred.only_places) return;
    blurred = {WhyUnknownReuse(), /*only_places=*/false};
  }

  std::string WhyUnknownReuse() const {
    return "pod " + pod_.name_space + "/" + pod_.name +
           " has init containers: what its other containers reuse of theirs is the node's choice" +
           kAskAgain;
  }

  // Whether all of it comes from one NUMA node. best-effort can merge hints to a node that has not
  // enough of one resource: the rest then comes from any others.
  static bool IsOnOneNode(const admission::ContainerDecision& decision,
                          const std::string& resource) {
    if (!decision.affinity || !decision.affinity->affinity) return false;
    const NumaMask nodes = *decision.affinity->affinity;
    const auto hints = decision.hints.find(resource);
    if (nodes.Count() != 1 || hints == decision.hints.end() || !hints->second) return false;
    const auto* const described = hints->second->described();
    return described != nullptr && described->sets.Contains(nodes);
  }

  void Allocated(const Container& container, const admission::ContainerDecision& decision,
                 const std::string& resource) {
    const bool is_asked_for = aligns_ || others_may_;
    const bool matters = is_asked_for || (resource == kCpu && others_share_);
    if (matters && node_.machine.numa_count() > 1 && !IsOnOneNode(decision, resource)) {
      BlurPlaces(resource, ManyNodes(resource, pod_));
    }
    if (matters && by_sockets_) {
      BlurPlaces(resource, resource + ": numaAllocateStrategy chooses the NUMA node of pod " +
                               pod_.name_space + "/" + pod_.name +
                               " by its socket, and the object has no sockets" + kAskAgain);
    }
    if (resource != kCpu && is_asked_for &&
        (view_.summed_devices.contains(resource) || !IsOnSingleNodes(state_, resource))) {
      BlurPlaces(resource, resource +
                               ": some of its devices may be on several NUMA nodes, or on none. "
                               "Which ones pod " +
                               pod_.name_space + "/" + pod_.name + " has is the node's choice" +
                               kAskAgain);
    }
    if (container.kind == ContainerKind::kInit) {
      of_init_.insert(resource);
    } else if (of_init_.contains(resource)) {
      // The first one after the init containers has all of their NUMA nodes, whatever it reuses.
      BlurAmount(resource);
    }
  }

  const ObjectView& view_;
  const Node& node_;
  const NodeState& state_;
  const Pod& pod_;
  const bool aligns_;
  const bool others_may_;     // by a policy of their own
  const bool others_share_;   // CPUs of one NUMA node, whatever the policy
  const bool by_sockets_;     // IsPlacedBySockets
  const bool by_preference_;  // for some of the CPUs of its NUMA nodes
  BlurredResources blurred_;
  std::set<std::string> of_init_;  // resources that an init container was allocated
  int init_with_cpus_ = 0;         // the second one can reuse CPUs of the first one
  std::set<std::string> placed_;   // what any container was allocated, assigned memory included
};

const Container& ContainerOf(const Pod& pod, const std::string& name) {
  return *std::ranges::find(pod.containers, name, &Container::name);
}

int ContainersWith(const Node& node, const NodeState& state, const Pod& pod) {
  return static_cast<int>(std::ranges::count_if(pod.containers, [&](const Container& one) {
    return AsksForOneNode(node, pod, one) || !PlacedResources(node, state, pod, one).empty();
  }));
}

bool SharesANode(const Node& node, const Pod& pod) {
  return std::ranges::any_of(pod.containers,
                             [&](const Container& one) { return AsksForOneNode(node, pod, one); });
}

}  // namespace

void Apply(const ObjectView& view, const Node& node, NodeState& state) {
  constexpr char kOwner[] = "NodeResourceTopology";
  if (node.cpu && !view.assigned_cpus.empty()) {
    state.cpu.default_set -= view.assigned_cpus;
    state.cpu.assignments[kOwner][kOwner] = view.assigned_cpus;
  }
  for (const auto& [id, millis] : view.shared_millis) {
    state.cpu.shares[{kOwner, "node-" + std::to_string(id)}] = {
        .numa_id = id, .millis = millis, .kind = ContainerKind::kApp};
  }
  for (const auto& [resource, ids] : view.assigned_devices) {
    if (ids.empty()) continue;
    state.devices.allocations[{kOwner, kOwner}][resource] = {
        .devices = {{-1, {ids.begin(), ids.end()}}}, .response = ""};
  }
  if (!node.memory) return;
  for (auto& [id, numa] : state.memory.machine) {
    if (const auto amounts = view.available_memory.find(id);
        amounts != view.available_memory.end()) {
      for (auto& [type, table] : numa.tables) {
        const auto available = amounts->second.find(type);
        if (available == amounts->second.end()) continue;
        table.free = available->second;
        table.reserved = table.allocatable - table.free;
      }
    }
    const auto group = view.memory_groups.find(id);
    if (group == view.memory_groups.end()) continue;
    numa.cells = group->second;
    numa.number_of_assignments = 1;
  }
}

std::string UndecidedBy(const ObjectView& view, const Node& node, const NodeState& state,
                        const Pod& pod) {
  if (!view.unknown.empty()) return view.unknown;
  if (pod.pod_level_managers == PodLevelManagers::kPod) {
    return "the pod is assigned CPUs as a whole (pod-level resources): the object does not say "
           "which ones its containers can share; give the output of alignctl topology -o json, "
           "made on that node, with its state files";
  }
  const bool has_cpus = node.cpu && std::ranges::any_of(pod.containers, [&](const auto& one) {
                          return ExclusiveCpuCount(pod, one) > 0;
                        });
  if (has_cpus && !view.unknown_cpus.empty()) return view.unknown_cpus;
  if ((has_cpus && NeedsCpuNumbers(node, pod)) || admission::IsKeptApart(node, pod)) {
    return "the policies of the pod ask for more than a number of CPUs: the object does not say "
           "which CPUs are free and which pods have the others; give the output of alignctl "
           "topology -o json, made on "
           "that node, with its state files";
  }
  if (node.cpu && !view.unknown_shares.empty() && SharesANode(node, pod)) {
    return view.unknown_shares;
  }
  if (AssignsMemory(node, pod) && !view.unknown_memory.empty()) return view.unknown_memory;
  const TopologyManagerPolicy kind = TopologyOf(node, pod).kind();
  const bool adds_nodes = kind != TopologyManagerPolicy::kNone &&
                          kind != TopologyManagerPolicy::kSingleNumaNode &&
                          node.machine.numa_count() > 1;
  for (const Container& container : pod.containers) {
    for (const std::string& resource : PlacedResources(node, state, pod, container)) {
      if (!adds_nodes || !view.summed_devices.contains(resource)) continue;
      return resource +
             ": the object has sums of its devices by NUMA node, and a device may be in several "
             "sums; publish the object with alignd, or give the output of alignctl topology -o "
             "json";
    }
  }
  return {};
}

ObjectDecision Interpret(const ObjectView& view, const Node& node, const NodeState& state,
                         const BlurredResources& blurred, const Pod& pod,
                         const admission::Admission& decided) {
  Follower follower(view, node, state, pod, blurred);
  const topologymanager::Policy& topology = TopologyOf(node, pod);
  const bool has_one_hint = topology.kind() != TopologyManagerPolicy::kNone &&
                            topology.scope() == TopologyManagerScope::kPod;
  const bool full_cores = node.cpu && node.cpu->options.full_pcpus_only;
  const bool has_many = node.machine.numa_count() > 1 && ContainersWith(node, state, pod) > 1;
  if (topology.kind() == TopologyManagerPolicy::kBestAttainable && has_many) {
    return {
        "topologyManagerPolicy best-attainable compares several containers with the empty "
        "node, whose CPUs the object does not have; give the output of alignctl topology -o "
        "json",
        blurred};
  }
  // With one hint for all containers, nothing has been allocated when the policy refuses it.
  const bool is_refused =
      decided.refused_at && decided.refused_at->by == admission::RefusedBy::kTopology;
  for (const admission::ContainerDecision& decision : decided.decisions) {
    const Container& container = ContainerOf(pod, decision.container);
    std::string why = follower.WhyUnknown(container, has_one_hint ? blurred : follower.blurred());
    if (why.empty()) {
      const bool is_before = has_one_hint && is_refused;
      why = follower.WhyUnknownShare(container, is_before ? blurred : follower.blurred());
    }
    if (why.empty() && full_cores && !(has_one_hint && is_refused)) {
      why = follower.WhyUnknownCores(container);
    }
    if (!why.empty()) return {std::move(why), blurred};
    follower.Allocated(container, decision);
  }
  if (decided.admitted()) {
    follower.Ended(decided.next);
  } else if (has_many && is_refused && PrefersCpuNumbers(node, pod)) {
    return {
        "with preferredCPUExclusivePolicy, containers can be on other NUMA nodes, and may fit "
        "there; remove the preference, or give the output of alignctl topology -o json, made on "
        "that node, with its state files",
        blurred};
  }
  return {{}, follower.blurred()};
}

}  // namespace alignd::placement
