// The socket on which device plugins register, as in the kubelet. An unmodified plugin registers
// with alignd if it finds alignd's directory in the place of the kubelet's.
#pragma once

#include <grpcpp/server.h>

#include <filesystem>
#include <memory>

#include "alignd/base/result.h"
#include "deviceplugin/plugin_registry.h"

namespace alignd::deviceplugin {

inline constexpr std::string_view kRegistrationSocket = "kubelet.sock";

// Thread-safe.
class RegistrationServer {
 public:
  // Makes `directory` (absolute) if it does not exist, removes every socket in it, so that plugins
  // which watch it register again, and serves `kubelet.sock`. Files and directories stay.
  // `registry` outlives the server. Errors: kInvalidArgument if the directory is not absolute or
  // its name too long for a socket; kUnavailable if another process serves `kubelet.sock`, which
  // then stays; otherwise kIo. Source: kubelet
  // pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go, Start; manager.go,
  // CleanupPluginDirectory.
  // Differs: the kubelet removes the socket even if another process serves it.
  static Result<std::unique_ptr<RegistrationServer>> Start(const std::filesystem::path& directory,
                                                           PluginRegistry& registry);

  RegistrationServer(const RegistrationServer&) = delete;
  RegistrationServer& operator=(const RegistrationServer&) = delete;
  // Stops; registrations under way are cancelled. The plugins' sockets stay where they are.
  ~RegistrationServer();

 private:
  class Service;

  RegistrationServer(std::unique_ptr<Service> service, std::unique_ptr<grpc::Server> server);

  const std::unique_ptr<Service> service_;
  const std::unique_ptr<grpc::Server> server_;
};

}  // namespace alignd::deviceplugin
