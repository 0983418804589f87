#include "alignd/admission/explanation.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/own_policy.h"
#include "alignd/admission/pod_level.h"
#include "alignd/cpumanager/node_shares.h"
#include "alignd/pod/resource_name.h"
#include "core/admission/claimed_devices.h"
#include "core/admission/own_defaults.h"
#include "core/admission/own_sharing.h"
#include "core/admission/remedy.h"
#include "core/admission/shared_node.h"
#include "core/admission/shortage.h"
#include "core/pod/exclusive_cpu_count.h"

namespace alignd::admission {
namespace {

void AddDevices(const Node& node, const NodeState& state, std::vector<NumaAvailability>& nodes) {
  for (const auto& [name, resource] : state.devices.resources) {
    const std::set<std::string> taken = state.devices.AllocatedIds(name);
    for (const auto& [id, device] : resource.devices) {
      for (const int position : node.machine.MaskOfIds(device.numa)) {
        Availability& amount = nodes[static_cast<size_t>(position)].devices[name];
        ++(device.healthy ? amount.total : amount.unhealthy);
        if (!device.healthy) continue;
        if (!taken.contains(id)) ++amount.free;
      }
    }
  }
}

void AddMemory(const Node& node, const NodeState& state, std::vector<NumaAvailability>& nodes) {
  if (!node.memory) return;
  for (NumaAvailability& numa : nodes) {
    const auto memory = state.memory.machine.find(numa.numa_id);
    if (memory == state.memory.machine.end()) continue;
    for (const auto& [type, table] : memory->second.tables) {
      if (table.allocatable > 0) {
        numa.memory[type] = {.free = table.free, .total = table.allocatable};
      }
    }
  }
}

// Why the container is in the shared pool.
std::string WhyShared(const Node& node, const Pod& pod, const Container& container) {
  if (!pod.shared_pool_handler.empty()) return "runtime handler " + pod.shared_pool_handler;
  const bool is_pod_level = HasPodLevelResources(pod);
  if (is_pod_level && pod.pod_level_managers == PodLevelManagers::kOff) {
    return "the pod has pod-level resources";
  }
  if (const QosClass qos = QosOf(pod); qos != QosClass::kGuaranteed) {
    return std::string(ToString(qos)) + " pod";
  }
  if (container.shares_cpus) {
    return SharesByDefault(node, pod, container) ? DefaultsText(pod) : "its pod asks for them";
  }
  if (pod.pod_level_managers == PodLevelManagers::kPod && PodCpuBudget(pod) == 0) {
    return "the pod-level cpu request is not a whole number";
  }
  if (!IsEligible(pod, container)) {
    return "its cpu and memory requests are not both set and equal to its limits";
  }
  const Quantity* const cpu = Find(container.resources.requests, "cpu");
  if (cpu == nullptr || cpu->IsZero()) return "no cpu request";
  return cpu->ToString() + " CPUs are not a whole number";
}

std::string DescribeContainer(const Node& node, const NodeState& state, const Pod& pod,
                              const Container& container) {
  std::string text = container.name + ": ";
  const int64_t exclusive = node.cpu ? ExclusiveCpuCount(pod, container) : 0;
  if (exclusive > 0) {
    text += std::to_string(exclusive) + (exclusive == 1 ? " exclusive CPU" : " exclusive CPUs");
  } else {
    const std::string pool = PodCpuBudget(pod) > 0 ? "shared CPUs of the pod (" : "shared CPUs (";
    text += node.cpu ? pool + WhyShared(node, pod, container) + ")" : "any CPUs";
    if (node.cpu && FollowedPolicies(node, pod).shared_on_one_node &&
        AsksForOneNode(node, pod, container)) {
      text += ", " + std::to_string(ShareOf(container).millis) + "m of one NUMA node";
    }
  }
  const bool pinned = AssignsMemory(node, pod) && IsEligible(pod, container);
  ResourceList amounts = container.resources.limits;
  for (const auto& [resource, quantity] : container.resources.requests) {
    if (pinned && IsMemoryName(resource)) amounts[resource] = quantity;
  }
  for (const auto& [resource, quantity] : amounts) {
    const bool memory = IsMemoryName(resource);
    if (memory && pinned) {
      if (container.resources.requests.contains(resource)) {
        text += ", " + quantity.ToString() + " " + resource;
      }
    } else if (state.devices.resources.contains(resource)) {
      text += ", " + std::to_string(quantity.Value()) + " " + resource;
    } else if (!memory && resource.find('/') != std::string::npos) {
      text += ", " + std::to_string(quantity.Value()) + " " + resource +
              " (no device plugin has registered it with alignd)";
    }
  }
  if (const std::string claimed = DescribeClaimed(container.claimed_devices); !claimed.empty()) {
    text += ", claimed: " + claimed;
  }
  return text;
}

// "pod as a whole: 4 CPUs, 1Gi memory"; empty if it is assigned nothing as a whole.
std::string DescribeWholePod(const Node& node, const Pod& pod) {
  if (pod.pod_level_managers != PodLevelManagers::kPod || !IsPinned(pod)) return {};
  std::string text;
  const auto add = [&text](const std::string& amount) {
    text += (text.empty() ? "pod as a whole: " : ", ") + amount;
  };
  if (const int64_t cpus = PodCpuBudget(pod); node.cpu && cpus > 0) {
    add(std::to_string(cpus) + (cpus == 1 ? " CPU" : " CPUs"));
  }
  if (!node.memory) return text;
  for (const auto& [resource, quantity] : pod.pod_level->requests) {
    if (IsMemoryName(resource) && !quantity.IsZero()) add(quantity.ToString() + " " + resource);
  }
  return text;
}

// Types of memory that the pod requests and the node does not have, as "0 of 0": otherwise a reader
// could not see why the pod is refused.
void AddMissingMemory(const Node& node, const Pod& pod, std::vector<NumaAvailability>& nodes) {
  if (!AssignsMemory(node, pod)) return;
  const auto add = [&nodes](const Resources& resources) {
    for (const auto& [resource, quantity] : resources.limits) {
      if (!resource.starts_with("hugepages-") || quantity.IsZero()) continue;
      for (NumaAvailability& numa : nodes) numa.memory.try_emplace(resource);
    }
  };
  if (pod.pod_level_managers == PodLevelManagers::kPod) add(*pod.pod_level);
  for (const Container& container : pod.containers) {
    if (IsEligible(pod, container)) add(container.resources);
  }
}

// Whether the policy refuses the pod on the empty node, where a weaker one admits it.
bool IsRefusedByAlignment(const Node& node, const NodeState& state, const Pod& pod) {
  const NodeState empty = EmptyState(node, state);
  const std::optional<Node> relaxed = WithPolicy(node, TopologyManagerPolicy::kBestEffort);
  return relaxed && !Fits(node, empty, pod) && Fits(*relaxed, empty, pod);
}

// Why the pod is refused, where the kubelet's text speaks of the locality alone, or of a hint.
std::string Cause(const Node& node, const NodeState& state, const Pod& pod,
                  const Refusal& refusal) {
  const bool is_memory = refusal.message.find("[memorymanager]") != std::string::npos;
  if (refusal.reason != "TopologyAffinityError" && !is_memory) return {};
  const std::string shortage = DescribeShortage(node, state, pod);
  if (!shortage.empty()) {
    const bool is_not_aligned = !is_memory && !IsRefusedByAlignment(node, state, pod);
    return ". Cause: " + shortage + (is_not_aligned ? "; the alignment is not the cause" : "");
  }
  if (!is_memory) return {};
  const std::string spread = DescribeSpreadMemory(node, state, pod);
  return spread.empty() ? "" : ". Cause: " + spread;
}

}  // namespace

std::string MemoryAmount(uint64_t bytes) {
  constexpr uint64_t kMi = 1024 * 1024;
  if (bytes != 0 && bytes % kMi == 0) return std::to_string(bytes / kMi) + "Mi";
  return std::to_string(bytes);
}

std::vector<NumaAvailability> AvailableByNode(const Node& node, const NodeState& state) {
  const CpuSet held_back =
      node.cpu ? cpumanager::HeldBack(node.machine, *node.cpu, state.cpu) : CpuSet();
  std::vector<NumaAvailability> nodes;
  for (int position = 0; position < node.machine.numa_count(); ++position) {
    NumaAvailability& numa = nodes.emplace_back();
    numa.numa_id = node.machine.NumaId(position);
    const CpuSet& cpus = node.machine.CpusInNuma(position);
    numa.cpus = cpus.Count();
    if (!node.cpu) continue;
    const CpuSet backing = cpumanager::BackingOn(node.machine, *node.cpu, state.cpu, numa.numa_id);
    numa.free_cpus = backing - held_back;
    if (!MayShareNodes(node) && state.cpu.shares.empty()) continue;
    const int64_t all = int64_t{backing.Count()} * cpumanager::kMillisPerCpu;
    const int64_t left = all - cpumanager::SharesOn(state.cpu, numa.numa_id);
    numa.shared_millis = {.free = static_cast<uint64_t>(std::max<int64_t>(0, left)),
                          .total = static_cast<uint64_t>(all)};
  }
  AddMemory(node, state, nodes);
  AddDevices(node, state, nodes);
  return nodes;
}

std::string DescribeRequest(const Node& node, const NodeState& state, const Pod& asking) {
  const Pod pod = OnThisNode(node, asking);
  std::string text = DescribeWholePod(node, pod);
  for (const Container& container : pod.containers) {
    if (!text.empty()) text += "; ";
    text += DescribeContainer(node, state, pod, container);
  }
  if (const std::string claimed = DescribeClaimed(pod.claimed_devices); !claimed.empty()) {
    text += "; claimed: " + claimed;
  }
  if (const std::string policy = DescribePodPolicy(node, pod); !policy.empty()) {
    text += "; " + policy;
  }
  return text;
}

std::string DescribeAvailable(const std::vector<NumaAvailability>& nodes) {
  std::string text;
  for (const NumaAvailability& numa : nodes) {
    if (!text.empty()) text += "; ";
    text += "NUMA node " + std::to_string(numa.numa_id) + ": " +
            std::to_string(numa.free_cpus.Count()) + " of " + std::to_string(numa.cpus) + " CPUs";
    if (!numa.free_cpus.empty()) text += " (" + numa.free_cpus.ToString() + ")";
    if (numa.shared_millis) {
      text += ", " + std::to_string(numa.shared_millis->free) + "m of " +
              std::to_string(numa.shared_millis->total) + "m shared CPU";
    }
    for (const auto& [type, amount] : numa.memory) {
      text += ", " + MemoryAmount(amount.free) + " of " + MemoryAmount(amount.total) + " " + type;
    }
    for (const auto& [resource, amount] : numa.devices) {
      text += ", " + std::to_string(amount.free) + " of " +
              std::to_string(amount.total + amount.unhealthy) + " " + resource;
    }
  }
  return text;
}

std::vector<NumaAvailability> AvailableFor(const Node& node, const NodeState& state,
                                           const Pod& pod) {
  std::vector<NumaAvailability> nodes = AvailableByNode(node, state);
  AddMissingMemory(node, OnThisNode(node, pod), nodes);
  return nodes;
}

bool FitsWithoutOthers(const Node& node, const NodeState& state, const Pod& pod) {
  return Fits(node, WithoutOthers(state, pod.uid), pod);
}

Refusal Explain(const Node& node, const NodeState& state, const Pod& asking,
                const Refusal& refusal) {
  if (refusal.reason == kPodPolicyError) return refusal;  // has its explanation
  const Pod pod = OnThisNode(node, asking);
  return {refusal.reason, refusal.message + Cause(node, state, pod, refusal) +
                              ". Requested: " + DescribeRequest(node, state, pod) +
                              ". Free: " + DescribeAvailable(AvailableFor(node, state, pod)) +
                              std::string(kWhatWouldHelp) + WhatWouldHelp(node, state, pod)};
}

}  // namespace alignd::admission
