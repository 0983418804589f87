// Pods as a kubelet creates them, call by call.
#pragma once

#include <grpcpp/channel.h>

#include <string>

#include "proxied_runtime.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::bench {

namespace v1 = runtime::v1;

template <typename Response, typename Request>
Response CallTyped(grpc::Channel& channel, const std::string& method, const Request& request) {
  const std::string path = "/runtime.v1.RuntimeService/" + method;
  Response response;
  const grpc::ByteBuffer bytes =
      CallOnce(channel, path, testing::ToBuffer(request.SerializeAsString()));
  if (!response.ParseFromString(testing::ToText(bytes))) throw std::runtime_error(path);
  return response;
}

// A pod of one container, with exclusive CPUs or in the shared pool.
struct BenchPod {
  v1::PodSandboxConfig sandbox;
  v1::ContainerConfig container;
  std::string sandbox_id;

  BenchPod(const std::string& uid, int exclusive_cpus) {
    const std::string qos = exclusive_cpus > 0 ? "" : "/burstable";
    sandbox.mutable_metadata()->set_uid(uid);
    sandbox.mutable_metadata()->set_name("pod-" + uid);
    sandbox.mutable_metadata()->set_namespace_("default");
    sandbox.mutable_linux()->set_cgroup_parent("/kubepods" + qos + "/pod" + uid);
    container.mutable_metadata()->set_name("app");
    for (const char* const key : {"io.kubernetes.container.name", "io.kubernetes.pod.name",
                                  "io.kubernetes.pod.namespace", "io.kubernetes.pod.uid"}) {
      (*container.mutable_labels())[key] = uid;
    }
    v1::LinuxContainerResources& resources = *container.mutable_linux()->mutable_resources();
    resources.set_cpu_period(100'000);
    resources.set_cpu_shares(exclusive_cpus > 0 ? exclusive_cpus * 1024 : 102);
    if (exclusive_cpus == 0) return;
    resources.set_cpu_quota(exclusive_cpus * 100'000);
    resources.set_memory_limit_in_bytes(100 << 20);
  }

  void Run(grpc::Channel& channel) {
    v1::RunPodSandboxRequest request;
    *request.mutable_config() = sandbox;
    sandbox_id =
        CallTyped<v1::RunPodSandboxResponse>(channel, "RunPodSandbox", request).pod_sandbox_id();
  }
  std::string Create(grpc::Channel& channel) const {
    v1::CreateContainerRequest request;
    request.set_pod_sandbox_id(sandbox_id);
    *request.mutable_config() = container;
    *request.mutable_sandbox_config() = sandbox;
    return CallTyped<v1::CreateContainerResponse>(channel, "CreateContainer", request)
        .container_id();
  }
  void Remove(grpc::Channel& channel) const {
    v1::RemovePodSandboxRequest request;
    request.set_pod_sandbox_id(sandbox_id);
    CallTyped<v1::RemovePodSandboxResponse>(channel, "RemovePodSandbox", request);
  }
};

inline void StartContainer(grpc::Channel& channel, const std::string& id) {
  v1::StartContainerRequest request;
  request.set_container_id(id);
  CallTyped<v1::StartContainerResponse>(channel, "StartContainer", request);
}

// Runs `count` pods, every third with an exclusive CPU.
inline void RunPods(grpc::Channel& channel, int count, bool exclusive_too) {
  for (int i = 0; i < count; ++i) {
    BenchPod pod("running-" + std::to_string(i), exclusive_too && i % 3 == 0 ? 1 : 0);
    pod.Run(channel);
    StartContainer(channel, pod.Create(channel));
  }
}

}  // namespace alignd::bench
