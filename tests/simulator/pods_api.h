// A simulated kubelet's local Pods API (v1alpha1.Pods), on a unix socket.
#pragma once

#include <grpcpp/support/status.h>

#include <memory>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "simulator/device_plugin.h"

namespace grpc {
class Server;
}

namespace alignd::simulator {

// The pod as the kubelet's protobuf encoding of v1.Pod.
std::string ToV1Pod(const Pod& pod);

// Answers GetPod; a pod that it was not given is NOT_FOUND, in the kubelet's words. Thread-safe.
class PodsApi {
 public:
  // Errors: as rpc::Listen.
  static Result<std::unique_ptr<PodsApi>> Start(const std::string& endpoint);
  ~PodsApi();  // stops: calls under way are cancelled

  void SetPod(const Pod& pod) { SetPodBytes(pod.uid, ToV1Pod(pod)); }
  void SetPodBytes(const std::string& uid, std::string bytes);

  // How it answers from now on. kNothing: with an answer without a pod in it.
  void SetManner(Manner manner);
  // Lets every call fail from now on, or work again if `status` is OK.
  void SetFailure(grpc::Status status);

  // The UIDs that it was asked for, in order.
  std::vector<std::string> asked() const;

 private:
  class Service;

  explicit PodsApi(std::unique_ptr<Service> service);

  const std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace alignd::simulator
