// Where metrics and health are served.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "host/descriptor.h"

namespace alignd::metrics {

// A value: a unix socket, or an IP address and a port.
struct ListenAddress {
  std::string path{};  // of the unix socket; empty: TCP
  std::string ip{};    // "127.0.0.1" or "::1"
  uint16_t port = 0;   // 0: one that is free

  // "127.0.0.1:10271", "[::1]:10271" or "unix:/run/alignd/metrics.sock".
  std::string ToString() const;

  friend bool operator==(const ListenAddress&, const ListenAddress&) = default;
};

// `off`: nullopt. Errors: kInvalidArgument for a text that is neither `off`, IP:PORT, [IP]:PORT nor
// unix:PATH. Host names are not resolved.
Result<std::optional<ListenAddress>> ParseListenAddress(std::string_view text);

// A socket that listens. A unix socket is made as rpc::OpenListening does.
// Errors: kUnavailable if the address is in use; kIo; as rpc::OpenListening. Each says `listen on
// ADDRESS: ...`.
Result<host::Descriptor> Listen(const ListenAddress& address);

// The port of a TCP socket that listens; 0 for a unix socket.
uint16_t PortOf(const host::Descriptor& socket);

}  // namespace alignd::metrics
