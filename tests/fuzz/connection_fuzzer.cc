// A caller may send any bytes on its connection: the forwarder answers or closes the connection,
// and serves the next one. There is no runtime, so that every call is answered. Each input follows
// the preface and the first SETTINGS frame of an HTTP/2 client.
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "proxy/forwarder.h"
#include "rpc/unix_socket.h"

namespace {

using alignd::proxy::CallHandler;
using alignd::proxy::Forwarder;

// Intercepts every second method and refuses its calls.
class Refuser final : public CallHandler {
 public:
  void OnRequest(std::string, std::function<void(Decision)> decide) override {
    decide(grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "no"));
  }
  void OnResponse(const grpc::Status&, const std::string*) override {}
};

std::unique_ptr<CallHandler> HandlerFor(const std::string& method) {
  if (method.size() % 2 == 0) return nullptr;
  return std::make_unique<Refuser>();
}

// One for the whole run; it removes its directory.
class Server {
 public:
  Server() {
    std::string name = (std::filesystem::temp_directory_path() / "alignd-fuzz.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    directory_ = name;
    auto listening = alignd::rpc::OpenListening(Socket());
    if (!listening.ok()) std::abort();
    loop_->Start();
    auto forwarder =
        Forwarder::Start(loop_, *std::move(listening), {directory_ + "/away", HandlerFor});
    if (!forwarder.ok()) std::abort();
    forwarder_ = *std::move(forwarder);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    forwarder_.reset();
    loop_->Stop();
    std::filesystem::remove_all(directory_);
  }

  alignd::host::Descriptor Connect() const {
    alignd::host::Descriptor client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(Socket(), address.sun_path);
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    if (connect(client.fd(), generic, sizeof(address)) != 0) std::abort();
    return client;
  }

 private:
  std::string Socket() const { return directory_ + "/cri.sock"; }

  const std::shared_ptr<alignd::host::EventLoop> loop_ = alignd::host::EventLoop::Make().value();
  std::string directory_;
  std::unique_ptr<Forwarder> forwarder_;
};

// The forwarder may have closed the connection by now.
void Send(int fd, std::string_view bytes) {
  (void)send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Server server;
  const alignd::host::Descriptor client = server.Connect();
  constexpr std::string_view kPreface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
  Send(client.fd(), kPreface);
  Send(client.fd(), {reinterpret_cast<const char*>(data), size});
  shutdown(client.fd(), SHUT_WR);
  std::array<char, 4096> answer{};
  while (recv(client.fd(), answer.data(), answer.size(), 0) > 0) {
  }
  return 0;
}
