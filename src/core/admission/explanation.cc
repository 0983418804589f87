#include "alignd/admission/explanation.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "alignd/admission/admission.h"
#include "core/pod/exclusive_cpu_count.h"

namespace alignd::admission {
namespace {

std::string Bytes(uint64_t bytes) {
  constexpr uint64_t kMi = 1024 * 1024;
  if (bytes != 0 && bytes % kMi == 0) return std::to_string(bytes / kMi) + "Mi";
  return std::to_string(bytes);
}

void AddDevices(const Node& node, const NodeState& state, std::vector<NumaAvailability>& nodes) {
  for (const auto& [name, resource] : state.devices.resources) {
    const std::set<std::string> taken = state.devices.AllocatedIds(name);
    for (const auto& [id, device] : resource.devices) {
      if (!device.healthy) continue;
      for (const int position : node.machine.MaskOfIds(device.numa)) {
        Availability& amount = nodes[static_cast<size_t>(position)].devices[name];
        ++amount.total;
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
      if (table.allocatable > 0) numa.memory[type] = {table.free, table.allocatable};
    }
  }
}

// Why the container is in the shared pool.
std::string WhyShared(const Pod& pod, const Container& container) {
  if (!pod.shared_pool_handler.empty()) return "runtime handler " + pod.shared_pool_handler;
  if (HasPodLevelResources(pod)) return "the pod has pod-level resources";
  if (const QosClass qos = QosOf(pod); qos != QosClass::kGuaranteed) {
    return std::string(ToString(qos)) + " pod";
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
    text += node.cpu ? "shared CPUs (" + WhyShared(pod, container) + ")" : "any CPUs";
  }
  const bool pinned = node.memory && IsPinned(pod);
  for (const auto& [resource, quantity] : container.resources.limits) {
    const bool memory = resource == "memory" || resource.starts_with("hugepages-");
    if (memory && pinned) {
      text += ", " + quantity.ToString() + " " + resource;
    } else if (state.devices.resources.contains(resource)) {
      text += ", " + std::to_string(quantity.Value()) + " " + resource;
    } else if (!memory && resource.find('/') != std::string::npos) {
      text += ", " + std::to_string(quantity.Value()) + " " + resource +
              " (no device plugin has registered it with alignd)";
    }
  }
  return text;
}

std::optional<std::vector<std::string>> NoPreference(const devicemanager::PreferenceQuery&) {
  return std::nullopt;
}

bool FitsWithBestEffort(const Node& node, const NodeState& state, const Pod& pod) {
  KubeletConfig config = node.config;
  config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
  const Result<Node> relaxed = Node::Make(node.machine, std::move(config));
  return relaxed.ok() && Admit(*relaxed, state, pod, NoPreference).admitted();
}

bool FitsOnEmptyNode(const Node& node, const NodeState& state, const Pod& pod) {
  NodeState empty = NodeState::Initial(node);
  empty.devices.resources = state.devices.resources;
  return Admit(node, empty, pod, NoPreference).admitted();
}

// A problem of the devices that the pod needs and that no other pod can solve. Empty: none.
std::string ProblemOfDevices(const NodeState& state, const Pod& pod) {
  std::map<std::string, int64_t> wanted;  // of the container with the largest limit
  for (const Container& container : pod.containers) {
    for (const auto& [name, amount] : container.resources.limits) {
      const bool is_device = state.devices.resources.contains(name) && !amount.IsZero();
      if (!is_device || state.devices.Find({pod.uid, container.name}, name) != nullptr) continue;
      wanted[name] = std::max(wanted[name], amount.Value());
    }
  }
  for (const auto& [name, amount] : wanted) {
    const devicemanager::Resource& resource = state.devices.resources.at(name);
    const int64_t healthy = std::ranges::count_if(
        resource.devices, [](const auto& device) { return device.second.healthy; });
    if (healthy >= amount) continue;
    if (!resource.registered)
      return "the device plugin of " + name + " is not registered: check its pod";
    if (const int64_t all = static_cast<int64_t>(resource.devices.size()); all >= amount) {
      return std::to_string(all - healthy) + " of " + std::to_string(all) + " " + name +
             " are unhealthy or their device plugin is disconnected: check the devices and the "
             "plugin's pod";
    }
  }
  return {};
}

std::string WhatWouldHelp(const Node& node, const NodeState& state, const Pod& pod) {
  if (std::string problem = ProblemOfDevices(state, pod); !problem.empty()) return problem;
  const bool strict = node.topology.kind() == TopologyManagerPolicy::kRestricted ||
                      node.topology.kind() == TopologyManagerPolicy::kSingleNumaNode;
  std::string help;
  if (FitsOnEmptyNode(node, state, pod)) {
    help = "it fits when other pods end and release their resources";
  } else {
    help = "it does not fit even on the empty node: reduce its requests";
  }
  if (strict && FitsWithBestEffort(node, state, pod)) {
    help += "; topologyManagerPolicy best-effort would admit it now, without this alignment";
  }
  return help;
}

}  // namespace

std::vector<NumaAvailability> AvailableByNode(const Node& node, const NodeState& state) {
  std::vector<NumaAvailability> nodes;
  for (int position = 0; position < node.machine.numa_count(); ++position) {
    NumaAvailability& numa = nodes.emplace_back();
    numa.numa_id = node.machine.NumaId(position);
    const CpuSet& cpus = node.machine.CpusInNuma(position);
    numa.cpus = cpus.Count();
    if (node.cpu) numa.free_cpus = (state.cpu.default_set & cpus) - node.cpu->reserved;
  }
  AddMemory(node, state, nodes);
  AddDevices(node, state, nodes);
  return nodes;
}

std::string DescribeRequest(const Node& node, const NodeState& state, const Pod& pod) {
  std::string text;
  for (const Container& container : pod.containers) {
    if (!text.empty()) text += "; ";
    text += DescribeContainer(node, state, pod, container);
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
    for (const auto& [type, amount] : numa.memory) {
      text += ", " + Bytes(amount.free) + " of " + Bytes(amount.total) + " " + type;
    }
    for (const auto& [resource, amount] : numa.devices) {
      text += ", " + std::to_string(amount.free) + " of " + std::to_string(amount.total) + " " +
              resource;
    }
  }
  return text;
}

Refusal Explain(const Node& node, const NodeState& state, const Pod& pod, const Refusal& refusal) {
  return {refusal.reason, refusal.message + ". Requested: " + DescribeRequest(node, state, pod) +
                              ". Free: " + DescribeAvailable(AvailableByNode(node, state)) +
                              ". What would help: " + WhatWouldHelp(node, state, pod)};
}

}  // namespace alignd::admission
