// A client's calls whose messages we decode ourselves. gRPC's callback API does not tell of
// messages that cannot be decoded: it takes such an answer for an empty one, and such a message of
// a stream for the last one, after which it never says how the stream ended.
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

// gRPC runs callbacks on threads that it ends with the last channel that has had such a call. Calls
// end there, and the last one may take that channel with it: then such a thread waits for itself,
// and goes on with what has been freed. Call this before a call of the callback API: from then on
// the threads stay for the life of the program. Source: gRPC 1.51, src/cpp/common/
// completion_queue_cc.cc, CallbackAlternativeCQ.
void KeepCallbackThreads();

grpc::ByteBuffer Encode(const google::protobuf::Message& message);

// Not OK: INTERNAL, as a peer in Go says, and tells what the bytes are.
grpc::Status Decode(const grpc::ByteBuffer& bytes, google::protobuf::Message& message);

// One unary call of `method` ("/package.Service/Method"). `done` runs once, on gRPC's threads;
// `response` is filled in if the status is OK. `context` and `response` are there until `done` has
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
