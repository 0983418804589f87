#include "simulator/device_service.h"

#include <grpcpp/support/server_callback.h>

#include <utility>

#include "simulator/hanging_reactor.h"

namespace alignd::simulator {
namespace {

// Answers according to `manner`; for Manner::kAnswer, `answer` fills in the response.
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

void DevicePlugin::Service::SetManner(Manner manner) {
  const MutexLock lock(mutex_);
  manner_ = manner;
}

Manner DevicePlugin::Service::manner() const {
  const MutexLock lock(mutex_);
  return manner_;
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
  const bool fails = [this] {
    const MutexLock lock(mutex_);
    return profile_.options_fail;
  }();
  return Reply(context, fails ? Manner::kFail : Manner::kAnswer, [&] {
    const MutexLock lock(mutex_);
    response->set_get_preferred_allocation_available(profile_.prefers_allocation);
    response->set_pre_start_required(profile_.pre_start_required);
  });
}

grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse>* DevicePlugin::Service::ListAndWatch(
    grpc::CallbackServerContext* /*context*/, const v1beta1::Empty* /*request*/) {
  return lists_.Watch();
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
