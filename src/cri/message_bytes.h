// CRI messages and the bytes in which they come and go.
#pragma once

#include <grpcpp/support/byte_buffer.h>

namespace google::protobuf {
class MessageLite;
}  // namespace google::protobuf

namespace alignd::cri {

// False if the bytes are no such message.
bool Parse(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite& message);

// Unknown fields survive: they are part of the parsed message.
grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);

}  // namespace alignd::cri
