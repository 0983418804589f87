// A socket that accepts connections and never answers.
#pragma once

#include <filesystem>

#include "edge/unix_socket.h"
#include "host/descriptor.h"

namespace alignd::testing {

// The file of the socket stays after the end, as that of a killed process does.
class SilentSocket {
 public:
  explicit SilentSocket(const std::filesystem::path& path) : socket_(ListenUnix(path, 4)) {}

 private:
  const host::Descriptor socket_;
};

}  // namespace alignd::testing
