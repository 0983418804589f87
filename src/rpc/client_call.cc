#include "rpc/client_call.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <future>
#include <utility>
#include <vector>

#include "rpc/parsed_bytes.h"

namespace alignd::rpc {
namespace {

constexpr size_t kShownBytes = 16;

// `7 bytes (0a 05 ff ff ff ff ff)`.
std::string Describe(const grpc::ByteBuffer& bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::vector<grpc::Slice> slices;
  if (!bytes.Dump(&slices).ok()) return "a compressed message";
  std::string shown;
  size_t count = 0;
  for (const grpc::Slice& slice : slices) {
    for (const uint8_t byte : slice) {
      if (count == kShownBytes) break;
      if (count++ > 0) shown += ' ';
      shown += {kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  if (bytes.Length() > count) shown += " ...";
  return std::to_string(bytes.Length()) + " bytes (" + shown + ")";
}

bool TakesTooMuch(const grpc::ByteBuffer& bytes, const google::protobuf::Descriptor& type) {
  grpc::ByteBuffer copy(bytes);
  grpc::ProtoBufferReader reader(&copy);
  if (!reader.status().ok()) return false;  // it cannot be decoded
  google::protobuf::io::CodedInputStream in(&reader);
  return ParsedBytes(in, type, kMaxParsedAnswerBytes) > kMaxParsedAnswerBytes;
}

}  // namespace

void KeepCallbackThreads() {
  // Every call on a channel without credentials fails at once. A channel that had a call keeps the
  // threads until it is destroyed.
  struct Idle {
    std::shared_ptr<grpc::Channel> channel = grpc::CreateChannel("", nullptr);
    grpc::GenericStub stub{channel};
    grpc::ClientContext context;
    grpc::Slice nothing;
    grpc::ByteBuffer request{&nothing, 1};
    grpc::ByteBuffer response;
  };
  [[maybe_unused]] static Idle* const idle = [] {
    auto* const forever = new Idle;
    forever->stub.UnaryCall(&forever->context, "/alignd/Idle", grpc::StubOptions(),
                            &forever->request, &forever->response, [](const grpc::Status&) {});
    return forever;
  }();
}

grpc::ByteBuffer Encode(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

grpc::Status Decode(const grpc::ByteBuffer& bytes, google::protobuf::Message& message) {
  if (!bytes.Valid()) return {grpc::StatusCode::INTERNAL, "success without an answer"};
  if (TakesTooMuch(bytes, *message.GetDescriptor())) {
    return {grpc::StatusCode::RESOURCE_EXHAUSTED,
            Describe(bytes) + " have so many parts that " + message.GetTypeName() +
                " would take more than " + std::to_string(kMaxParsedAnswerBytes) +
                " bytes of memory"};
  }
  grpc::ByteBuffer copy(bytes);  // reading consumes; the slices themselves are shared
  grpc::ProtoBufferReader reader(&copy);
  if (reader.status().ok() && message.ParseFromZeroCopyStream(&reader)) return grpc::Status::OK;
  return {grpc::StatusCode::INTERNAL,
          Describe(bytes) + " cannot be decoded as " + message.GetTypeName()};
}

void CallUnary(const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext* context,
               const std::string& method, const google::protobuf::Message& request,
               google::protobuf::Message* response, std::function<void(const grpc::Status&)> done) {
  KeepCallbackThreads();
  struct Call {
    grpc::ByteBuffer request;
    grpc::ByteBuffer response;
  };
  auto call = std::make_shared<Call>();
  call->request = Encode(request);
  Call& buffers = *call;
  grpc::GenericStub stub(channel);
  stub.UnaryCall(
      context, method, grpc::StubOptions(), &buffers.request, &buffers.response,
      [call = std::move(call), response, done = std::move(done)](grpc::Status status) mutable {
        if (status.ok()) status = Decode(call->response, *response);
        call.reset();
        std::exchange(done, nullptr)(status);
      });
}

grpc::Status CallUnaryAndWait(const std::shared_ptr<grpc::Channel>& channel,
                              grpc::ClientContext* context, const std::string& method,
                              const google::protobuf::Message& request,
                              google::protobuf::Message* response) {
  std::promise<grpc::Status> ended;
  CallUnary(channel, context, method, request, response,
            [&](const grpc::Status& status) { ended.set_value(status); });
  return ended.get_future().get();
}

}  // namespace alignd::rpc
