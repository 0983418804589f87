#include "deviceplugin/registration_server.h"

#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "deviceplugin/checks.h"
#include "deviceplugin/v1beta1/deviceplugin.grpc.pb.h"
#include "host/durable_file.h"
#include "rpc/grpc_status.h"
#include "rpc/limits.h"
#include "rpc/pending_answer.h"
#include "rpc/unix_socket.h"

namespace alignd::deviceplugin {
namespace {

namespace fs = std::filesystem;

// The plugin gets the kubelet's text. The remedy is for the operator and is only logged.
void Refuse(const v1beta1::RegisterRequest& request, const Error& error,
            rpc::PendingAnswer& answer) {
  constexpr size_t kShownOfRequest = 256;
  const auto shown = [](std::string_view text) { return Quoted(text.substr(0, kShownOfRequest)); };
  spdlog::warn("device plugin of {} on {} is not registered: {}", shown(request.resource_name()),
               shown(request.endpoint()), error.Text());
  answer.Finish(rpc::ToStatus(Error{error.code, error.message}));
}

Error IoError(const std::string& what, const fs::path& path, const std::error_code& code) {
  return {ErrorCode::kIo, what + " " + path.string() + ": " + code.message(),
          "check that the directory exists and that alignd may write there"};
}

// Whether a process listens on the socket.
bool IsServed(const std::string& path) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(path, address.sun_path);
  // EAGAIN: the queue of connections is full, so a server listens.
  const bool served =
      ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno == EAGAIN;
  ::close(socket);
  return served;
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

}  // namespace

class RegistrationServer::Service : public v1beta1::Registration::CallbackService {
 public:
  Service(fs::path directory, PluginRegistry& registry)
      : directory_(std::move(directory)), registry_(registry) {}

  grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* /*context*/,
                                     const v1beta1::RegisterRequest* request,
                                     v1beta1::Empty* /*response*/) override {
    auto* reactor = new rpc::PendingReactor;  // deletes itself
    const std::shared_ptr<rpc::PendingAnswer> answer = reactor->answer();
    const Result<Done> checked = CheckRegistration(*request);
    if (!checked.ok()) {
      Refuse(*request, checked.error(), *answer);
      return reactor;
    }
    const fs::path socket = directory_ / request->endpoint();
    registry_.Register(request->resource_name(), socket,
                       [answer, request = *request](const Result<Done>& reached) {
                         if (!reached.ok()) return Refuse(request, reached.error(), *answer);
                         answer->Finish(grpc::Status::OK);
                       });
    return reactor;
  }

 private:
  const fs::path directory_;
  PluginRegistry& registry_;
};

Result<std::unique_ptr<RegistrationServer>> RegistrationServer::Start(
    const std::filesystem::path& directory, PluginRegistry& registry) {
  const fs::path socket = directory / kRegistrationSocket;
  if (!directory.is_absolute()) {
    return Error{ErrorCode::kInvalidArgument,
                 "bad socketPath, must be an absolute path: " + socket.string(),
                 "give --device-plugin-dir as an absolute path"};
  }
  const Result<std::string> path = rpc::SocketPath(socket.string());
  if (!path.ok()) return path.error();
  if (IsServed(*path)) {
    return Error{ErrorCode::kUnavailable, socket.string() + " is served by another process",
                 "use a --device-plugin-dir that differs from the kubelet's"};
  }
  const Result<Done> prepared = PrepareDirectory(directory);
  if (!prepared.ok()) return prepared.error();

  auto service = std::make_unique<Service>(directory, registry);
  grpc::ServerBuilder builder;
  builder.RegisterService(service.get());
  rpc::LimitCallers(builder);
  Result<std::unique_ptr<grpc::Server>> server =
      rpc::Listen(*path, builder, rpc::kMaxShortRequestBytes);
  if (!server.ok()) return server.error();
  spdlog::info("device plugins register on {}", socket.string());
  return std::unique_ptr<RegistrationServer>(
      new RegistrationServer(std::move(service), *std::move(server)));
}

RegistrationServer::RegistrationServer(std::unique_ptr<Service> service,
                                       std::unique_ptr<grpc::Server> server)
    : service_(std::move(service)), server_(std::move(server)) {}

RegistrationServer::~RegistrationServer() { server_->Shutdown(std::chrono::system_clock::now()); }

}  // namespace alignd::deviceplugin
