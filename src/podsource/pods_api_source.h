// The resources of pods from the kubelet's local Pods API (Kubernetes 1.36: alpha; 1.37: on by
// default).
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
//
// FAILED_PRECONDITION has two meanings, which only the text distinguishes:
// * The feature gate is off; the kubelet serves the socket all the same. The API is not called for
//   a while, or until the kubelet has made its socket anew.
// * The kubelet has not seen all sources of pods yet, as after each of its starts. That can last
//   if the API server is away, and static pods start meanwhile (the API server may be one of
//   them). So nothing waits for it: the next source is asked, and the API again for the next
//   container.
//
// The kubelet limits the rate of calls (100 per second). A call that it refuses is repeated.
//
// A container that the pod's spec does not list among its containers runs in the shared pool: an
// ephemeral container (`kubectl debug`), or one that is not the kubelet's.
class PodsApiSource final : public ResourceSource {
 public:
  struct Options {
    std::string endpoint = "unix:///var/lib/kubelet/pods-api/pods-api.sock";
    std::chrono::milliseconds timeout{500};   // of one call
    std::chrono::milliseconds pause{10'000};  // without calls, after a timeout or with the gate off
    bool claims_add_sizes = false;            // see AddedByClaims
    // How long a call is repeated that the kubelet's rate limit refuses.
    std::chrono::milliseconds repeat_for{1'000};
  };

  // Errors: kInvalidArgument as rpc::SocketPath.
  static Result<std::unique_ptr<ResourceSource>> Make(const Options& options);

  // Ends the calls under way; each has been answered when this returns.
  ~PodsApiSource() override;

  void Ask(const Question& question, Answer answer) override;

 private:
  class Client;

  PodsApiSource(std::unique_ptr<Client> client, bool claims_add_sizes);

  const std::unique_ptr<Client> client_;
  const bool claims_add_sizes_;
};

}  // namespace alignd::podsource
