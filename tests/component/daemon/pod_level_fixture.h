// Pods with pod-level resources as a kubelet runs them, and the daemon's Pods API.
#pragma once

#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon_fixture.h"
#include "podresources/v1/podresources.grpc.pb.h"
#include "simulator/kubelet_requests.h"
#include "simulator/pod_manifest.h"
#include "simulator/pods_api.h"

namespace alignd::daemon {

class PodLevelTest : public DaemonTest {
 protected:
  void StartPodsApi() {
    auto api = simulator::PodsApi::Start(PodsApiEndpoint());
    ASSERT_TRUE(api.ok()) << api.error().Text();
    api_ = *std::move(api);
  }

  // A pod as a kubelet runs it.
  struct KubeletPod {
    simulator::PodManifest manifest;
    v1::PodSandboxConfig sandbox_config;
    std::string sandbox = {};
    std::map<std::string, std::string> ids = {};  // by container
    uint32_t attempts = 0;
  };

  // Runs the sandbox. The Pods API knows the pod, unless it is off.
  KubeletPod RunPod(const std::string& manifest) {
    const auto parsed = simulator::ParsePodManifest(manifest);
    EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().Text());
    KubeletPod pod{.manifest = *parsed, .sandbox_config = {}};
    simulator::KubeletSettings settings;
    settings.annotate_resources = false;
    pod.sandbox_config = simulator::MakeSandboxConfig(pod.manifest, settings);
    if (api_) api_->SetPod(pod.manifest.pod);
    pod.sandbox = Run(pod.sandbox_config);
    return pod;
  }
  v1::ContainerConfig ConfigOf(const KubeletPod& pod, const std::string& name) const {
    const std::vector<Container>& all = pod.manifest.pod.containers;
    const auto container = std::ranges::find(all, name, &Container::name);
    simulator::KubeletHost host;
    host.hugepage_sizes_kb = {2048, 1048576};
    v1::ContainerConfig config =
        simulator::MakeContainerConfig(pod.manifest, *container, "image", host);
    config.mutable_metadata()->set_attempt(pod.attempts);
    return config;
  }
  grpc::Status CreateIn(KubeletPod& pod, const std::string& name) {
    const auto created = Create(pod.sandbox, pod.sandbox_config, ConfigOf(pod, name));
    pod.ids[name] = created.response.container_id();
    return created.status;
  }
  // Creates and starts these containers.
  void StartAll(KubeletPod& pod, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const grpc::Status created = CreateIn(pod, name);
      ASSERT_TRUE(created.ok()) << name << ": " << created.error_message();
      const grpc::Status started = StartContainer(pod.ids[name]);
      ASSERT_TRUE(started.ok()) << name << ": " << started.error_message();
    }
  }
  // They end, and the kubelet creates and starts them again.
  void StartAgain(KubeletPod& pod, const std::vector<std::string>& names) {
    ++pod.attempts;
    for (const std::string& name : names) {
      EXPECT_TRUE(runtime_->EndContainer(pod.ids[name], 1));
      StartAll(pod, {name});
    }
  }
  std::string CpusIn(const KubeletPod& pod, const std::string& name) const {
    return CpusOf(pod.ids.at(name));
  }
  int64_t QuotaIn(const KubeletPod& pod, const std::string& name) const {
    const auto container = runtime_->FindContainer(pod.ids.at(name));
    return container ? container->resources.cpu_quota() : 0;
  }

  ::v1::PodResources Resources(const std::string& pod) const {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    ::v1::GetPodResourcesRequest request;
    request.set_pod_name(pod);
    request.set_pod_namespace("default");
    ::v1::GetPodResourcesResponse response;
    const auto channel = *simulator::Dial(DaemonOptions().PodResourcesSocket());
    const grpc::Status status =
        ::v1::PodResourcesLister::NewStub(channel)->Get(&context, request, &response);
    // After a restart, the pod is found once the runtime has been listed.
    return status.ok() ? response.pod_resources() : ::v1::PodResources();
  }

  std::string MemoryState() const { return ReadText(StateDir() / "memory_manager_state"); }

  std::unique_ptr<simulator::PodsApi> api_;
};

}  // namespace alignd::daemon
