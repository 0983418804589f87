#include "simulator/client_call.h"

#include <google/protobuf/message.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <future>

#include "rpc/decode.h"

namespace alignd::simulator {

grpc::Status CallUnaryAndWait(const std::shared_ptr<grpc::Channel>& channel,
                              grpc::ClientContext* context, const std::string& method,
                              const google::protobuf::Message& request,
                              google::protobuf::Message* response) {
  const grpc::Slice sent(request.SerializeAsString());
  const grpc::ByteBuffer message(&sent, 1);
  grpc::ByteBuffer answer;
  std::promise<grpc::Status> ended;
  grpc::GenericStub(channel).UnaryCall(
      context, method, grpc::StubOptions(), &message, &answer,
      [&ended](const grpc::Status& status) { ended.set_value(status); });
  const grpc::Status status = ended.get_future().get();
  if (!status.ok()) return status;
  grpc::Slice bytes;
  if (!answer.Valid() || !answer.DumpToSingleSlice(&bytes).ok()) {
    return {grpc::StatusCode::INTERNAL, "success without an answer"};
  }
  return rpc::Decode(std::string(reinterpret_cast<const char*>(bytes.begin()), bytes.size()),
                     *response);
}

}  // namespace alignd::simulator
