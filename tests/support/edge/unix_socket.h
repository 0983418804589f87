// Unix sockets by hand, for peers that alignd would not make.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <string>

#include "host/descriptor.h"

namespace alignd::testing {

inline sockaddr_un UnixAddress(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  EXPECT_LT(path.native().size(), sizeof address.sun_path) << path;
  path.native().copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

// A socket at the path that does not listen. The file stays after its end. `type`: as for
// socket(2).
inline host::Descriptor BindUnix(const std::filesystem::path& path, int type = SOCK_STREAM) {
  const sockaddr_un address = UnixAddress(path);
  host::Descriptor bound(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  EXPECT_EQ(bind(bound.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0)
      << path;
  return bound;
}

// `backlog`: as for listen(2).
inline host::Descriptor ListenUnix(const std::filesystem::path& path, int backlog = SOMAXCONN,
                                   int type = SOCK_STREAM) {
  host::Descriptor listening = BindUnix(path, type);
  EXPECT_EQ(listen(listening.fd(), backlog), 0) << path;
  return listening;
}

// No descriptor (-1) if nothing listens there.
inline host::Descriptor ConnectUnix(const std::filesystem::path& path, int type = SOCK_STREAM) {
  const sockaddr_un address = UnixAddress(path);
  host::Descriptor connection(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (connect(connection.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return host::Descriptor();
  }
  return connection;
}

}  // namespace alignd::testing
