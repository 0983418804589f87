// A whole daemon that mirrors its device plugins to a simulated kubelet, on the node of
// daemon_fixture.h: GPU 0 on NUMA node 0, GPUs 1 and 2 on node 1.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../daemon/daemon_fixture.h"
#include "control/control_client.h"
#include "mirror/marker.h"
#include "simulator/kubelet_devices.h"

namespace alignd::daemon {

inline constexpr char kGpu1OfNode1[] = "GPU-9b341c59-f96b-ba85-c137-78c3652fea65";
inline constexpr char kGpu2OfNode1[] = "GPU-c1e9f249-b37b-81c2-a8d9-ba5ca0294841";

inline const std::set<std::string>& AllGpus() {
  static const auto* const kAll =
      new std::set<std::string>{kGpuOfNode0, kGpu1OfNode1, kGpu2OfNode1};
  return *kAll;
}

// A kubelet that looks more often than the real one, so that tests go on.
inline simulator::KubeletTiming QuickKubelet() {
  simulator::KubeletTiming timing;
  timing.period = milliseconds(10);
  timing.first_backoff = milliseconds(10);
  timing.last_backoff = milliseconds(200);
  timing.info = kPatience;  // on a machine that does other things, too
  timing.notify = kPatience;
  return timing;
}

class MirrorTest : public DaemonTest {
 protected:
  ~MirrorTest() override {
    kubelet_.reset();
    StopDaemon();
  }

  std::filesystem::path Registry() const { return tree_.root() / "registry"; }
  // The kubelet's own; alignd's is in its state directory.
  std::filesystem::path KubeletPluginDir() const {
    return tree_.root() / "kubelet" / "device-plugins";
  }
  std::filesystem::path KubeletCheckpoint() const {
    return KubeletPluginDir() / "kubelet_internal_checkpoint";
  }

  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    if (mode_) options.mirror.emplace(*mode_, rules_);
    options.mirror_patience = mirror_patience_;
    options.kubelet_device_plugin_dir = KubeletPluginDir();
    options.kubelet_plugins_registry = Registry();
    options.plugin_grace = grace_;
    options.plugin_preference_timeout = preference_timeout_;
    options.plugin_patience = patience_;
    return options;
  }

  // Starts all; returns when the kubelet has the GPUs.
  void StartAll(const std::string& config = StaticConfig()) {
    Start(config);
    StartGpus();
    StartKubeletOnceOffered();
    ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  }
  // A kubelet that looks while a socket is being made registers it twice, and refuses pods in
  // between.
  void StartKubeletOnceOffered() {
    std::error_code absent;
    ASSERT_TRUE(Eventually([&] {
      const bool is_empty = std::filesystem::is_empty(Registry(), absent);
      return !absent && !is_empty;
    }));
    StartKubelet();
  }
  void StartKubelet() {
    auto kubelet =
        simulator::KubeletDevices::Start(Registry(), QuickKubelet(), KubeletCheckpoint());
    ASSERT_TRUE(kubelet.ok()) << kubelet.error().Text();
    kubelet_ = *std::move(kubelet);
  }

  struct Created {
    std::string sandbox;
    grpc::Status status;
    std::string id;
    v1::ContainerConfig seen;  // what the runtime was asked for; empty if it was not
  };

  // The kubelet creates the container in its pod's sandbox, with what it knows of its devices.
  Created CreateIn(const std::string& sandbox, const v1::PodSandboxConfig& pod,
                   v1::ContainerConfig container) const {
    const ContainerKey key{pod.metadata().uid(), container.metadata().name()};
    for (const v1beta1::ContainerAllocateResponse& answer : kubelet_->AnswersOf(key)) {
      container.mutable_annotations()->insert(answer.annotations().begin(),
                                              answer.annotations().end());
      for (const auto& [name, value] : answer.envs()) {
        v1::KeyValue& env = *container.add_envs();
        env.set_key(name);
        env.set_value(value);
      }
      for (const v1beta1::DeviceSpec& spec : answer.devices()) {
        v1::Device& device = *container.add_devices();
        device.set_container_path(spec.container_path());
        device.set_host_path(spec.host_path());
        device.set_permissions(spec.permissions());
      }
    }
    const auto created = Create(sandbox, pod, container);
    Created result{sandbox, created.status, created.response.container_id(), {}};
    if (const auto known = runtime_->FindContainer(result.id)) result.seen = known->config;
    return result;
  }

  // A pod of one container with these GPUs (and CPUs; 0: of the shared pool), without any
  // annotation of its author: admitted by the kubelet, then created.
  Created RunPod(const std::string& uid, int cpus, int gpus) {
    const Result<Done> admitted = kubelet_->Admit({uid, "app"}, {{kGpu, gpus}});
    if (!admitted.ok()) {
      return {"", {grpc::StatusCode::ABORTED, admitted.error().message}, "", {}};
    }
    const v1::PodSandboxConfig pod = cpus > 0 ? PodConfig(uid) : BurstablePod(uid);
    Created created = CreateIn(Run(pod), pod, cpus > 0 ? Pinned(cpus) : Shared());
    if (created.status.ok()) created.status = StartContainer(created.id);
    return created;
  }
  void RemovePod(const std::string& uid, const std::string& sandbox) {
    EXPECT_TRUE(StopSandbox(sandbox).ok());
    EXPECT_TRUE(RemoveSandbox(sandbox).ok());
    EXPECT_TRUE(kubelet_->Forget(uid).ok());
  }

  // The GPUs that the plugin's answer put into the container.
  static std::set<std::string> GpusOf(const v1::ContainerConfig& container) {
    std::set<std::string> gpus;
    for (const v1::KeyValue& env : container.envs()) {
      if (env.key() != "NVIDIA_VISIBLE_DEVICES") continue;
      std::stringstream ids(env.value());
      for (std::string id; std::getline(ids, id, ',');) gpus.insert(id);
    }
    return gpus;
  }
  static bool HasMarker(const v1::ContainerConfig& container) {
    for (const auto& [key, value] : container.annotations()) {
      if (key.starts_with(mirror::kMarkerPrefix)) return true;
    }
    return false;
  }
  // The message of the last decision about the pod; empty: there is none, or it was admitted.
  std::string LastAnswerTo(const std::string& uid) const {
    const auto explained = control::ControlClient(DaemonOptions().ControlSocket()).Explain(uid, 1);
    if (!explained.ok() || explained->decisions().empty()) return "";
    return explained->decisions(0).message();
  }
  // NUMA nodes of a list of CPUs, on this node.
  static std::set<int> NumaOf(const std::string& cpus) {
    std::set<int> nodes;
    const Result<CpuSet> set = CpuSet::Parse(cpus);
    if (!set.ok()) return nodes;
    for (const int cpu : *set) nodes.insert(cpu / 14);
    return nodes;
  }

  std::optional<mirror::BindingMode> mode_ = mirror::BindingMode::kPreferred;
  std::vector<mirror::BindingRule> rules_;
  milliseconds mirror_patience_{5'000};
  milliseconds preference_timeout_{2'000};
  milliseconds grace_{std::chrono::minutes(5)};
  milliseconds patience_{std::chrono::minutes(5)};
  std::unique_ptr<simulator::KubeletDevices> kubelet_;
};

}  // namespace alignd::daemon
