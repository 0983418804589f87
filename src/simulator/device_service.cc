#include "simulator/device_service.h"

#include <grpcpp/support/server_callback.h>

#include <utility>

namespace alignd::simulator {
namespace {

// Waits for the caller to give up.
class HangingReactor : public grpc::ServerUnaryReactor {
 public:
  void OnCancel() override { Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }
};

// Answers as `manner` says; `answer` fills the response in for Manner::kAnswer.
template <typename Answer>
grpc::ServerUnaryReactor* Reply(grpc::CallbackServerContext* context, Manner manner,
                                const Answer& answer) {
  if (manner == Manner::kHang) return new HangingReactor;  // deletes itself
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (manner == Manner::kAnswer) answer();
  reactor->Finish(manner == Manner::kFail
                      ? grpc::Status(grpc::StatusCode::UNKNOWN, "simulated failure")
                      : grpc::Status::OK);
  return reactor;
}

std::vector<std::string> ToVector(const google::protobuf::RepeatedPtrField<std::string>& ids) {
  return {ids.begin(), ids.end()};
}

}  // namespace

// One open device list.
class DevicePlugin::Service::Watcher
    : public grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse> {
 public:
  explicit Watcher(Service& service) : service_(service) {
    const MutexLock lock(service_.mutex_);
    service_.watchers_.insert(this);
    service_.Poke(*this);
  }

  void OnWriteDone(bool ok) override {
    const MutexLock lock(service_.mutex_);
    writing = false;
    if (!ok) {
      service_.End(*this, grpc::Status::CANCELLED);
    } else if (stale) {
      service_.Poke(*this);
    }
  }

  void OnCancel() override {
    const MutexLock lock(service_.mutex_);
    service_.End(*this, grpc::Status::CANCELLED);
  }

  void OnDone() override {
    {
      const MutexLock lock(service_.mutex_);
      service_.watchers_.erase(this);
    }
    delete this;
  }

  // All guarded by the service's mutex.
  bool writing = false;
  bool stale = false;  // changed since the last list went out
  bool finished = false;
  v1beta1::ListAndWatchResponse list;

 private:
  Service& service_;
};

void DevicePlugin::Service::Poke(Watcher& watcher) {
  watcher.stale = true;
  if (watcher.writing || watcher.finished) return;
  watcher.stale = false;
  watcher.writing = true;
  watcher.list = ListOf(profile_.devices);
  watcher.StartWrite(&watcher.list);
}

void DevicePlugin::Service::PokeAll() {
  for (Watcher* watcher : watchers_) Poke(*watcher);
}

void DevicePlugin::Service::End(Watcher& watcher, const grpc::Status& status) {
  if (!std::exchange(watcher.finished, true)) watcher.Finish(status);
}

void DevicePlugin::Service::SetManner(Manner manner) {
  const MutexLock lock(mutex_);
  manner_ = manner;
}

Manner DevicePlugin::Service::manner() const {
  const MutexLock lock(mutex_);
  return manner_;
}

void DevicePlugin::Service::EndLists() {
  const MutexLock lock(mutex_);
  for (Watcher* watcher : watchers_) End(*watcher, grpc::Status::OK);
}

std::vector<std::vector<std::string>> DevicePlugin::Service::allocations() const {
  const MutexLock lock(mutex_);
  return allocations_;
}

std::vector<std::vector<std::string>> DevicePlugin::Service::pre_starts() const {
  const MutexLock lock(mutex_);
  return pre_starts_;
}

grpc::ServerUnaryReactor* DevicePlugin::Service::GetDevicePluginOptions(
    grpc::CallbackServerContext* context, const v1beta1::Empty* /*request*/,
    v1beta1::DevicePluginOptions* response) {
  return Reply(context, Manner::kAnswer, [&] {
    const MutexLock lock(mutex_);
    response->set_get_preferred_allocation_available(profile_.prefers_allocation);
    response->set_pre_start_required(profile_.pre_start_required);
  });
}

grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse>* DevicePlugin::Service::ListAndWatch(
    grpc::CallbackServerContext* /*context*/, const v1beta1::Empty* /*request*/) {
  return new Watcher(*this);  // deletes itself
}

grpc::ServerUnaryReactor* DevicePlugin::Service::Allocate(grpc::CallbackServerContext* context,
                                                          const v1beta1::AllocateRequest* request,
                                                          v1beta1::AllocateResponse* response) {
  return Reply(context, manner(), [&] {
    const MutexLock lock(mutex_);
    for (const v1beta1::ContainerAllocateRequest& container : request->container_requests()) {
      allocations_.push_back(ToVector(container.devices_ids()));
      *response->add_container_responses() = AnswerTo(profile_, container);
    }
  });
}

grpc::ServerUnaryReactor* DevicePlugin::Service::GetPreferredAllocation(
    grpc::CallbackServerContext* context, const v1beta1::PreferredAllocationRequest* request,
    v1beta1::PreferredAllocationResponse* response) {
  return Reply(context, manner(), [&] {
    const MutexLock lock(mutex_);
    for (const auto& container : request->container_requests()) {
      *response->add_container_responses() = PreferenceFor(profile_, container);
    }
  });
}

grpc::ServerUnaryReactor* DevicePlugin::Service::PreStartContainer(
    grpc::CallbackServerContext* context, const v1beta1::PreStartContainerRequest* request,
    v1beta1::PreStartContainerResponse* /*response*/) {
  return Reply(context, manner(), [&] {
    const MutexLock lock(mutex_);
    pre_starts_.push_back(ToVector(request->devices_ids()));
  });
}

}  // namespace alignd::simulator
