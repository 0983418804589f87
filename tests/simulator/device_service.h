// The calls that a simulated device plugin answers.
#pragma once

#include <string>
#include <vector>

#include "deviceplugin/v1beta1/deviceplugin.grpc.pb.h"
#include "simulator/device_plugin.h"
#include "simulator/device_profile.h"
#include "simulator/latest_stream.h"
#include "sync/mutex.h"

namespace alignd::simulator {

// Thread-safe.
class DevicePlugin::Service : public v1beta1::DevicePlugin::CallbackService {
 public:
  explicit Service(DeviceProfile profile) : profile_(std::move(profile)) {
    lists_.Set(ListOf(profile_.devices));
  }

  // Changes the devices and sends them to all watchers.
  template <typename Change>
  void ChangeDevices(const Change& change) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    change(profile_.devices);
    lists_.Set(ListOf(profile_.devices));
  }
  void SetManner(Manner manner) EXCLUDES(mutex_);
  void EndLists() { lists_.End(grpc::Status::OK); }
  std::vector<std::vector<std::string>> allocations() const EXCLUDES(mutex_);
  std::vector<std::vector<std::string>> pre_starts() const EXCLUDES(mutex_);

  grpc::ServerUnaryReactor* GetDevicePluginOptions(grpc::CallbackServerContext* context,
                                                   const v1beta1::Empty* request,
                                                   v1beta1::DevicePluginOptions* response) override;
  grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse>* ListAndWatch(
      grpc::CallbackServerContext* context, const v1beta1::Empty* request) override;
  grpc::ServerUnaryReactor* Allocate(grpc::CallbackServerContext* context,
                                     const v1beta1::AllocateRequest* request,
                                     v1beta1::AllocateResponse* response) override;
  grpc::ServerUnaryReactor* GetPreferredAllocation(
      grpc::CallbackServerContext* context, const v1beta1::PreferredAllocationRequest* request,
      v1beta1::PreferredAllocationResponse* response) override;
  grpc::ServerUnaryReactor* PreStartContainer(
      grpc::CallbackServerContext* context, const v1beta1::PreStartContainerRequest* request,
      v1beta1::PreStartContainerResponse* response) override;

 private:
  Manner manner() const EXCLUDES(mutex_);

  LatestStream<v1beta1::ListAndWatchResponse> lists_;  // thread-safe

  mutable Mutex mutex_;
  DeviceProfile profile_ GUARDED_BY(mutex_);
  Manner manner_ GUARDED_BY(mutex_) = Manner::kAnswer;
  std::vector<std::vector<std::string>> allocations_ GUARDED_BY(mutex_);
  std::vector<std::vector<std::string>> pre_starts_ GUARDED_BY(mutex_);
};

}  // namespace alignd::simulator
