// A simulated kubelet's local Pods API (v1alpha1.Pods), on a unix socket.
#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>
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

// Answers GetPod; an unknown pod is NOT_FOUND, with the kubelet's message. The status is the one
// that a kubelet generates when it begins to create a pod: it lacks what only the API server has,
// such as extendedResourceClaimStatus. Thread-safe.
// Source: kubelet pkg/kubelet/apis/pods/server.go, GetPod; kubelet.go, SyncPod.
class PodsApi {
 public:
  // What kubelets since 1.37 serve on the socket.
  enum class Stage {
    kReady,
    kNotReady,   // FAILED_PRECONDITION: not all sources of pods have been seen
    kGateIsOff,  // FAILED_PRECONDITION: the feature gate is off
  };

  // Errors: as simulator::Listen.
  static Result<std::unique_ptr<PodsApi>> Start(const std::string& endpoint);
  ~PodsApi();  // stops: calls under way are cancelled

  void SetPod(const Pod& pod) { SetPodBytes(pod.uid, ToV1Pod(pod)); }
  void SetPodBytes(const std::string& uid, std::string bytes);

  // The kind of all later answers. kNothing: an answer without a pod.
  void SetManner(Manner manner);
  void SetStage(Stage stage);
  // From now on, as the kubelet does: 100 calls per second with a burst of 10, and
  // RESOURCE_EXHAUSTED beyond it.
  void LimitRate();
  // From now on, answers have the status of the API server's pod: as a later kubelet may do.
  void ShowServersStatus();
  // The scheduler's mapping of a container's extended resource to a request of a claim, in the
  // status of the API server's pod, which SetPod has set.
  void AddExtendedClaim(const std::string& uid, const std::string& container,
                        const std::string& resource);
  // Changes metadata.generation, which is 1 in what SetPod said, as a resize does.
  void SetGeneration(const std::string& uid, int64_t generation);
  // An entry of metadata.managedFields with all requests of the pod's containers. `subresource`:
  // by which they were set; empty: with the pod itself.
  void AddManagedRequests(const std::string& uid, const std::string& subresource = "");
  // The pod's ephemeral container (`kubectl debug`), added to what SetPod said.
  void AddEphemeral(const std::string& uid, const std::string& container);
  // Lets every call fail from now on, or work again if `status` is OK.
  void SetFailure(grpc::Status status);

  // The UIDs of the requests, in order, with those that failed.
  std::vector<std::string> asked() const;

 private:
  class Service;

  explicit PodsApi(std::unique_ptr<Service> service);

  const std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace alignd::simulator
