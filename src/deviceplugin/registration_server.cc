#include "deviceplugin/registration_server.h"

#include <spdlog/spdlog.h>

#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "deviceplugin/checks.h"
#include "deviceplugin/v1beta1/deviceplugin.pb.h"
#include "host/durable_file.h"
#include "host/log_event.h"
#include "rpc/grpc_status.h"
#include "rpc/unix_socket.h"
#include "service/unary_server.h"

namespace alignd::deviceplugin {
namespace {

namespace fs = std::filesystem;

// The plugin gets the kubelet's text. The remedy is for the operator and is only logged.
void Refuse(const v1beta1::RegisterRequest& request, const Error& error,
            const service::Call& call) {
  constexpr size_t kShownOfRequest = 256;
  const auto shown = [](std::string_view text) { return Quoted(text.substr(0, kShownOfRequest)); };
  static host::LineLimit limit("registrations of device plugins");
  if (limit.Allow()) {
    spdlog::warn("device plugin of {} on {} is not registered: {}", shown(request.resource_name()),
                 shown(request.endpoint()), error.Text());
  }
  call.answer(rpc::ToStatus(Error{error.code, error.message}));
}

Error IoError(const std::string& what, const fs::path& path, const std::error_code& code) {
  return {ErrorCode::kIo, what + " " + path.string() + ": " + code.message(),
          "check that the directory exists and that alignd may write there"};
}

// Removes links to sockets too, but not their targets.
Result<Done> RemoveSockets(const fs::path& directory) {
  std::error_code code;
  std::vector<fs::path> sockets;
  for (fs::directory_iterator entry(directory, code), end; !code && entry != end;
       entry.increment(code)) {
    std::error_code ignored;  // removed meanwhile, or a broken link
    if (fs::is_socket(fs::status(entry->path(), ignored))) sockets.push_back(entry->path());
  }
  if (code) return IoError("list", directory, code);
  for (const fs::path& socket : sockets) {
    fs::remove(socket, code);
    if (code) return IoError("remove", socket, code);
  }
  return Done{};
}

Result<Done> PrepareDirectory(const fs::path& directory) {
  if (Result<Done> made = host::MakeDirectory(directory); !made.ok()) return made;
  return RemoveSockets(directory);
}

void Register(const fs::path& directory, PluginRegistry& registry, const service::Call& call) {
  v1beta1::RegisterRequest request;
  if (!service::ReadRequest(call, request)) return;
  const Result<Done> checked = CheckRegistration(request);
  if (!checked.ok()) return Refuse(request, checked.error(), call);
  const fs::path socket = directory / request.endpoint();
  registry.Register(request.resource_name(), socket, [call, request](const Result<Done>& reached) {
    if (!reached.ok()) return Refuse(request, reached.error(), call);
    call.answer(v1beta1::Empty().SerializeAsString());
  });
}

}  // namespace

Result<std::unique_ptr<RegistrationServer>> RegistrationServer::Start(
    std::shared_ptr<host::EventLoop> loop, const std::filesystem::path& directory,
    PluginRegistry& registry) {
  const fs::path socket = directory / kRegistrationSocket;
  if (!directory.is_absolute()) {
    return Error{ErrorCode::kInvalidArgument,
                 "bad socketPath, must be an absolute path: " + socket.string(),
                 "give --device-plugin-dir as an absolute path"};
  }
  const Result<std::string> path = rpc::SocketPath(socket.string());
  if (!path.ok()) return path.error();
  if (rpc::IsServed(*path)) {
    return Error{ErrorCode::kUnavailable, socket.string() + " is served by another process",
                 "use a --device-plugin-dir that differs from the kubelet's"};
  }
  const Result<Done> prepared = PrepareDirectory(directory);
  if (!prepared.ok()) return prepared.error();

  auto server = service::UnaryServer::Start(
      std::move(loop), *path,
      {{"/v1beta1.Registration/Register", [directory, &registry](const service::Call& call) {
          Register(directory, registry, call);
        }}});
  if (!server.ok()) return server.error();
  spdlog::info("device plugins register on {}", socket.string());
  return std::unique_ptr<RegistrationServer>(new RegistrationServer(*std::move(server)));
}

RegistrationServer::RegistrationServer(std::unique_ptr<service::UnaryServer> server)
    : server_(std::move(server)) {}

RegistrationServer::~RegistrationServer() = default;

}  // namespace alignd::deviceplugin
