// Limits of alignd's servers and channels that differ from gRPC's defaults.
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

namespace alignd::rpc {

// The longest message in either direction is kMaxMessageBytes. Error texts travel in the metadata
// that a channel receives, and may be long, too. A server accepts gRPC's 8 KiB.
void SetLimits(grpc::ServerBuilder& builder);
void SetLimits(grpc::ChannelArguments& arguments);

}  // namespace alignd::rpc
