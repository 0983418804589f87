// The device plugins' resources as the stock kubelet counts them: one device plugin of our own for
// each, of the same name, with the same ids.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "alignd/devicemanager/device_policy.h"
#include "allocation/allocation_manager.h"
#include "allocation/binding_table.h"
#include "allocation/counted_devices.h"
#include "mirror/announcement.h"
#include "mirror/mirror_plugin.h"
#include "sync/mutex.h"
#include "sync/task_queue.h"

namespace alignd::mirror {

struct MirrorSettings {
  std::filesystem::path registry = "/var/lib/kubelet/plugins_registry";  // of the kubelet
  allocation::BindingModes modes = allocation::BindingMode::kPreferred;
  KubeletAllocatedBefore kubelet_allocated_before;  // what containers had at our start
  // How long an offer waits for the kubelet until it is made anew, under another name; twice as
  // long each time, up to ten times.
  std::chrono::milliseconds patience{5'000};
};

// Offers a resource to the kubelet on that socket.
using OfferResource = std::function<Result<std::unique_ptr<Offered>>(
    const std::string& resource, const std::filesystem::path& socket, Guide guide,
    const Announcement& announced)>;

// Asks the resource's plugin which of its devices it would rather give out; calls back once, on any
// thread. nullopt: it does not say.
using AskPlugin =
    std::function<void(const devicemanager::PreferenceQuery& query,
                       std::function<void(std::optional<std::vector<std::string>>)> done)>;

// The kubelet admits one pod at a time, and waits for our word on devices for as long as that may
// take: no longer may a plugin be asked on its behalf.
inline constexpr std::chrono::milliseconds kKubeletWaits{1'000};

// As a device plugin over gRPC.
Result<std::unique_ptr<Offered>> ServePlugin(const std::string& resource,
                                             const std::filesystem::path& socket, Guide guide,
                                             const Announcement& announced);

// Follows what is allocated and what plugins announce. A resource is offered to the kubelet from
// when its plugin has registered until it is removed; while its plugin is away, its devices are
// unhealthy. A resource of which containers had something at our start is offered at once
// (AnnounceBefore).
//
// An offer that the kubelet does not take is made anew under another name: the kubelet leaves a
// socket alone for up to two minutes once it has failed to register it, also when the socket has
// been made anew by then. That is so after a kill of ours that a restart of the kubelet followed.
// Source: kubelet pkg/kubelet/pluginmanager/operationexecutor, keyed by the socket's path;
// pkg/util/goroutinemap/exponentialbackoff.
// Thread-safe.
class Mirror {
 public:
  // All references outlive the mirror, and what `ask_plugin` (within kKubeletWaits) uses. Removes
  // from the registry what a life of ours that ended without goodbye has left there: the kubelet
  // would wait for it. Errors: kIo.
  static Result<std::unique_ptr<Mirror>> Start(MirrorSettings settings, const admission::Node& node,
                                               allocation::AllocationManager& allocation,
                                               allocation::BindingTable& bindings,
                                               AskPlugin ask_plugin,
                                               OfferResource offer = ServePlugin);
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;
  // The kubelet sees all devices unhealthy, until somebody offers them again. Nobody calls Refresh
  // from then on.
  ~Mirror();

  // Something has changed: looks at it soon. Does not block.
  void Refresh();

 private:
  Mirror(MirrorSettings settings, const admission::Node& node,
         allocation::AllocationManager& allocation, allocation::BindingTable& bindings,
         AskPlugin ask_plugin, OfferResource offer);

  using Clock = std::chrono::steady_clock;

  // What the kubelet is offered of one resource.
  struct Mirrored {
    std::unique_ptr<Offered> offered;
    int attempt = 0;  // names the socket
    std::chrono::milliseconds pause{0};
    Clock::time_point again;  // if the kubelet does not follow it until then
  };

  std::filesystem::path SocketOf(const std::string& resource, int attempt) const;
  // Those below are of the queue, but for Wait, which is the waiter's.
  void Follow();
  void Offer(const std::string& resource, const Announcement& announced, int attempt,
             std::chrono::milliseconds pause);
  void OfferAgain();
  void Wait();
  // nullopt: nothing, its plugin has yet to come.
  std::optional<Announcement> AnnouncementOf(const admission::NodeState& state,
                                             const checkpoint::Bindings& bindings,
                                             const std::string& resource) const;
  void Prefer(const std::string& resource, const Choice& choice,
              const std::function<void(std::set<std::string>)>& done) const;

  const MirrorSettings settings_;
  const admission::Node& node_;
  allocation::AllocationManager& allocation_;
  allocation::BindingTable& bindings_;
  const AskPlugin ask_plugin_;
  const OfferResource offer_;

  std::map<std::string, Mirrored> mirrored_;  // by resource; of the queue
  std::set<std::string> failed_;              // could not be served; likewise

  Mutex mutex_;
  CondVar wake_;
  bool stale_ GUARDED_BY(mutex_) = false;  // a task is posted that has not begun
  bool stopping_ GUARDED_BY(mutex_) = false;

  TaskQueue queue_{"mirror"};
  std::thread waiter_;  // looks from time to time whether offers are taken
};

}  // namespace alignd::mirror
