// The minimum of a process between caller and runtime: copies the bytes of each side to the other.
// The difference to it is the cost of alignd itself. One thread, any number of connections.
//   bare_relay SOCKET RUNTIME-SOCKET
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr size_t kBytes = 256 << 10;

// One direction of a connection.
struct Way {
  int from = -1;
  int to = -1;
  std::vector<char> bytes = std::vector<char>(kBytes);
  size_t begin = 0;
  size_t end = 0;

  // False once the connection is over.
  bool Move() {
    for (;;) {
      while (begin < end) {
        const ssize_t sent = send(to, bytes.data() + begin, end - begin, MSG_NOSIGNAL);
        if (sent < 0) return errno == EAGAIN;
        begin += static_cast<size_t>(sent);
      }
      const ssize_t got = recv(from, bytes.data(), bytes.size(), 0);
      if (got < 0) return errno == EAGAIN;
      if (got == 0) return false;
      begin = 0;
      end = static_cast<size_t>(got);
    }
  }
};

struct Connection {
  Way up;
  Way down;
};

int Unix(const char* path, bool listens) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string(path).copy(address.sun_path, sizeof(address.sun_path) - 1);
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  const int failed = listens ? bind(fd, name, sizeof(address)) + listen(fd, SOMAXCONN)
                             : connect(fd, name, sizeof(address));
  if (failed != 0) {
    std::perror(path);
    _exit(1);
  }
  return fd;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: bare_relay SOCKET RUNTIME-SOCKET\n");
    return 2;
  }
  const int listening = Unix(argv[1], /*listens=*/true);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  const auto watch = [epoll](int fd, Connection* connection) {
    epoll_event event{};
    event.events = connection == nullptr ? EPOLLIN : EPOLLIN | EPOLLOUT | EPOLLET;
    event.data.ptr = connection;
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    fcntl(fd, F_SETFL, O_NONBLOCK);
  };
  watch(listening, nullptr);
  std::printf("serving\n");
  std::fflush(stdout);
  std::array<epoll_event, 32> ready;
  for (;;) {
    const int count = epoll_wait(epoll, ready.data(), ready.size(), -1);
    for (int i = 0; i < count; ++i) {
      auto* connection = static_cast<Connection*>(ready[static_cast<size_t>(i)].data.ptr);
      if (connection == nullptr) {
        const int caller = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
        if (caller < 0) continue;
        const int runtime = Unix(argv[2], /*listens=*/false);
        connection =
            new Connection{{.from = caller, .to = runtime}, {.from = runtime, .to = caller}};
        watch(caller, connection);
        watch(runtime, connection);
      }
      if (connection->up.from < 0) continue;
      if (!connection->up.Move() || !connection->down.Move()) {
        close(connection->up.from);
        close(connection->up.to);
        connection->up.from = -1;  // stays: later events of this round may name it
      }
    }
  }
}
