// The socket on which device plugins register, as in the kubelet. An unmodified plugin registers
// with alignd if it finds alignd's directory in the place of the kubelet's.
#pragma once

#include <filesystem>
#include <memory>

#include "alignd/base/result.h"
#include "deviceplugin/plugin_registry.h"
#include "host/event_loop.h"

namespace alignd::service {
class UnaryServer;
}  // namespace alignd::service

namespace alignd::deviceplugin {

inline constexpr std::string_view kRegistrationSocket = "kubelet.sock";

// Thread-safe.
class RegistrationServer {
 public:
  // Makes `directory` (absolute) if it does not exist, removes every socket in it, so that plugins
  // which watch it register again, and serves `kubelet.sock`. Files and directories stay.
  // `registry` outlives the server; `loop` as in service::UnaryServer. Errors: kInvalidArgument if
  // the directory is not absolute or its name too long for a socket; kUnavailable if another
  // process serves `kubelet.sock`, which then stays; otherwise kIo. Source: kubelet
  // pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go, Start; manager.go,
  // CleanupPluginDirectory.
  // Differs: the kubelet removes the socket even if another process serves it.
  static Result<std::unique_ptr<RegistrationServer>> Start(std::shared_ptr<host::EventLoop> loop,
                                                           const std::filesystem::path& directory,
                                                           PluginRegistry& registry);

  RegistrationServer(const RegistrationServer&) = delete;
  RegistrationServer& operator=(const RegistrationServer&) = delete;
  // Stops; registrations under way are cancelled. The plugins' sockets stay where they are.
  ~RegistrationServer();

 private:
  explicit RegistrationServer(std::unique_ptr<service::UnaryServer> server);

  const std::unique_ptr<service::UnaryServer> server_;
};

}  // namespace alignd::deviceplugin
