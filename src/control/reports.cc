#include "control/reports.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/own_policy.h"
#include "alignd/topologymanager/merge_explanation.h"
#include "control/readable.h"
#include "control/unix_ms.h"

namespace alignd::control {
namespace {

using topologymanager::MergeExplanation;
using topologymanager::TopologyHint;

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
  message.set_offline_cpus(assignment.offline.ToString());
  if (assignment.shares_pod_cpus) message.set_pod_cpus(assignment.cpuset.ToString());
  if (assignment.share) {
    message.mutable_shared_on_node()->set_numa(assignment.share->numa_id);
    message.mutable_shared_on_node()->set_millis(static_cast<uint64_t>(assignment.share->millis));
  }
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

std::optional<v1::WholePod> ReportWholePod(const admission::NodeState& state,
                                           const std::string& pod_uid, const std::string& pod) {
  const auto cpus = state.cpu.pods.find(pod_uid);
  const auto memory = state.memory.pods.find(pod_uid);
  const bool has_cpus = cpus != state.cpu.pods.end();
  if (!has_cpus && memory == state.memory.pods.end()) return std::nullopt;
  v1::WholePod message;
  message.set_pod_uid(pod_uid);
  message.set_pod(pod);
  if (has_cpus) message.set_cpus(cpus->second.ToString());
  if (memory == state.memory.pods.end()) return message;
  for (const memorymanager::Block& block : memory->second) {
    v1::MemoryBlock& added = *message.add_memory();
    added.set_type(block.type);
    added.set_bytes(block.size);
    added.mutable_numa()->Assign(block.numa_affinity.begin(), block.numa_affinity.end());
  }
  return message;
}

v1::ContainerAssignment ReportAssignment(const ReportSources& sources,
                                         const admission::NodeState& state,
                                         const checkpoint::Bindings& bindings,
                                         const ContainerKey& key, const std::string& pod) {
  v1::ContainerAssignment message =
      ToMessage(key, pod, admission::AssignmentOf(sources.node, state, key));
  AddKubeletIds(bindings, message);
  AddProblems(state.devices, message);
  return message;
}

v1::ContainerDecision ExplainContainer(const admission::Node& node,
                                       const topologymanager::Policy& topology,
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
      topology, decision.hints, [&node](NumaMask mask) { return IdsInBraces(node.machine, mask); });
  for (const topologymanager::Candidate& candidate : explanation.candidates) {
    v1::Candidate& added = *message.add_candidates();
    *added.mutable_hint() = ToMessage(node.machine, candidate.hint);
    added.set_verdict(candidate.verdict);
  }
  message.set_candidates_left_out(explanation.left_out);
  for (const std::string& note : explanation.notes) message.add_notes(note);
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
  message.set_outcome(decision.waits     ? "waiting"
                      : decision.refusal ? "refused"
                      : decision.error   ? "failed"
                                         : "admitted");
  if (decision.refusal) {
    message.set_reason(decision.refusal->reason);
    message.set_message(Readable(decision.refusal->message));
  } else if (decision.error) {
    message.set_message(Readable(decision.error->Text()));
  }
  for (const admission::ContainerDecision& container : decision.containers) {
    *message.add_containers() =
        ExplainContainer(node, admission::TopologyOf(node, decision.own_policy), container);
  }
  for (const auto& [container, assignment] : decision.assignments) {
    *message.add_assignments() = ToMessage({decision.pod_uid, container},
                                           decision.name_space + "/" + decision.name, assignment);
  }
  return message;
}

}  // namespace alignd::control
