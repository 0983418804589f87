// A caller, the forwarder and a backend, connected by real unix sockets.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "edge/fake_tree.h"
#include "edge/gate.h"
#include "edge/raw_call.h"
#include "proxy/forwarder.h"
#include "rpc/unix_socket.h"
#include "simulator/grpc_socket.h"

namespace alignd::proxy {

using testing::CallUnary;
using testing::Gate;
using testing::RawAnswer;
using testing::RawCall;
using testing::RawServer;
using testing::RawStream;
using testing::ToBuffer;
using testing::ToText;

// A time limit that no test reaches by accident, even with a sanitizer on a busy machine.
inline constexpr std::chrono::seconds kPatience{20};

inline void SetPatience(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
}

// Answers every message with the same message until the caller half-closes.
inline grpc::Status Echo(grpc::ServerContext& /*context*/, RawStream& stream) {
  grpc::ByteBuffer message;
  while (stream.Read(&message)) stream.Write(message);
  return grpc::Status::OK;
}

class ForwarderTest : public ::testing::Test {
 protected:
  ForwarderTest() { loop_->Start(); }
  ~ForwarderTest() override {
    caller_.reset();
    StopForwarder(std::chrono::milliseconds(0));
    loop_->Stop();
  }

  std::string BackendEndpoint() const { return (tree_.root() / "backend.sock").string(); }
  std::string ForwarderEndpoint() const { return (tree_.root() / "forwarder.sock").string(); }

  void StartBackend(const std::map<std::string, testing::RawMethod>& methods) {
    backend_ = std::make_unique<RawServer>(BackendEndpoint(), methods);
  }

  void StartForwarder(
      HandlerFactory handlers = [](const std::string&) { return nullptr; },
      size_t max_held_bytes = size_t{256} << 20, ParsedBytes parsed_bytes = {}) {
    auto listening = rpc::OpenListening(ForwarderEndpoint());
    ASSERT_TRUE(listening.ok()) << listening.error().message;
    auto forwarder = Forwarder::Start(loop_, std::move(listening).value(),
                                      {.runtime_socket = BackendEndpoint(),
                                       .handlers = std::move(handlers),
                                       .served_within = std::chrono::seconds(1),
                                       .max_held_bytes = max_held_bytes,
                                       .parsed_bytes = std::move(parsed_bytes)});
    ASSERT_TRUE(forwarder.ok()) << forwarder.error().message;
    forwarder_ = std::move(forwarder).value();
    auto caller = simulator::Dial(ForwarderEndpoint());
    ASSERT_TRUE(caller.ok()) << caller.error().message;
    caller_ = *caller;
  }

  void StopForwarder(std::chrono::milliseconds grace) {
    if (forwarder_ != nullptr) forwarder_->Stop(grace);
    forwarder_.reset();
  }

  RawAnswer Call(const char* method, std::string_view request) {
    return CallUnary(caller_, method, request, SetPatience);
  }

  const testing::FakeTree tree_;
  const std::shared_ptr<host::EventLoop> loop_ = host::EventLoop::Make().value();
  std::unique_ptr<RawServer> backend_;
  std::unique_ptr<Forwarder> forwarder_;
  std::shared_ptr<grpc::Channel> caller_;
};

}  // namespace alignd::proxy
