#include "simulator/kubelet_devices.h"

#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include "deviceplugin/v1beta1/deviceplugin.pb.h"

namespace alignd::simulator {
namespace {

Error Refused(const std::string& why) {
  return {ErrorCode::kUnavailable, "Allocate failed due to " + why + ", which is unexpected"};
}

}  // namespace

Result<std::unique_ptr<KubeletDevices>> KubeletDevices::Start(std::filesystem::path registry,
                                                              std::chrono::milliseconds grace) {
  std::unique_ptr<KubeletDevices> devices(new KubeletDevices(std::move(registry), grace));
  if (Result<Done> started = devices->Restart(); !started.ok()) return started.error();
  return devices;
}

KubeletDevices::KubeletDevices(std::filesystem::path registry, std::chrono::milliseconds grace)
    : registry_(std::move(registry)), grace_(grace) {}

KubeletDevices::~KubeletDevices() { Stop(); }

void KubeletDevices::Stop() {
  const MutexLock admission(admission_mutex_);
  watcher_.reset();
  plugins_.reset();
  const MutexLock lock(mutex_);
  resources_.clear();
}

Result<Done> KubeletDevices::Restart() {
  Stop();
  const MutexLock admission(admission_mutex_);
  deviceplugin::PluginSettings settings;
  settings.grace = grace_;
  plugins_ = std::make_unique<deviceplugin::PluginRegistry>(settings, *this);
  deviceplugin::WatcherSettings watching;
  watching.last_pause = watching.first_pause;
  auto watcher = deviceplugin::PluginWatcher::Start(registry_, *plugins_, watching);
  if (!watcher.ok()) return watcher.error();
  watcher_ = *std::move(watcher);
  return Done{};
}

void KubeletDevices::SetResource(std::string name, devicemanager::Resource resource) {
  const MutexLock lock(mutex_);
  resources_[std::move(name)] = std::move(resource);
  changed_.NotifyAll();
}

void KubeletDevices::RemoveResource(const std::string& name) {
  const MutexLock lock(mutex_);
  resources_.erase(name);
  changed_.NotifyAll();
}

std::set<std::string> KubeletDevices::HealthyIds(const std::string& resource) const {
  std::set<std::string> ids;
  const auto found = resources_.find(resource);
  if (found == resources_.end()) return ids;
  for (const auto& [id, device] : found->second.devices) {
    if (device.healthy) ids.insert(id);
  }
  return ids;
}

std::set<std::string> KubeletDevices::Healthy(const std::string& resource) const {
  const MutexLock lock(mutex_);
  return HealthyIds(resource);
}

bool KubeletDevices::WaitUntilHealthy(const std::string& resource, const std::set<std::string>& ids,
                                      std::chrono::milliseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const MutexLock lock(mutex_);
  while (HealthyIds(resource) != ids) {
    if (!changed_.WaitUntil(mutex_, deadline)) return HealthyIds(resource) == ids;
  }
  return true;
}

Result<Done> KubeletDevices::Admit(const ContainerKey& key,
                                   const std::map<std::string, int>& wanted, bool ends) {
  const MutexLock admission(admission_mutex_);
  for (const auto& [resource, count] : wanted) {
    {
      const MutexLock lock(mutex_);
      const auto known = held_.find(key);
      if (known != held_.end() && known->second.contains(resource)) continue;
    }
    Result<Held> held = Allocate(key, resource, count);
    if (!held.ok()) return held.error();
    held->ends = ends;
    const MutexLock lock(mutex_);
    held_[key][resource] = *std::move(held);
  }
  return Done{};
}

Result<std::set<std::string>> KubeletDevices::Choose(const ContainerKey& key,
                                                     const std::string& resource, int count) {
  const auto size = static_cast<size_t>(count);
  std::set<std::string> chosen;
  std::set<std::string> free;
  bool prefers = false;
  {
    const MutexLock lock(mutex_);
    free = HealthyIds(resource);
    if (free.empty()) {
      return Refused("no healthy devices present; cannot allocate unhealthy devices " + resource);
    }
    prefers = resources_.at(resource).prefers_allocation;
    std::set<std::string> left;  // by ended containers of the pod
    for (const auto& [owner, resources] : held_) {
      const auto held = resources.find(resource);
      if (held == resources.end()) continue;
      for (const std::string& id : held->second.ids) {
        free.erase(id);
        if (owner.pod_uid == key.pod_uid && held->second.ends) left.insert(id);
      }
    }
    for (const auto& [owner, resources] : held_) {  // what a lasting one has is not left
      const auto held = resources.find(resource);
      if (owner.pod_uid != key.pod_uid || held == resources.end() || held->second.ends) continue;
      for (const std::string& id : held->second.ids) left.erase(id);
    }
    for (const std::string& id : left) {
      if (chosen.size() < size) chosen.insert(id);
    }
  }
  const size_t needed = size - chosen.size();
  if (free.size() < needed) {
    return Refused("requested number of devices unavailable for " + resource + ". Requested: " +
                   std::to_string(needed) + ", Available: " + std::to_string(free.size()));
  }
  if (prefers && needed > 0 && needed < free.size()) {
    devicemanager::PreferenceQuery query;
    query.resource = resource;
    query.must_include.assign(chosen.begin(), chosen.end());
    std::set<std::string> available = free;
    available.insert(chosen.begin(), chosen.end());
    query.available.assign(available.begin(), available.end());
    query.size = count;
    std::promise<std::optional<std::vector<std::string>>> answer;
    plugins_->GetPreferredAllocation(query,
                                     [&](const auto& preferred) { answer.set_value(preferred); });
    for (const std::string& id : answer.get_future().get().value_or(std::vector<std::string>())) {
      if (chosen.size() < size && free.contains(id)) chosen.insert(id);
    }
  }
  for (const std::string& id : free) {
    if (chosen.size() < size) chosen.insert(id);
  }
  return chosen;
}

Result<KubeletDevices::Held> KubeletDevices::Allocate(const ContainerKey& key,
                                                      const std::string& resource, int count) {
  if (plugins_ == nullptr) return Refused("a kubelet that is down");
  Result<std::set<std::string>> ids = Choose(key, resource, count);
  if (!ids.ok()) return ids.error();
  std::promise<Result<std::string>> answer;
  plugins_->Allocate(resource, {ids->begin(), ids->end()},
                     [&](Result<std::string> bytes) { answer.set_value(std::move(bytes)); });
  const Result<std::string> bytes = answer.get_future().get();
  if (!bytes.ok()) return Refused("rpc error: " + bytes.error().message);
  v1beta1::ContainerAllocateResponse response;
  if (!response.ParseFromString(*bytes)) return Refused("an answer that cannot be read");
  const MutexLock lock(mutex_);
  ++allocations_;
  return Held{
      *std::move(ids), {response.annotations().begin(), response.annotations().end()}, false};
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

std::set<std::string> KubeletDevices::IdsOf(const ContainerKey& key,
                                            const std::string& resource) const {
  const MutexLock lock(mutex_);
  const auto known = held_.find(key);
  if (known == held_.end()) return {};
  const auto held = known->second.find(resource);
  return held == known->second.end() ? std::set<std::string>() : held->second.ids;
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
