// alignd and a device plugin as processes, and a simulated kubelet, killed at any moment, also in
// the middle of a call, with their files as they are by then. No device is assigned twice, none is
// lost, a container that starts again has what it had, and every file can be read.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "alignd/checkpoint/binding_checkpoint.h"
#include "alignd/checkpoint/verify.h"
#include "core/property_seed.h"
#include "edge/alignd_command.h"
#include "edge/process.h"
#include "mirror_fixture.h"

namespace alignd::daemon {
namespace {

using Ids = std::set<std::string>;
using testing::Process;

// What the runtime was asked to make, whether anybody heard of its answer or not.
class Witness {
 public:
  void Note(const RuntimeModel::Event& event, const std::string& uid, const Ids& gpus) {
    const ContainerKey key{uid, event.container.config.metadata().name()};
    const MutexLock lock(mutex_);
    if (event.change == RuntimeModel::Change::kRemoved) {
      living_.erase(event.container.id);
      return;
    }
    if (event.change != RuntimeModel::Change::kCreated) return;
    const auto [first, is_new] = had_.try_emplace(key, gpus);
    if (!is_new && first->second != gpus) {
      faults_.push_back(uid + "/" + key.container + " has other devices than before");
    }
    living_[event.container.id] = {key, gpus};
    for (const auto& [id, other] : living_) {
      if (other.key.pod_uid == uid) continue;
      for (const std::string& gpu : gpus) {
        if (!other.gpus.contains(gpu)) continue;
        faults_.push_back(gpu + " is assigned to " + uid + " and to " + other.key.pod_uid);
      }
    }
  }
  // The machine has lost its power.
  void Forget() {
    const MutexLock lock(mutex_);
    living_.clear();
    had_.clear();
  }
  void ForgetPod(const std::string& uid) {
    const MutexLock lock(mutex_);
    std::erase_if(had_, [&](const auto& entry) { return entry.first.pod_uid == uid; });
  }
  Ids Had(const ContainerKey& key) const {
    const MutexLock lock(mutex_);
    const auto had = had_.find(key);
    return had == had_.end() ? Ids() : had->second;
  }
  std::vector<std::string> faults() const {
    const MutexLock lock(mutex_);
    return faults_;
  }

 private:
  struct Living {
    ContainerKey key;
    Ids gpus;
  };

  mutable Mutex mutex_;
  std::map<std::string, Living> living_ GUARDED_BY(mutex_);  // by container id
  std::map<ContainerKey, Ids> had_ GUARDED_BY(mutex_);       // since its pod or machine began
  std::vector<std::string> faults_ GUARDED_BY(mutex_);
};

class MirrorKill : public MirrorTest {
 protected:
  // Calls are held for a plugin that is started by a later step.
  MirrorKill() { patience_ = milliseconds(200); }

  struct Pod {
    std::map<std::string, int> wants;  // by container, in the order of their names
    int cpus = 0;                      // of each; 0: of the shared pool
    bool leaving = false;
  };

  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }

  // --- The processes.

  void StartAlignd() {
    Options options = DaemonOptions();
    options.pods_api_endpoint.clear();
    options.log_level = "warn";
    alignd_ = std::make_unique<Process>(testing::AligndCommand(ALIGND_PROGRAM, options),
                                        tree_.root() / "alignd.log");
    client_ = *simulator::Dial(options.listen);
  }
  void StartPlugin() {
    plugin_ = std::make_unique<Process>(
        std::vector<std::string>{ALIGNSIM_PROGRAM, "devices", "--dir",
                                 StateDir() / "device-plugins", "--resource", kGpu, "--device",
                                 std::string(kGpuOfNode0) + ":numa=0", "--device",
                                 std::string(kGpu1OfNode1) + ":numa=1", "--device",
                                 std::string(kGpu2OfNode1) + ":numa=1", "--env",
                                 "NVIDIA_VISIBLE_DEVICES={ids}", "--prefer"},
        tree_.root() / "plugin.log");
  }
  void KillAlignd() {
    alignd_.reset();
    CheckFiles();
  }
  void StartRuntimeWithWitness() {
    StartRuntime();
    watch_.OnEvent([this](const RuntimeModel::Event& event) {
      witness_.Note(event, UidOf(event.container), GpusOf(event.container.config));
    });
  }
  static std::string UidOf(const simulator::SimulatedContainer& container) {
    const auto uid = container.config.labels().find("uid");
    return uid == container.config.labels().end() ? "" : uid->second;
  }

  // Every file says what it is to say, whatever was under way.
  void CheckFiles() const {
    const auto check = [](const std::filesystem::path& file, const auto& parse) {
      const std::string text = ReadText(file);
      if (!std::filesystem::exists(file)) return;  // killed before it was made
      const auto read = parse(text);
      EXPECT_TRUE(read.ok()) << file << ": " << read.error().Text() << "\n" << text;
    };
    using checkpoint::CheckpointKind;
    check(StateDir() / "device_bindings", checkpoint::ParseBindingCheckpoint);
    check(StateDir() / "cpu_manager_state", [](const std::string& text) {
      return checkpoint::VerifyCheckpoint(CheckpointKind::kCpu, text);
    });
    check(StateDir() / "device-plugins" / "kubelet_internal_checkpoint",
          [](const std::string& text) {
            return checkpoint::VerifyCheckpoint(CheckpointKind::kDevice, text);
          });
  }

  // --- What the kubelet does, one step of some pod after the other, as far as it can be done.

  void Step() {
    const uint32_t choice = Below(5);
    if (choice == 0 || pods_.empty()) return AdmitOne();
    auto pod = pods_.begin();
    std::advance(pod, Below(static_cast<uint32_t>(pods_.size())));
    if (choice == 1) pod->second.leaving = true;
    const std::string uid = pod->first;
    if (pod->second.leaving) {
      Leave(uid);
    } else {
      RunContainers(uid, pod->second);
    }
  }

  void AdmitOne() {
    const std::string uid = "pod" + std::to_string(++last_pod_);
    Pod pod;
    pod.cpus = static_cast<int>(Below(4));
    pod.wants["app"] = 1 + static_cast<int>(Below(2));
    if (Below(3) == 0) pod.wants["beside"] = 1;
    if (Below(3) == 0) pod.wants["a-init"] = 1 + static_cast<int>(Below(2));  // the first by name
    for (const auto& [name, count] : pod.wants) {
      if (!kubelet_->Admit({uid, name}, {{kGpu, count}}, name == "a-init").ok()) {
        EXPECT_TRUE(kubelet_->Forget(uid).ok());  // refused, or the kubelet has never heard of it
        return;
      }
    }
    pods_[uid] = pod;
  }

  std::string SandboxOf(const std::string& uid) const {
    for (const auto& sandbox : runtime_->Sandboxes()) {
      if (sandbox.config.metadata().uid() == uid && sandbox.state == v1::SANDBOX_READY) {
        return sandbox.id;
      }
    }
    return "";
  }

  // With the pod's sum, as kubelets from 1.23 on send it. Without it, a container that has ended
  // with status 0 is taken for an init container, and its devices are reused although it starts
  // again.
  v1::PodSandboxConfig ConfigOf(const std::string& uid, const Pod& pod) const {
    if (pod.cpus == 0) return BurstablePod(uid);
    v1::PodSandboxConfig config = PodConfig(uid);
    const auto together = static_cast<int64_t>(pod.wants.size() - pod.wants.count("a-init"));
    v1::LinuxContainerResources& resources = *config.mutable_linux()->mutable_resources();
    resources.set_cpu_period(100'000);
    resources.set_cpu_quota(together * pod.cpus * 100'000);
    resources.set_cpu_shares(together * pod.cpus * 1024);
    resources.set_memory_limit_in_bytes(together * 100 * 1024 * 1024);
    return config;
  }

  // False: one could not be run by now.
  bool RunContainers(const std::string& uid, const Pod& pod) {
    const v1::PodSandboxConfig config = ConfigOf(uid, pod);
    if (SandboxOf(uid).empty()) (void)Run(config);
    const std::string sandbox = SandboxOf(uid);
    if (sandbox.empty()) return false;
    for (const auto& [name, count] : pod.wants) {
      v1::ContainerConfig container = pod.cpus > 0 ? Pinned(pod.cpus, name) : Shared(name);
      container.mutable_metadata()->set_attempt(++attempts_);
      (*container.mutable_labels())["uid"] = uid;
      const ContainerKey key{uid, name};
      if (name == "a-init" && !witness_.Had(key).empty()) continue;  // has ended
      EndThatRun(key);
      const Created created = CreateIn(sandbox, config, container);
      if (!created.status.ok()) return false;
      EXPECT_EQ(GpusOf(created.seen).size(), static_cast<size_t>(count)) << uid;
      EXPECT_FALSE(HasMarker(created.seen)) << uid;
      if (!StartContainer(created.id).ok()) return false;
      if (name == "a-init" || Below(2) == 0) runtime_->EndContainer(created.id, 0);
    }
    return true;
  }

  // One at a time: the next is made when the last has ended.
  void EndThatRun(const ContainerKey& key) const {
    for (const auto& container : runtime_->Containers()) {
      if (UidOf(container) != key.pod_uid || container.config.metadata().name() != key.container) {
        continue;
      }
      if (container.state == v1::CONTAINER_RUNNING) runtime_->EndContainer(container.id, 0);
    }
  }

  void Leave(const std::string& uid) {
    if (Below(2) == 0) {  // it may do so before the sandbox is gone
      EXPECT_TRUE(kubelet_->Forget(uid).ok());
    }
    for (const auto& sandbox : runtime_->Sandboxes()) {
      if (sandbox.config.metadata().uid() != uid) continue;
      if (!StopSandbox(sandbox.id).ok() || !RemoveSandbox(sandbox.id).ok()) return;  // once more
    }
    EXPECT_TRUE(kubelet_->Forget(uid).ok());
    witness_.ForgetPod(uid);
    pods_.erase(uid);
  }

  // --- The crashes.

  // While the pods take their steps, a process is killed at a random moment.
  void StepAndKill() {
    const auto moment = std::chrono::microseconds(Below(40'000));
    const uint32_t victims = 1 + Below(7);  // a bit each: alignd, the plugin, the kubelet
    std::thread killer([&] {
      std::this_thread::sleep_for(moment);
      if ((victims & 1) != 0) KillAlignd();
      if ((victims & 2) != 0) plugin_.reset();
      if ((victims & 4) != 0) kubelet_->Stop();
    });
    for (uint32_t steps = 2 + Below(6); steps > 0; --steps) Step();
    killer.join();
    if ((victims & 1) != 0) {
      StartAlignd();
      if (Below(3) == 0) {  // and once more while it starts
        std::this_thread::sleep_for(std::chrono::microseconds(Below(150'000)));
        KillAlignd();
        StartAlignd();
      }
    }
    if ((victims & 2) != 0) StartPlugin();
    if ((victims & 4) != 0) {
      ASSERT_TRUE(kubelet_->Restart().ok());
    }
  }

  void LosePower() {
    KillAlignd();
    plugin_.reset();
    kubelet_->Stop();
    runtime_.reset();
    watch_.Forget();
    witness_.Forget();
    StartRuntimeWithWitness();
    StartAlignd();
    StartPlugin();
    ASSERT_TRUE(kubelet_->Restart().ok());
  }

  // What explains that not every device is healthy.
  std::string Logs() const {
    std::string text = "healthy at the kubelet:";
    for (const std::string& id : kubelet_->Healthy(kGpu)) text += " " + id;
    text += "; listed:";
    for (const std::string& id : kubelet_->Listed(kGpu)) text += " " + id;
    for (const auto* file : {"device_bindings", "device-plugins/kubelet_internal_checkpoint"}) {
      text += "\n" + std::string(file) + ": " + ReadText(StateDir() / file);
    }
    return text + "\n" + alignd_->Log() + "\n" + ReadText(tree_.root() / "plugin.log");
  }

  bool Ready() const {
    return Eventually([&] {
             return Call<v1::VersionResponse>("Version", v1::VersionRequest()).status.ok();
           }) &&
           kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience);
  }

  // With everybody there again all pods get what they want, and nothing is missing afterwards.
  void CheckNothingIsLost() {
    ASSERT_TRUE(Ready()) << Logs();
    for (auto& [uid, pod] : std::map(pods_)) {
      if (pod.leaving) {
        EXPECT_TRUE(Eventually([&, &name = uid] {
          Leave(name);
          return !pods_.contains(name);
        })) << uid;
      }
    }
    for (const auto& [uid, pod] : pods_) {
      EXPECT_TRUE(Eventually([&, &name = uid, &wanting = pod] {
        return RunContainers(name, wanting);
      })) << uid
          << "\n"
          << Logs();
    }
    EXPECT_EQ(witness_.faults(), std::vector<std::string>());
  }

  std::mt19937_64 random_;
  Witness witness_;
  std::map<std::string, Pod> pods_;
  int last_pod_ = 0;
  uint32_t attempts_ = 0;
  std::unique_ptr<Process> plugin_;
  std::unique_ptr<Process> alignd_;
};

TEST_F(MirrorKill, NoDeviceIsGivenTwiceOrLost) {
  const uint64_t seed = FromEnvironment("ALIGND_SEED", 1);
  const uint64_t points = FromEnvironment("ALIGND_ITERATIONS", 25);
  SCOPED_TRACE("ALIGND_SEED=" + std::to_string(seed));
  random_.seed(seed);
  tree_.Write({"config.yaml", StaticConfig()});
  std::filesystem::create_directories(StateDir() / "device-plugins");  // the plugin watches it
  StartRuntimeWithWitness();
  StartAlignd();
  StartPlugin();
  StartKubelet();
  kubelet_->Shuffle(seed);
  ASSERT_TRUE(Ready()) << Logs();
  for (uint64_t point = 0; point < points && !HasFailure(); ++point) {
    SCOPED_TRACE("crash point " + std::to_string(point));
    if (point % 12 == 11) {
      LosePower();
    } else {
      StepAndKill();
    }
    if (Below(2) == 0) {
      ASSERT_TRUE(Ready()) << Logs();
    }
    EXPECT_EQ(witness_.faults(), std::vector<std::string>());
    if (point % 6 == 5) CheckNothingIsLost();
  }
  CheckNothingIsLost();
  for (const auto& [uid, pod] : std::map(pods_)) {
    EXPECT_TRUE(Eventually([&, &name = uid] {
      Leave(name);
      return !pods_.contains(name);
    }));
  }
  Created all;
  EXPECT_TRUE(Eventually([&] {
    all = RunPod("all", 0, 3);
    return all.status.ok();
  })) << all.status.error_message();
  EXPECT_EQ(GpusOf(all.seen), AllGpus());
}

}  // namespace
}  // namespace alignd::daemon
