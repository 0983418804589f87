#include "control/reports.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/explanation.h"
#include "alignd/topologymanager/merge_explanation.h"
#include "control/readable.h"
#include "reconcile/assigned_containers.h"

namespace alignd::control {
namespace {

using topologymanager::MergeExplanation;
using topologymanager::TopologyHint;

int64_t UnixMs(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

v1::Policies PoliciesOf(const KubeletConfig& config) {
  v1::Policies policies;
  policies.set_cpu_manager(std::string(ToString(config.cpu_manager_policy)));
  policies.set_memory_manager(std::string(ToString(config.memory_manager_policy)));
  policies.set_topology_manager(std::string(ToString(config.topology_manager_policy)));
  policies.set_topology_scope(std::string(ToString(config.topology_manager_scope)));
  policies.set_compatibility(std::string(ToString(config.compatibility)));
  policies.mutable_cpu_manager_options()->insert(config.cpu_manager_policy_options.begin(),
                                                 config.cpu_manager_policy_options.end());
  policies.mutable_topology_manager_options()->insert(
      config.topology_manager_policy_options.begin(), config.topology_manager_policy_options.end());
  return policies;
}

v1::Availability ToMessage(const admission::Availability& available) {
  v1::Availability message;
  message.set_free(available.free);
  message.set_total(available.total);
  return message;
}

v1::NumaNode ToMessage(const admission::NumaAvailability& numa) {
  v1::NumaNode message;
  message.set_id(numa.numa_id);
  message.set_free_cpus(numa.free_cpus.ToString());
  message.set_cpus(static_cast<uint32_t>(numa.cpus));
  for (const auto& [type, memory] : numa.memory) {
    (*message.mutable_memory())[type] = ToMessage(memory);
  }
  for (const auto& [resource, devices] : numa.devices) {
    (*message.mutable_devices())[resource] = ToMessage(devices);
  }
  return message;
}

v1::DeviceResource ToMessage(const std::string& name, const devicemanager::Resource& resource,
                             const std::set<std::string>& allocated) {
  v1::DeviceResource message;
  message.set_name(name);
  message.set_registered(resource.registered);
  admission::Availability healthy;
  uint64_t unhealthy = 0;
  for (const auto& [id, device] : resource.devices) {
    if (!device.healthy) {
      ++unhealthy;
      continue;
    }
    ++healthy.total;
    if (!allocated.contains(id)) ++healthy.free;
  }
  *message.mutable_healthy() = ToMessage(healthy);
  message.set_unhealthy(unhealthy);
  return message;
}

v1::AssignedDevices ToMessage(const std::string& resource,
                              const devicemanager::DeviceAllocation& allocation) {
  std::map<std::string, v1::Device> devices;  // a device on two nodes is listed under both
  for (const auto& [numa, ids] : allocation.devices) {
    for (const std::string& id : ids) {
      devices[id].set_id(id);
      if (numa >= 0) devices[id].add_numa(numa);
    }
  }
  v1::AssignedDevices message;
  message.set_resource(resource);
  for (auto& [id, device] : devices) *message.add_devices() = std::move(device);
  return message;
}

v1::ContainerAssignment ToMessage(const ContainerKey& key, const std::string& pod,
                                  const admission::Assignment& assignment) {
  v1::ContainerAssignment message;
  message.set_pod_uid(key.pod_uid);
  message.set_pod(pod);
  message.set_container(key.container);
  message.set_exclusive_cpus(assignment.exclusive.ToString());
  message.mutable_memory_nodes()->Assign(assignment.memory_nodes.begin(),
                                         assignment.memory_nodes.end());
  for (const auto& [resource, allocation] : assignment.devices) {
    *message.add_devices() = ToMessage(resource, allocation);
  }
  return message;
}

void AddKubeletIds(const checkpoint::Bindings& bindings, v1::ContainerAssignment& message) {
  const auto container = bindings.find({message.pod_uid(), message.container()});
  if (container == bindings.end()) return;
  for (v1::AssignedDevices& assigned : *message.mutable_devices()) {
    const auto binding = container->second.find(assigned.resource());
    if (binding == container->second.end()) continue;
    for (const auto& [kubelet_id, id] : binding->second) {
      const auto device = std::ranges::find(*assigned.mutable_devices(), id, &v1::Device::id);
      if (device != assigned.mutable_devices()->end() && kubelet_id != id) {
        device->set_kubelet_id(kubelet_id);
      }
    }
  }
}

std::string ProblemOf(const devicemanager::DeviceState& state, const std::string& resource,
                      const std::string& id) {
  const auto known = state.resources.find(resource);
  if (known == state.resources.end() || !known->second.registered) {
    return "its plugin is not registered";
  }
  const auto device = known->second.devices.find(id);
  if (device == known->second.devices.end()) return "its plugin does not list it any more";
  return device->second.healthy ? "" : "unhealthy";
}

void AddProblems(const devicemanager::DeviceState& state, v1::ContainerAssignment& message) {
  for (v1::AssignedDevices& assigned : *message.mutable_devices()) {
    for (v1::Device& device : *assigned.mutable_devices()) {
      device.set_problem(ProblemOf(state, assigned.resource(), device.id()));
    }
  }
}

v1::Condition ToMessage(const reconcile::Condition& condition) {
  v1::Condition message;
  message.set_type(std::string(ToString(condition.type)));
  message.set_first_unix_ms(UnixMs(condition.first));
  message.set_last_unix_ms(UnixMs(condition.last));
  message.set_times(condition.times);
  message.set_container_id(Readable(condition.subject.container_id));
  message.set_pod_uid(condition.subject.key.pod_uid);
  message.set_pod(condition.subject.pod);
  message.set_container(condition.subject.key.container);
  message.set_message(Readable(condition.message));
  message.set_remedy(Readable(condition.remedy));
  return message;
}

constexpr char kMemoryNotExact[] =
    "the search for the NUMA nodes with enough memory reached its limit: fewer nodes may be enough";

v1::Hint ToMessage(const Machine& machine, const TopologyHint& hint) {
  v1::Hint message;
  message.set_any(!hint.affinity.has_value());
  message.set_preferred(hint.preferred);
  if (hint.affinity) {
    const std::vector<int> ids = machine.NumaIds(*hint.affinity);
    message.mutable_numa()->Assign(ids.begin(), ids.end());
  }
  return message;
}

v1::ResourceHints ToMessage(const Machine& machine, const std::string& resource,
                            const std::optional<topologymanager::Hints>& hints) {
  v1::ResourceHints message;
  message.set_resource(resource);
  message.set_no_opinion(!hints.has_value());
  if (!hints) return message;
  for (const TopologyHint& hint : hints->Shown()) {
    if (message.hints_size() < kMaxHints) {
      *message.add_hints() = ToMessage(machine, hint);
    } else {
      message.set_left_out(message.left_out() + 1);
    }
  }
  return message;
}

std::string IdsInBraces(const Machine& machine, NumaMask mask) {
  std::string text = "{";
  for (const int id : machine.NumaIds(mask)) {
    text += (text.size() > 1 ? "," : "") + std::to_string(id);
  }
  return text + "}";
}

}  // namespace

v1::ContainerDecision ExplainContainer(const admission::Node& node,
                                       const admission::ContainerDecision& decision) {
  v1::ContainerDecision message;
  message.set_container(decision.container);
  for (const auto& [resource, hints] : decision.hints) {
    *message.add_hints() = ToMessage(node.machine, resource, hints);
  }
  if (!decision.memory_exact) message.add_notes(kMemoryNotExact);
  if (!decision.affinity) return message;
  *message.mutable_merged() = ToMessage(node.machine, *decision.affinity);
  const MergeExplanation explanation = topologymanager::ExplainMerge(
      node.topology, decision.hints,
      [&node](NumaMask mask) { return IdsInBraces(node.machine, mask); });
  for (const topologymanager::Candidate& candidate : explanation.candidates) {
    v1::Candidate& added = *message.add_candidates();
    *added.mutable_hint() = ToMessage(node.machine, candidate.hint);
    added.set_verdict(candidate.verdict);
  }
  message.set_candidates_left_out(explanation.left_out);
  for (const std::string& note : explanation.notes) message.add_notes(note);
  return message;
}

v1::GetStatusResponse ReportStatus(const std::string& version, const admission::Node& node,
                                   const allocation::Snapshot& snapshot, PodNames names,
                                   const allocation::DecisionLog& decisions,
                                   const checkpoint::Bindings& bindings,
                                   const std::vector<reconcile::Condition>& conditions,
                                   const std::set<ContainerKey>& reused) {
  for (const auto& decision : decisions.Newest("", allocation::DecisionLog::kCapacity)) {
    names.try_emplace(decision->pod_uid, decision->name_space + "/" + decision->name);
  }
  const devicemanager::DeviceState& devices = snapshot.state.devices;
  v1::GetStatusResponse message;
  message.set_version(version);
  message.set_generation(snapshot.generation);
  *message.mutable_policies() = PoliciesOf(node.config);
  if (node.cpu) {
    message.set_default_set(snapshot.state.cpu.default_set.ToString());
    message.set_reserved_cpus(node.cpu->reserved.ToString());
  }
  for (const admission::NumaAvailability& numa : admission::AvailableByNode(node, snapshot.state)) {
    *message.add_numa() = ToMessage(numa);
  }
  for (const auto& [name, resource] : devices.resources) {
    *message.add_devices() = ToMessage(name, resource, devices.AllocatedIds(name));
  }
  const auto pod_name = [&names](const std::string& uid) {
    const auto name = names.find(uid);
    return name == names.end() ? "" : name->second;
  };
  for (const ContainerKey& key : reconcile::AssignedContainers(snapshot.state)) {
    if (reused.contains(key)) continue;
    v1::ContainerAssignment& added = *message.add_containers();
    added =
        ToMessage(key, pod_name(key.pod_uid), admission::AssignmentOf(node, snapshot.state, key));
    AddKubeletIds(bindings, added);
    AddProblems(devices, added);
  }
  for (const reconcile::Condition& condition : conditions) {
    v1::Condition& added = *message.add_conditions();
    added = ToMessage(condition);
    if (added.pod().empty()) added.set_pod(pod_name(added.pod_uid()));
  }
  return message;
}

v1::PodDecision ReportDecision(const admission::Node& node,
                               const allocation::PodDecision& decision) {
  v1::PodDecision message;
  message.set_time_unix_ms(UnixMs(decision.time));
  message.set_times(decision.times);
  message.set_pod_uid(decision.pod_uid);
  message.set_pod_namespace(decision.name_space);
  message.set_pod_name(decision.name);
  message.set_source(Readable(decision.source));
  message.set_asked(decision.asked);
  message.set_available(decision.available);
  message.set_outcome(decision.refusal ? "refused" : decision.error ? "failed" : "admitted");
  if (decision.refusal) {
    message.set_reason(decision.refusal->reason);
    message.set_message(Readable(decision.refusal->message));
  } else if (decision.error) {
    message.set_message(Readable(decision.error->Text()));
  }
  for (const admission::ContainerDecision& container : decision.containers) {
    *message.add_containers() = ExplainContainer(node, container);
  }
  for (const auto& [container, assignment] : decision.assignments) {
    *message.add_assignments() = ToMessage({decision.pod_uid, container},
                                           decision.name_space + "/" + decision.name, assignment);
  }
  return message;
}

}  // namespace alignd::control
