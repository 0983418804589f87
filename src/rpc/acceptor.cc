#include "rpc/acceptor.h"

#include <fcntl.h>
#include <grpcpp/security/server_credentials.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "rpc/limits.h"

namespace alignd::rpc {
namespace {

// How long to wait when the process has no descriptor left for another connection.
constexpr int kRetryMilliseconds = 100;

Error ErrnoError(const char* what) {
  return Error{ErrorCode::kIo, std::generic_category().message(errno)}.In(what);
}

}  // namespace

Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Result<std::unique_ptr<Acceptor>> Acceptor::Make(Descriptor listening,
                                                 grpc::ServerBuilder& builder) {
  // Another process may take the connection that we were woken for.
  const int flags = fcntl(listening.fd(), F_GETFL);
  if (flags < 0 || fcntl(listening.fd(), F_SETFL, flags | O_NONBLOCK) < 0) {
    return ErrnoError("set up the inherited socket");
  }
  Descriptor stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (stop.fd() < 0) return ErrnoError("eventfd");
  SetLimits(builder);
  auto server = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  return std::unique_ptr<Acceptor>(
      new Acceptor(std::move(listening), std::move(stop), std::move(server)));
}

Acceptor::Acceptor(Descriptor listening, Descriptor stop, std::unique_ptr<Sink> server)
    : listening_(std::move(listening)), stop_(std::move(stop)), server_(std::move(server)) {}

Acceptor::~Acceptor() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  // Cannot fail: the counter is at zero.
  if (write(stop_.fd(), &one, sizeof(one)) == sizeof(one)) thread_.join();
}

void Acceptor::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Acceptor::Run() {
  std::array<pollfd, 2> wanted{pollfd{stop_.fd(), POLLIN, 0}, pollfd{listening_.fd(), POLLIN, 0}};
  bool pause = false;
  for (;;) {
    // Short of descriptors, only the end is waited for, and that not for long.
    const int ready = poll(wanted.data(), pause ? 1 : 2, pause ? kRetryMilliseconds : -1);
    if (ready > 0 && wanted[0].revents != 0) return;
    pause = ready >= 0 && !AcceptOne();
  }
}

bool Acceptor::AcceptOne() {
  const int fd = accept4(listening_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
  Sink::NewConnectionParameters connection;
  connection.listener_fd = listening_.fd();
  connection.fd = fd;
  server_->HandleNewConnection(&connection);  // owns it from here on
  return true;
}

}  // namespace alignd::rpc
