// The allocation manager and the inventory: what the plugins announce, which CPUs are online, and
// which pods are known.
#include <spdlog/spdlog.h>

#include <future>
#include <utility>

#include "alignd/cpumanager/static_policy.h"
#include "allocation/allocation_manager.h"
#include "allocation/state_limits.h"

namespace alignd::allocation {

std::set<std::string> AllocationManager::KnownPods() {
  std::promise<std::set<std::string>> known;
  KnownPods([&known](std::set<std::string> uids) { known.set_value(std::move(uids)); });
  return known.get_future().get();
}

void AllocationManager::KnownPods(std::function<void(std::set<std::string>)> done) {
  const bool posted = queue_->Post([this, done] {
    std::set<std::string> uids = admission::PodsIn(ledger_.state());
    notes_.AddPodsTo(uids);
    if (waiting_) {
      for (const WaitQueue::SharedPlace& place : waiting_->Places()) uids.insert(place->pod.uid);
    }
    const auto bound = bindings();
    for (const auto& [key, devices] : *bound) uids.insert(key.pod_uid);
    done(std::move(uids));
  });
  if (!posted) done({});
}

void AllocationManager::SetOffline(CpuSet offline) {
  queue_->Post([this, offline = std::move(offline)] {
    if (!node_.cpu) return;
    admission::NodeState next = ledger_.state();
    cpumanager::SetOffline(offline & node_.machine.cpus(), next.cpu);
    ledger_.Keep(std::move(next));
    if (waiting_) waiting_->InventoryChanged();
    TryWaitingSoon();
    CheckPlacesSoon();
    CheckHeld();
  });
}

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
  admission::NodeState next = ledger_.state();
  for (auto& [name, resource] : changes) {
    if (!resource || resource->registered) reboot_.PluginSettled(name);
    if (!resource) {
      next.devices.resources.erase(name);
      continue;
    }
    const admission::NodeState before = next;
    Result<Done> fits = arrived ? kubelet_.Arrive(name, next) : Result<Done>(Done{});
    next.devices.resources[name] = *resource;
    if (fits.ok()) fits = RequireInventory(next.devices);
    if (fits.ok()) fits = RequireReadable(next);
    if (fits.ok()) continue;
    spdlog::error("{}: its devices are not offered: {}", name, fits.error().Text());
    if (arrived) inventory_.ArriveAgain(name);
    for (const auto& [key, resources] : next.devices.allocations) {  // may be bound already
      const bool is_new = resources.contains(name) && before.devices.Find(key, name) == nullptr;
      if (is_new) kubelet_.DropUnassigned(before, key.pod_uid);
    }
    next = before;  // without what the kubelet's plugin assigned
    resource->devices.clear();
    next.devices.resources[name] = *std::move(resource);
  }
  ledger_.Keep(std::move(next));
  SaveOrLog("save the device inventory");
  reboot_.Settle(ledger_.state().devices);
  if (waiting_) waiting_->InventoryChanged();
  TryWaitingSoon();
  CheckPlacesSoon();
  CheckHeld();
}

}  // namespace alignd::allocation
