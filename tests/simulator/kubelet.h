// A small stand-in for the kubelet's CRI side: runs and removes pods through a CRI socket with the
// calls that a kubelet makes, in its order. It has no API server, restarts nothing and decides
// nothing.
#pragma once

#include <chrono>
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
    std::string cpuset;  // as the runtime tells it; empty if it does not
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

  // Gives the sandbox's id.
  Result<std::string> RunSandbox(const PodManifest& manifest);
  // Gives the container's id. Asks for the image first and has it pulled if the runtime has none
  // and the manifest allows it. Errors: also kNotFound if it does not.
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
    // Until the first that fails: the kubelet starts none after it.
    std::vector<RunContainer> containers;
  };
  // The sandbox, then each container created and started in order; init containers are waited for.
  // A sandbox of the same uid that is there already is used, and containers that exist are left
  // alone, so that running a refused pod again is the kubelet's retry.
  // Errors: those of the sandbox only; the containers' stand with them.
  Result<RunPod> Run(const PodManifest& manifest);

  // Stops the containers, then the sandbox, removes the containers, then the sandbox.
  // `grace` is what a container gets between SIGTERM and SIGKILL.
  Result<Done> Remove(const ListedPod& pod, std::chrono::seconds grace);

 private:
  class Stubs;

  // Waits until an init container has ended. Errors: also kInternal if it failed.
  Result<Done> AwaitEnd(const std::string& container_id);
  Result<std::string> ImageId(const ContainerManifest& container);
  Result<std::string> CreateAndStart(const PodManifest& manifest, const std::string& sandbox_id,
                                     const Container& container, const ListedPod* listed);

  const KubeletSettings settings_;
  const KubeletHost host_;
  const std::unique_ptr<Stubs> stubs_;
};

}  // namespace alignd::simulator
