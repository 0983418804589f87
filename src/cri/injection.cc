#include "cri/injection.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cri/allocate_response.h"

namespace alignd::cri {
namespace {

using runtime::v1::ContainerConfig;
using runtime::v1::LinuxContainerResources;

// Adds what `add` appends, and moves it before what was there.
template <typename Repeated, typename Add>
void Prepend(Repeated& field, Add add) {
  const int before = field.size();
  add();
  std::rotate(field.begin(), field.begin() + before, field.end());
}

void AddDevices(const MergedResponse& merged, ContainerConfig& config) {
  Prepend(*config.mutable_envs(), [&] {
    for (const auto& [key, value] : merged.envs) {
      runtime::v1::KeyValue& env = *config.add_envs();
      env.set_key(key);
      env.set_value(value);
    }
  });
  Prepend(*config.mutable_mounts(), [&] {
    for (const DeviceMount& wanted : merged.mounts) {
      runtime::v1::Mount& mount = *config.add_mounts();
      mount.set_container_path(wanted.container_path);
      mount.set_host_path(wanted.host_path);
      mount.set_readonly(wanted.read_only);
    }
  });
  Prepend(*config.mutable_devices(), [&] {
    for (const DeviceNode& wanted : merged.devices) {
      runtime::v1::Device& device = *config.add_devices();
      device.set_container_path(wanted.container_path);
      device.set_host_path(wanted.host_path);
      device.set_permissions(wanted.permissions);
    }
  });
  config.mutable_annotations()->insert(merged.annotations.begin(), merged.annotations.end());
  std::set<std::string> named;
  for (const runtime::v1::CDIDevice& device : config.cdi_devices()) named.insert(device.name());
  for (const std::string& name : merged.cdi_devices) {
    if (named.insert(name).second) config.add_cdi_devices()->set_name(name);
  }
}

}  // namespace

std::string NodeList(const std::vector<int>& nodes) {
  CpuSet list;  // the same list form
  for (const int node : nodes) list.Add(node);
  return list.ToString();
}

Result<std::vector<std::string>> Inject(const admission::Grant& grant, ContainerConfig& config) {
  if (!grant.cpuset.empty() || !grant.memory_nodes.empty()) {
    LinuxContainerResources& resources = *config.mutable_linux()->mutable_resources();
    if (!grant.exclusive.empty()) resources.set_cpu_quota(kNoQuota);
    KeepGrant(grant, resources);
  }
  std::vector<std::string> conflicts;
  if (grant.devices.empty()) return conflicts;
  std::map<std::string, std::string> responses;
  for (const auto& [resource, allocation] : grant.devices) {
    responses[resource] = allocation.response;
  }
  const Result<MergedResponse> merged = MergeResponses(responses);
  if (!merged.ok()) return merged.error();
  AddDevices(*merged, config);
  for (const MergeConflict& conflict : merged->conflicts) conflicts.push_back(conflict.ToString());
  return conflicts;
}

void KeepGrant(const admission::Grant& grant, LinuxContainerResources& resources) {
  if (!grant.cpuset.empty()) resources.set_cpuset_cpus(grant.cpuset.ToString());
  if (!grant.memory_nodes.empty()) resources.set_cpuset_mems(NodeList(grant.memory_nodes));
  // 0 means "keep what it is"; any other quota would throttle exclusive CPUs.
  if (!grant.exclusive.empty() && resources.cpu_quota() != 0) resources.set_cpu_quota(kNoQuota);
}

}  // namespace alignd::cri
