// A daemon beside a kubelet that has had claims prepared, whose Pods API it may call.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "control/control_client.h"
#include "core/pod_builder.h"
#include "daemon_fixture.h"
#include "edge/claims_tree.h"
#include "simulator/pods_api.h"

namespace alignd::daemon {

inline const std::map<std::string, std::string> kTwoCpus = {{"cpu", "2"}, {"memory", "100Mi"}};

// CPUs 0 to 13 are on NUMA node 0, the others on node 1. CPU 0 is reserved. The device gpu0 is on
// node 0, gpu1 on node 1.
class ClaimsTest : public DaemonTest {
 protected:
  ClaimsTest() {
    claims_.Write({"proc/sys/kernel/random/boot_id", "boot\n"});
    claims_.AddGpu("0", 0);
    claims_.AddGpu("1", 1);
  }

  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.root = claims_.root();
    options.kubelet_dir = claims_.root() / "kubelet";
    options.cdi_spec_dirs.clear();
    if (is_on_) options.cdi_spec_dirs.push_back(claims_.root() / "cdi");
    return options;
  }
  static std::string Policy(const std::string& policy, const std::string& scope = "container") {
    return StaticConfig("topologyManagerPolicy: " + policy + "\ntopologyManagerScope: " + scope +
                        "\n");
  }

  // A pod whose annotation requests resources for its containers.
  static v1::PodSandboxConfig Annotated(const std::string& uid, const std::string& text) {
    v1::PodSandboxConfig pod = PodConfig(uid);
    (*pod.mutable_annotations())["alignd.io/resources"] = text;
    return pod;
  }
  // As the scheduler has a claim made for the extended resource of this index.
  void PrepareExtended(const std::string& uid, const std::string& gpu, int index,
                       int container = 0) const {
    claims_.Prepare(uid, {Gpu(gpu)}, "pod-extended-resources-x",
                    "container-" + std::to_string(container) + "-request-" + std::to_string(index));
  }

  void ShowPod(const Pod& pod) {
    if (!api_) {
      auto api = simulator::PodsApi::Start(PodsApiEndpoint());
      ASSERT_TRUE(api.ok()) << api.error().Text();
      api_ = *std::move(api);
    }
    api_->SetPod(pod);
  }
  // Of the pod's last decision.
  std::string SourceOf(const std::string& pod) const {
    const auto explained = control::ControlClient(DaemonOptions().ControlSocket()).Explain(pod, 1);
    if (!explained.ok()) return explained.error().Text();
    return explained->decisions().empty() ? "none" : explained->decisions(0).source();
  }

  static dra::PreparedDevice Gpu(const std::string& number) {
    return testing::ClaimsTree::Gpu(number);
  }
  static v1::ContainerConfig Claiming(int cpus, const std::string& device,
                                      const std::string& name = "app") {
    v1::ContainerConfig config = Pinned(cpus, name);
    config.add_cdi_devices()->set_name("example.com/gpu=" + device);
    return config;
  }
  // The CPUs of a new container, or the error.
  std::string CreateIn(const std::string& sandbox, const v1::PodSandboxConfig& pod,
                       const v1::ContainerConfig& container) const {
    const auto created = Create(sandbox, pod, container);
    if (!created.status.ok()) return created.status.error_message();
    return CpusOf(created.response.container_id());
  }
  std::string CreateIn(const v1::PodSandboxConfig& pod,
                       const v1::ContainerConfig& container) const {
    return CreateIn(Run(pod), pod, container);
  }
  grpc::Status ResizeTo(const std::string& id, int cpus) const {
    v1::UpdateContainerResourcesRequest request;
    request.set_container_id(id);
    *request.mutable_linux() = Pinned(cpus).linux().resources();
    return Call<v1::UpdateContainerResourcesResponse>("UpdateContainerResources", request).status;
  }
  // Of a pod with two containers, which have 100Mi each.
  grpc::Status PodStep(const std::string& sandbox, int cpus) const {
    v1::UpdatePodSandboxResourcesRequest request;
    request.set_pod_sandbox_id(sandbox);
    *request.mutable_resources() = Pinned(cpus).linux().resources();
    request.mutable_resources()->set_memory_limit_in_bytes(200 * podsource::kMi);
    return Call<v1::UpdatePodSandboxResourcesResponse>("UpdatePodSandboxResources", request).status;
  }
  static v1::ContainerConfig Again(v1::ContainerConfig container) {
    container.mutable_metadata()->set_attempt(1);
    return container;
  }
  bool IsDecided(const std::string& pod_uid) const {
    return State().find("\"" + pod_uid + "\"") != std::string::npos;
  }

  const testing::ClaimsTree claims_;
  bool is_on_ = true;
  std::unique_ptr<simulator::PodsApi> api_;
};

}  // namespace alignd::daemon
