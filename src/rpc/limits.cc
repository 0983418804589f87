#include "rpc/limits.h"

#include <grpcpp/resource_quota.h>

#include "rpc/unix_socket.h"

namespace alignd::rpc {
namespace {

// A runtime's error text is part of the metadata and can be long. With gRPC's default of 8 KiB, it
// would be replaced by another error. Go's peers accept 16 MiB.
constexpr int kMaxMetadataBytes = 1024 * 1024;

// Calls of one connection at a time: gRPC's callers wait when they have reached it. gRPC enforces
// it once the caller has acknowledged it; a caller that never does can still open more.
constexpr int kMaxStreams = 100;

// Threads of a server with methods that block. A caller that does not read its answer occupies one
// until it disconnects. Without a limit, calls that come faster than they are answered get all the
// threads of the machine. Calls beyond it get RESOURCE_EXHAUSTED.
constexpr int kMaxThreads = 64;

}  // namespace

void SetLimits(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
}

void LimitCallers(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.SetResourceQuota(grpc::ResourceQuota("alignd").SetMaxThreads(kMaxThreads));
}

void SetLimits(grpc::ChannelArguments& arguments) {
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
}

}  // namespace alignd::rpc
