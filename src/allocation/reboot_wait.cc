#include "allocation/reboot_wait.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace alignd::allocation {

using devicemanager::DeviceState;

RebootWait::RebootWait(BootRecord* record, const DeviceState& devices, OnDisk on_disk)
    : record_(record),
      on_disk_(std::move(on_disk)),
      is_settled_(record_ == nullptr || !record_->IsEarlier()) {
  if (is_settled_) return;
  for (const auto& [key, resources] : devices.allocations) {
    for (const auto& [resource, allocation] : resources) {
      // The plugin of a resource that was removed is not expected any more.
      if (devices.resources.contains(resource)) unsettled_.insert(resource);
    }
  }
  Settle(devices);
}

void RebootWait::Settle(const DeviceState& devices) {
  if (is_settled_) return;
  std::set<std::string> assigned;
  for (const auto& [key, resources] : devices.allocations) {
    for (const auto& [resource, allocation] : resources) assigned.insert(resource);
  }
  std::erase_if(unsettled_, [&](const auto& resource) { return !assigned.contains(resource); });
  if (!unsettled_.empty()) return;
  is_settled_ = true;
  on_disk_([this] {
    const Result<Done> settled = record_->Settle();
    if (settled.ok()) return;
    is_settled_ = false;  // the next change tries again
    if (std::exchange(failure_logged_, true)) return;
    spdlog::error("record the machine's boot: {}", settled.error().Text());
  });
}

std::optional<EarlyAnswer> RebootWait::Check(const ContainerKey& key, const DeviceState& devices,
                                             const InventoryQueue& inventory,
                                             const DevicePlugins& plugins) const {
  if (unsettled_.empty()) return std::nullopt;
  const auto assigned = devices.allocations.find(key);
  if (assigned == devices.allocations.end()) return std::nullopt;
  for (const auto& [resource, allocation] : assigned->second) {
    if (!unsettled_.contains(resource)) continue;
    if (auto wait = WaitFor(resource, devices, plugins, inventory)) return *std::move(wait);
    return Outcome(UnexpectedAdmissionError(
        resource +
        ": its device plugin has not registered since the machine booted, and without it the "
        "devices may not exist: check the plugin's pod"));
  }
  return std::nullopt;
}

}  // namespace alignd::allocation
