#include "simulator/plugin_client.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <utility>

namespace alignd::simulator {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLongestMessage = 4 * 1024 * 1024;  // what Go's gRPC reads
constexpr std::chrono::milliseconds kGlance{20};  // between two checks whether to stop

Error Failed(const grpc::Status& status) {
  return {ErrorCode::kUnavailable, "rpc error: " + status.error_message()};
}

}  // namespace

std::shared_ptr<grpc::Channel> DialAsKubelet(const std::string& socket, Clock::time_point deadline,
                                             const std::function<bool()>& given_up) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kLongestMessage);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  auto channel =
      grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
  while (!given_up() && Clock::now() < deadline) {
    if (channel->WaitForConnected(std::chrono::system_clock::now() + kGlance)) return channel;
  }
  return nullptr;
}

PluginClient::PluginClient(std::string resource, std::string socket)
    : resource_(std::move(resource)), socket_(std::move(socket)) {}

bool PluginClient::closed() const {
  const MutexLock lock(mutex_);
  return closed_;
}

void PluginClient::Close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  for (grpc::ClientContext* call : calls_) call->TryCancel();
}

template <typename Call>
grpc::Status PluginClient::Do(const Call& call) {
  grpc::ClientContext context;
  std::shared_ptr<grpc::Channel> channel;
  {
    const MutexLock lock(mutex_);
    if (closed_ || channel_ == nullptr) {
      return {grpc::StatusCode::CANCELLED, "the client connection is closing"};
    }
    channel = channel_;
    calls_.insert(&context);
  }
  const grpc::Status status = call(*v1beta1::DevicePlugin::NewStub(channel), context);
  const MutexLock lock(mutex_);
  calls_.erase(&context);
  return status;
}

Result<v1beta1::DevicePluginOptions> PluginClient::Connect(std::chrono::milliseconds dial) {
  auto channel = DialAsKubelet(socket_, Clock::now() + dial, [this] { return closed(); });
  if (channel == nullptr) {
    return Error{ErrorCode::kUnavailable, "failed to dial device plugin: " + socket_};
  }
  {
    const MutexLock lock(mutex_);
    channel_ = std::move(channel);
  }
  v1beta1::DevicePluginOptions options;
  const grpc::Status status = Do([&](auto& stub, grpc::ClientContext& context) {
    return stub.GetDevicePluginOptions(&context, {}, &options);
  });
  if (!status.ok()) return Failed(status).In("failed to get device plugin options");
  return options;
}

void PluginClient::Run(const std::function<void(const v1beta1::ListAndWatchResponse&)>& on_list) {
  (void)Do([&](auto& stub, grpc::ClientContext& context) {
    const auto stream = stub.ListAndWatch(&context, {});
    v1beta1::ListAndWatchResponse list;
    while (stream->Read(&list)) on_list(list);
    return stream->Finish();
  });
}

Result<v1beta1::ContainerAllocateResponse> PluginClient::Allocate(const Ids& ids) {
  v1beta1::AllocateRequest request;
  request.add_container_requests()->mutable_devices_ids()->Add(ids.begin(), ids.end());
  v1beta1::AllocateResponse response;
  const grpc::Status status = Do([&](auto& stub, grpc::ClientContext& context) {
    return stub.Allocate(&context, request, &response);
  });
  if (!status.ok()) return Failed(status);
  if (response.container_responses_size() == 0) {
    return Error{ErrorCode::kUnavailable, "no containers return in allocation response"};
  }
  return response.container_responses(0);
}

Result<PluginClient::Ids> PluginClient::GetPreferredAllocation(const Ids& available,
                                                               const Ids& must_include, int size) {
  v1beta1::PreferredAllocationRequest request;
  auto& wanted = *request.add_container_requests();
  wanted.mutable_available_deviceids()->Add(available.begin(), available.end());
  wanted.mutable_must_include_deviceids()->Add(must_include.begin(), must_include.end());
  wanted.set_allocation_size(size);
  v1beta1::PreferredAllocationResponse response;
  const grpc::Status status = Do([&](auto& stub, grpc::ClientContext& context) {
    return stub.GetPreferredAllocation(&context, request, &response);
  });
  if (!status.ok()) return Failed(status).In("device plugin GetPreferredAllocation rpc failed");
  if (response.container_responses_size() == 0) return Ids();
  const auto& ids = response.container_responses(0).deviceids();
  return Ids(ids.begin(), ids.end());
}

}  // namespace alignd::simulator
