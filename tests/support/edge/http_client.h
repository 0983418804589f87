// A small HTTP client, which also sends what no client should.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cstring>
#include <string>

#include "edge/unix_socket.h"
#include "host/descriptor.h"

namespace alignd::testing {

struct HttpReply {
  int status = 0;  // 0: the connection ended without an answer
  std::string headers;
  std::string body;
};

// -1 in the descriptor: not connected.
inline host::Descriptor ConnectTcp(uint16_t port) {
  host::Descriptor connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(connection.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return host::Descriptor();
  }
  return connection;
}

inline bool SendText(const host::Descriptor& connection, const std::string& text) {
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t now = send(connection.fd(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (now <= 0) return false;
    sent += static_cast<size_t>(now);
  }
  return true;
}

// Reads until the other side ends the connection, for 30 s at most.
inline HttpReply ReadReply(const host::Descriptor& connection) {
  const timeval patience{30, 0};
  setsockopt(connection.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  std::string all;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = recv(connection.fd(), buffer.data(), buffer.size(), 0);
    if (got <= 0) break;
    all.append(buffer.data(), static_cast<size_t>(got));
  }
  HttpReply reply;
  const size_t end = all.find("\r\n\r\n");
  if (!all.starts_with("HTTP/1.1 ") || end == std::string::npos) return reply;
  reply.status = std::atoi(all.c_str() + std::strlen("HTTP/1.1 "));
  reply.headers = all.substr(0, end);
  reply.body = all.substr(end + 4);
  return reply;
}

inline HttpReply Get(const host::Descriptor& connection, const std::string& path,
                     const std::string& method = "GET") {
  if (connection.fd() < 0) return {};
  SendText(connection, method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  return ReadReply(connection);
}

}  // namespace alignd::testing
