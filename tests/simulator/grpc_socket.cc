#include "simulator/grpc_socket.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "host/durable_file.h"
#include "rpc/unix_socket.h"

namespace alignd::simulator {
namespace {

// Of what a channel receives: a runtime's error text is part of the metadata and can be long. With
// gRPC's default of 8 KiB, it would be replaced by another error. Go's peers accept 16 MiB.
constexpr int kMaxMetadataBytes = 1024 * 1024;

// gRPC's name of the socket at `path`: a URI, so everything unusual is percent-encoded.
std::string Target(std::string_view path) {
  constexpr std::string_view kPlain = "-._~/";
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string target = "unix:";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || kPlain.find(c) != std::string_view::npos) {
      target += c;
    } else {
      target += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return target;
}

}  // namespace

Result<std::unique_ptr<grpc::Server>> Listen(std::string_view endpoint,
                                             grpc::ServerBuilder& builder) {
  const Result<std::string> path = rpc::SocketPath(endpoint);
  if (!path.ok()) return path.error().In("listen");
  const std::string context = "listen on " + *path;
  const Result<Done> made =
      host::MakeDirectory(std::filesystem::path(*path).parent_path().string());
  if (!made.ok()) return made.error().In(context);
  // gRPC would take the socket of another process away.
  if (rpc::IsServed(*path)) {
    return Error{ErrorCode::kUnavailable, "another process answers on it",
                 "stop that process, or choose another path"}
        .In(context);
  }
  int bound = 0;
  builder.SetMaxReceiveMessageSize(rpc::kMaxMessageBytes);
  builder.SetMaxSendMessageSize(rpc::kMaxMessageBytes);
  builder.AddListeningPort(Target(*path), grpc::InsecureServerCredentials(), &bound);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || bound == 0) {
    return Error{ErrorCode::kIo, "gRPC could not start the server",
                 "check gRPC's messages, and that this user may make a socket there"}
        .In(context);
  }
  if (chmod(path->c_str(), 0660) != 0) {
    const int number = errno;
    server->Shutdown();
    return Error{ErrorCode::kIo, std::generic_category().message(number)}
        .In("set the mode")
        .In(context);
  }
  return server;
}

Result<std::shared_ptr<grpc::Channel>> Dial(std::string_view endpoint) {
  const Result<std::string> path = rpc::SocketPath(endpoint);
  if (!path.ok()) return path.error().In("dial");
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(rpc::kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(rpc::kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  // gRPC's minimum. An attempt at a missing socket costs some 10 us.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  // The time for one attempt. The kernel connects at once; what may take time on a busy machine is
  // the peer's first frame.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  // A CreateContainer must not be sent twice, and the copies for retries would cost memory.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
                   1);  // no back-off shared with other channels
  return grpc::CreateCustomChannel(Target(*path), grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace alignd::simulator
