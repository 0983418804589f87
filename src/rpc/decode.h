// Decodes what peers answer.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace alignd::rpc {

// Not OK: INTERNAL, as from a peer in Go, with the first bytes in hexadecimal; RESOURCE_EXHAUSTED
// if the message would take more memory than kMaxParsedAnswerBytes.
grpc::Status Decode(const std::string& bytes, google::protobuf::Message& message);

}  // namespace alignd::rpc
