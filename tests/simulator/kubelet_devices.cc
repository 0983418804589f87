#include "simulator/kubelet_devices.h"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

#include "alignd/checkpoint/device_checkpoint.h"
#include "host/file.h"

namespace alignd::simulator {
namespace {

constexpr int64_t kWithoutTopology = -1;

Error Refused(const std::string& why) {
  return {ErrorCode::kUnavailable, "Allocate failed due to " + why + ", which is unexpected"};
}

}  // namespace

Result<std::unique_ptr<KubeletDevices>> KubeletDevices::Start(std::filesystem::path registry,
                                                              KubeletTiming timing,
                                                              std::filesystem::path checkpoint) {
  std::unique_ptr<KubeletDevices> devices(
      new KubeletDevices(std::move(registry), timing, std::move(checkpoint)));
  if (Result<Done> started = devices->Restart(); !started.ok()) return started.error();
  return devices;
}

KubeletDevices::KubeletDevices(std::filesystem::path registry, KubeletTiming timing,
                               std::filesystem::path checkpoint)
    : registry_(std::move(registry)), timing_(timing), checkpoint_(std::move(checkpoint)) {}

KubeletDevices::~KubeletDevices() { Stop(); }

void KubeletDevices::Stop() {
  std::unique_ptr<KubeletPlugins>
      plugins;  // destroyed without the lock: it calls the listener until its end
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
    if (Result<Done> read = ReadCheckpoint(); !read.ok()) return read;
    for (const auto& [key, owned] : owned_) {
      for (const auto& [resource, ids] : owned) resources_[resource];
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
  Resource& known = resources_[resource];
  known.devices.clear();
  known.numa.clear();
  for (const v1beta1::Device& device : list.devices()) {
    known.devices[device.id()] = device.health() == "Healthy";
    for (const auto& node : device.topology().nodes()) known.numa[device.id()].insert(node.id());
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
    const auto known = owned_.find(key);
    if (known != owned_.end()) {
      std::erase_if(missing, [&](const auto& want) { return known->second.contains(want.first); });
    }
  }
  std::map<std::string, Owned> allocated;
  for (const auto& [resource, count] : missing) {
    if (count == 0) continue;
    Result<Owned> owned = Allocate(key, resource, count);
    if (!owned.ok()) return owned.error();
    owned->ends = ends;
    allocated[resource] = *std::move(owned);
  }
  const MutexLock lock(mutex_);
  if (life != life_) return Refused("a kubelet that was killed");
  for (auto& [resource, owned] : allocated) owned_[key][resource] = std::move(owned);
  return WriteCheckpoint();
}

// Source: manager.go, readCheckpoint. The reusable devices of init containers are not in the file.
Result<Done> KubeletDevices::ReadCheckpoint() {
  if (checkpoint_.empty()) return Done{};
  const auto before = std::exchange(owned_, {});
  const Result<std::string> text = host::ReadFile(checkpoint_);
  if (!text.ok())
    return text.error().code == ErrorCode::kNotFound ? Done{} : Result<Done>(text.error());
  const Result<checkpoint::DeviceCheckpoint> read = checkpoint::ParseDeviceCheckpoint(*text);
  if (!read.ok()) return read.error();
  for (const auto& [key, resources] : read->allocations) {
    const auto known = before.find(key);
    for (const auto& [resource, allocation] : resources) {
      Owned& owned = owned_[key][resource];
      owned.ids = allocation.Ids();
      for (const auto& [node, ids] : allocation.devices) {
        for (const std::string& id : ids) {
          if (node != kWithoutTopology) owned.numa[id].insert(node);
        }
      }
      if (!owned.answer.ParseFromString(allocation.response)) {
        return Error{ErrorCode::kCorrupt, checkpoint_.string() + ": an answer cannot be read"};
      }
      owned.ends = known != before.end() && known->second.contains(resource) &&
                   known->second.at(resource).ends;
    }
  }
  return Done{};
}

// Source: manager.go, writeCheckpoint.
Result<Done> KubeletDevices::WriteCheckpoint() const {
  if (checkpoint_.empty()) return Done{};
  devicemanager::DeviceState state;
  for (const auto& [name, resource] : resources_) {
    devicemanager::Resource
        listed;  // collected first: each change of the state copies the resource
    for (const auto& [id, healthy] : resource.devices) {
      listed.devices[id] = {.healthy = healthy, .numa = {}};
    }
    state.resources[name] = std::move(listed);
  }
  for (const auto& [key, resources] : owned_) {
    for (const auto& [resource, owned] : resources) {
      devicemanager::DeviceAllocation& allocation = state.allocations[key][resource];
      for (const std::string& id : owned.ids) {
        const auto numa = owned.numa.find(id);
        const std::set<int64_t> nodes =
            numa == owned.numa.end() ? std::set<int64_t>{kWithoutTopology} : numa->second;
        for (const int64_t node : nodes) allocation.devices[node].push_back(id);
      }
      allocation.response = owned.answer.SerializeAsString();
    }
  }
  std::error_code code;
  std::filesystem::create_directories(checkpoint_.parent_path(), code);
  const std::filesystem::path temporary = checkpoint_.string() + ".new";
  std::ofstream(temporary) << checkpoint::FormatDeviceCheckpoint(state);
  std::filesystem::rename(temporary, checkpoint_, code);
  if (!code) return Done{};
  return Error{ErrorCode::kIo, "write " + checkpoint_.string() + ": " + code.message()};
}

std::vector<ContainerKey> KubeletDevices::Readmit(const std::set<ContainerKey>& running) const {
  std::vector<ContainerKey> refused;
  const MutexLock lock(mutex_);
  for (const auto& [key, resources] : owned_) {
    if (running.contains(key)) continue;
    bool fits = true;
    for (const auto& [resource, owned] : resources) {
      fits = fits && std::ranges::includes(HealthyIds(resource), owned.ids);
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
  Ids reusable;
  Ids lasting;
  for (const auto& [owner, resources] : owned_) {
    const auto owned = resources.find(resource);
    if (owned == resources.end()) continue;
    for (const std::string& id : owned->second.ids) {
      free.erase(id);
      if (owner.pod_uid == key.pod_uid) (owned->second.ends ? reusable : lasting).insert(id);
    }
  }
  for (const std::string& id : lasting) reusable.erase(id);
  return Offer{Ordered(reusable), Ordered(free), known->second.client,
               known->second.prefers_allocation};
}

// Source: manager.go, devicesToAllocate, for devices without topology.
Result<KubeletDevices::Ids> KubeletDevices::Choose(const std::string& resource, int count,
                                                   const Offer& offer) {
  const auto size = static_cast<size_t>(count);
  Ids chosen;
  for (const std::string& id : offer.reusable) {
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

Result<KubeletDevices::Owned> KubeletDevices::Allocate(const ContainerKey& key,
                                                       const std::string& resource, int count) {
  const Result<Offer> offer = Offered(key, resource);
  if (!offer.ok()) return offer.error();
  Result<Ids> ids = Choose(resource, count, *offer);
  if (!ids.ok()) return ids.error();
  const Result<v1beta1::ContainerAllocateResponse> answer = offer->client->Allocate(*ids);
  if (!answer.ok()) return Refused(answer.error().message);
  const MutexLock lock(mutex_);
  ++allocations_;
  Owned owned{*std::move(ids), {}, *answer, false};
  const auto known = resources_.find(resource);
  for (const std::string& id : owned.ids) {
    if (known == resources_.end() || !known->second.numa.contains(id)) continue;
    owned.numa[id] = known->second.numa.at(id);
  }
  return owned;
}

std::vector<v1beta1::ContainerAllocateResponse> KubeletDevices::AnswersOf(
    const ContainerKey& key) const {
  std::vector<v1beta1::ContainerAllocateResponse> answers;
  const MutexLock lock(mutex_);
  const auto known = owned_.find(key);
  if (known == owned_.end()) return answers;
  for (const auto& [resource, owned] : known->second) answers.push_back(owned.answer);
  return answers;
}

KubeletDevices::Ids KubeletDevices::IdsOf(const ContainerKey& key,
                                          const std::string& resource) const {
  const MutexLock lock(mutex_);
  const auto known = owned_.find(key);
  if (known == owned_.end()) return {};
  const auto owned = known->second.find(resource);
  return owned == known->second.end() ? Ids() : owned->second.ids;
}

Result<Done> KubeletDevices::Forget(const std::string& pod_uid) {
  const MutexLock lock(mutex_);
  std::erase_if(owned_, [&](const auto& entry) { return entry.first.pod_uid == pod_uid; });
  return WriteCheckpoint();
}

int KubeletDevices::allocations() const {
  const MutexLock lock(mutex_);
  return allocations_;
}

}  // namespace alignd::simulator
