#include "deviceplugin/plugin_registry.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "alignd/base/counted.h"
#include "deviceplugin/checks.h"
#include "deviceplugin/plugin_endpoint.h"
#include "deviceplugin/plugin_log.h"

namespace alignd::deviceplugin {

namespace {

constexpr char kUnhealthy[] = "; its devices are unhealthy until a plugin registers again";

std::string WhyNotReached(const std::filesystem::path& socket, std::chrono::milliseconds waited) {
  std::error_code code;
  const bool is_there = std::filesystem::exists(socket, code);
  return socket.string() + (is_there ? " does not answer" : " does not exist") + ", waited for " +
         std::to_string(waited.count()) + " ms; " +
         (is_there ? "check the plugin's pod and its log"
                   : "the plugin must make its socket there, as this node sees the path");
}

Error NoPlugin(const std::string& resource) {
  return {ErrorCode::kUnavailable, resource + ": no device plugin",
          "start the device plugin, or check its pod and its log"};
}

}  // namespace

PluginRegistry::PluginRegistry(PluginSettings settings, allocation::InventorySink& inventory,
                               TaskQueue& background)
    : PluginRegistry(settings, inventory, background, DialWith(settings.deadlines)) {}

PluginRegistry::PluginRegistry(PluginSettings settings, allocation::InventorySink& inventory,
                               TaskQueue& background, MakeConnection connect)
    : settings_(settings),
      started_(Clock::now()),
      inventory_(inventory),
      background_(background),
      connect_(std::move(connect)) {
  const MutexLock lock(link_->mutex);
  link_->registry = this;
}

PluginRegistry::~PluginRegistry() {
  {
    const MutexLock lock(link_->mutex);
    link_->registry = nullptr;
  }
  std::map<std::string, Entry> entries;
  std::map<uint64_t, Connecting> connecting;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    entries.swap(entries_);
    connecting.swap(connecting_);
  }
  for (const auto& [resource, entry] : entries) {
    if (entry.endpoint != nullptr) entry.endpoint->Close();
  }
  for (const auto& [registration, attempt] : connecting) attempt.endpoint->Close();
  entries.clear();
  connecting.clear();
  const MutexLock lock(mutex_);
  while (endpoints_ > 0) all_destroyed_.Wait(mutex_);
}

PluginRegistry::EndpointPtr PluginRegistry::Own(std::unique_ptr<PluginConnection> endpoint) {
  const MutexLock lock(mutex_);
  ++endpoints_;
  return {endpoint.release(), [this](PluginConnection* last) {
            // The last owner may be a callback of the endpoint, which must not destroy it.
            EndpointPtr destroyed(last, [this](PluginConnection* old) { Destroy(old); });
            // The task is the only owner. If the queue has stopped, Post destroys it here.
            background_.Post([destroyed = std::move(destroyed)] {});
          }};
}

void PluginRegistry::Destroy(PluginConnection* endpoint) {
  delete endpoint;
  const MutexLock lock(mutex_);
  if (--endpoints_ == 0) all_destroyed_.NotifyAll();
}

uint64_t PluginRegistry::Register(const std::string& resource, const std::filesystem::path& socket,
                                  std::function<void(Result<Done>)> done) {
  Result<std::unique_ptr<PluginConnection>> connection = connect_(resource, socket);
  if (!connection.ok()) {
    done(connection.error());
    return 0;
  }
  const EndpointPtr endpoint = Own(*std::move(connection));
  uint64_t registration = 0;
  bool stopping = false;
  std::optional<Error> full;
  {
    const MutexLock lock(mutex_);
    full = WhyFull(resource);
    stopping = stopping_;
    if (!full) registration = ++registrations_;
    // In the section of the check, so that registrations at the same time do not exceed the limit.
    if (!full && !stopping) connecting_.emplace(registration, Connecting{endpoint, socket});
  }
  if (full) {
    endpoint->Close();
    done(*full);
    return 0;
  }
  if (settings_.on_register) settings_.on_register(resource);
  if (stopping) endpoint->Close();
  endpoint->Connect([this, resource, registration,
                     done = std::move(done)](Result<v1beta1::DevicePluginOptions> options) {
    OnConnected(resource, registration, std::move(options), done);
  });
  return registration;
}

std::optional<Error> PluginRegistry::WhyFull(const std::string& resource) const {
  const size_t others = connecting_.size() + entries_.size() - entries_.count(resource);
  if (others < kMaxPlugins) return std::nullopt;
  return Error{ErrorCode::kUnavailable,
               resource + ": " + std::to_string(others) +
                   " other plugins are registered or are being registered, and alignd serves " +
                   std::to_string(kMaxPlugins),
               "stop the plugins that are not needed; a resource is removed some minutes after its "
               "plugin has ended"};
}

void PluginRegistry::OnConnected(const std::string& resource, uint64_t registration,
                                 Result<v1beta1::DevicePluginOptions> options,
                                 const std::function<void(Result<Done>)>& done) {
  EndpointPtr endpoint;
  EndpointPtr predecessor;
  std::filesystem::path socket;
  std::optional<Error> refused;
  {
    const MutexLock lock(mutex_);
    const auto found = connecting_.find(registration);
    if (found != connecting_.end()) {
      endpoint = std::move(found->second.endpoint);
      socket = std::move(found->second.socket);
      connecting_.erase(found);
    }
    if (!options.ok()) {
      refused = options.error();
    } else if (endpoint == nullptr) {
      refused = Error{ErrorCode::kUnavailable, resource + ": alignd is stopping",
                      "the plugin registers again after alignd's start"};
    } else {
      Entry& entry = entries_[resource];
      if (entry.registration > registration) {
        refused = Error{ErrorCode::kUnavailable,
                        resource + ": a later registration has replaced this one",
                        "run one device plugin per resource"};
      } else {
        predecessor = std::exchange(entry.endpoint, endpoint);
        entry.preferences =
            std::make_shared<PluginPreferences>(resource, settings_.preference_pause);
        entry.registration = registration;
        entry.socket = std::move(socket);
        // Without fields that alignd does not know: they may be of any size.
        entry.options.emplace();
        entry.options->set_pre_start_required(options->pre_start_required());
        entry.options->set_get_preferred_allocation_available(
            options->get_preferred_allocation_available());
        entry.removed_at.reset();
        entry.silent_since = Clock::now();
      }
    }
  }
  if (refused.has_value()) {
    // Without the lock: a file system may hang.
    if (refused->code == ErrorCode::kDeadlineExceeded && refused->remedy.empty()) {
      refused->remedy = WhyNotReached(socket, settings_.deadlines.connect);
    }
    if (endpoint != nullptr) endpoint->Close();
    return done(*refused);
  }
  if (predecessor != nullptr) predecessor->Close();
  LogPluginNews(resource, predecessor == nullptr
                              ? "device plugin registered"
                              : "device plugin registered, it replaces a connected plugin");
  done(Done{});
  endpoint->Watch(
      [this, resource, registration](const v1beta1::ListAndWatchResponse& list) {
        OnList(resource, registration, list);
      },
      [this, resource, registration](const Error& error) { OnEnd(resource, registration, error); });
}

void PluginRegistry::OnList(const std::string& resource, uint64_t registration,
                            const v1beta1::ListAndWatchResponse& list) {
  const Result<DeviceList> checked = CheckDevices(list);
  if (!checked.ok()) return OnEnd(resource, registration, checked.error().In(resource));
  for (const std::string& complaint : checked->complaints) {
    LogPlugin(resource, resource + ": device plugin sent a list with " + complaint);
  }
  const MutexLock lock(mutex_);
  Entry* const entry = FindConnected(resource, registration);
  if (entry == nullptr) return;
  entry->silent_since.reset();
  Announce(resource, *entry,
           {.registered = true,
            .prefers_allocation = entry->options->get_preferred_allocation_available(),
            .pre_start_required = entry->options->pre_start_required(),
            .devices = checked->devices});
}

void PluginRegistry::OnEnd(const std::string& resource, uint64_t registration, const Error& error) {
  const std::optional<std::filesystem::path> socket = End(resource, registration);
  if (!socket) return;
  LogPlugin(resource, error.Text() + " (plugin on " + socket->string() + ")" + kUnhealthy);
}

void PluginRegistry::Deregister(const std::string& resource, uint64_t registration) {
  if (!End(resource, registration)) return;
  LogPlugin(resource, resource + ": device plugin removed its socket" + kUnhealthy);
}

std::optional<std::filesystem::path> PluginRegistry::End(const std::string& resource,
                                                         uint64_t registration) {
  EndpointPtr endpoint;
  std::filesystem::path socket;
  {
    const MutexLock lock(mutex_);
    Entry* const entry = FindConnected(resource, registration);
    if (entry == nullptr) return std::nullopt;
    entry->silent_since = Clock::now();
    entry->removed_at = *entry->silent_since + settings_.grace;
    if (entry->announced) {
      devicemanager::Resource unhealthy = *entry->announced;
      for (auto& [id, device] : unhealthy.devices) device.healthy = false;
      Announce(resource, *entry, std::move(unhealthy));
    }
    RemoveAt(*entry->removed_at);
    endpoint = std::exchange(entry->endpoint, nullptr);
    socket = entry->socket;
  }
  endpoint->Close();  // without the lock
  return socket;
}

std::optional<Error> PluginRegistry::Awaited(const std::string& resource) const {
  std::optional<Clock::time_point> since = started_;
  const char* what = ": its device plugin has not registered yet";
  {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(resource);
    if (found != entries_.end()) since = found->second.silent_since;
    if (found != entries_.end() && found->second.registration != 0) {
      what = ": its device plugin is disconnected";
    }
  }
  if (!since || Clock::now() >= *since + settings_.patience) return std::nullopt;
  return Error{ErrorCode::kUnavailable, resource + what,
               "wait: the kubelet retries the container; if this lasts, check the plugin's pod"};
}

std::map<std::string, PluginRegistry::Clock::time_point> PluginRegistry::Disconnected() const {
  std::map<std::string, Clock::time_point> disconnected;
  const MutexLock lock(mutex_);
  for (const auto& [resource, entry] : entries_) {
    const bool has_ended = entry.registration != 0 && entry.endpoint == nullptr;
    if (has_ended && entry.silent_since) disconnected[resource] = *entry.silent_since;
  }
  return disconnected;
}

PluginRegistry::Entry* PluginRegistry::FindConnected(const std::string& resource,
                                                     uint64_t registration) {
  const auto found = entries_.find(resource);
  if (found == entries_.end()) return nullptr;
  Entry& entry = found->second;
  return entry.registration == registration && entry.endpoint != nullptr ? &entry : nullptr;
}

void PluginRegistry::Announce(const std::string& resource, Entry& entry,
                              devicemanager::Resource now) {
  if (entry.announced == now) return;  // each change of the inventory is written to the disk
  const auto healthy = std::count_if(now.devices.begin(), now.devices.end(),
                                     [](const auto& device) { return device.second.healthy; });
  LogPluginNews(resource, Counted(now.devices.size(), "device") + ", " + std::to_string(healthy) +
                              " healthy");
  entry.announced = now;
  inventory_.SetResource(resource, std::move(now));
}

void PluginRegistry::Expect(const std::set<std::string>& resources) {
  const MutexLock lock(mutex_);
  for (const std::string& resource : resources) {
    const auto [place, is_new] = entries_.try_emplace(resource);
    if (!is_new) continue;
    place->second.silent_since = Clock::now();
    place->second.removed_at = *place->second.silent_since + settings_.grace;
    RemoveAt(*place->second.removed_at);
  }
}

PluginRegistry::EndpointPtr PluginRegistry::Find(const std::string& resource) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(resource);
  return found == entries_.end() ? nullptr : found->second.endpoint;
}

void PluginRegistry::Allocate(const std::string& resource, std::vector<std::string> ids,
                              std::function<void(Result<std::string>)> done) {
  const EndpointPtr endpoint = Find(resource);
  if (endpoint == nullptr) {
    return done(NoPlugin(resource));
  }
  endpoint->Allocate(
      ids, [resource, done = std::move(done)](Result<v1beta1::AllocateResponse> response) {
        if (!response.ok()) return done(response.error());
        std::string complaint;
        Result<std::string> answer = CheckAllocateResponse(*response, complaint);
        if (!complaint.empty()) LogPlugin(resource, resource + ": Allocate: " + complaint);
        if (!answer.ok()) return done(answer.error().In(resource));
        done(std::move(answer));
      });
}

void PluginRegistry::GetPreferredAllocation(
    const devicemanager::PreferenceQuery& query,
    std::function<void(std::optional<std::vector<std::string>>)> done) {
  GetPreferredAllocation(query, settings_.deadlines.preferred, std::move(done));
}

void PluginRegistry::GetPreferredAllocation(
    const devicemanager::PreferenceQuery& query, std::chrono::milliseconds within,
    std::function<void(std::optional<std::vector<std::string>>)> done) {
  EndpointPtr endpoint;
  std::shared_ptr<PluginPreferences> preferences;
  {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(query.resource);
    if (found != entries_.end() && found->second.endpoint != nullptr &&
        found->second.options->get_preferred_allocation_available()) {
      endpoint = found->second.endpoint;
      preferences = found->second.preferences;
    }
  }
  if (endpoint == nullptr) return done(std::nullopt);
  preferences->Ask(*endpoint, query, std::min(within, settings_.deadlines.preferred),
                   std::move(done));
}

void PluginRegistry::PreStartContainer(const std::string& resource, std::vector<std::string> ids,
                                       std::function<void(Result<Done>)> done) {
  EndpointPtr endpoint;
  bool known = false;
  bool wanted = false;
  {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(resource);
    if (found != entries_.end()) {
      known = true;
      wanted = found->second.options.has_value() && found->second.options->pre_start_required();
      endpoint = found->second.endpoint;
    }
  }
  if (known && !wanted) return done(Done{});
  if (endpoint == nullptr) {
    return done(NoPlugin(resource));
  }
  endpoint->PreStartContainer(ids, std::move(done));
}

void PluginRegistry::RemoveAt(Clock::time_point time) {
  background_.PostAt(time, [link = link_] {
    const MutexLock lock(link->mutex);
    if (link->registry != nullptr) link->registry->RemoveExpired();
  });
}

void PluginRegistry::RemoveExpired() {
  const Clock::time_point now = Clock::now();
  const MutexLock lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const std::optional<Clock::time_point> removed_at = entry->second.removed_at;
    if (!removed_at.has_value() || *removed_at > now) {
      ++entry;
      continue;
    }
    LogPlugin(entry->first, entry->first +
                                ": no device plugin registered within the grace period, the "
                                "resource is removed");
    inventory_.RemoveResource(entry->first);
    entry = entries_.erase(entry);  // has no endpoint
  }
}

}  // namespace alignd::deviceplugin
