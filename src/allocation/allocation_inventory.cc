// How AllocationManager learns which devices there are.
#include <spdlog/spdlog.h>

#include <utility>

#include "allocation/allocation_manager.h"

namespace alignd::allocation {

using admission::NodeState;
using checkpoint::DeviceCheckpoint;

void AllocationManager::SetResource(std::string name, devicemanager::Resource resource) {
  Announce(name, std::move(resource));
}

void AllocationManager::RemoveResource(const std::string& name) { Announce(name, std::nullopt); }

void AllocationManager::Announce(const std::string& name,
                                 std::optional<devicemanager::Resource> resource) {
  {
    const MutexLock lock(mutex_);
    const bool is_posted = !announced_.empty();
    announced_.insert_or_assign(name, std::move(resource));
    if (is_posted) return;
  }
  queue_->Post([this] { ChangeInventory(); });
}

void AllocationManager::ChangeInventory() {
  queue_->AssertOnThisThread();
  Inventory announced;
  {
    const MutexLock lock(mutex_);
    announced.swap(announced_);
  }
  std::set<std::string> came;
  std::erase_if(announced, [&](auto& entry) {
    auto& [name, resource] = entry;
    if (!resource) plugins_seen_.erase(name);
    const bool is_new =
        reader_ != nullptr && resource && resource->registered && plugins_seen_.insert(name).second;
    if (!is_new && !arriving_.contains(name)) return false;
    arriving_.insert_or_assign(name, std::move(resource));
    if (is_new) came.insert(name);
    return true;
  });
  Put(std::move(announced), nullptr);
  if (came.empty()) return;
  reader_->Post([this, came] {
    Result<DeviceCheckpoint> read = kubelet_.read();
    if (read.ok()) read = OfItsPlugins(*std::move(read), kubelet_.is_ours);
    queue_->Post([this, came, read = std::move(read)] {
      // Without a kubelet that ever counted devices there is no such file.
      if (!read.ok() && read.error().code != ErrorCode::kNotFound) {
        spdlog::error("what pods hold of plugins that were the kubelet's cannot be known: {}",
                      read.error().Text());
      }
      Arrive(came, read.ok() ? &*read : nullptr);
    });
  });
}

void AllocationManager::PluginCame(const std::string& resource) {
  of_earlier_boot_.erase(resource);
  if (!of_earlier_boot_.empty() || boot_ == nullptr || !boot_->IsEarlier()) return;
  const Result<Done> settled = boot_->Settle();
  if (!settled.ok()) spdlog::error("note the machine's boot: {}", settled.error().Text());
}

std::optional<Outcome> AllocationManager::AwaitsPluginsOfThisBoot(const Caller& caller) const {
  if (of_earlier_boot_.empty()) return std::nullopt;
  const ContainerKey key{caller.pod.uid, caller.wanted};
  const auto held = ledger_.state().devices.allocations.find(key);
  if (held == ledger_.state().devices.allocations.end()) return std::nullopt;
  for (const auto& [resource, allocation] : held->second) {
    if (!of_earlier_boot_.contains(resource)) continue;
    if (const std::optional<Error> awaited = plugins_.Awaited(resource)) return *awaited;
    return UnexpectedAdmissionError(
        resource +
        ": its device plugin has not come since the machine booted, and the devices may "
        "not be there without it: see to the plugin's pod");
  }
  return std::nullopt;
}

void AllocationManager::Arrive(const std::set<std::string>& came,
                               const DeviceCheckpoint* of_its_plugins) {
  Inventory arrived;
  for (const std::string& name : came) {
    // It may have gone meanwhile and come once more, and then have arrived already.
    if (auto announced = arriving_.extract(name)) arrived.insert(std::move(announced));
  }
  Put(std::move(arrived), of_its_plugins);
}

void AllocationManager::Put(Inventory inventory, const DeviceCheckpoint* of_its_plugins) {
  NodeState next = ledger_.state();
  for (auto& [name, resource] : inventory) {
    if (!resource) {
      next.devices.resources.erase(name);
      continue;
    }
    // Bindings first, so that the kubelet never sees held devices without what stands behind them.
    if (of_its_plugins != nullptr && bindings_ != nullptr) {
      const TakenOver taken = TakeOver(*of_its_plugins, name, *bindings(), next);
      for (const std::string& sentence : taken.contradictory) {
        spdlog::error("{}: {}; remove one of the two pods", name, sentence);
      }
      for (const auto& [key, devices] : taken.bound) {
        spdlog::info("{}: container {} of pod {} keeps what the kubelet gave it", name,
                     key.container, key.pod_uid);
      }
      const Result<Done> bound = bindings_->Set(taken.bound);
      if (!bound.ok()) spdlog::error("{}: what was counted: {}", name, bound.error().Text());
    }
    if (resource->registered) PluginCame(name);
    next.devices.resources[name] = *std::move(resource);
  }
  const Result<Done> saved = ledger_.Keep(std::move(next), Hidden(nullptr));
  if (!saved.ok()) spdlog::error("save the device inventory: {}", saved.error().Text());
}

}  // namespace alignd::allocation
