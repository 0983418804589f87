// The socket on which device plugins register, as the kubelet serves it: an unmodified plugin that
// finds our directory in the place of the kubelet's registers with us.
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
  // Makes `directory` (absolute) if it is not there, removes every socket in it, so that plugins
  // which watch it know that they must register, and serves `kubelet.sock`. Plain files and folders
  // stay. `registry` outlives the server.
  // Errors: kInvalidArgument if the directory is not absolute or its name too long for a socket;
  // kUnavailable if someone serves `kubelet.sock` there, which is then left alone; otherwise kIo.
  // Source: kubelet pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go, Start; manager.go,
  // CleanupPluginDirectory.
  // Differs: the kubelet takes a living socket away from whoever serves it.
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
