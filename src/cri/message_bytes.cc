#include "cri/message_bytes.h"

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <string>

namespace alignd::cri {

bool Parse(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite& message) {
  grpc::ByteBuffer copy(bytes);  // reading consumes; the slices themselves are shared
  grpc::ProtoBufferReader reader(&copy);
  return reader.status().ok() && message.ParseFromZeroCopyStream(&reader);
}

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message) {
  const std::string bytes = message.SerializeAsString();
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace alignd::cri
