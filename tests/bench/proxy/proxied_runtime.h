// A runtime with alignd in front, a plain relay beside alignd, each a process, and a client of all
// three.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/support/byte_buffer.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "edge/fake_tree.h"
#include "edge/process.h"
#include "edge/raw_call.h"
#include "host/descriptor.h"
#include "simulator/grpc_socket.h"

namespace alignd::bench {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

// A node of that many CPUs on two NUMA nodes, CPU 0 reserved.
inline std::string NodeOf(int cpus) {
  std::string list;
  for (int cpu = 0; cpu < cpus; ++cpu) {
    const std::string node = std::to_string(2 * cpu / cpus);
    const std::string id = std::to_string(cpu);
    list += (cpu == 0 ? "[" : ",[") + id + "," + id + "," + node + "," + node + "," + node + "]";
  }
  return "{\"cpus\":[" + list +
         "],\"numa\":[{\"id\":0,\"memory\":674309865472,\"distances\":[10,21]},"
         "{\"id\":1,\"memory\":674309865472,\"distances\":[21,10]}]}";
}

inline constexpr char kStaticConfig[] =
    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\ntopologyManagerPolicy: best-effort\n";

class ProxiedRuntime {
 public:
  // `runtime`: the command that serves CRI; the socket is its last word. The state directory lies
  // beside the sockets, in the temporary directory.
  explicit ProxiedRuntime(std::vector<std::string> runtime, int cpus = 256) {
    runtime.push_back(RuntimeSocket());
    tree_.Write({"node.json", NodeOf(cpus)});
    tree_.Write({"config.yaml", kStaticConfig});
    runtime_ = std::make_unique<testing::Process>(std::move(runtime), tree_.root() / "runtime.log");
    Require(runtime_->WaitForLog("serving"), *runtime_);
    StartRelay();
    StartAlignd();
  }
  // A runtime that runs already.
  explicit ProxiedRuntime(std::string socket) : foreign_(std::move(socket)) {
    tree_.Write({"node.json", NodeOf(256)});
    tree_.Write({"config.yaml", kStaticConfig});
    StartRelay();
    StartAlignd();
  }

  void StartAlignd() {
    alignd_.reset();
    alignd_ = std::make_unique<testing::Process>(AligndCommand(), tree_.root() / "alignd.log");
    Require(alignd_->WaitForLog("ready:"), *alignd_);
  }
  void StopAlignd() { alignd_.reset(); }

  std::vector<std::string> AligndCommand() const {
    return {ALIGND_PROGRAM,
            "--config",
            (tree_.root() / "config.yaml").string(),
            "--node",
            (tree_.root() / "node.json").string(),
            "--listen",
            Socket(),
            "--state-dir",
            (tree_.root() / "state").string(),
            "--cgroup-root",  // the containers have no cgroups
            (tree_.root() / "cgroup").string(),
            "--runtime-endpoint",
            RuntimeSocket()};
  }

  std::shared_ptr<grpc::Channel> Direct() const { return *simulator::Dial(RuntimeSocket()); }
  std::shared_ptr<grpc::Channel> Relayed() const { return *simulator::Dial(RelaySocket()); }
  std::shared_ptr<grpc::Channel> Through() const { return *simulator::Dial(Socket()); }
  const testing::Process& alignd() const { return *alignd_; }
  const testing::Process& relay() const { return *relay_; }
  // The process that serves the runtime's socket.
  pid_t RuntimePid() const {
    const host::Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    RuntimeSocket().copy(address.sun_path, sizeof(address.sun_path) - 1);
    ucred peer{};
    socklen_t size = sizeof(peer);
    if (connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
      throw std::runtime_error("no process serves " + RuntimeSocket());
    }
    return peer.pid;
  }
  const std::filesystem::path& root() const { return tree_.root(); }

 private:
  std::string RuntimeSocket() const {
    return foreign_.empty() ? (tree_.root() / "runtime.sock").string() : foreign_;
  }
  void StartRelay() {
    relay_ = std::make_unique<testing::Process>(
        std::vector<std::string>{BARE_RELAY_PROGRAM, RelaySocket(), RuntimeSocket()},
        tree_.root() / "relay.log");
    Require(relay_->WaitForLog("serving"), *relay_);
  }
  std::string RelaySocket() const { return (tree_.root() / "relay.sock").string(); }
  std::string Socket() const { return (tree_.root() / "alignd.sock").string(); }
  static void Require(bool ready, const testing::Process& process) {
    if (!ready) throw std::runtime_error(process.Log());
  }

  const std::string foreign_;
  const testing::FakeTree tree_;
  std::unique_ptr<testing::Process> runtime_;
  std::unique_ptr<testing::Process> relay_;
  std::unique_ptr<testing::Process> alignd_;
};

// One unary call on the caller's thread; ends the program if it fails.
inline grpc::ByteBuffer CallOnce(grpc::Channel& channel, const std::string& method,
                                 const grpc::ByteBuffer& request) {
  grpc::ClientContext context;
  grpc::ByteBuffer answer;
  const grpc::internal::RpcMethod rpc(method.c_str(), grpc::internal::RpcMethod::NORMAL_RPC);
  const grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      &channel, rpc, &context, request, &answer);
  if (!status.ok()) throw std::runtime_error(method + ": " + status.error_message());
  return answer;
}

// What many calls took, in microseconds.
class Sample {
 public:
  void Add(double microseconds) { values_.push_back(microseconds); }
  // `share` of the values are at most this.
  double Percentile(double share) {
    std::ranges::sort(values_);
    const auto last = static_cast<double>(values_.size() - 1);
    return values_[static_cast<size_t>(share * last)];
  }

 private:
  std::vector<double> values_;
};

}  // namespace alignd::bench
