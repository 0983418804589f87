// Calls of gRPC's own client: alignd's peers use it.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace alignd::simulator {

// One unary call of `method` ("/package.Service/Method"); returns when it has ended. An answer that
// cannot be decoded, or that has no message, is an error (INTERNAL). Not on gRPC's threads.
grpc::Status CallUnaryAndWait(const std::shared_ptr<grpc::Channel>& channel,
                              grpc::ClientContext* context, const std::string& method,
                              const google::protobuf::Message& request,
                              google::protobuf::Message* response);

}  // namespace alignd::simulator
