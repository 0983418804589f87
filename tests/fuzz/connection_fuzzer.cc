// Whatever a caller sends on its connection, the forwarder takes it or gives the connection up, and
// serves the next one. The runtime is away, so that calls are answered. Each input is what follows
// the first words of an HTTP/2 client.
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

// Lets every second method through, and refuses what it is asked for the others.
class Refuser final : public CallHandler {
 public:
  void OnRequest(grpc::ByteBuffer, std::function<void(Decision)> decide) override {
    decide(grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "no"));
  }
  void OnResponse(const grpc::Status&, const grpc::ByteBuffer*) override {}
};

std::unique_ptr<CallHandler> HandlerFor(const std::string& method) {
  if (method.size() % 2 == 0) return nullptr;
  return std::make_unique<Refuser>();
}

// For the whole run; its directory goes with it.
class Server {
 public:
  Server() {
    std::string name = (std::filesystem::temp_directory_path() / "alignd-fuzz.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    directory_ = name;
    auto listening = alignd::rpc::OpenListening(Socket());
    if (!listening.ok()) std::abort();
    auto forwarder = Forwarder::Start(*std::move(listening), {directory_ + "/away", HandlerFor});
    if (!forwarder.ok()) std::abort();
    forwarder_ = *std::move(forwarder);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    forwarder_.reset();
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

  std::string directory_;
  std::unique_ptr<Forwarder> forwarder_;
};

// The peer may have given up by now.
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
