#include "deviceplugin/plugin_endpoint.h"

#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

#include "allocation/state_limits.h"
#include "deviceplugin/checks.h"
#include "rpc/decode.h"
#include "rpc/grpc_status.h"

namespace alignd::deviceplugin {
namespace {

constexpr char kService[] = "/v1beta1.DevicePlugin/";
constexpr char kRemedy[] = "check the plugin's pod and its log";

// One container's answer, in a field with a number and a length.
constexpr size_t kMaxAllocateBytes = allocation::kMaxAnswerBytes + 16;

}  // namespace

// The endpoint owns the stream, and the running stream owns the endpoint until its last callback.
class PluginEndpoint::Stream {
 public:
  Stream(PluginEndpoint& endpoint,
         std::function<void(const v1beta1::ListAndWatchResponse&)> on_list,
         std::function<void(Error)> on_end)
      : endpoint_(endpoint), on_list_(std::move(on_list)), on_end_(std::move(on_end)) {}

  void Follow() {
    if (!endpoint_.Begin(&call_)) {
      on_end_(endpoint_.ClosedError(kName));
      return;
    }
    self_ = endpoint_.shared_from_this();
    endpoint_.client_->Start(
        call_, std::string(kService) + kName, v1beta1::Empty(),
        [this](const std::string& message) { return OnMessage(message); },
        [this](const grpc::Status& status) { OnEnd(status); });
  }

 private:
  static constexpr char kName[] = "ListAndWatch";

  grpc::Status OnMessage(const std::string& message) {
    v1beta1::ListAndWatchResponse list;
    grpc::Status status = rpc::Decode(message, list);
    if (status.ok()) on_list_(list);
    return status;
  }

  void OnEnd(const grpc::Status& status) {
    endpoint_.Forget(&call_);
    on_end_(status.ok() ? Error{ErrorCode::kUnavailable,
                                endpoint_.resource_ + ": the plugin ended its device list", kRemedy}
                        : endpoint_.ToError(kName, status));
    // May destroy the endpoint, and this with it.
    const std::shared_ptr<PluginConnection> self = std::move(self_);
  }

  PluginEndpoint& endpoint_;
  std::shared_ptr<PluginConnection> self_;  // while the stream runs
  const std::function<void(const v1beta1::ListAndWatchResponse&)> on_list_;
  const std::function<void(Error)> on_end_;
  service::ClientCall call_{{.max_message_bytes = kMaxListBytes}};
};

PluginEndpoint::PluginEndpoint(std::string resource, std::shared_ptr<service::Client> client,
                               PluginDeadlines deadlines)
    : resource_(std::move(resource)), deadlines_(deadlines), client_(std::move(client)) {}

PluginEndpoint::~PluginEndpoint() = default;

void PluginEndpoint::Close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  for (service::ClientCall* const call : calls_) call->Cancel();
}

bool PluginEndpoint::Begin(service::ClientCall* call) {
  const MutexLock lock(mutex_);
  if (closed_) return false;
  calls_.insert(call);
  return true;
}

void PluginEndpoint::Forget(service::ClientCall* call) {
  const MutexLock lock(mutex_);
  calls_.erase(call);
}

Error PluginEndpoint::ClosedError(const std::string& name) const {
  return {ErrorCode::kUnavailable,
          resource_ + ": device plugin " + name + ": the connection was closed",
          "wait until the plugin registers again; if it does not, check the plugin's pod"};
}

Error PluginEndpoint::ToError(const std::string& name, const grpc::Status& status) const {
  // As proxy::MessageReader says it of an answer. A plugin that refuses a request says almost the
  // same: gRPC's libraries write "grpc: received" and "Received".
  const bool too_long = status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
                        status.error_message().starts_with("received message larger than max (");
  return {ErrorCode::kUnavailable,
          resource_ + ": device plugin " + name + ": " +
              std::string(rpc::NameOf(status.error_code())) + ": " + status.error_message(),
          too_long
              ? "configure the plugin to announce fewer devices, or to return fewer variables, "
                "mounts and annotations"
              : kRemedy};
}

Error PluginEndpoint::LateError(const std::string& name, const Deadline& deadline) const {
  return {ErrorCode::kDeadlineExceeded,
          resource_ + ": device plugin " + name + ": no answer within " +
              std::to_string(deadline.after.count()) + " ms",
          "check the plugin's pod; if the plugin is only slow, increase " +
              std::string(deadline.option)};
}

template <typename Response>
void PluginEndpoint::Start(const std::string& name, const google::protobuf::Message& request,
                           Deadline deadline, std::function<void(Result<Response>)> done) {
  // The first call waits for the socket. Later calls fail if it does not exist.
  auto call = std::make_shared<service::UnaryCall<Response>>(service::ClientCall::Options{
      .timeout = deadline.after,
      .waits_for_peer = std::is_same_v<Response, v1beta1::DevicePluginOptions>,
      .max_message_bytes =
          std::is_same_v<Response, v1beta1::AllocateResponse> ? kMaxAllocateBytes : kMaxListBytes});
  if (!Begin(&call->call)) {
    done(ClosedError(name));
    return;
  }
  service::UnaryCall<Response>& state = *call;
  auto finish = [this, self = shared_from_this(), name, deadline, call = std::move(call),
                 done = std::move(done)](const grpc::Status& status) mutable {
    Forget(&call->call);
    const bool late = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
    Result<Response> result = status.ok() ? Result<Response>(std::move(call->response))
                              : late      ? Result<Response>(LateError(name, deadline))
                                          : Result<Response>(ToError(name, status));
    call.reset();
    std::exchange(done, nullptr)(std::move(result));
  };
  client_->StartUnary(state.call, kService + name, request, state.response, std::move(finish));
}

void PluginEndpoint::Connect(std::function<void(Result<v1beta1::DevicePluginOptions>)> done) {
  auto explain = [this, done = std::move(done)](Result<v1beta1::DevicePluginOptions> options) {
    const std::optional<std::string> why = client_->WhyNeverConnected();
    if (!options.ok() && options.error().code == ErrorCode::kDeadlineExceeded && why) {
      done(Error{ErrorCode::kDeadlineExceeded,
                 resource_ + ": failed to dial device plugin: context deadline exceeded" +
                     (why->empty() ? "" : ": " + *why),
                 /*remedy=*/{}});  // PluginRegistry adds it: it knows the socket
      return;
    }
    done(std::move(options));
  };
  Start<v1beta1::DevicePluginOptions>("GetDevicePluginOptions", v1beta1::Empty(),
                                      {deadlines_.connect, "--plugin-connect-timeout-ms"},
                                      std::move(explain));
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
  Start<v1beta1::AllocateResponse>("Allocate", request,
                                   {deadlines_.allocate, "--plugin-timeout-ms"}, std::move(done));
}

void PluginEndpoint::GetPreferredAllocation(
    const devicemanager::PreferenceQuery& query, std::chrono::milliseconds within,
    std::function<void(Result<v1beta1::PreferredAllocationResponse>)> done) {
  v1beta1::PreferredAllocationRequest request;
  v1beta1::ContainerPreferredAllocationRequest& wanted = *request.add_container_requests();
  wanted.mutable_available_deviceids()->Add(query.available.begin(), query.available.end());
  wanted.mutable_must_include_deviceids()->Add(query.must_include.begin(),
                                               query.must_include.end());
  wanted.set_allocation_size(query.size);
  Start<v1beta1::PreferredAllocationResponse>("GetPreferredAllocation", request,
                                              {within, "--plugin-preference-timeout-ms"},
                                              std::move(done));
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
  Start<v1beta1::PreStartContainerResponse>("PreStartContainer", request,
                                            {deadlines_.pre_start, "--plugin-pre-start-timeout-ms"},
                                            std::move(check));
}

MakeConnection DialWith(PluginDeadlines deadlines) {
  using Connected = Result<std::unique_ptr<PluginConnection>>;
  return
      [deadlines](const std::string& resource, const std::filesystem::path& socket) -> Connected {
        Result<std::shared_ptr<service::Client>> client =
            service::Client::Dial(socket.string(), service::CallThread::kPlugins);
        if (!client.ok()) return client.error().In(resource);
        return Connected(std::make_unique<PluginEndpoint>(resource, *std::move(client), deadlines));
      };
}

}  // namespace alignd::deviceplugin
