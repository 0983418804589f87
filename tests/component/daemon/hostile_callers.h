// Callers of the hostile test that keep no rule of the protocols: floods of calls on alignd's own
// services, streams that are not read, messages that are compressed, doubled, cut off or made of
// many small parts.
#pragma once

#include <grpc/compression.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/options.h"
#include "deviceplugin/v1beta1/deviceplugin.pb.h"
#include "edge/raw_call.h"
#include "simulator/grpc_socket.h"

namespace alignd::daemon {

using Random = std::mt19937_64;

template <typename Values>
const auto& OneOf(const Values& values, Random& random) {
  return *(std::begin(values) + static_cast<std::ptrdiff_t>(random() % std::size(values)));
}

inline bool Chance(int one_in, Random& random) {
  return random() % static_cast<uint64_t>(one_in) == 0;
}

inline std::string BytesAtRandom(size_t size, Random& random) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Runs until `over`. Each method is for a thread of its own.
class HostileCallers {
 public:
  // `over` outlives this object.
  HostileCallers(const Options& options, const std::atomic<bool>& over)
      : services_{{{options.ControlSocket(),
                    {"/alignd.control.v1.Control/GetStatus", "/alignd.control.v1.Control/Explain",
                     "/alignd.control.v1.Control/ListPods", "/alignd.control.v1.Control/WhyNot",
                     "/alignd.control.v1.Control/GetConfig", "/alignd.control.v1.Control/None"}},
                   {options.PodResourcesSocket(),
                    {"/v1.PodResourcesLister/List", "/v1.PodResourcesLister/Get",
                     "/v1.PodResourcesLister/GetAllocatableResources",
                     "/v1alpha1.PodResourcesLister/List"}},
                   {options.DevicePluginDir() / "kubelet.sock",
                    {"/v1beta1.Registration/Register"}}}},
        cri_(*simulator::Dial(options.listen)),
        over_(over) {}

  // Floods alignd's own services.
  void FloodServices(Random random) const {
    while (!over_) {
      const Service& service = OneOf(services_, random);
      // Each connection has a limit of its own.
      const std::shared_ptr<grpc::Channel> channel = *simulator::Dial(service.socket);
      if (Chance(3, random)) {
        OpenMany(channel, service, random);
        continue;
      }
      for (int i = 0; i < 50 && !over_; ++i) {
        const std::string request = Request(service, random);
        Call(channel, OneOf(service.methods, random), request, random, Chance(10, random));
      }
    }
  }

  // Misuses calls of CRI.
  void DisturbStreams(Random random) const {
    std::vector<std::unique_ptr<testing::RawCall>> unread;
    while (!over_) {
      switch (random() % 5) {
        case 0:  // a stream whose messages are never read
          unread.push_back(Open("GetContainerEvents"));
          unread.back()->Write("");
          unread.back()->WritesDone();
          break;
        case 1:  // a request that does not come, or comes twice
          unread.push_back(Open(OneOf(kUnary, random)));
          if (Chance(2, random)) unread.back()->Write(BytesAtRandom(random() % 50, random));
          if (Chance(2, random)) unread.back()->Write(BytesAtRandom(random() % 50, random));
          break;
        case 2:
          Call(cri_, Path(OneOf(kUnary, random)), std::string(1000, 'a'), random,
               /*compressed=*/true);
          break;
        case 3:
          SendManyParts(random);
          break;
        default:  // methods that are relayed, or do not exist
          Call(cri_, Path(OneOf(kRelayed, random)), BytesAtRandom(random() % 50, random), random);
      }
      if (unread.size() > kMaxUnread) Cancel(unread);
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
    }
    Cancel(unread);
  }

 private:
  using Calls = std::vector<std::unique_ptr<testing::RawCall>>;

  struct Service {
    std::string socket;
    std::vector<const char*> methods;
  };

  static constexpr std::chrono::seconds kPatienceOfCalls{30};
  static constexpr size_t kMaxUnread = 30;
  static constexpr std::array kUnary{"RunPodSandbox",  "CreateContainer",
                                     "StartContainer", "UpdateContainerResources",
                                     "StopPodSandbox", "RestorePod"};
  static constexpr std::array kRelayed{"Version",          "StreamContainers", "ExecSync",
                                       "PodSandboxStatus", "CreateEverything", "ListContainers"};

  static std::string Path(const char* method) {
    return std::string("/runtime.v1.RuntimeService/") + method;
  }
  std::unique_ptr<testing::RawCall> Open(const char* method) const {
    return std::make_unique<testing::RawCall>(cri_, Path(method).c_str());
  }
  static void Cancel(Calls& calls) {
    for (const auto& call : calls) call->context().TryCancel();
    calls.clear();
  }

  // Any answer is right, but there must be one, unless the caller has no patience.
  static void Call(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                   const std::string& request, Random& random, bool compressed = false) {
    const bool patient = !Chance(5, random);
    const auto patience = patient ? std::chrono::milliseconds(kPatienceOfCalls)
                                  : std::chrono::milliseconds(1 + random() % 50);
    const auto prepare = [&](grpc::ClientContext& context) {
      context.set_deadline(std::chrono::system_clock::now() + patience);
      if (compressed) context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    };
    const auto begin = std::chrono::steady_clock::now();
    const grpc::Status status =
        testing::CallUnary(channel, method.c_str(), request, prepare).status;
    if (!patient) return;
    // An answer may say DEADLINE_EXCEEDED of something else, such as a plugin that is not there.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatienceOfCalls)
        << method << ": " << status.error_message();
  }

  // Nearly as many calls as a connection may have (gRPC's client would wait with more); none sends
  // its request.
  void OpenMany(const std::shared_ptr<grpc::Channel>& channel, const Service& service,
                Random& random) const {
    Calls calls;
    const size_t count = random() % 90;
    for (size_t i = 0; i < count && !over_; ++i) {
      calls.push_back(std::make_unique<testing::RawCall>(channel, OneOf(service.methods, random)));
    }
    Cancel(calls);
  }

  // Nothing, noise, or the registration of a plugin that is not there.
  static std::string Request(const Service& service, Random& random) {
    if (service.methods.size() > 1)
      return Chance(2, random) ? "" : BytesAtRandom(random() % 100, random);
    if (Chance(2, random)) return BytesAtRandom(random() % 100'000, random);
    v1beta1::RegisterRequest request;
    request.set_version("v1beta1");
    request.set_resource_name("hostile.example/r" + std::to_string(random() % 1000));
    request.set_endpoint("none-" + std::to_string(random() % 1000));
    return request.SerializeAsString();
  }

  // Up to 4 MiB of empty fields, as messages in a list or as fields that do not exist.
  void SendManyParts(Random& random) const {
    std::string request;
    const std::string part{static_cast<char>(Chance(2, random) ? 0x2a : 0x7a), '\0'};
    const size_t size = random() % (4 << 20);
    while (request.size() < size) request += part;
    Call(cri_, Path(OneOf(kUnary, random)), request, random);
  }

  const std::array<Service, 3> services_;
  const std::shared_ptr<grpc::Channel> cri_;
  const std::atomic<bool>& over_;
};

}  // namespace alignd::daemon
