#include "service/unary_server.h"

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <string_view>

#include "proxy/grpc_framing.h"
#include "rpc/parsed_bytes.h"
#include "rpc/unix_socket.h"
#include "sync/thread_limit.h"

namespace alignd::service {
namespace {

constexpr size_t kMaxHeldBytes = 64 << 20;  // of all calls; an answer has at most 16 MiB
constexpr uint32_t kMaxStreams = 100;
constexpr size_t kMaxConnections = 256;
// Of an error's text. It may repeat names of the request, and wait for a caller that does not read.
constexpr size_t kMaxTextBytes = 4 << 10;
constexpr std::string_view kCut = "... (cut)";

grpc::Status Short(const grpc::Status& status) {
  const std::string text = status.error_message();
  if (text.size() <= kMaxTextBytes) return status;
  return {status.error_code(), text.substr(0, kMaxTextBytes - kCut.size()) + std::string(kCut),
          status.error_details()};
}

class Handler final : public proxy::CallHandler {
 public:
  explicit Handler(Method method) : method_(std::move(method)) {}
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;
  ~Handler() override = default;

  void OnCaller(std::optional<uid_t> user) override { user_ = user; }

  void OnRequest(std::string request, std::function<void(Decision)> decide) override {
    auto answer = [decide = std::move(decide)](Call::Answer answered) {
      if (const auto* status = std::get_if<grpc::Status>(&answered)) return decide(Short(*status));
      auto& message = std::get<std::string>(answered);
      if (message.size() > size_t{rpc::kMaxMessageBytes}) {
        return decide(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                   "the answer has " + std::to_string(message.size()) +
                                       " bytes; at most " + std::to_string(rpc::kMaxMessageBytes) +
                                       " can be sent; ask for less"));
      }
      decide(Answer{std::move(message)});
    };
    method_({std::move(request), std::move(answer), cancelled_, user_});
  }

  void OnResponse(const grpc::Status& /*status*/, const std::string* /*response*/) override {}

  void OnCancelled() override { *cancelled_ = true; }

 private:
  const Method method_;
  std::optional<uid_t> user_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

// Answers a call with a stream.
class StreamHandler final : public proxy::CallHandler {
 public:
  explicit StreamHandler(StreamMethod method) : method_(std::move(method)) {}

  void OnRequest(std::string /*request*/, std::function<void(Decision)> decide) override {
    decide(Stream(method_()));
  }
  void OnResponse(const grpc::Status& /*status*/, const std::string* /*response*/) override {}

 private:
  const StreamMethod method_;
};

// Ends a call of a method that does not exist.
class UnknownMethod final : public proxy::CallHandler {
 public:
  explicit UnknownMethod(std::string method) : method_(std::move(method)) {}

  grpc::Status OnCall() override {
    // The answer may wait for a caller that does not read it: it must not be long.
    constexpr size_t kMaxShown = 200;
    return {grpc::StatusCode::UNIMPLEMENTED, "unknown method " + method_.substr(0, kMaxShown)};
  }
  void OnRequest(std::string /*request*/, std::function<void(Decision)> /*decide*/) override {}
  void OnResponse(const grpc::Status& /*status*/, const std::string* /*response*/) override {}

 private:
  const std::string method_;
};

}  // namespace

bool ReadRequest(const Call& call, google::protobuf::Message& request) {
  constexpr size_t kMax = rpc::kMaxParsedRequestBytes;
  if (rpc::ParsedBytes(call.request, *request.GetDescriptor(), kMax) > kMax) {
    call.answer(proxy::TooManyParts(call.request.size(), kMax));
    return false;
  }
  if (request.ParseFromString(call.request)) return true;
  call.answer(grpc::Status(grpc::StatusCode::INTERNAL, "the request cannot be parsed"));
  return false;
}

Method OnQueue(TaskQueue& queue, Method method) {
  return [&queue, method = std::move(method)](Call call) {
    if (queue.size() >= kMaxWaiting) {
      return call.answer(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                      "too many calls wait for this service; try again later"));
    }
    const auto answer = call.answer;
    const bool taken = queue.Post([method, call = std::move(call)]() mutable {
      if (!call.IsCancelled()) method(std::move(call));
    });
    if (taken) return;
    answer(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                        "alignd cannot start a thread for this call: it or the machine is at a "
                        "limit of threads; " +
                            std::string(kRaiseThreads)));
  };
}

Result<std::unique_ptr<UnaryServer>> UnaryServer::Start(std::shared_ptr<host::EventLoop> loop,
                                                        const std::string& endpoint,
                                                        Methods methods, StreamMethods streams,
                                                        size_t max_request_bytes) {
  Result<host::Descriptor> listening = rpc::OpenListening(endpoint);
  if (!listening.ok()) return listening.error();
  const std::string path = *rpc::SocketPath(endpoint);
  proxy::Forwarder::Settings settings;
  settings.handlers = [methods = std::move(methods), streams = std::move(streams)](
                          const std::string& name) -> std::unique_ptr<proxy::CallHandler> {
    if (const auto method = methods.find(name); method != methods.end()) {
      return std::make_unique<Handler>(method->second);
    }
    if (const auto stream = streams.find(name); stream != streams.end()) {
      return std::make_unique<StreamHandler>(stream->second);
    }
    return std::make_unique<UnknownMethod>(name);
  };
  settings.max_held_bytes = kMaxHeldBytes;
  settings.max_request_bytes = max_request_bytes;
  settings.max_streams = kMaxStreams;
  settings.max_connections = kMaxConnections;
  auto forwarder =
      proxy::Forwarder::Start(std::move(loop), *std::move(listening), std::move(settings));
  if (!forwarder.ok()) {
    unlink(path.c_str());
    return forwarder.error().In("listen on " + path);
  }
  return std::unique_ptr<UnaryServer>(new UnaryServer(path, *std::move(forwarder)));
}

UnaryServer::UnaryServer(std::string path, std::unique_ptr<proxy::Forwarder> forwarder)
    : path_(std::move(path)), forwarder_(std::move(forwarder)) {}

UnaryServer::~UnaryServer() {
  forwarder_->Stop(std::chrono::milliseconds(0));
  unlink(path_.c_str());
}

}  // namespace alignd::service
