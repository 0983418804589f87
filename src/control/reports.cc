#include "control/reports.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "alignd/admission/grant.h"
#include "alignd/topologymanager/merge_explanation.h"

namespace alignd::control {
namespace {

using topologymanager::MergeExplanation;
using topologymanager::TopologyHint;

Policies PoliciesOf(const KubeletConfig& config) {
  return {.cpu_manager = std::string(ToString(config.cpu_manager_policy)),
          .memory_manager = std::string(ToString(config.memory_manager_policy)),
          .topology_manager = std::string(ToString(config.topology_manager_policy)),
          .topology_scope = std::string(ToString(config.topology_manager_scope)),
          .compatibility = std::string(ToString(config.compatibility)),
          .cpu_manager_options = {config.cpu_manager_policy_options.begin(),
                                  config.cpu_manager_policy_options.end()},
          .topology_manager_options = {config.topology_manager_policy_options.begin(),
                                       config.topology_manager_policy_options.end()}};
}

std::vector<DeviceResource> DevicesOf(const devicemanager::DeviceState& state) {
  std::vector<DeviceResource> devices;
  for (const auto& [name, resource] : state.resources) {
    DeviceResource& report = devices.emplace_back();
    report.name = name;
    report.registered = resource.registered;
    const std::set<std::string> taken = state.AllocatedIds(name);
    for (const auto& [id, device] : resource.devices) {
      if (!device.healthy) {
        ++report.unhealthy;
        continue;
      }
      ++report.healthy.total;
      if (!taken.contains(id)) ++report.healthy.free;
    }
  }
  return devices;
}

std::vector<AssignedDevice> AssignedDevices(const devicemanager::DeviceAllocation& allocation) {
  std::map<std::string, AssignedDevice> held;  // a device on two nodes is listed under both
  for (const auto& [numa, ids] : allocation.devices) {
    for (const std::string& id : ids) {
      held[id].id = id;
      if (numa >= 0) held[id].numa.push_back(numa);
    }
  }
  std::vector<AssignedDevice> devices;
  for (auto& [id, device] : held) devices.push_back(std::move(device));
  return devices;
}

ContainerReport ReportAssignment(const ContainerKey& key, std::string pod,
                                 const admission::Assignment& grant) {
  ContainerReport report;
  report.pod_uid = key.pod_uid;
  report.pod = std::move(pod);
  report.container = key.container;
  report.exclusive = grant.exclusive;
  report.memory_nodes = grant.memory_nodes;
  for (const auto& [resource, allocation] : grant.devices) {
    report.devices[resource] = AssignedDevices(allocation);
  }
  return report;
}

void AddKubeletAllocated(const checkpoint::Bindings& bindings, ContainerReport& report) {
  const auto container = bindings.find({report.pod_uid, report.container});
  if (container == bindings.end()) return;
  for (auto& [resource, devices] : report.devices) {
    const auto binding = container->second.find(resource);
    if (binding == container->second.end()) continue;
    for (const auto& [id, device] : binding->second) {
      const auto held = std::ranges::find(devices, device, &AssignedDevice::id);
      if (held != devices.end() && id != device) held->kubelet_id = id;
    }
  }
}

// Nobody takes it from its container; so it must be seen.
std::string ProblemOf(const devicemanager::DeviceState& state, const std::string& resource,
                      const std::string& id) {
  const auto known = state.resources.find(resource);
  if (known == state.resources.end() || !known->second.registered) {
    return "its plugin is not there";
  }
  const auto device = known->second.devices.find(id);
  if (device == known->second.devices.end()) return "its plugin lists it no more";
  return device->second.healthy ? "" : "unhealthy";
}

void AddAiling(const devicemanager::DeviceState& state, ContainerReport& report) {
  for (auto& [resource, devices] : report.devices) {
    for (AssignedDevice& device : devices) device.problem = ProblemOf(state, resource, device.id);
  }
}

std::set<ContainerKey> HoldersIn(const admission::NodeState& state) {
  std::set<ContainerKey> holders;
  for (const auto& [uid, containers] : state.cpu.assignments) {
    for (const auto& [container, cpus] : containers) holders.insert({uid, container});
  }
  for (const auto& [uid, containers] : state.memory.assignments) {
    for (const auto& [container, blocks] : containers) holders.insert({uid, container});
  }
  for (const auto& [key, resources] : state.devices.allocations) holders.insert(key);
  return holders;
}

constexpr char kMemoryGaveUp[] =
    "the search for the NUMA nodes that take the memory gave up: fewer may do";

HintReport ReportHint(const Machine& machine, const TopologyHint& hint) {
  if (!hint.affinity) return {std::nullopt, hint.preferred};
  return {machine.NumaIds(*hint.affinity), hint.preferred};
}

ResourceHints ReportHints(const Machine& machine, const std::string& resource,
                          const std::optional<topologymanager::Hints>& hints) {
  ResourceHints report{resource, !hints.has_value(), {}, 0};
  if (!hints) return report;
  const topologymanager::HintList shown = hints->Shown();
  const size_t listed = std::min(shown.size(), ResourceHints::kMaxHints);
  report.left_out = shown.size() - listed;
  for (size_t i = 0; i < listed; ++i) report.hints.push_back(ReportHint(machine, shown[i]));
  return report;
}

std::string IdsInBraces(const Machine& machine, NumaMask mask) {
  std::string text = "{";
  for (const int id : machine.NumaIds(mask)) {
    text += (text.size() > 1 ? "," : "") + std::to_string(id);
  }
  return text + "}";
}

}  // namespace

ContainerExplanation ExplainContainer(const admission::Node& node,
                                      const admission::ContainerDecision& decision) {
  ContainerExplanation report;
  report.container = decision.container;
  for (const auto& [resource, hints] : decision.hints) {
    report.hints.push_back(ReportHints(node.machine, resource, hints));
  }
  if (!decision.memory_exact) report.notes.push_back(kMemoryGaveUp);
  if (!decision.affinity) return report;
  report.merged = ReportHint(node.machine, *decision.affinity);
  const MergeExplanation explanation = topologymanager::ExplainMerge(
      node.topology, decision.hints,
      [&node](NumaMask mask) { return IdsInBraces(node.machine, mask); });
  for (const topologymanager::Candidate& candidate : explanation.candidates) {
    report.candidates.push_back({ReportHint(node.machine, candidate.hint), candidate.verdict});
  }
  report.candidates_left_out = explanation.left_out;
  report.notes.insert(report.notes.end(), explanation.notes.begin(), explanation.notes.end());
  return report;
}

StatusReport ReportStatus(const std::string& version, const admission::Node& node,
                          const allocation::Snapshot& snapshot, PodNames names,
                          const allocation::DecisionLog& decisions,
                          const checkpoint::Bindings& bindings) {
  for (const auto& decision : decisions.Newest("", allocation::DecisionLog::kCapacity)) {
    names.try_emplace(decision->pod_uid, decision->name_space + "/" + decision->name);
  }
  StatusReport report;
  report.version = version;
  report.generation = snapshot.generation;
  report.policies = PoliciesOf(node.config);
  if (node.cpu) {
    report.default_set = snapshot.state.cpu.default_set;
    report.reserved_cpus = node.cpu->reserved;
  }
  report.numa = admission::AvailableByNode(node, snapshot.state);
  report.devices = DevicesOf(snapshot.state.devices);
  for (const ContainerKey& key : HoldersIn(snapshot.state)) {
    const auto name = names.find(key.pod_uid);
    report.containers.push_back(
        ReportAssignment(key, name == names.end() ? "" : name->second,
                         admission::AssignmentOf(node, snapshot.state, key)));
    AddKubeletAllocated(bindings, report.containers.back());
    AddAiling(snapshot.state.devices, report.containers.back());
  }
  return report;
}

DecisionReport ReportDecision(const admission::Node& node,
                              const allocation::PodDecision& decision) {
  DecisionReport report;
  report.time_unix_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(decision.time.time_since_epoch())
          .count();
  report.times = decision.times;
  report.pod_uid = decision.pod_uid;
  report.name_space = decision.name_space;
  report.name = decision.name;
  report.source = decision.source;
  report.asked = decision.asked;
  report.left = decision.available;
  report.outcome = decision.refusal ? "refused" : decision.error ? "failed" : "granted";
  if (decision.refusal) {
    report.reason = decision.refusal->reason;
    report.message = decision.refusal->message;
  } else if (decision.error) {
    report.message = decision.error->Text();
  }
  for (const admission::ContainerDecision& container : decision.containers) {
    report.containers.push_back(ExplainContainer(node, container));
  }
  for (const auto& [container, grant] : decision.assignments) {
    report.assignments.push_back(ReportAssignment(
        {decision.pod_uid, container}, decision.name_space + "/" + decision.name, grant));
  }
  return report;
}

}  // namespace alignd::control
