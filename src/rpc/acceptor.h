// A gRPC server on a unix socket that somebody else opened, and that stays when we go.
#pragma once

#include <grpcpp/server_builder.h>

#include <memory>
#include <thread>

#include "alignd/base/result.h"

namespace alignd::rpc {

// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  int fd() const { return fd_; }

 private:
  int fd_;
};

// Takes the connections of a listening socket and hands them to a gRPC server. gRPC itself only
// serves sockets that it opened. When the acceptor goes, what has not been taken waits in the
// socket's queue for whoever serves it next: the caller sees a slow answer, not a missing endpoint.
//
// To stop: destroy the acceptor, then shut the server down; a server that is shut down refuses the
// connections that it is handed, and their callers would see that.
class Acceptor {
 public:
  // `listening`: a unix stream socket that listens. Prepares `builder` as Listen does; the server
  // is not built yet.
  // Errors: kIo.
  static Result<std::unique_ptr<Acceptor>> Make(Descriptor listening, grpc::ServerBuilder& builder);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  ~Acceptor();

  // Once, when `builder`'s server runs.
  void Start();

 private:
  using Sink = grpc::experimental::ExternalConnectionAcceptor;

  Acceptor(Descriptor listening, Descriptor stop, std::unique_ptr<Sink> server);

  void Run();
  // Takes one connection, if one waits. False if it makes no sense to try again at once.
  bool AcceptOne();

  const Descriptor listening_;
  const Descriptor stop_;  // an eventfd: readable once we are to end
  const std::unique_ptr<Sink> server_;
  std::thread thread_;
};

}  // namespace alignd::rpc
