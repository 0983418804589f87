// One registered device plugin over gRPC: follows its ListAndWatch and calls it with deadlines.
#pragma once

#include <grpcpp/support/status.h>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/devicemanager/device_policy.h"
#include "deviceplugin/plugin_connection.h"
#include "deviceplugin/v1beta1/deviceplugin.pb.h"
#include "service/client.h"
#include "sync/mutex.h"

namespace alignd::deviceplugin {

// Every call and the stream own the endpoint until their callback has returned, so that the
// destructor never waits.
// Source: kubelet pkg/kubelet/cm/devicemanager/plugin/v1beta1/client.go.
class PluginEndpoint final : public PluginConnection {
 public:
  // `client` leads to the plugin's socket and is not shared: a plugin that recreates its socket is
  // another plugin.
  PluginEndpoint(std::string resource, std::shared_ptr<service::Client> client,
                 PluginDeadlines deadlines);
  ~PluginEndpoint() override;

  void Connect(std::function<void(Result<v1beta1::DevicePluginOptions>)> done) override;
  void Watch(std::function<void(const v1beta1::ListAndWatchResponse&)> on_list,
             std::function<void(Error)> on_end) override;
  void Allocate(const std::vector<std::string>& ids,
                std::function<void(Result<v1beta1::AllocateResponse>)> done) override;
  void GetPreferredAllocation(
      const devicemanager::PreferenceQuery& query, std::chrono::milliseconds within,
      std::function<void(Result<v1beta1::PreferredAllocationResponse>)> done) override;
  void PreStartContainer(const std::vector<std::string>& ids,
                         std::function<void(Result<Done>)> done) override;
  void Close() override EXCLUDES(mutex_);

 private:
  class Stream;

  // Makes a call cancellable by Close. False if the endpoint is closed.
  bool Begin(service::ClientCall* call) EXCLUDES(mutex_);
  void Forget(service::ClientCall* call) EXCLUDES(mutex_);

  // A call's deadline, and the option that sets it.
  struct Deadline {
    std::chrono::milliseconds after;
    const char* option;
  };

  // One call of the method `name`. `done` gets the answer or the error.
  template <typename Response>
  void Start(const std::string& name, const google::protobuf::Message& request, Deadline deadline,
             std::function<void(Result<Response>)> done) EXCLUDES(mutex_);

  Error ToError(const std::string& name, const grpc::Status& status) const;
  Error LateError(const std::string& name, const Deadline& deadline) const;
  Error ClosedError(const std::string& name) const;

  const std::string resource_;  // constant after construction, as all up to the mutex
  const PluginDeadlines deadlines_;
  const std::shared_ptr<service::Client> client_;
  std::unique_ptr<Stream> stream_;  // set by Watch

  Mutex mutex_;
  bool closed_ GUARDED_BY(mutex_) = false;
  std::set<service::ClientCall*> calls_ GUARDED_BY(mutex_);
};

// Makes connections over gRPC.
MakeConnection DialWith(PluginDeadlines deadlines);

}  // namespace alignd::deviceplugin
