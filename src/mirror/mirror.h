// Offers the device plugins' resources to the kubelet: one device plugin of the mirror for each
// resource, with the same name and the same ids.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "alignd/devicemanager/device_policy.h"
#include "allocation/allocation_manager.h"
#include "mirror/announcement.h"
#include "mirror/binding_modes.h"
#include "mirror/binding_table.h"
#include "mirror/mirror_plugin.h"
#include "sync/mutex.h"
#include "sync/task_queue.h"

namespace alignd::mirror {

struct MirrorSettings {
  std::filesystem::path registry = "/var/lib/kubelet/plugins_registry";  // of the kubelet
  BindingModes modes = BindingMode::kPreferred;
  KubeletAllocatedBefore kubelet_allocated_before;  // bound when alignd started
  // How long an offer waits for the kubelet until it is repeated under another name. The wait
  // doubles each time, up to ten times this.
  std::chrono::milliseconds patience{5'000};
};

// Offers a resource to the kubelet on that socket.
using OfferResource = std::function<Result<std::unique_ptr<Offered>>(
    const std::string& resource, const std::filesystem::path& socket, Preference preference,
    const Announcement& announced)>;

// Asks the resource's plugin for its preferred devices; calls back once, on any thread. nullopt: no
// preference.
using AskPlugin =
    std::function<void(const devicemanager::PreferenceQuery& query,
                       std::function<void(std::optional<std::vector<std::string>>)> done)>;

// The longest time to ask a plugin on behalf of the kubelet. The kubelet admits one pod at a time
// and waits for the preference.
inline constexpr std::chrono::milliseconds kKubeletWaits{1'000};

// As a device plugin over gRPC, served on `loop`, which runs until the offers have been destroyed.
OfferResource ServePlugins(std::shared_ptr<host::EventLoop> loop);

// Follows the assignments and the plugins' announcements. A resource is offered to the kubelet once
// its plugin has registered, until the resource is removed. While its plugin is away, its devices
// are unhealthy. A resource with bindings from before the start is offered at once
// (AnnounceBefore).
//
// An offer that the kubelet does not take is repeated under another socket name. The kubelet
// ignores a socket name for up to two minutes after a failed registration, also if the socket has
// been made again. That happens if alignd is killed and the kubelet restarts.
// Source: kubelet pkg/kubelet/pluginmanager/operationexecutor, keyed by the socket's path;
// pkg/util/goroutinemap/exponentialbackoff.
// Thread-safe.
class Mirror {
 public:
  // All references outlive the mirror, and what `ask_plugin` (within kKubeletWaits) uses. The
  // mirror's own work runs on `background`. Removes the sockets that alignd left in the registry
  // when it was killed: the kubelet would wait for them. Errors: kIo.
  static Result<std::unique_ptr<Mirror>> Start(MirrorSettings settings, const admission::Node& node,
                                               allocation::AllocationManager& allocation,
                                               BindingTable& bindings, TaskQueue& background,
                                               AskPlugin ask_plugin, OfferResource offer);
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;
  // The kubelet sees all devices as unhealthy until they are offered again. Refresh is not called
  // any more.
  ~Mirror();

  // Announces what has changed, soon. Does not block.
  void Refresh();

 private:
  Mirror(MirrorSettings settings, const admission::Node& node,
         allocation::AllocationManager& allocation, BindingTable& bindings, TaskQueue& background,
         AskPlugin ask_plugin, OfferResource offer);

  using Clock = std::chrono::steady_clock;

  // What the mirror's tasks on `background` reach it by; null once it is destroyed.
  struct Handle {
    Mutex mutex;
    Mirror* mirror GUARDED_BY(mutex) = nullptr;
  };

  // The offer of one resource.
  struct Mirrored {
    std::unique_ptr<Offered> offered;
    int attempt = 0;  // part of the socket's name
    std::chrono::milliseconds pause{0};
    Clock::time_point again;  // when the offer is repeated if the kubelet does not watch it
  };

  std::filesystem::path SocketOf(const std::string& resource, int attempt) const;
  // Runs `work` of the mirror on `background` at `time`, unless the mirror is destroyed by then.
  void PostAt(Clock::time_point time, void (Mirror::*work)());

  // Those below run on `background`, except AnnouncementOf and Prefer.
  void Follow();
  void Offer(const std::string& resource, const Announcement& announced, int attempt,
             std::chrono::milliseconds pause);
  void OfferAgain();
  // nullopt: the resource has no plugin and no bindings from before.
  std::optional<Announcement> AnnouncementOf(const admission::NodeState& state,
                                             const checkpoint::Bindings& bindings,
                                             const std::string& resource) const;
  void Prefer(const std::string& resource, const Choice& choice,
              const std::function<void(std::set<std::string>)>& done) const;

  const MirrorSettings settings_;
  const admission::Node& node_;
  allocation::AllocationManager& allocation_;
  BindingTable& bindings_;
  const AskPlugin ask_plugin_;
  const OfferResource offer_;

  TaskQueue& background_;
  const std::shared_ptr<Handle> handle_ = std::make_shared<Handle>();

  std::map<std::string, Mirrored> mirrored_;  // by resource; on `background`
  std::set<std::string> failed_;              // could not be served; on `background`

  Mutex mutex_;
  bool stale_ GUARDED_BY(mutex_) = false;  // Follow is posted and has not begun
};

}  // namespace alignd::mirror
