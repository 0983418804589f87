// Client calls that report messages which cannot be decoded. gRPC's callback API does not: it
// treats such an answer as an empty one, and such a message of a stream as the last one, and never
// reports how the stream ended.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <string>

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace alignd::rpc {

// gRPC ends its callback threads with the last channel that had a call of the callback API. If that
// channel is destroyed in a callback, such a thread joins itself and then uses freed memory. Call
// this before a call of the callback API: the threads then exist until the program ends. Source:
// gRPC 1.51, src/cpp/common/ completion_queue_cc.cc, CallbackAlternativeCQ.
void KeepCallbackThreads();

grpc::ByteBuffer Encode(const google::protobuf::Message& message);

// Not OK: INTERNAL, as from a peer in Go, with the first bytes in hexadecimal; RESOURCE_EXHAUSTED
// if the message would take more memory than kMaxParsedAnswerBytes.
grpc::Status Decode(const grpc::ByteBuffer& bytes, google::protobuf::Message& message);

// One unary call of `method` ("/package.Service/Method"). `done` runs once, on gRPC's threads;
// `response` is filled in if the status is OK. `context` and `response` must exist until `done` has
// run. An answer that cannot be decoded, or that has no message, is an error (INTERNAL).
void CallUnary(const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext* context,
               const std::string& method, const google::protobuf::Message& request,
               google::protobuf::Message* response, std::function<void(const grpc::Status&)> done);

// The same; returns when it has ended. Not to be called on gRPC's threads.
grpc::Status CallUnaryAndWait(const std::shared_ptr<grpc::Channel>& channel,
                              grpc::ClientContext* context, const std::string& method,
                              const google::protobuf::Message& request,
                              google::protobuf::Message* response);

}  // namespace alignd::rpc
