// All device plugins by resource name: which plugin serves a resource now, and how long the
// resource is kept after its plugin has ended.
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
#include <vector>

#include "alignd/base/result.h"
#include "alignd/devicemanager/device_state.h"
#include "allocation/device_plugins.h"
#include "deviceplugin/plugin_connection.h"
#include "deviceplugin/plugin_preferences.h"
#include "sync/mutex.h"
#include "sync/task_queue.h"

namespace alignd::deviceplugin {

struct PluginSettings {
  PluginDeadlines deadlines;
  // How long a resource is kept, with unhealthy devices, after its plugin has ended.
  // Source: kubelet pkg/kubelet/cm/devicemanager/types.go, endpointStopGracePeriod.
  std::chrono::milliseconds grace{std::chrono::minutes(5)};
  // After a plugin has missed a preference's deadline, how long callers with that deadline or a
  // shorter one skip it.
  std::chrono::milliseconds preference_pause{15'000};
  // How long pods wait for a plugin that is not registered: from alignd's start, or from the time
  // at which the plugin ended.
  std::chrono::milliseconds patience{std::chrono::minutes(5)};
  // A plugin of that resource registers. On any thread, at once; may be null.
  std::function<void(const std::string& resource)> on_register{};
};

// Thread-safe; no method blocks, except the destructor. One plugin serves a resource at a time: the
// plugin with the latest registration that could be reached. Events of its predecessors are
// ignored. (In the kubelet, the end of the old plugin's stream disconnects the new plugin.)
class PluginRegistry final : public allocation::DevicePlugins {
 public:
  // `inventory` and `background` outlive the registry; `background` may be stopped before. The
  // inventory is called under the registry's lock, so that it gets changes in order; it must not
  // call the registry. `background` removes resources in time and destroys connections.
  PluginRegistry(PluginSettings settings, allocation::InventorySink& inventory,
                 TaskQueue& background);
  PluginRegistry(PluginSettings settings, allocation::InventorySink& inventory,
                 TaskQueue& background, MakeConnection connect);
  PluginRegistry(const PluginRegistry&) = delete;
  PluginRegistry& operator=(const PluginRegistry&) = delete;
  // Cancels every call and waits for the callbacks. Does not change the inventory. Must not run in
  // a callback of the registry or on `background`.
  ~PluginRegistry() override;

  // A plugin serves `resource` on `socket`. `done` runs when the plugin has returned its options;
  // its device list comes later. Returns the registration's number; 0 if `socket` is invalid.
  // Errors: kUnavailable, kDeadlineExceeded: not reached; kInvalidArgument: not a path of a socket.
  // After an error, the plugin that served the resource before still serves it.
  // Source: kubelet pkg/kubelet/cm/devicemanager/manager.go, PluginConnected.
  uint64_t Register(const std::string& resource, const std::filesystem::path& socket,
                    std::function<void(Result<Done>)> done);

  // The plugin of that registration has removed its socket: the plugin has ended. Does nothing if
  // another plugin serves the resource now.
  // Source: plugin/v1beta1/handler.go, DeRegisterPlugin.
  // Differs: the kubelet disconnects the plugin that serves the resource now.
  void Deregister(const std::string& resource, uint64_t registration);

  // The state on disk has these resources: each is removed after the grace period unless its plugin
  // registers. Called at start.
  // Source: manager.go, readCheckpoint.
  void Expect(const std::set<std::string>& resources);

  // DevicePlugins. GetPreferredAllocation returns the available ids of the plugin's answer.
  // PreStartContainer succeeds at once if the plugin does not require the call, or has not
  // registered since alignd's start (as in the kubelet).
  void Allocate(const std::string& resource, std::vector<std::string> ids,
                std::function<void(Result<std::string>)> done) override;
  void GetPreferredAllocation(
      const devicemanager::PreferenceQuery& query,
      std::function<void(std::optional<std::vector<std::string>>)> done) override;
  // The same with a shorter deadline.
  void GetPreferredAllocation(const devicemanager::PreferenceQuery& query,
                              std::chrono::milliseconds within,
                              std::function<void(std::optional<std::vector<std::string>>)> done);
  void PreStartContainer(const std::string& resource, std::vector<std::string> ids,
                         std::function<void(Result<Done>)> done) override;
  std::optional<Error> Awaited(const std::string& resource) const override;

  using Clock = std::chrono::steady_clock;
  // The resources whose plugin has registered since alignd's start and has ended, and since when.
  std::map<std::string, Clock::time_point> Disconnected() const EXCLUDES(mutex_);

 private:
  using EndpointPtr = std::shared_ptr<PluginConnection>;

  struct Entry {
    uint64_t registration = 0;  // of the last plugin; 0: none since alignd's start
    EndpointPtr endpoint;       // null: the plugin has ended
    std::shared_ptr<PluginPreferences> preferences;       // of the last plugin
    std::filesystem::path socket;                         // of the last plugin
    std::optional<v1beta1::DevicePluginOptions> options;  // of the last plugin
    std::optional<devicemanager::Resource> announced;     // what the inventory has
    std::optional<Clock::time_point> removed_at;          // set while there is no plugin
    // Since when there is no plugin, or no list since it registered.
    std::optional<Clock::time_point> silent_since;
  };

  // A registration under way.
  struct Connecting {
    EndpointPtr endpoint;
    std::filesystem::path socket;
  };

  EndpointPtr Own(std::unique_ptr<PluginConnection> endpoint) EXCLUDES(mutex_);
  void Destroy(PluginConnection* endpoint) EXCLUDES(mutex_);
  // nullopt: a plugin of that resource is taken.
  std::optional<Error> WhyFull(const std::string& resource) const REQUIRES(mutex_);
  // A plugin was reached, or not.
  void OnConnected(const std::string& resource, uint64_t registration,
                   Result<v1beta1::DevicePluginOptions> options,
                   const std::function<void(Result<Done>)>& done);
  void OnList(const std::string& resource, uint64_t registration,
              const v1beta1::ListAndWatchResponse& list);
  void OnEnd(const std::string& resource, uint64_t registration, const Error& error);

  void Announce(const std::string& resource, Entry& entry, devicemanager::Resource now)
      REQUIRES(mutex_);
  // The entry of a registration that is connected; nullptr: it has ended, or was replaced.
  Entry* FindConnected(const std::string& resource, uint64_t registration) REQUIRES(mutex_);
  // Ends a registration that is connected. The plugin's socket; nullopt: it has ended, or was
  // replaced.
  std::optional<std::filesystem::path> End(const std::string& resource, uint64_t registration)
      EXCLUDES(mutex_);
  EndpointPtr Find(const std::string& resource) const EXCLUDES(mutex_);

  void RemoveAt(Clock::time_point time);
  // Removes the resources whose grace period has passed.
  void RemoveExpired() EXCLUDES(mutex_);

  // Lets a timed task find out whether the registry still exists.
  struct Link {
    Mutex mutex;
    PluginRegistry* registry GUARDED_BY(mutex) = nullptr;
  };

  const PluginSettings settings_;  // constant after construction
  const Clock::time_point started_;
  allocation::InventorySink& inventory_;  // thread-safe
  TaskQueue& background_;
  const MakeConnection connect_;
  const std::shared_ptr<Link> link_ = std::make_shared<Link>();

  mutable Mutex mutex_;
  CondVar all_destroyed_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  uint64_t registrations_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, Entry> entries_ GUARDED_BY(mutex_);       // by resource name
  std::map<uint64_t, Connecting> connecting_ GUARDED_BY(mutex_);  // by registration
  int endpoints_ GUARDED_BY(mutex_) = 0;                          // not yet destroyed
};

}  // namespace alignd::deviceplugin
