#include "deviceplugin/plugin_endpoint.h"

#include <grpcpp/support/client_callback.h>

#include <type_traits>
#include <utility>

namespace alignd::deviceplugin {
namespace {

template <typename Request, typename Response>
struct CallState {
  grpc::ClientContext context;
  Request request;
  Response response;
};

}  // namespace

// The callbacks run one after the other, OnDone last; it belongs to the endpoint, which outlives
// OnDone.
class PluginEndpoint::Stream : public grpc::ClientReadReactor<v1beta1::ListAndWatchResponse> {
 public:
  Stream(PluginEndpoint& endpoint,
         std::function<void(const v1beta1::ListAndWatchResponse&)> on_list,
         std::function<void(Error)> on_end)
      : endpoint_(endpoint), on_list_(std::move(on_list)), on_end_(std::move(on_end)) {}

  void Follow() {
    if (!endpoint_.Begin(&context_)) {
      on_end_(endpoint_.ClosedError("ListAndWatch"));
      return;
    }
    endpoint_.stub_->async()->ListAndWatch(&context_, &request_, this);
    StartRead(&list_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    on_list_(list_);
    StartRead(&list_);
  }

  void OnDone(const grpc::Status& status) override {
    endpoint_.Forget(&context_);
    on_end_(status.ok() ? Error{ErrorCode::kUnavailable,
                                endpoint_.resource_ + ": the plugin ended its device list"}
                        : endpoint_.ToError("ListAndWatch", status));
    endpoint_.End();
  }

 private:
  PluginEndpoint& endpoint_;
  const std::function<void(const v1beta1::ListAndWatchResponse&)> on_list_;
  const std::function<void(Error)> on_end_;
  const v1beta1::Empty request_;
  grpc::ClientContext context_;
  v1beta1::ListAndWatchResponse list_;
};

PluginEndpoint::PluginEndpoint(std::string resource, std::shared_ptr<grpc::Channel> channel,
                               PluginDeadlines deadlines)
    : resource_(std::move(resource)),
      deadlines_(deadlines),
      channel_(std::move(channel)),
      stub_(v1beta1::DevicePlugin::NewStub(channel_)) {}

PluginEndpoint::~PluginEndpoint() {
  Close();
  const MutexLock lock(mutex_);
  while (running_ > 0) idle_.Wait(mutex_);
}

void PluginEndpoint::Close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  for (grpc::ClientContext* context : contexts_) context->TryCancel();
}

bool PluginEndpoint::Begin(grpc::ClientContext* context) {
  const MutexLock lock(mutex_);
  if (closed_) return false;
  ++running_;
  contexts_.insert(context);
  return true;
}

void PluginEndpoint::Forget(grpc::ClientContext* context) {
  const MutexLock lock(mutex_);
  contexts_.erase(context);
}

void PluginEndpoint::End() {
  const MutexLock lock(mutex_);
  if (--running_ == 0) idle_.NotifyAll();
}

Error PluginEndpoint::ClosedError(const std::string& name) const {
  return {ErrorCode::kUnavailable,
          resource_ + ": device plugin " + name + ": the plugin is gone or was replaced"};
}

Error PluginEndpoint::ToError(const std::string& name, const grpc::Status& status) const {
  const std::string context = resource_ + ": device plugin " + name;
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return Error{ErrorCode::kDeadlineExceeded, "no answer in time"}.In(context);
  }
  return Error{ErrorCode::kUnavailable,
               "status " + std::to_string(status.error_code()) + ": " + status.error_message()}
      .In(context);
}

template <typename Request, typename Response>
void PluginEndpoint::Start(Method<Request, Response> method, const std::string& name,
                           Request request, std::chrono::milliseconds deadline,
                           std::function<void(Result<Response>)> done) {
  auto call = std::make_shared<CallState<Request, Response>>();
  call->request = std::move(request);
  call->context.set_deadline(std::chrono::system_clock::now() + deadline);
  // Only before the first contact may the socket be late; afterwards its absence is an answer.
  call->context.set_wait_for_ready(std::is_same_v<Response, v1beta1::DevicePluginOptions>);
  if (!Begin(&call->context)) {
    done(ClosedError(name));
    return;
  }
  CallState<Request, Response>& state = *call;
  auto finish = [this, name, call = std::move(call),
                 done = std::move(done)](const grpc::Status& status) mutable {
    Forget(&call->context);
    Result<Response> result = status.ok() ? Result<Response>(std::move(call->response))
                                          : Result<Response>(ToError(name, status));
    // Both before End: a context holds the channel, and a channel that dies on one of gRPC's own
    // threads may wait for that thread to end.
    call.reset();
    std::exchange(done, nullptr)(std::move(result));
    End();
  };
  (stub_->async()->*method)(&state.context, &state.request, &state.response, std::move(finish));
}

void PluginEndpoint::Connect(std::function<void(Result<v1beta1::DevicePluginOptions>)> done) {
  auto explain = [this, done = std::move(done)](Result<v1beta1::DevicePluginOptions> options) {
    if (!options.ok() && options.error().code == ErrorCode::kDeadlineExceeded &&
        channel_->GetState(false) != GRPC_CHANNEL_READY) {
      done(Error{ErrorCode::kDeadlineExceeded,
                 resource_ + ": failed to dial device plugin: context deadline exceeded"});
      return;
    }
    done(std::move(options));
  };
  Start<v1beta1::Empty, v1beta1::DevicePluginOptions>(
      &v1beta1::DevicePlugin::StubInterface::async_interface::GetDevicePluginOptions,
      "GetDevicePluginOptions", {}, deadlines_.connect, std::move(explain));
}

void PluginEndpoint::Watch(std::function<void(const v1beta1::ListAndWatchResponse&)> on_list,
                           std::function<void(Error)> on_end) {
  stream_ = std::make_unique<Stream>(*this, std::move(on_list), std::move(on_end));
  stream_->Follow();
}

void PluginEndpoint::Allocate(const std::vector<std::string>& ids,
                              std::function<void(Result<v1beta1::AllocateResponse>)> done) {
  v1beta1::AllocateRequest request;
  auto& wanted = *request.add_container_requests()->mutable_devices_ids();
  wanted.Add(ids.begin(), ids.end());
  Start<v1beta1::AllocateRequest, v1beta1::AllocateResponse>(
      &v1beta1::DevicePlugin::StubInterface::async_interface::Allocate, "Allocate",
      std::move(request), deadlines_.allocate, std::move(done));
}

void PluginEndpoint::GetPreferredAllocation(
    const devicemanager::PreferenceQuery& query,
    std::function<void(Result<v1beta1::PreferredAllocationResponse>)> done) {
  v1beta1::PreferredAllocationRequest request;
  v1beta1::ContainerPreferredAllocationRequest& wanted = *request.add_container_requests();
  wanted.mutable_available_deviceids()->Add(query.available.begin(), query.available.end());
  wanted.mutable_must_include_deviceids()->Add(query.must_include.begin(),
                                               query.must_include.end());
  wanted.set_allocation_size(query.size);
  Start<v1beta1::PreferredAllocationRequest, v1beta1::PreferredAllocationResponse>(
      &v1beta1::DevicePlugin::StubInterface::async_interface::GetPreferredAllocation,
      "GetPreferredAllocation", std::move(request), deadlines_.preferred, std::move(done));
}

void PluginEndpoint::PreStartContainer(const std::vector<std::string>& ids,
                                       std::function<void(Result<Done>)> done) {
  v1beta1::PreStartContainerRequest request;
  request.mutable_devices_ids()->Add(ids.begin(), ids.end());
  auto check = [done =
                    std::move(done)](const Result<v1beta1::PreStartContainerResponse>& response) {
    if (!response.ok()) return done(response.error());
    done(Done{});
  };
  Start<v1beta1::PreStartContainerRequest, v1beta1::PreStartContainerResponse>(
      &v1beta1::DevicePlugin::StubInterface::async_interface::PreStartContainer,
      "PreStartContainer", std::move(request), deadlines_.pre_start, std::move(check));
}

}  // namespace alignd::deviceplugin
