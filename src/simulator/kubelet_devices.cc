#include "simulator/kubelet_devices.h"

#include <algorithm>
#include <utility>

namespace alignd::simulator {
namespace {

Error Refused(const std::string& why) {
  return {ErrorCode::kUnavailable, "Allocate failed due to " + why + ", which is unexpected"};
}

}  // namespace

Result<std::unique_ptr<KubeletDevices>> KubeletDevices::Start(std::filesystem::path registry,
                                                              KubeletTiming timing) {
  std::unique_ptr<KubeletDevices> devices(new KubeletDevices(std::move(registry), timing));
  if (Result<Done> started = devices->Restart(); !started.ok()) return started.error();
  return devices;
}

KubeletDevices::KubeletDevices(std::filesystem::path registry, KubeletTiming timing)
    : registry_(std::move(registry)), timing_(timing) {}

KubeletDevices::~KubeletDevices() { Stop(); }

void KubeletDevices::Stop() {
  std::unique_ptr<KubeletPlugins> plugins;  // ends without the lock: it calls us up to its end
  {
    const MutexLock lock(mutex_);
    ++life_;
    plugins = std::move(plugins_);
  }
  plugins.reset();
  const MutexLock lock(mutex_);
  resources_.clear();
  changed_.NotifyAll();
}

Result<Done> KubeletDevices::Restart() {
  Stop();
  {
    // Resources of the checkpoint are known, without any device.
    const MutexLock lock(mutex_);
    for (const auto& [key, held] : held_) {
      for (const auto& [resource, ids] : held) resources_[resource];
    }
  }
  auto plugins = KubeletPlugins::Start(registry_, timing_, *this);
  if (!plugins.ok()) return plugins.error();
  const MutexLock lock(mutex_);
  plugins_ = *std::move(plugins);
  return Done{};
}

void KubeletDevices::Shuffle(uint64_t seed) {
  const MutexLock lock(mutex_);
  random_.emplace(seed);
}

void KubeletDevices::Connected(const std::string& resource, std::shared_ptr<PluginClient> client,
                               const v1beta1::DevicePluginOptions& options) {
  const MutexLock lock(mutex_);
  Resource& known = resources_[resource];
  known.client = std::move(client);
  known.prefers_allocation = options.get_preferred_allocation_available();
  known.stopped = false;
}

void KubeletDevices::Disconnected(const std::string& resource) {
  const MutexLock lock(mutex_);
  const auto known = resources_.find(resource);
  if (known == resources_.end()) return;
  for (auto& [id, healthy] : known->second.devices) healthy = false;
  known->second.stopped = true;
  changed_.NotifyAll();
}

void KubeletDevices::Listed(const std::string& resource,
                            const v1beta1::ListAndWatchResponse& list) {
  const MutexLock lock(mutex_);
  auto& devices = resources_[resource].devices;
  devices.clear();
  for (const v1beta1::Device& device : list.devices()) {
    devices[device.id()] = device.health() == "Healthy";
  }
  changed_.NotifyAll();
}

KubeletDevices::Ids KubeletDevices::HealthyIds(const std::string& resource) const {
  Ids ids;
  const auto found = resources_.find(resource);
  if (found == resources_.end()) return ids;
  for (const auto& [id, healthy] : found->second.devices) {
    if (healthy) ids.insert(id);
  }
  return ids;
}

KubeletDevices::Ids KubeletDevices::Healthy(const std::string& resource) const {
  const MutexLock lock(mutex_);
  return HealthyIds(resource);
}

KubeletDevices::Ids KubeletDevices::Listed(const std::string& resource) const {
  const MutexLock lock(mutex_);
  Ids ids;
  const auto found = resources_.find(resource);
  if (found == resources_.end()) return ids;
  for (const auto& [id, healthy] : found->second.devices) ids.insert(id);
  return ids;
}

bool KubeletDevices::WaitUntilHealthy(const std::string& resource, const Ids& ids,
                                      std::chrono::milliseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const MutexLock lock(mutex_);
  while (HealthyIds(resource) != ids) {
    if (!changed_.WaitUntil(mutex_, deadline)) return HealthyIds(resource) == ids;
  }
  return true;
}

// Source: manager.go, allocateContainerResources: the checkpoint is written once for the container.
Result<Done> KubeletDevices::Admit(const ContainerKey& key,
                                   const std::map<std::string, int>& wanted, bool ends) {
  const MutexLock admission(admission_mutex_);
  uint64_t life = 0;
  std::map<std::string, int> missing = wanted;
  {
    const MutexLock lock(mutex_);
    life = life_;
    const auto known = held_.find(key);
    if (known != held_.end()) {
      std::erase_if(missing, [&](const auto& want) { return known->second.contains(want.first); });
    }
  }
  std::map<std::string, Held> allocated;
  for (const auto& [resource, count] : missing) {
    if (count == 0) continue;
    Result<Held> held = Allocate(key, resource, count);
    if (!held.ok()) return held.error();
    held->ends = ends;
    allocated[resource] = *std::move(held);
  }
  const MutexLock lock(mutex_);
  if (life != life_) return Refused("a kubelet that was killed");
  for (auto& [resource, held] : allocated) held_[key][resource] = std::move(held);
  return Done{};
}

std::vector<ContainerKey> KubeletDevices::Readmit(const std::set<ContainerKey>& running) const {
  std::vector<ContainerKey> refused;
  const MutexLock lock(mutex_);
  for (const auto& [key, resources] : held_) {
    if (running.contains(key)) continue;
    bool fits = true;
    for (const auto& [resource, held] : resources) {
      fits = fits && std::ranges::includes(HealthyIds(resource), held.ids);
    }
    if (!fits) refused.push_back(key);
  }
  return refused;
}

std::vector<std::string> KubeletDevices::Ordered(const Ids& ids) {
  std::vector<std::string> ordered(ids.begin(), ids.end());
  if (random_) std::ranges::shuffle(ordered, *random_);
  return ordered;
}

Result<KubeletDevices::Offer> KubeletDevices::Offered(const ContainerKey& key,
                                                      const std::string& resource) {
  const MutexLock lock(mutex_);
  const auto known = resources_.find(resource);
  if (known == resources_.end()) return Refused("cannot allocate unregistered device " + resource);
  Ids free = HealthyIds(resource);
  if (free.empty()) {
    return Refused("no healthy devices present; cannot allocate unhealthy devices " + resource);
  }
  Ids left;
  Ids lasting;
  for (const auto& [owner, resources] : held_) {
    const auto held = resources.find(resource);
    if (held == resources.end()) continue;
    for (const std::string& id : held->second.ids) {
      free.erase(id);
      if (owner.pod_uid == key.pod_uid) (held->second.ends ? left : lasting).insert(id);
    }
  }
  for (const std::string& id : lasting) left.erase(id);
  return Offer{Ordered(left), Ordered(free), known->second.client,
               known->second.prefers_allocation};
}

// Source: manager.go, devicesToAllocate, for devices without topology.
Result<KubeletDevices::Ids> KubeletDevices::Choose(const std::string& resource, int count,
                                                   const Offer& offer) {
  const auto size = static_cast<size_t>(count);
  Ids chosen;
  for (const std::string& id : offer.left) {
    if (chosen.size() < size) chosen.insert(id);
  }
  const size_t needed = size - chosen.size();
  if (needed == 0) return chosen;
  if (offer.free.size() < needed) {
    return Refused("requested number of devices unavailable for " + resource + ". Requested: " +
                   std::to_string(needed) + ", Available: " + std::to_string(offer.free.size()));
  }
  const Ids free(offer.free.begin(), offer.free.end());
  if (offer.prefers) {
    Ids available = free;
    available.insert(chosen.begin(), chosen.end());
    const Result<Ids> preferred = offer.client->GetPreferredAllocation(available, chosen, count);
    if (!preferred.ok()) return Refused(preferred.error().message);
    for (const std::string& id : *preferred) {
      if (chosen.size() < size && free.contains(id)) chosen.insert(id);
    }
  }
  for (const std::string& id : offer.free) {
    if (chosen.size() < size) chosen.insert(id);
  }
  return chosen;
}

Result<KubeletDevices::Held> KubeletDevices::Allocate(const ContainerKey& key,
                                                      const std::string& resource, int count) {
  const Result<Offer> offer = Offered(key, resource);
  if (!offer.ok()) return offer.error();
  Result<Ids> ids = Choose(resource, count, *offer);
  if (!ids.ok()) return ids.error();
  const Result<v1beta1::ContainerAllocateResponse> answer = offer->client->Allocate(*ids);
  if (!answer.ok()) return Refused(answer.error().message);
  const MutexLock lock(mutex_);
  ++allocations_;
  return Held{*std::move(ids), {answer->annotations().begin(), answer->annotations().end()}, false};
}

KubeletDevices::Annotations KubeletDevices::AnnotationsOf(const ContainerKey& key) const {
  Annotations annotations;
  const MutexLock lock(mutex_);
  const auto known = held_.find(key);
  if (known == held_.end()) return annotations;
  for (const auto& [resource, held] : known->second) {
    annotations.insert(held.annotations.begin(), held.annotations.end());
  }
  return annotations;
}

KubeletDevices::Ids KubeletDevices::IdsOf(const ContainerKey& key,
                                          const std::string& resource) const {
  const MutexLock lock(mutex_);
  const auto known = held_.find(key);
  if (known == held_.end()) return {};
  const auto held = known->second.find(resource);
  return held == known->second.end() ? Ids() : held->second.ids;
}

void KubeletDevices::Forget(const std::string& pod_uid) {
  const MutexLock lock(mutex_);
  std::erase_if(held_, [&](const auto& entry) { return entry.first.pod_uid == pod_uid; });
}

int KubeletDevices::allocations() const {
  const MutexLock lock(mutex_);
  return allocations_;
}

}  // namespace alignd::simulator
