// The resources of pods from the kubelet's local Pods API (Kubernetes 1.36, alpha).
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "podsource/resource_source.h"

namespace alignd::podsource {

// Knows every pod that the kubelet knows, as a whole: exact requests, extended resources, roles,
// pod-level resources. If the cgroup parent shows the pod's QoS class, that class is used.
//
// The API is optional. While its socket does not exist, it is not called. The next source is asked
// if the API fails, does not answer in time, or contradicts CRI (for example while a pod is being
// resized and the kubelet has not allowed the resize yet); the question's remarks say why. After a
// timeout, the API is not called for a while.
class PodsApiSource final : public ResourceSource {
 public:
  struct Options {
    std::string endpoint = "unix:///var/lib/kubelet/pods-api/pods-api.sock";
    std::chrono::milliseconds timeout{500};   // of one call
    std::chrono::milliseconds pause{10'000};  // without calls, after a timeout
  };

  // Errors: kInvalidArgument as rpc::SocketPath.
  static Result<std::unique_ptr<ResourceSource>> Make(const Options& options);

  // Ends the calls under way; each has been answered when this returns.
  ~PodsApiSource() override;

  void Ask(const Question& question, Answer answer) override;

 private:
  class Client;

  explicit PodsApiSource(std::unique_ptr<Client> client);

  const std::unique_ptr<Client> client_;
};

}  // namespace alignd::podsource
