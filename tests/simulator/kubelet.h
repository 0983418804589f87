// The kubelet's CRI side: runs and removes pods through a CRI socket with the calls of a kubelet,
// in its order. It has no API server, restarts no containers and allocates nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "runtime/v1/cri.pb.h"
#include "simulator/kubelet_requests.h"
#include "simulator/pod_manifest.h"

namespace grpc {
class Channel;
}

namespace alignd::simulator {

// A pod as the runtime lists it.
struct ListedPod {
  std::string sandbox_id;
  std::string uid;
  std::string name;
  std::string name_space;
  bool ready = false;

  struct Container {
    std::string id;
    std::string name;
    runtime::v1::ContainerState state = runtime::v1::CONTAINER_UNKNOWN;
    std::string cpuset;  // as the runtime reports it; may be empty
  };
  std::vector<Container> containers;  // the oldest first
};

// Thread-safe. Every call blocks. Errors of all methods, unless said otherwise: those of the peer
// as rpc::ToError makes them, `<Method>: <the peer's message>`.
class Kubelet {
 public:
  // `runtime` is alignd, or a runtime itself. `timeout` bounds each call.
  Kubelet(std::shared_ptr<grpc::Channel> runtime, KubeletSettings settings,
          std::chrono::milliseconds timeout = std::chrono::minutes(2));
  ~Kubelet();

  // --- Single calls, with the requests that a kubelet would send.

  // Returns the sandbox's id.
  Result<std::string> RunSandbox(const PodManifest& manifest);
  // Returns the container's id. Pulls a missing image if the manifest allows it. Errors: also
  // kNotFound for a missing image that must not be pulled.
  Result<std::string> Create(const PodManifest& manifest, const std::string& sandbox_id,
                             const Container& container);
  Result<Done> Start(const std::string& container_id);
  Result<runtime::v1::ContainerStatus> Status(const std::string& container_id);
  // The output of a command inside. Errors: also kInternal if it does not exit with 0.
  Result<std::string> Exec(const std::string& container_id, std::vector<std::string> command);
  // In ascending order of name and uid.
  Result<std::vector<ListedPod>> List();

  // --- Whole pods.

  struct RunContainer {
    std::string name;
    Result<std::string> id;  // or why it does not run
  };
  struct RunPod {
    std::string sandbox_id;
    // Up to the first failure: the kubelet starts no container after it.
    std::vector<RunContainer> containers;
  };
  // The sandbox, then each container created and started in order; init containers are waited for.
  // An existing sandbox of the same uid is used, and existing containers are kept, so that running
  // a refused pod again is the kubelet's retry. Errors: those of the sandbox only; each container
  // has its own.
  Result<RunPod> Run(const PodManifest& manifest);

  // Gives the pod's running container of a Guaranteed pod other CPUs while it runs: the pod's steps
  // (UpdatePodSandboxResources) of what grows, UpdateContainerResources, the steps of what shrinks.
  // A pod step that the runtime does not implement counts as done. The sizes of the other
  // containers are those that the runtime reports. The first error ends it; a kubelet repeats all.
  // `from`: the CPUs that the container has now, if the runtime does not report them.
  // Source: kubelet pkg/kubelet/kuberuntime/kuberuntime_manager.go, doPodResizeAction.
  // Differs: the pod's cgroup is not written.
  // Errors: also kNotFound without such a container; kInvalidArgument if its CPUs are not known.
  Result<Done> Resize(const ListedPod& pod, const std::string& container, int64_t cpus,
                      int64_t from = 0);

  // Stops the containers, then the sandbox, removes the containers, then the sandbox.
  // `grace`: time between SIGTERM and SIGKILL.
  Result<Done> Remove(const ListedPod& pod, std::chrono::seconds grace);

 private:
  class Calls;

  Result<Done> PodStep(const ListedPod& pod, const runtime::v1::LinuxContainerResources& sizes);
  // Waits until an init container has ended. Errors: also kInternal if it failed.
  Result<Done> AwaitEnd(const std::string& container_id);
  Result<std::string> ImageId(const ContainerManifest& container);
  Result<std::string> CreateAndStart(const PodManifest& manifest, const std::string& sandbox_id,
                                     const Container& container, const ListedPod* listed);

  const KubeletSettings settings_;
  const KubeletHost host_;
  const std::unique_ptr<Calls> calls_;
};

}  // namespace alignd::simulator
