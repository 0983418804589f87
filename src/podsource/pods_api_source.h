// The kubelet's own word about its pods, from its local Pods API (Kubernetes 1.36, alpha).
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "podsource/resource_source.h"

namespace alignd::podsource {

// Knows every pod that the kubelet knows, as a whole: exact requests, extended resources, roles,
// pod-level resources. A pod's own word about its QoS class is the cgroup parent's, where that
// tells it.
//
// The API is optional, and everybody can go on without it. While its socket is not there, it is not
// asked at all; once it appears, it is. Where it fails, or does not answer in time, or says what
// contradicts CRI (the pod is being resized, and the kubelet has not allowed it yet), the next
// source is asked, and the question's remarks say why. After an answer that came too late nobody
// asks for a while.
class PodsApiSource final : public ResourceSource {
 public:
  struct Options {
    std::string endpoint = "unix:///var/lib/kubelet/pods-api/pods-api.sock";
    std::chrono::milliseconds timeout{500};   // longest wait for one answer
    std::chrono::milliseconds pause{10'000};  // how long nobody asks after an answer came too late
  };

  // Errors: kInvalidArgument as rpc::SocketPath.
  static Result<std::unique_ptr<ResourceSource>> Make(const Options& options);

  // Ends the calls under way; their answers come before it returns.
  ~PodsApiSource() override;

  void Ask(const Question& question, Answer answer) override;

 private:
  class Client;

  explicit PodsApiSource(std::unique_ptr<Client> client);

  const std::unique_ptr<Client> client_;
};

}  // namespace alignd::podsource
