#include "cri/injection.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cgroup/node_list.h"
#include "cri/allocate_response.h"

namespace alignd::cri {
namespace {

using runtime::v1::ContainerConfig;
using runtime::v1::LinuxContainerResources;

// Files of cgroup v2.
constexpr char kCpusFile[] = "cpuset.cpus";
constexpr char kMemsFile[] = "cpuset.mems";
constexpr char kQuotaFile[] = "cpu.max";

// Whether `unified` names files whose names begin with `name`.
bool HasFiles(const std::string& name, const LinuxContainerResources& resources) {
  return std::ranges::any_of(resources.unified(),
                             [&](const auto& entry) { return entry.first.starts_with(name); });
}

void EraseFiles(const std::string& name, LinuxContainerResources& resources) {
  std::vector<std::string> files;
  for (const auto& [file, text] : resources.unified()) {
    if (file.starts_with(name)) files.push_back(file);
  }
  for (const std::string& file : files) resources.mutable_unified()->erase(file);
}

// Puts `ours` before the entries of the field. An entry of the field that equals one of `ours` is
// dropped: if the kubelet still has an answer of a plugin that has since registered with alignd,
// the request has the contents of that answer as well.
template <typename Repeated>
void Prepend(const Repeated& ours, Repeated& field) {
  std::set<std::string> texts;
  for (const auto& entry : ours) texts.insert(entry.SerializeAsString());
  Repeated all = ours;
  for (const auto& entry : field) {
    if (!texts.contains(entry.SerializeAsString())) *all.Add() = entry;
  }
  field.Swap(&all);
}

// Sets no field to 0 or "": Prepend compares with the entries of the kubelet, which omits these.
void AddDevices(const MergedResponse& merged, ContainerConfig& config) {
  ContainerConfig ours;
  for (const auto& [key, value] : merged.envs) {
    runtime::v1::KeyValue& env = *ours.add_envs();
    if (!key.empty()) env.set_key(key);
    if (!value.empty()) env.set_value(value);
  }
  for (const DeviceMount& wanted : merged.mounts) {
    runtime::v1::Mount& mount = *ours.add_mounts();
    if (!wanted.container_path.empty()) mount.set_container_path(wanted.container_path);
    if (!wanted.host_path.empty()) mount.set_host_path(wanted.host_path);
    if (wanted.read_only) mount.set_readonly(true);
  }
  for (const DeviceNode& wanted : merged.devices) {
    runtime::v1::Device& device = *ours.add_devices();
    if (!wanted.container_path.empty()) device.set_container_path(wanted.container_path);
    if (!wanted.host_path.empty()) device.set_host_path(wanted.host_path);
    if (!wanted.permissions.empty()) device.set_permissions(wanted.permissions);
  }
  Prepend(ours.envs(), *config.mutable_envs());
  Prepend(ours.mounts(), *config.mutable_mounts());
  Prepend(ours.devices(), *config.mutable_devices());
  config.mutable_annotations()->insert(merged.annotations.begin(), merged.annotations.end());
  std::set<std::string> named;
  for (const runtime::v1::CDIDevice& device : config.cdi_devices()) named.insert(device.name());
  for (const std::string& name : merged.cdi_devices) {
    if (named.insert(name).second) config.add_cdi_devices()->set_name(name);
  }
}

}  // namespace

Result<std::vector<std::string>> Inject(const admission::Assignment& assignment,
                                        ContainerConfig& config) {
  const bool is_applied_later = !assignment.cpuset.empty() && !config.linux().has_resources();
  if (!is_applied_later && !(assignment.cpuset.empty() && assignment.memory_nodes.empty())) {
    LinuxContainerResources& resources = *config.mutable_linux()->mutable_resources();
    if (!assignment.exclusive.empty()) resources.set_cpu_quota(kNoQuota);
    KeepAssignment(assignment, resources);
  }
  std::vector<std::string> conflicts;
  if (assignment.devices.empty()) return conflicts;
  std::map<std::string, std::string> responses;
  for (const auto& [resource, allocation] : assignment.devices) {
    responses[resource] = allocation.response;
  }
  const Result<MergedResponse> merged = MergeResponses(responses);
  if (!merged.ok()) return merged.error();
  AddDevices(*merged, config);
  for (const MergeConflict& conflict : merged->conflicts) conflicts.push_back(conflict.ToString());
  return conflicts;
}

void KeepAssignment(const admission::Assignment& assignment, LinuxContainerResources& resources) {
  if (!assignment.cpuset.empty()) {
    ClearCpuSet(resources);
    resources.set_cpuset_cpus(assignment.cpuset.ToString());
  }
  if (!assignment.memory_nodes.empty()) {
    ClearMemoryNodes(resources);
    resources.set_cpuset_mems(cgroup::NodeList(assignment.memory_nodes));
  }
  if (!assignment.exclusive.empty()) LiftQuota(resources);
}

cgroup::ParentNeeds NeedsOf(const admission::Node& node, const admission::Assignment& assignment) {
  cgroup::ParentNeeds needs{.exclusive = assignment.exclusive};
  if (needs.exclusive.empty()) needs.shared = assignment.cpuset;
  const bool is_of_node = !assignment.shares_pod_cpus && !assignment.share;
  if (is_of_node && node.cpu) needs.shared_in_partition = node.cpu->reserved;
  for (const int id : assignment.memory_nodes) needs.memory_nodes.Add(id);
  return needs;
}

bool HasQuota(const LinuxContainerResources& resources) {
  return resources.cpu_quota() > 0 || HasFiles(kQuotaFile, resources);
}

void LiftQuota(LinuxContainerResources& resources) {
  // 0 means "keep what it is"; any other quota would throttle exclusive CPUs.
  if (resources.cpu_quota() != 0) resources.set_cpu_quota(kNoQuota);
  EraseFiles(kQuotaFile, resources);
}

bool HasCpuSet(const LinuxContainerResources& resources) {
  return !resources.cpuset_cpus().empty() || HasFiles(kCpusFile, resources);
}

bool HasMemoryNodes(const LinuxContainerResources& resources) {
  return !resources.cpuset_mems().empty() || HasFiles(kMemsFile, resources);
}

bool SetsAssigned(const admission::Node& node, const LinuxContainerResources& resources) {
  return (node.cpu && (HasCpuSet(resources) || HasQuota(resources))) ||
         (node.memory && HasMemoryNodes(resources));
}

void ClearCpuSet(LinuxContainerResources& resources) {
  resources.clear_cpuset_cpus();
  EraseFiles(kCpusFile, resources);
}

void ClearMemoryNodes(LinuxContainerResources& resources) {
  resources.clear_cpuset_mems();
  EraseFiles(kMemsFile, resources);
}

}  // namespace alignd::cri
