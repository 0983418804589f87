#include "rpc/limits.h"

#include "rpc/unix_socket.h"

namespace alignd::rpc {
namespace {

// Of what a channel receives: a runtime's error text is part of the metadata and can be long. With
// gRPC's default of 8 KiB, it would be replaced by another error. Go's peers accept 16 MiB. Servers
// keep the default: the metadata of their callers are short, and are held while a call is open.
constexpr int kMaxMetadataBytes = 1024 * 1024;

}  // namespace

void SetLimits(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
}

void SetLimits(grpc::ChannelArguments& arguments) {
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
}

}  // namespace alignd::rpc
