#include "control/wire.h"

#include <string_view>
#include <utility>

#include "control/readable.h"

namespace alignd::control {
namespace {

using AvailabilityMap = google::protobuf::Map<std::string, v1::Availability>;

v1::Availability AvailabilityToWire(const admission::Availability& left) {
  v1::Availability message;
  message.set_free(left.free);
  message.set_total(left.total);
  return message;
}

admission::Availability AvailabilityFromWire(const v1::Availability& message) {
  return {message.free(), message.total()};
}

void AvailabilityToWire(const std::map<std::string, admission::Availability>& left,
                        AvailabilityMap& messages) {
  for (const auto& [name, amounts] : left) messages[name] = AvailabilityToWire(amounts);
}

std::map<std::string, admission::Availability> AvailabilityFromWire(
    const AvailabilityMap& messages) {
  std::map<std::string, admission::Availability> left;
  for (const auto& [name, message] : messages) left[name] = AvailabilityFromWire(message);
  return left;
}

Result<CpuSet> CpusFromWire(const std::string& list) {
  Result<CpuSet> cpus = CpuSet::Parse(list);
  if (!cpus.ok()) return Error{ErrorCode::kCorrupt, cpus.error().message};
  return cpus;
}

v1::Policies PoliciesToWire(const Policies& policies) {
  v1::Policies message;
  message.set_cpu_manager(policies.cpu_manager);
  message.set_memory_manager(policies.memory_manager);
  message.set_topology_manager(policies.topology_manager);
  message.set_topology_scope(policies.topology_scope);
  message.set_compatibility(policies.compatibility);
  message.mutable_cpu_manager_options()->insert(policies.cpu_manager_options.begin(),
                                                policies.cpu_manager_options.end());
  message.mutable_topology_manager_options()->insert(policies.topology_manager_options.begin(),
                                                     policies.topology_manager_options.end());
  return message;
}

Policies PoliciesFromWire(const v1::Policies& message) {
  const auto& cpu_options = message.cpu_manager_options();
  const auto& topology_options = message.topology_manager_options();
  return {.cpu_manager = message.cpu_manager(),
          .memory_manager = message.memory_manager(),
          .topology_manager = message.topology_manager(),
          .topology_scope = message.topology_scope(),
          .compatibility = message.compatibility(),
          .cpu_manager_options = {cpu_options.begin(), cpu_options.end()},
          .topology_manager_options = {topology_options.begin(), topology_options.end()}};
}

v1::ContainerAssignment AssignmentToWire(const ContainerReport& report) {
  v1::ContainerAssignment message;
  message.set_pod_uid(report.pod_uid);
  message.set_pod(report.pod);
  message.set_container(report.container);
  message.set_exclusive_cpus(report.exclusive.ToString());
  message.mutable_memory_nodes()->Assign(report.memory_nodes.begin(), report.memory_nodes.end());
  for (const auto& [resource, devices] : report.devices) {
    v1::AssignedDevices& held = *message.add_devices();
    held.set_resource(resource);
    for (const AssignedDevice& device : devices) {
      v1::Device& added = *held.add_devices();
      added.set_id(device.id);
      added.mutable_numa()->Assign(device.numa.begin(), device.numa.end());
      added.set_kubelet_id(device.kubelet_id);
      added.set_problem(device.problem);
    }
  }
  return message;
}

Result<ContainerReport> AssignmentFromWire(const v1::ContainerAssignment& message) {
  const Result<CpuSet> exclusive = CpusFromWire(message.exclusive_cpus());
  if (!exclusive.ok()) return exclusive.error();
  ContainerReport report;
  report.pod_uid = message.pod_uid();
  report.pod = message.pod();
  report.container = message.container();
  report.exclusive = *exclusive;
  report.memory_nodes.assign(message.memory_nodes().begin(), message.memory_nodes().end());
  for (const v1::AssignedDevices& held : message.devices()) {
    std::vector<AssignedDevice>& devices = report.devices[held.resource()];
    for (const v1::Device& device : held.devices()) {
      devices.push_back({device.id(),
                         {device.numa().begin(), device.numa().end()},
                         device.kubelet_id(),
                         device.problem()});
    }
  }
  return report;
}

v1::Hint HintToWire(const HintReport& hint) {
  v1::Hint message;
  message.set_any(!hint.numa.has_value());
  message.set_preferred(hint.preferred);
  if (hint.numa) message.mutable_numa()->Assign(hint.numa->begin(), hint.numa->end());
  return message;
}

HintReport HintFromWire(const v1::Hint& message) {
  HintReport hint;
  hint.preferred = message.preferred();
  if (!message.any()) hint.numa.emplace(message.numa().begin(), message.numa().end());
  return hint;
}

v1::ContainerDecision ContainerToWire(const ContainerExplanation& report) {
  v1::ContainerDecision message;
  message.set_container(report.container);
  for (const ResourceHints& hints : report.hints) {
    v1::ResourceHints& added = *message.add_hints();
    added.set_resource(hints.resource);
    added.set_no_opinion(hints.no_opinion);
    added.set_left_out(hints.left_out);
    for (const HintReport& hint : hints.hints) *added.add_hints() = HintToWire(hint);
  }
  if (report.merged) *message.mutable_merged() = HintToWire(*report.merged);
  for (const CandidateReport& candidate : report.candidates) {
    v1::Candidate& added = *message.add_candidates();
    *added.mutable_hint() = HintToWire(candidate.hint);
    added.set_verdict(candidate.verdict);
  }
  message.set_candidates_left_out(report.candidates_left_out);
  message.mutable_notes()->Assign(report.notes.begin(), report.notes.end());
  return message;
}

ContainerExplanation ContainerFromWire(const v1::ContainerDecision& message) {
  ContainerExplanation report;
  report.container = message.container();
  for (const v1::ResourceHints& hints : message.hints()) {
    ResourceHints& added = report.hints.emplace_back();
    added.resource = hints.resource();
    added.no_opinion = hints.no_opinion();
    added.left_out = hints.left_out();
    for (const v1::Hint& hint : hints.hints()) added.hints.push_back(HintFromWire(hint));
  }
  if (message.has_merged()) report.merged = HintFromWire(message.merged());
  for (const v1::Candidate& candidate : message.candidates()) {
    report.candidates.push_back({HintFromWire(candidate.hint()), candidate.verdict()});
  }
  report.candidates_left_out = message.candidates_left_out();
  report.notes.assign(message.notes().begin(), message.notes().end());
  return report;
}

}  // namespace

v1::GetStatusResponse ToWire(const StatusReport& report) {
  v1::GetStatusResponse message;
  message.set_version(report.version);
  message.set_generation(report.generation);
  *message.mutable_policies() = PoliciesToWire(report.policies);
  message.set_default_set(report.default_set.ToString());
  message.set_reserved_cpus(report.reserved_cpus.ToString());
  for (const admission::NumaAvailability& room : report.numa) {
    v1::NumaNode& node = *message.add_numa();
    node.set_id(room.numa_id);
    node.set_free_cpus(room.free_cpus.ToString());
    node.set_cpus(static_cast<uint32_t>(room.cpus));
    AvailabilityToWire(room.memory, *node.mutable_memory());
    AvailabilityToWire(room.devices, *node.mutable_devices());
  }
  for (const DeviceResource& resource : report.devices) {
    v1::DeviceResource& added = *message.add_devices();
    added.set_name(resource.name);
    added.set_registered(resource.registered);
    *added.mutable_healthy() = AvailabilityToWire(resource.healthy);
    added.set_unhealthy(resource.unhealthy);
  }
  for (const ContainerReport& container : report.containers) {
    *message.add_containers() = AssignmentToWire(container);
  }
  *message.mutable_conditions() = ToWire(report.conditions);
  return message;
}

Result<StatusReport> FromWire(const v1::GetStatusResponse& message) {
  const Result<CpuSet> default_set = CpusFromWire(message.default_set());
  if (!default_set.ok()) return default_set.error();
  const Result<CpuSet> reserved = CpusFromWire(message.reserved_cpus());
  if (!reserved.ok()) return reserved.error();
  StatusReport report;
  report.version = message.version();
  report.generation = message.generation();
  report.policies = PoliciesFromWire(message.policies());
  report.default_set = *default_set;
  report.reserved_cpus = *reserved;
  for (const v1::NumaNode& node : message.numa()) {
    const Result<CpuSet> free = CpusFromWire(node.free_cpus());
    if (!free.ok()) return free.error();
    report.numa.push_back({.numa_id = node.id(),
                           .free_cpus = *free,
                           .cpus = static_cast<int>(node.cpus()),
                           .memory = AvailabilityFromWire(node.memory()),
                           .devices = AvailabilityFromWire(node.devices())});
  }
  for (const v1::DeviceResource& resource : message.devices()) {
    report.devices.push_back({resource.name(), resource.registered(),
                              AvailabilityFromWire(resource.healthy()), resource.unhealthy()});
  }
  for (const v1::ContainerAssignment& container : message.containers()) {
    Result<ContainerReport> grant = AssignmentFromWire(container);
    if (!grant.ok()) return grant.error();
    report.containers.push_back(*std::move(grant));
  }
  report.conditions = FromWire(message.conditions());
  return report;
}

v1::PodDecision ToWire(const DecisionReport& report) {
  v1::PodDecision message;
  message.set_time_unix_ms(report.time_unix_ms);
  message.set_times(report.times);
  message.set_pod_uid(report.pod_uid);
  message.set_pod_namespace(report.name_space);
  message.set_pod_name(report.name);
  message.set_source(report.source);
  message.set_asked(report.asked);
  message.set_outcome(report.outcome);
  message.set_reason(report.reason);
  message.set_message(Readable(report.message));
  message.set_left(report.left);
  for (const ContainerExplanation& container : report.containers) {
    *message.add_containers() = ContainerToWire(container);
  }
  for (const ContainerReport& grant : report.assignments)
    *message.add_assignments() = AssignmentToWire(grant);
  return message;
}

Result<DecisionReport> FromWire(const v1::PodDecision& message) {
  DecisionReport report;
  report.time_unix_ms = message.time_unix_ms();
  report.times = message.times();
  report.pod_uid = message.pod_uid();
  report.name_space = message.pod_namespace();
  report.name = message.pod_name();
  report.source = message.source();
  report.asked = message.asked();
  report.outcome = message.outcome();
  report.reason = message.reason();
  report.message = message.message();
  report.left = message.left();
  for (const v1::ContainerDecision& container : message.containers()) {
    report.containers.push_back(ContainerFromWire(container));
  }
  for (const v1::ContainerAssignment& grant : message.assignments()) {
    Result<ContainerReport> read = AssignmentFromWire(grant);
    if (!read.ok()) return read.error();
    report.assignments.push_back(*std::move(read));
  }
  return report;
}

}  // namespace alignd::control
