// Calls of any method with messages as bytes, as a client and as a server. They block, so that a
// test reads from top to bottom.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/method_handler.h>
#include <grpcpp/support/sync_stream.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulator/grpc_socket.h"

namespace alignd::testing {

inline grpc::ByteBuffer ToBuffer(std::string_view text) {
  const grpc::Slice slice(text.data(), text.size());
  return grpc::ByteBuffer(&slice, 1);
}

inline std::string ToText(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!buffer.Valid() || !buffer.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

// The client's end of a call.
class RawCall {
 public:
  RawCall(const std::shared_ptr<grpc::Channel>& channel, const char* method,
          const std::function<void(grpc::ClientContext&)>& prepare = {})
      : channel_(channel) {
    if (prepare) prepare(context_);
    using Factory = grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>;
    const grpc::internal::RpcMethod rpc(method, grpc::internal::RpcMethod::BIDI_STREAMING);
    stream_.reset(Factory::Create(channel_.get(), rpc, &context_));
  }

  grpc::ClientContext& context() { return context_; }
  void WaitForInitialMetadata() { stream_->WaitForInitialMetadata(); }
  bool Write(std::string_view message) { return stream_->Write(ToBuffer(message)); }
  bool WritesDone() { return stream_->WritesDone(); }
  // The next message; nullopt if the server sends no more.
  std::optional<std::string> Read() {
    grpc::ByteBuffer message;
    if (!stream_->Read(&message)) return std::nullopt;
    return ToText(message);
  }
  grpc::Status Finish() { return stream_->Finish(); }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream_;
};

struct RawAnswer {
  grpc::Status status;
  std::optional<std::string> message;
};

// A unary call.
inline RawAnswer CallUnary(const std::shared_ptr<grpc::Channel>& channel, const char* method,
                           std::string_view request,
                           const std::function<void(grpc::ClientContext&)>& prepare = {}) {
  RawCall call(channel, method, prepare);
  call.Write(request);
  call.WritesDone();
  RawAnswer answer;
  answer.message = call.Read();
  answer.status = call.Finish();
  return answer;
}

// The server's end of a call.
using RawStream = grpc::ServerReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
using RawMethod = std::function<grpc::Status(grpc::ServerContext&, RawStream&)>;

// A server of the given methods on a unix socket. Each call has a thread of its own and may block.
class RawServer {
 public:
  RawServer(const std::string& endpoint, const std::map<std::string, RawMethod>& methods)
      : service_(methods) {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    // By default, a gRPC thread that waits for calls notices the end only after 10 s.
    builder.SetSyncServerOption(grpc::ServerBuilder::CQ_TIMEOUT_MSEC, 100);
    Result<std::unique_ptr<grpc::Server>> server = simulator::Listen(endpoint, builder);
    if (!server.ok()) throw std::runtime_error(server.error().message);
    server_ = std::move(server).value();
  }
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;
  ~RawServer() { Stop(); }

  // Cancels the calls under way, and ends.
  void Stop() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }

 private:
  class Service final : public grpc::Service {
   public:
    explicit Service(const std::map<std::string, RawMethod>& methods) {
      using grpc::internal::BidiStreamingHandler;
      for (const auto& [name, method] : methods) {
        auto run = [method = method](Service*, grpc::ServerContext* context, RawStream* stream) {
          return method(*context, *stream);
        };
        names_.push_back(std::make_unique<std::string>(name));
        AddMethod(new grpc::internal::RpcServiceMethod(
            names_.back()->c_str(), grpc::internal::RpcMethod::BIDI_STREAMING,
            new BidiStreamingHandler<Service, grpc::ByteBuffer, grpc::ByteBuffer>(run, this)));
      }
    }

   private:
    std::vector<std::unique_ptr<std::string>> names_;  // gRPC keeps pointers to them
  };

  Service service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace alignd::testing
