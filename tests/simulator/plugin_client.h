// The kubelet's connection to one device plugin.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "alignd/base/result.h"
#include "deviceplugin/v1beta1/deviceplugin.grpc.pb.h"
#include "sync/mutex.h"

namespace alignd::simulator {

// A channel with the kubelet's settings: messages of at most 4 MiB. Null if it is not connected
// before `deadline`, or if `given_up` returns true.
std::shared_ptr<grpc::Channel> DialAsKubelet(const std::string& socket,
                                             std::chrono::steady_clock::time_point deadline,
                                             const std::function<bool()>& given_up);

// Thread-safe. Calls block and have no deadline, as in the kubelet.
// Source: kubelet 1.36 pkg/kubelet/cm/devicemanager/plugin/v1beta1/client.go; endpoint.go.
class PluginClient {
 public:
  using Ids = std::set<std::string>;

  PluginClient(std::string resource, std::string socket);
  PluginClient(const PluginClient&) = delete;
  PluginClient& operator=(const PluginClient&) = delete;

  const std::string& resource() const { return resource_; }

  // Errors of all calls: kUnavailable with the plugin's message.
  Result<v1beta1::DevicePluginOptions> Connect(std::chrono::milliseconds dial) EXCLUDES(mutex_);
  // Follows the device list to its end.
  void Run(const std::function<void(const v1beta1::ListAndWatchResponse&)>& on_list)
      EXCLUDES(mutex_);
  Result<v1beta1::ContainerAllocateResponse> Allocate(const Ids& ids);
  Result<Ids> GetPreferredAllocation(const Ids& available, const Ids& must_include, int size);

  // Ends all calls, also later ones.
  void Close() EXCLUDES(mutex_);

 private:
  template <typename Call>
  grpc::Status Do(const Call& call) EXCLUDES(mutex_);
  bool closed() const EXCLUDES(mutex_);

  const std::string resource_;
  const std::string socket_;

  mutable Mutex mutex_;
  bool closed_ GUARDED_BY(mutex_) = false;
  std::shared_ptr<grpc::Channel> channel_ GUARDED_BY(mutex_);
  std::set<grpc::ClientContext*> calls_ GUARDED_BY(mutex_);
};

}  // namespace alignd::simulator
