// A runtime that does nothing, as fast as gRPC can: the baseline of the measurements of the proxy.
// Any unary call is answered with its own request, except
//   .../ListContainers    a megabyte
//   .../ListPodSandbox    nothing
//   .../Exec              its own request, after two milliseconds
//   echo_runtime SOCKET
#include <grpcpp/alarm.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>

#include "runtime/v1/cri.pb.h"
#include "simulator/grpc_socket.h"

namespace {

constexpr std::chrono::milliseconds kWork{2};
constexpr size_t kMegabyte = 1 << 20;

// 1 MB of containers with the labels of a kubelet.
const std::string& LongList() {
  static const auto* const list = [] {
    runtime::v1::ListContainersResponse response;
    for (size_t size = 0; size < kMegabyte;) {
      runtime::v1::Container& container = *response.add_containers();
      container.set_id(std::string(64, 'c'));
      container.mutable_metadata()->set_name("app");
      container.set_pod_sandbox_id(std::string(64, 's'));
      for (const char* const key : {"io.kubernetes.container.name", "io.kubernetes.pod.name",
                                    "io.kubernetes.pod.namespace", "io.kubernetes.pod.uid"}) {
        (*container.mutable_labels())[key] = std::string(40, 'v');
      }
      size += container.ByteSizeLong() + 3;
    }
    return new std::string(response.SerializeAsString());
  }();
  return *list;
}

class Echo final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Echo(const std::string& method) : method_(method.substr(method.rfind('/') + 1)) {
    StartRead(&message_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish({grpc::StatusCode::INTERNAL, "no request"});
    } else if (method_ == "Exec") {
      alarm_.Set(std::chrono::system_clock::now() + kWork, [this](bool) { Answer(); });
    } else {
      if (method_ == "ListContainers") Replace(LongList());
      if (method_ == "ListPodSandbox") Replace("");
      Answer();
    }
  }
  void OnDone() override { delete this; }

 private:
  void Replace(const std::string& text) {
    const grpc::Slice slice(text.data(), text.size(), grpc::Slice::STATIC_SLICE);
    message_ = grpc::ByteBuffer(&slice, 1);
  }
  void Answer() { StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK); }

  const std::string method_;
  grpc::ByteBuffer message_;
  grpc::Alarm alarm_;
};

class Service final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* call) override {
    return new Echo(call->method());
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: echo_runtime SOCKET\n");
    return 2;
  }
  Service service;
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&service);
  const auto server = alignd::simulator::Listen(argv[1], builder);
  if (!server.ok()) {
    std::fprintf(stderr, "echo_runtime: %s\n", server.error().Text().c_str());
    return 1;
  }
  std::printf("serving\n");
  std::fflush(stdout);
  (*server)->Wait();
}
