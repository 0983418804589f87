// A socket that accepts connections and never answers.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

namespace alignd::testing {

// The file of the socket stays after the end, as that of a killed process does.
class SilentSocket {
 public:
  explicit SilentSocket(const std::filesystem::path& path)
      : socket_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(socket_, 4), 0);
  }
  SilentSocket(const SilentSocket&) = delete;
  SilentSocket& operator=(const SilentSocket&) = delete;
  // Leaves the file, as a process that has crashed.
  ~SilentSocket() { close(socket_); }

 private:
  const int socket_;
};

}  // namespace alignd::testing
