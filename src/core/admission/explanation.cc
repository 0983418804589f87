#include "alignd/admission/explanation.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "alignd/admission/admission.h"

namespace alignd::admission {
namespace {

std::string Bytes(uint64_t bytes) {
  constexpr uint64_t kMi = 1024 * 1024;
  if (bytes != 0 && bytes % kMi == 0) return std::to_string(bytes / kMi) + "Mi";
  return std::to_string(bytes);
}

void AddDevices(const Node& node, const NodeState& state, std::vector<NumaAvailability>& room) {
  for (const auto& [name, resource] : state.devices.resources) {
    const std::set<std::string> taken = state.devices.AllocatedIds(name);
    for (const auto& [id, device] : resource.devices) {
      if (!device.healthy) continue;
      for (const int position : node.machine.MaskOfIds(device.numa)) {
        Availability& left = room[static_cast<size_t>(position)].devices[name];
        ++left.total;
        if (!taken.contains(id)) ++left.free;
      }
    }
  }
}

void AddMemory(const Node& node, const NodeState& state, std::vector<NumaAvailability>& room) {
  if (!node.memory) return;
  for (NumaAvailability& numa : room) {
    const auto memory = state.memory.machine.find(numa.numa_id);
    if (memory == state.memory.machine.end()) continue;
    for (const auto& [type, table] : memory->second.tables) {
      if (table.allocatable > 0) numa.memory[type] = {table.free, table.allocatable};
    }
  }
}

// Why a container is in the shared pool: what would have to be different for it to get exclusive
// CPUs.
std::string WhyShared(const Pod& pod, const Container& container) {
  if (HasPodLevelResources(pod)) return "the pod has resources of its own";
  if (const QosClass qos = QosOf(pod); qos != QosClass::kGuaranteed) {
    return std::string(ToString(qos)) + " pod";
  }
  const Quantity* const cpu = Find(container.resources.requests, "cpu");
  if (cpu == nullptr || cpu->IsZero()) return "no CPUs of its own";
  return cpu->ToString() + " CPUs are not a whole number";
}

std::string DescribeContainer(const Node& node, const NodeState& state, const Pod& pod,
                              const Container& container) {
  std::string text = container.name + ": ";
  const int exclusive = node.cpu ? ExclusiveCpus(pod, container) : 0;
  if (exclusive > 0) {
    text += std::to_string(exclusive) + (exclusive == 1 ? " exclusive CPU" : " exclusive CPUs");
  } else {
    text += node.cpu ? "shared CPUs (" + WhyShared(pod, container) + ")" : "any CPUs";
  }
  const bool pinned = node.memory && QosOf(pod) == QosClass::kGuaranteed;
  for (const auto& [resource, quantity] : container.resources.limits) {
    const bool memory = resource == "memory" || resource.starts_with("hugepages-");
    if (memory && pinned) {
      text += ", " + quantity.ToString() + " " + resource;
    } else if (state.devices.resources.contains(resource)) {
      text += ", " + std::to_string(quantity.Value()) + " " + resource;
    } else if (!memory && resource.find('/') != std::string::npos) {
      text += ", " + std::to_string(quantity.Value()) + " " + resource +
              " (no device plugin offers it to alignd)";
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

// What is wrong with the devices that the pod still wants: no other pod can help there. Empty: they
// are well, or it wants none.
std::string ProblemOfDevices(const NodeState& state, const Pod& pod) {
  std::map<std::string, int64_t> wanted;  // of the container that wants the most
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
      return "the device plugin of " + name + " is not there: see to its pod";
    if (const int64_t all = static_cast<int64_t>(resource.devices.size()); all >= amount) {
      return std::to_string(all - healthy) + " of " + std::to_string(all) + " " + name +
             " are unhealthy, or their device plugin is away: see to them, and to its pod";
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
    help = "it fits once other pods have given back what they hold";
  } else {
    help = "it does not fit even on the empty node: ask for less";
  }
  if (strict && FitsWithBestEffort(node, state, pod)) {
    help += "; topologyManagerPolicy best-effort would admit it now, without this alignment";
  }
  return help;
}

}  // namespace

std::vector<NumaAvailability> AvailableByNode(const Node& node, const NodeState& state) {
  std::vector<NumaAvailability> room;
  for (int position = 0; position < node.machine.numa_count(); ++position) {
    NumaAvailability& numa = room.emplace_back();
    numa.numa_id = node.machine.NumaId(position);
    const CpuSet& cpus = node.machine.CpusInNuma(position);
    numa.cpus = cpus.Count();
    if (node.cpu) numa.free_cpus = (state.cpu.default_set & cpus) - node.cpu->reserved;
  }
  AddMemory(node, state, room);
  AddDevices(node, state, room);
  return room;
}

std::string DescribeAsk(const Node& node, const NodeState& state, const Pod& pod) {
  std::string text;
  for (const Container& container : pod.containers) {
    if (!text.empty()) text += "; ";
    text += DescribeContainer(node, state, pod, container);
  }
  return text;
}

std::string DescribeAvailable(const std::vector<NumaAvailability>& room) {
  std::string text;
  for (const NumaAvailability& numa : room) {
    if (!text.empty()) text += "; ";
    text += "NUMA node " + std::to_string(numa.numa_id) + ": " +
            std::to_string(numa.free_cpus.Count()) + " of " + std::to_string(numa.cpus) + " CPUs";
    if (!numa.free_cpus.empty()) text += " (" + numa.free_cpus.ToString() + ")";
    for (const auto& [type, left] : numa.memory) {
      text += ", " + Bytes(left.free) + " of " + Bytes(left.total) + " " + type;
    }
    for (const auto& [resource, left] : numa.devices) {
      text +=
          ", " + std::to_string(left.free) + " of " + std::to_string(left.total) + " " + resource;
    }
  }
  return text;
}

Refusal Explain(const Node& node, const NodeState& state, const Pod& pod, const Refusal& refusal) {
  return {refusal.reason, refusal.message + ". Asked: " + DescribeAsk(node, state, pod) +
                              ". Availability: " + DescribeAvailable(AvailableByNode(node, state)) +
                              ". What would help: " + WhatWouldHelp(node, state, pod)};
}

}  // namespace alignd::admission
