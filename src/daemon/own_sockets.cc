// RequireOwnSockets.
#include <filesystem>
#include <string>
#include <system_error>

#include "daemon/options.h"
#include "metrics/listen_address.h"
#include "rpc/unix_socket.h"

namespace alignd::daemon {

Result<Done> RequireOwnSockets(const Options& options) {
  const Result<std::string> ours = rpc::SocketPath(options.listen);
  if (!ours.ok()) return ours.error().In("--listen");
  const Result<std::string> runtimes = rpc::SocketPath(options.runtime_endpoint);
  if (!runtimes.ok()) return runtimes.error().In("--runtime-endpoint");
  std::error_code code;
  const bool same = *ours == *runtimes || std::filesystem::equivalent(*ours, *runtimes, code);
  const auto metrics = metrics::ParseListenAddress(options.metrics_address);
  const std::string path = metrics.ok() && *metrics ? (*metrics)->path : std::string();
  if (!path.empty() && (path == *ours || path == *runtimes)) {
    return Error{ErrorCode::kInvalidArgument, "--metrics-address is the socket of CRI: " + path,
                 "give --metrics-address a path of its own"};
  }
  if (!same) return Done{};
  return Error{
      ErrorCode::kInvalidArgument, "--listen and --runtime-endpoint are one socket: " + *ours,
      "give --listen a path of its own, and set the kubelet's containerRuntimeEndpoint to it"};
}

}  // namespace alignd::daemon
