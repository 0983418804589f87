// Limits of alignd's servers and channels that differ from gRPC's defaults.
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

namespace alignd::rpc {

// The longest message in either direction is kMaxMessageBytes. Error texts travel in the metadata
// and may be long, too.
void SetLimits(grpc::ServerBuilder& builder);
void SetLimits(grpc::ChannelArguments& arguments);

// A limit of requests that have a few names and paths.
inline constexpr int kMaxShortRequestBytes = 64 << 10;

// For servers other than that of the CRI socket: the calls of one connection at a time are
// limited, and so are the threads for methods that block.
void LimitCallers(grpc::ServerBuilder& builder);

}  // namespace alignd::rpc
