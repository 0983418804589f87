#include "alignd/checkpoint/device_checkpoint.h"

#include <algorithm>
#include <utility>

#include "alignd/checkpoint/documents.h"

namespace alignd::checkpoint {
namespace {

using devicemanager::Device;
using devicemanager::DeviceAllocation;
using devicemanager::DeviceState;

// Sorted, each once; null is empty.
std::vector<std::string> ToIds(const GoSlice<std::string>& list) {
  std::vector<std::string> ids;
  if (list) ids = *list;
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

DeviceEntryDocument ToDocument(const ContainerKey& key, const std::string& resource,
                               const DeviceAllocation& allocation) {
  DeviceEntryDocument entry{key.pod_uid, key.container, resource, {}, {allocation.response}};
  entry.device_ids.emplace();
  for (const auto& [node, ids] : allocation.devices) {
    (*entry.device_ids)[node] = ToIds(ids);
  }
  return entry;
}

DeviceAllocation FromDocument(const DeviceEntryDocument& entry) {
  DeviceAllocation allocation;
  allocation.response = entry.alloc_resp.bytes.value_or("");
  if (!entry.device_ids) return allocation;
  for (const auto& [node, ids] : *entry.device_ids) allocation.devices[node] = ToIds(ids);
  return allocation;
}

}  // namespace

DeviceState DeviceCheckpoint::ToState() const {
  DeviceState state;
  state.allocations = allocations;
  for (const auto& [resource, ids] : registered) state.resources[resource];
  return state;
}

std::string FormatDeviceCheckpoint(const DeviceState& state) {
  DeviceDocument document;
  auto& entries = document.data.pod_device_entries;
  entries.reset();  // the kubelet writes null where nothing is allocated
  for (const auto& [key, resources] : state.allocations) {
    for (const auto& [resource, allocation] : resources) {
      if (!entries) entries.emplace();
      entries->push_back(ToDocument(key, resource, allocation));
    }
  }
  for (const auto& [name, resource] : state.resources) {
    auto& ids = (*document.data.registered_devices)[name].emplace();
    for (const auto& [id, device] : resource.devices) {
      if (device.healthy) ids.push_back(id);
    }
  }
  return ToText(std::move(document));
}

Result<DeviceCheckpoint> ParseDeviceCheckpoint(std::string_view text) {
  const Result<Verified<DeviceDocument>> read = ReadDeviceDocument(text);
  if (!read.ok()) return read.error();
  const DeviceDataDocument& data = read->document.data;
  DeviceCheckpoint checkpoint;
  if (data.pod_device_entries) {
    for (const DeviceEntryDocument& entry : *data.pod_device_entries) {
      const ContainerKey key{entry.pod_uid, entry.container_name};
      checkpoint.allocations[key][entry.resource_name] = FromDocument(entry);
    }
  }
  if (data.registered_devices) {
    for (const auto& [resource, ids] : *data.registered_devices) {
      checkpoint.registered[resource] = ToIds(ids);
    }
  }
  return checkpoint;
}

}  // namespace alignd::checkpoint
