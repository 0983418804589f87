// Requests that wait, and what ends their wait: the kubelet's checkpoint, and what the plugins
// announce.
#include <spdlog/spdlog.h>

#include <utility>

#include "allocation/allocation_manager.h"
#include "allocation/plugin_needs.h"

namespace alignd::allocation {

using admission::NodeState;

void AllocationManager::Learn(Caller caller) {
  const std::string pod_uid = caller.request.pod.uid;
  const uint64_t number = learn_count_++;
  learning_.emplace(number, std::move(caller));
  kubelet_.Learn(pod_uid, Posted([this, number](const KubeletAllocation::Learned& learned) {
                   auto waiting = learning_.extract(number);
                   if (!waiting) return;  // answered when alignd began to stop
                   waiting.mapped().learned = learned;
                   Start(std::move(waiting.mapped()));
                 }));
}

// --- Requests that wait for a plugin.

void AllocationManager::CheckHeld() {
  const auto is_awaited = [this](const std::string& resource) {
    return WaitFor(resource, plugins_, inventory_).has_value();
  };
  for (Caller& caller : held_.Take(is_awaited)) Start(std::move(caller));
  ScheduleCheck();
}

void AllocationManager::ScheduleCheck() {
  const auto next = held_.NextCheck();
  if (!next || (next_check_ && *next_check_ <= *next)) return;
  next_check_ = next;
  queue_->PostAt(*next, [this, next] {
    if (next_check_ != next) return;  // another one is posted
    next_check_.reset();
    CheckHeld();
  });
}

// --- What the plugins announce.

void AllocationManager::Announce(const std::string& name,
                                 std::optional<devicemanager::Resource> resource) {
  if (inventory_.Announce(name, std::move(resource))) queue_->Post([this] { TakeAnnouncements(); });
}

void AllocationManager::TakeAnnouncements() {
  queue_->AssertOnThisThread();
  auto [changes, arriving] = inventory_.Take();
  const auto ready = Posted([this, names = arriving] {
    ChangeInventory(inventory_.TakeArrived(names), /*arrived=*/true);
  });
  if (!arriving.empty() && !kubelet_.Prepare(arriving, ready)) {
    changes.merge(inventory_.TakeArrived(arriving));
  }
  ChangeInventory(std::move(changes), /*arrived=*/false);
}

void AllocationManager::ChangeInventory(InventoryChanges changes, bool arrived) {
  NodeState next = ledger_.state();
  for (auto& [name, resource] : changes) {
    if (!resource || resource->registered) reboot_.PluginSettled(name);
    if (!resource) {
      next.devices.resources.erase(name);
      continue;
    }
    if (arrived) kubelet_.Arrive(name, next);
    next.devices.resources[name] = *std::move(resource);
  }
  const Result<Done> saved = ledger_.Keep(std::move(next), Hidden());
  reboot_.Settle(ledger_.state().devices);
  if (!saved.ok()) spdlog::error("save the device inventory: {}", saved.error().Text());
  CheckHeld();
}

}  // namespace alignd::allocation
