// The report of the status, and that of the pods.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/explanation.h"
#include "alignd/memorymanager/memory_state.h"
#include "allocation/requested_resize.h"
#include "control/claims_report.h"
#include "control/pending_report.h"
#include "control/readable.h"
#include "control/reports.h"
#include "control/unix_ms.h"
#include "reconcile/assigned_containers.h"

namespace alignd::control {
namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

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
  message.set_unhealthy(available.unhealthy);
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
  if (numa.shared_millis) *message.mutable_shared_millis() = ToMessage(*numa.shared_millis);
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

// The one NUMA node of the machine that the device is at.
std::optional<int> PlaceOf(const Machine& machine, const devicemanager::Device& device) {
  if (device.numa.size() != 1 || !machine.NumaPosition(device.numa[0])) return std::nullopt;
  return static_cast<int>(device.numa[0]);
}

// Of those beyond the limit, the allocated ones are in the assignments of their containers.
void ListDevices(const Machine& machine, const devicemanager::Resource& resource,
                 const std::set<std::string>& allocated, v1::DeviceResource& message) {
  std::map<std::optional<int>, v1::DevicesLeftOut> left_out;
  for (const auto& [id, device] : resource.devices) {
    if (message.all_size() < kMaxListedDevices) {
      v1::Device& added = *message.add_all();
      added.set_id(Readable(id));
      added.mutable_numa()->Assign(device.numa.begin(), device.numa.end());
      if (!device.healthy) added.set_problem("unhealthy");
    } else if (!allocated.contains(id)) {
      v1::DevicesLeftOut& counted = left_out[PlaceOf(machine, device)];
      counted.set_devices(counted.devices() + 1);
      if (device.healthy) counted.set_free(counted.free() + 1);
    }
  }
  for (auto& [place, counted] : left_out) {
    if (place) counted.set_numa(*place);
    *message.add_left_out() = std::move(counted);
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

// What the node of that position has beside what is free.
void AddWhole(const admission::Node& node, const admission::NodeState& state, int position,
              v1::NumaNode& message) {
  const CpuSet& cpus = node.machine.CpusInNuma(position);
  message.set_all_cpus(cpus.ToString());
  if (node.cpu) {
    message.set_reserved_cpus((cpus & node.cpu->reserved).ToString());
    message.set_exclusive_cpus(
        (cpus - state.cpu.default_set - state.cpu.offline - node.cpu->reserved).ToString());
  }
  const NumaNode& numa = node.machine.numa()[static_cast<size_t>(position)];
  auto& capacity = *message.mutable_memory_capacity();
  capacity["memory"] = numa.memory_bytes;
  for (const auto& [page, pages] : numa.hugepages) {
    if (pages > 0) capacity[memorymanager::HugePageType(page)] = page * pages;
  }
}

void AddFacts(const DaemonFacts& facts, v1::GetStatusResponse& message) {
  message.set_version(facts.version);
  message.set_node(facts.node);
  message.set_time_unix_ms(UnixMs(system_clock::now()));
  message.set_started_unix_ms(UnixMs(facts.started));
  message.set_state_dir(facts.state_dir);
  message.set_config(facts.config);
  message.set_runtime_endpoint(facts.runtime_endpoint);
  message.set_device_plugin_dir(facts.device_plugin_dir);
}

ReportSources::Pods Running(const ReportSources& sources, const admission::NodeState& state) {
  return sources.running ? sources.running(admission::PodsIn(state)) : ReportSources::Pods();
}

std::set<ContainerKey> Reused(const ReportSources& sources) {
  return sources.reused ? sources.reused() : std::set<ContainerKey>();
}

std::string NameIn(const PodNames& names, const std::string& uid) {
  const auto name = names.find(uid);
  return name == names.end() ? "" : name->second;
}

// The names of the containers of each pod that runs or is assigned something, by pod UID.
std::map<std::string, std::set<std::string>> ContainersByPod(const ReportSources& sources,
                                                             const admission::NodeState& state) {
  std::map<std::string, std::set<std::string>> pods;
  for (const auto& pod : Running(sources, state)) pods[pod.uid] = pod.containers;
  for (const ContainerKey& key : reconcile::AssignedContainers(state)) {
    pods[key.pod_uid].insert(key.container);
  }
  for (const ContainerKey& key : Reused(sources)) {
    const auto pod = pods.find(key.pod_uid);
    if (pod != pods.end()) pod->second.erase(key.container);
  }
  return pods;
}

// A resize, whether it was done or refused, does not say what the other containers request.
bool IsSource(const std::string& source) {
  return !source.empty() && source != allocation::kInPlaceResize;
}

// The source of each pod's requests, as far as the kept decisions show it.
std::map<std::string, std::string> SourcesByPod(const ReportSources& sources) {
  std::map<std::string, std::string> by_pod;
  const allocation::DecisionLog& decisions = sources.allocation.decisions();
  for (const auto& decision : decisions.Newest("", allocation::DecisionLog::kCapacity)) {
    if (IsSource(decision->source)) by_pod.try_emplace(decision->pod_uid, decision->source);
  }
  for (const auto& decision : DecisionsBefore(sources)) {
    if (IsSource(decision->source())) by_pod.try_emplace(decision->pod_uid(), decision->source());
  }
  return by_pod;
}

}  // namespace

PodNames AllPodNames(const ReportSources& sources) {
  PodNames names = sources.names();
  const allocation::DecisionLog& decisions = sources.allocation.decisions();
  for (const auto& decision : decisions.Newest("", allocation::DecisionLog::kCapacity)) {
    names.try_emplace(decision->pod_uid, decision->name_space + "/" + decision->name);
  }
  for (const auto& decision : DecisionsBefore(sources)) {
    names.try_emplace(decision->pod_uid(), decision->pod_namespace() + "/" + decision->pod_name());
  }
  return names;
}

v1::GetStatusResponse ReportNuma(const admission::Node& node, const admission::NodeState& state) {
  v1::GetStatusResponse message;
  int position = 0;
  for (const admission::NumaAvailability& numa : admission::AvailableByNode(node, state)) {
    v1::NumaNode& added = *message.add_numa();
    added = ToMessage(numa);
    AddWhole(node, state, position++, added);
  }
  return message;
}

v1::GetStatusResponse ReportStatus(const ReportSources& sources, bool list_devices) {
  const admission::Node& node = sources.node;
  const auto snapshot = sources.allocation.snapshot();
  const admission::NodeState& state = snapshot->state;
  const PodNames names = AllPodNames(sources);
  v1::GetStatusResponse message = ReportNuma(node, state);
  AddFacts(sources.facts, message);
  message.set_generation(snapshot->generation);
  *message.mutable_policies() = PoliciesOf(node.config);
  if (node.cpu) {
    message.set_default_set(state.cpu.default_set.ToString());
    message.set_reserved_cpus(node.cpu->reserved.ToString());
    message.set_offline_cpus(state.cpu.offline.ToString());
  }
  const auto disconnected = sources.disconnected
                                ? sources.disconnected()
                                : std::map<std::string, steady_clock::time_point>();
  for (const auto& [name, resource] : state.devices.resources) {
    v1::DeviceResource& added = *message.add_devices();
    const std::set<std::string> allocated = state.devices.AllocatedIds(name);
    added = ToMessage(name, resource, allocated);
    if (list_devices) ListDevices(node.machine, resource, allocated, added);
    const auto since = disconnected.find(name);
    if (since == disconnected.end()) continue;
    added.set_registered(false);
    added.set_disconnected_unix_ms(UnixMs(since->second));
  }
  const std::set<ContainerKey> reused = Reused(sources);
  const auto bindings = sources.allocation.bindings();
  for (const ContainerKey& key : reconcile::AssignedContainers(state)) {
    if (reused.contains(key)) continue;
    *message.add_containers() =
        ReportAssignment(sources, state, *bindings, key, NameIn(names, key.pod_uid));
  }
  for (const std::string& uid : admission::PodsIn(state)) {
    std::optional<v1::WholePod> whole = ReportWholePod(state, uid, NameIn(names, uid));
    if (whole) *message.add_whole_pods() = *std::move(whole);
  }
  for (const reconcile::Condition& condition : sources.conditions.Report()) {
    v1::Condition& added = *message.add_conditions();
    added = ToMessage(condition);
    if (added.pod().empty()) added.set_pod(NameIn(names, added.pod_uid()));
  }
  if (sources.history != nullptr) {
    message.set_decisions_not_saved(Readable(sources.history->WhyNotSaved()));
  }
  message.set_pods(static_cast<uint32_t>(ContainersByPod(sources, state).size()));
  for (v1::PendingPod& pod : ReportPending(sources)) {
    *message.add_pending() = std::move(pod);
  }
  return message;
}

v1::ListPodsResponse ReportPods(const ReportSources& sources) {
  const auto snapshot = sources.allocation.snapshot();
  const admission::NodeState& state = snapshot->state;
  const Machine& machine = sources.node.machine;
  const PodNames names = AllPodNames(sources);
  const std::map<std::string, std::string> sources_by_pod = SourcesByPod(sources);
  const auto bindings = sources.allocation.bindings();
  std::vector<v1::PodReport> pods;
  for (const auto& [uid, containers] : ContainersByPod(sources, state)) {
    v1::PodReport& pod = pods.emplace_back();
    const std::string name = NameIn(names, uid);
    pod.set_pod_uid(uid);
    pod.set_pod_namespace(name.substr(0, name.find('/')));
    if (!name.empty()) pod.set_pod_name(name.substr(name.find('/') + 1));
    if (const auto source = sources_by_pod.find(uid); source != sources_by_pod.end()) {
      pod.set_source(Readable(source->second));
    }
    if (auto whole = ReportWholePod(state, uid, name)) *pod.mutable_whole() = *std::move(whole);
    for (const std::string& container : containers) {
      v1::ContainerAssignment& added = *pod.add_containers();
      added = ReportAssignment(sources, state, *bindings, {uid, container}, name);
      const admission::Assignment assignment =
          admission::AssignmentOf(sources.node, state, {uid, container});
      added.set_cpus(assignment.cpuset.ToString());
      const std::vector<int> nodes = machine.NumaIds(machine.NumaOf(assignment.cpuset));
      added.mutable_cpu_nodes()->Assign(nodes.begin(), nodes.end());
    }
  }
  std::ranges::stable_sort(pods, {}, [](const v1::PodReport& pod) {
    return std::pair(pod.pod_namespace(), pod.pod_name());
  });
  v1::ListPodsResponse message;
  message.set_time_unix_ms(UnixMs(system_clock::now()));
  if (const auto waiting = sources.allocation.WaitingPods()) {
    std::map<ContainerKey, v1::PendingPod> entries;
    AddWaiting(*waiting, entries);
    std::vector<v1::PendingPod> in_order;
    for (auto& [key, entry] : entries) in_order.push_back(std::move(entry));
    std::ranges::sort(in_order, {}, &v1::PendingPod::position);
    for (v1::PendingPod& pod : in_order) *message.add_waiting() = std::move(pod);
  }
  for (v1::PodReport& pod : pods) *message.add_pods() = std::move(pod);
  AddClaimedDevices(sources, message);
  return message;
}

}  // namespace alignd::control
