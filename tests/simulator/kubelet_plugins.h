// The kubelet's plugin manager: finds plugins by their sockets, registers them and follows their
// device lists. Independent of alignd's plugin watcher, so that a mistake about the kubelet
// in one of them is not hidden by the other.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "alignd/base/result.h"
#include "simulator/plugin_client.h"
#include "simulator/socket_watch.h"
#include "sync/mutex.h"

namespace alignd::simulator {

// The kubelet's values, except for a shorter pause in tests.
struct KubeletTiming {
  std::chrono::milliseconds period{1000};  // between two reconciliations
  std::chrono::milliseconds first_backoff{500};
  std::chrono::milliseconds last_backoff{122'000};
  std::chrono::milliseconds dial{10'000};
  std::chrono::milliseconds info{1000};
  std::chrono::milliseconds notify{5000};
};

// Gets the events of the plugins, on several threads. Must not call back.
class PluginListener {
 public:
  virtual ~PluginListener() = default;
  virtual void Connected(const std::string& resource, std::shared_ptr<PluginClient> client,
                         const v1beta1::DevicePluginOptions& options) = 0;
  virtual void Disconnected(const std::string& resource) = 0;
  virtual void Listed(const std::string& resource, const v1beta1::ListAndWatchResponse& list) = 0;
};

// Thread-safe. Faults of the kubelet are reproduced: clients are identified by resource only. If an
// old plugin's list ends, or its socket is removed, the plugin that serves the resource by then is
// disconnected.
// Source: kubelet 1.36 pkg/kubelet/pluginmanager (pluginwatcher, reconciler, operationexecutor);
// pkg/kubelet/cm/devicemanager/plugin/v1beta1/handler.go.
class KubeletPlugins {
 public:
  // `listener` must outlive the object. Errors: kIo.
  static Result<std::unique_ptr<KubeletPlugins>> Start(const std::filesystem::path& registry,
                                                       KubeletTiming timing,
                                                       PluginListener& listener);
  KubeletPlugins(const KubeletPlugins&) = delete;
  KubeletPlugins& operator=(const KubeletPlugins&) = delete;
  // As if killed: connections end without an event.
  ~KubeletPlugins();

 private:
  using Clock = std::chrono::steady_clock;

  struct Registered {
    uint64_t identity = 0;
    std::string resource;
  };
  // At most one at a time for each socket; after a failure there is a pause.
  struct Operation {
    std::thread thread;
    bool pending = false;
    Clock::time_point failed_at;
    std::chrono::milliseconds backoff{0};
  };

  KubeletPlugins(KubeletTiming timing, PluginListener& listener);

  void Reconcile();
  void RunOperation(const std::string& socket, std::function<Result<Done>()> work) REQUIRES(mutex_);
  Result<Done> Register(const std::string& socket, uint64_t identity) EXCLUDES(mutex_);
  Result<Done> Unregister(const std::string& socket, const std::string& resource) EXCLUDES(mutex_);
  Result<Done> Connect(const std::string& resource, const std::string& endpoint) EXCLUDES(mutex_);
  void Follow(const std::shared_ptr<PluginClient>& client) EXCLUDES(mutex_);
  void Disconnect(const std::string& resource) EXCLUDES(mutex_);
  bool stopping() const EXCLUDES(mutex_);

  const KubeletTiming timing_;
  PluginListener& listener_;
  std::unique_ptr<SocketWatch> watch_;  // set by Start

  mutable Mutex mutex_;
  CondVar wake_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::map<std::string, Registered> registered_ GUARDED_BY(mutex_);                  // by socket
  std::map<std::string, Operation> operations_ GUARDED_BY(mutex_);                   // by socket
  std::map<std::string, std::shared_ptr<PluginClient>> clients_ GUARDED_BY(mutex_);  // by resource
  struct Follower {
    std::shared_ptr<PluginClient> client;
    std::thread thread;
    bool ended = false;
  };
  std::list<Follower> followers_ GUARDED_BY(mutex_);
  std::set<grpc::ClientContext*> calls_ GUARDED_BY(mutex_);

  std::thread reconciler_;
};

}  // namespace alignd::simulator
