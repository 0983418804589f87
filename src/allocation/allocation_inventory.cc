// How AllocationManager learns which devices there are, and who has some of them from before.
#include <spdlog/spdlog.h>

#include <chrono>
#include <thread>
#include <utility>

#include "allocation/allocation_manager.h"

namespace alignd::allocation {

using admission::NodeState;
using checkpoint::DeviceCheckpoint;

namespace {

constexpr std::chrono::milliseconds kReadAgain{250};

}  // namespace

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
  Put(std::move(announced), /*takes_over=*/false);
  if (!came.empty()) ReadForArrival(came, /*last_fault=*/{});
}

// A file that cannot be read would have all be free that somebody holds. Its plugin waits instead.
void AllocationManager::ReadForArrival(const std::set<std::string>& came,
                                       const std::string& last_fault) {
  reader_->Post([this, came, last_fault] {
    if (!last_fault.empty()) std::this_thread::sleep_for(kReadAgain);
    Result<DeviceCheckpoint> read = kubelet_.read();
    // Without a kubelet that ever counted devices there is no such file.
    if (!read.ok() && read.error().code == ErrorCode::kNotFound) read = DeviceCheckpoint();
    if (read.ok()) read = OfItsPlugins(*std::move(read), kubelet_.is_ours);
    queue_->Post([this, came, last_fault, read = std::move(read)] {
      if (read.ok()) {
        of_its_plugins_ = *read;
        return Arrive(came);
      }
      const std::string fault = read.error().Text();
      if (fault != last_fault) {
        spdlog::error(
            "what pods hold of {} from the kubelet cannot be known, so that none of it is given "
            "out: {}",
            *came.begin(), fault);
      }
      if (!stopping_) ReadForArrival(came, fault);
    });
  });
}

void AllocationManager::Arrive(const std::set<std::string>& came) {
  Inventory arrived;
  for (const std::string& name : came) {
    // It may have gone meanwhile and come once more, and then have arrived already.
    if (auto announced = arriving_.extract(name)) arrived.insert(std::move(announced));
  }
  Put(std::move(arrived), /*takes_over=*/true);
}

void AllocationManager::Put(Inventory inventory, bool takes_over) {
  NodeState next = ledger_.state();
  for (auto& [name, resource] : inventory) {
    // Whether it has come, or is not waited for any longer.
    if (!resource || resource->registered) of_earlier_boot_.erase(name);
    if (!resource) {
      next.devices.resources.erase(name);
      continue;
    }
    // Bindings first, so that the kubelet never sees held devices without what stands behind them.
    if (takes_over && bindings_ != nullptr) {
      const TakenOver taken = TakeOver(of_its_plugins_, name, *bindings(), next);
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
    next.devices.resources[name] = *std::move(resource);
  }
  SettleBoot();
  const Result<Done> saved = ledger_.Keep(std::move(next), Hidden(nullptr));
  if (!saved.ok()) spdlog::error("save the device inventory: {}", saved.error().Text());
}

Result<Done> AllocationManager::TakeOverWanted(const Caller& caller) {
  const ContainerKey key{caller.pod.uid, caller.wanted};
  const auto given = of_its_plugins_.allocations.find(key);
  if (given == of_its_plugins_.allocations.end() || bindings_ == nullptr) return Done{};
  NodeState next = ledger_.state();
  for (const auto& [resource, allocation] : given->second) {
    const bool is_ours = next.devices.resources.contains(resource);
    if (!is_ours || next.devices.Find(key, resource) != nullptr) continue;
    const TakenOver taken = TakeOver(of_its_plugins_, resource, *bindings(), next, &key);
    if (!taken.contradictory.empty()) {
      return Error{ErrorCode::kUnavailable, resource + ": " + taken.contradictory.front(),
                   "remove one of the two pods"};
    }
    if (Result<Done> bound = bindings_->Set(taken.bound); !bound.ok()) return bound;
  }
  if (next == ledger_.state()) return Done{};
  return ledger_.Keep(std::move(next), Hidden(nullptr));
}

void AllocationManager::SettleBoot() {
  if (boot_ == nullptr || !boot_->IsEarlier()) return;
  std::set<std::string> held;
  for (const auto& [key, resources] : ledger_.state().devices.allocations) {
    for (const auto& [resource, allocation] : resources) held.insert(resource);
  }
  std::erase_if(of_earlier_boot_, [&](const auto& resource) { return !held.contains(resource); });
  if (!of_earlier_boot_.empty()) return;
  const Result<Done> settled = boot_->Settle();
  if (settled.ok() || std::exchange(unsettled_said_, true)) return;
  spdlog::error("note the machine's boot: {}", settled.error().Text());
}

std::optional<Outcome> AllocationManager::AwaitsPluginsOfThisBoot(const Caller& caller) const {
  if (of_earlier_boot_.empty()) return std::nullopt;
  const ContainerKey key{caller.pod.uid, caller.wanted};
  const auto held = ledger_.state().devices.allocations.find(key);
  if (held == ledger_.state().devices.allocations.end()) return std::nullopt;
  for (const auto& [resource, allocation] : held->second) {
    if (!of_earlier_boot_.contains(resource)) continue;
    if (const std::optional<Error> awaited = plugins_.Awaited(resource)) return *awaited;
    if (arriving_.contains(resource)) {
      return Error{ErrorCode::kUnavailable, resource + ": its device plugin has only just come",
                   "wait: the container is tried again"};
    }
    return UnexpectedAdmissionError(
        resource +
        ": its device plugin has not come since the machine booted, and the devices may "
        "not be there without it: see to the plugin's pod");
  }
  return std::nullopt;
}

}  // namespace alignd::allocation
