// All device plugins by resource name: who serves a resource now, and for how long it is kept after
// its plugin went away.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/devicemanager/device_state.h"
#include "allocation/device_plugins.h"
#include "deviceplugin/plugin_connection.h"
#include "deviceplugin/plugin_preferences.h"
#include "sync/mutex.h"

namespace alignd::deviceplugin {

struct PluginSettings {
  PluginDeadlines deadlines;
  // How long a resource is kept, its devices unhealthy, after its plugin went away.
  // Source: kubelet pkg/kubelet/cm/devicemanager/types.go, endpointStopGracePeriod.
  std::chrono::milliseconds grace{std::chrono::minutes(5)};
  // How long nobody asks a plugin for preferences that was late with one.
  std::chrono::milliseconds preference_pause{15'000};
  // How long pods wait for a plugin that is not there: counted from our start or from when it went.
  std::chrono::milliseconds patience{std::chrono::minutes(5)};
};

// Makes a connection to the plugin of that resource on that socket; nothing is sent yet.
// Errors: kInvalidArgument: no path of a socket.
using MakeConnection = std::function<Result<std::unique_ptr<PluginConnection>>(
    const std::string& resource, const std::filesystem::path& socket)>;

// Over gRPC.
MakeConnection DialWith(PluginDeadlines deadlines);

// Thread-safe; no method blocks, except the destructor. One plugin serves a resource at a time: the
// one whose registration came last and that could be reached. Nothing that its predecessors do
// afterwards counts. (In the kubelet the end of the old plugin's stream cuts off the new plugin.)
class PluginRegistry final : public allocation::DevicePlugins {
 public:
  // `inventory` outlives us. It is called under our lock, so that it hears of changes in their
  // order, and must not call back.
  PluginRegistry(PluginSettings settings, allocation::InventorySink& inventory);
  PluginRegistry(PluginSettings settings, allocation::InventorySink& inventory,
                 MakeConnection connect);
  PluginRegistry(const PluginRegistry&) = delete;
  PluginRegistry& operator=(const PluginRegistry&) = delete;
  // Cancels every call and waits for the callbacks; what the sink knows stays as it is. Never to be
  // run by a callback of ours.
  ~PluginRegistry() override;

  // A plugin serves `resource` on `socket`. `done` runs when it has been reached and has given its
  // options; its device list comes later.
  // Errors: kUnavailable, kDeadlineExceeded: not reached; kInvalidArgument: no path of a socket.
  // After an error, who served the resource before still does.
  // Source: kubelet pkg/kubelet/cm/devicemanager/manager.go, PluginConnected.
  void Register(const std::string& resource, const std::filesystem::path& socket,
                std::function<void(Result<Done>)> done);

  // The plugin that serves `resource` on `socket` has taken its socket away: it is gone. Nothing
  // happens if another one has taken its place.
  // Source: plugin/v1beta1/handler.go, DeRegisterPlugin.
  // Differs: the kubelet disconnects whoever serves the resource now.
  void Deregister(const std::string& resource, const std::filesystem::path& socket);

  // These resources are known from the state on disk: each is removed after the grace period unless
  // its plugin registers. To be called at start.
  // Source: manager.go, readCheckpoint.
  void Expect(const std::set<std::string>& resources);

  // DevicePlugins. GetPreferredAllocation hands on what is available of the plugin's answer;
  // PreStartContainer answers at once where the plugin does not want it, or was not heard since our
  // start (as in the kubelet).
  void Allocate(const std::string& resource, std::vector<std::string> ids,
                std::function<void(Result<std::string>)> done) override;
  void GetPreferredAllocation(
      const devicemanager::PreferenceQuery& query,
      std::function<void(std::optional<std::vector<std::string>>)> done) override;
  // The same for who cannot wait that long.
  void GetPreferredAllocation(const devicemanager::PreferenceQuery& query,
                              std::chrono::milliseconds within,
                              std::function<void(std::optional<std::vector<std::string>>)> done);
  void PreStartContainer(const std::string& resource, std::vector<std::string> ids,
                         std::function<void(Result<Done>)> done) override;
  std::optional<Error> Awaited(const std::string& resource) const override;

 private:
  using Clock = std::chrono::steady_clock;
  using EndpointPtr = std::shared_ptr<PluginConnection>;

  struct Entry {
    uint64_t registration = 0;                       // whose events count; 0: none since our start
    EndpointPtr endpoint;                            // null: away
    std::shared_ptr<PluginPreferences> preferences;  // of the last plugin
    std::filesystem::path socket;                    // of the last plugin
    std::optional<v1beta1::DevicePluginOptions> options;  // of the last plugin
    std::optional<devicemanager::Resource> announced;     // what the sink knows
    std::optional<Clock::time_point> removed_at;          // set while the plugin is away
    std::optional<Clock::time_point> silent_since;        // away, or no list since it registered
  };

  // A registration under way.
  struct Connecting {
    EndpointPtr endpoint;
    std::filesystem::path socket;
  };

  EndpointPtr Own(std::unique_ptr<PluginConnection> endpoint) EXCLUDES(mutex_);
  // A plugin was reached, or not.
  void OnConnected(const std::string& resource, uint64_t registration,
                   Result<v1beta1::DevicePluginOptions> options,
                   const std::function<void(Result<Done>)>& done);
  void OnList(const std::string& resource, uint64_t registration,
              const v1beta1::ListAndWatchResponse& list);
  void OnEnd(const std::string& resource, uint64_t registration, const Error& error);

  void Announce(const std::string& resource, Entry& entry, devicemanager::Resource now)
      REQUIRES(mutex_);
  // The entry's plugin is away from now on. The caller drops what it returns without the lock.
  EndpointPtr SendAway(const std::string& resource, Entry& entry) REQUIRES(mutex_);
  EndpointPtr Find(const std::string& resource) const EXCLUDES(mutex_);

  // The keeper's thread: destroys endpoints, which waits for their callbacks, and removes resources
  // whose plugin stayed away.
  void Keep();
  void RemoveExpired() REQUIRES(mutex_);
  std::optional<Clock::time_point> NextRemoval() const REQUIRES(mutex_);
  void Bury(PluginConnection* endpoint) EXCLUDES(mutex_);

  const PluginSettings settings_;  // constant after construction
  const Clock::time_point started_;
  allocation::InventorySink& inventory_;  // thread-safe, outlives us
  const MakeConnection connect_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  uint64_t registrations_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, Entry> entries_ GUARDED_BY(mutex_);       // by resource name
  std::map<uint64_t, Connecting> connecting_ GUARDED_BY(mutex_);  // by registration
  std::vector<std::unique_ptr<PluginConnection>> retired_ GUARDED_BY(mutex_);
  int endpoints_ GUARDED_BY(mutex_) = 0;  // not yet destroyed

  std::thread keeper_;
};

}  // namespace alignd::deviceplugin
