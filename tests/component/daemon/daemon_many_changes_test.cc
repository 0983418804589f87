// 250 pods, with shared and exclusive CPUs and devices, come and go while the configuration of
// alignd, as a process, is changed ten times through the control socket. Every event of every
// container is watched: no exclusive CPU is shared at any moment, and no exclusive container gets
// other CPUs. ALIGND_ITERATIONS: how many changes are made.
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "control/control_client.h"
#include "core/property_seed.h"
#include "process_fixture.h"

namespace alignd::daemon {
namespace {

constexpr int kNodeCpus = 256;
constexpr int kCpusOfNode = 32;
constexpr int kPodCreators = 5;
constexpr int kPodsOfACreator = 50;
constexpr int kGpusOfNode = 8;

// A configuration of the sequence. `reserved`: a CPU besides 0, or empty.
std::string ChangedConfig(int change, const std::string& reserved) {
  static const std::vector<std::string> kSettings = {
      "topologyManagerPolicy: best-effort\ncpuManagerPolicyOptions: {full-pcpus-only: \"true\"}\n",
      "topologyManagerPolicy: best-effort\ntopologyManagerScope: pod\n",
      "topologyManagerPolicy: none\ncpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}\n",
      "topologyManagerPolicy: restricted\n",
      "topologyManagerPolicy: best-effort\n"
      "cpuManagerPolicyOptions: {distribute-cpus-across-numa: \"true\"}\n",
      "topologyManagerPolicy: none\n",
      "topologyManagerPolicy: restricted\ntopologyManagerScope: pod\n"
      "cpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}\n",
  };
  return "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
         "cpuManagerPolicy: static\ncpuManagerReconcilePeriod: 2s\nreservedSystemCPUs: \"0" +
         (reserved.empty() ? "" : "," + reserved) + "\"\n" +
         kSettings[static_cast<size_t>(change) % kSettings.size()];
}

class DaemonManyChanges : public DaemonProcessTest {
 protected:
  DaemonManyChanges() {
    tree_.Write({"node.json", NodeJson(kNodeCpus, kNodeCpus / kCpusOfNode)});
    tree_.Write({"config.yaml", ChangedConfig(5, "")});
    watch_.OnEvent([this](const RuntimeModel::Event& event) { NoteCpus(event); });
  }
  ~DaemonManyChanges() override { watch_.OnEvent({}); }

  Options DaemonOptions() const override {
    Options options = DaemonProcessTest::DaemonOptions();
    options.on_refusal.waits = false;
    return options;
  }

  struct Pod {
    v1::PodSandboxConfig config;
    v1::ContainerConfig container_config;
    std::string sandbox;
    std::string container;
    bool refused = false;
  };

  void StartProcess() {
    LaunchAlignd(DaemonOptions());
    ASSERT_TRUE(alignd_->WaitForLog("ready: ")) << alignd_->Log();
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    client_ = grpc::CreateCustomChannel("unix:" + DaemonOptions().listen,
                                        grpc::InsecureChannelCredentials(), arguments);
  }

  void StartManyGpus() {
    simulator::DeviceProfile profile;
    profile.directory = StateDir() / "device-plugins";
    profile.resource = kGpu;
    for (int gpu = 0; gpu < kGpusOfNode * kNodeCpus / kCpusOfNode; ++gpu) {
      profile.devices.push_back({"GPU-" + std::to_string(gpu), {gpu / kGpusOfNode}, true});
    }
    profile.envs = {{"NVIDIA_VISIBLE_DEVICES", "{ids}"}};
    auto plugin = simulator::DevicePlugin::Start(profile);
    ASSERT_TRUE(plugin.ok()) << plugin.error().Text();
    gpus_ = *std::move(plugin);
    const auto checkpoint = profile.directory / "kubelet_internal_checkpoint";
    ASSERT_TRUE(
        Eventually([&] { return ReadText(checkpoint).find("GPU-63") != std::string::npos; }));
  }

  control::ControlClient Control() const {
    return control::ControlClient(DaemonOptions().ControlSocket(), kPatience);
  }

  // Under the lock of the watch.
  void NoteCpus(const RuntimeModel::Event& event) {
    const simulator::SimulatedContainer& container = event.container;
    if (event.change == RuntimeModel::Change::kRemoved) {
      exclusive_.erase(container.id);
      return;
    }
    if (container.resources.cpu_quota() >= 0) return;
    const std::string& cpus = container.resources.cpuset_cpus();
    const auto [known, is_new] = exclusive_.try_emplace(container.id, cpus);
    if (!is_new && known->second != cpus) {
      moved_.push_back(container.id + " from " + known->second + " to " + cpus);
    }
  }

  Pod NewPod(const std::string& uid, std::mt19937& random) const {
    Pod pod;
    const int cpus = static_cast<int>(1 + random() % 2);
    switch (random() % 8) {
      case 0:
      case 1:
        pod.config = PodConfig(uid);
        pod.container_config = Pinned(cpus);
        break;
      case 2:
        pod.config = PodConfig(uid, "", Annotation(cpus, 1));
        pod.container_config = Pinned(cpus);
        break;
      default:
        pod.config = BurstablePod(uid);
        pod.container_config = Shared();
    }
    return pod;
  }

  static bool IsTransient(const grpc::Status& status) {
    return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
           status.error_code() == grpc::StatusCode::CANCELLED ||
           status.error_code() == grpc::StatusCode::ABORTED;
  }

  // The kubelet repeats what fails. `call` answers the status of one try; `again`: not the first.
  void Repeat(const char* what, const std::function<grpc::Status(bool again)>& call) {
    grpc::Status status;
    bool again = false;
    const bool done = Eventually([&] {
      status = call(std::exchange(again, true));
      if (!status.ok()) ++repeated_;
      return !IsTransient(status);
    });
    EXPECT_TRUE(done && status.ok()) << what << ": " << status.error_message();
  }

  // As a kubelet, which lists the runtime before it tries again.
  void Launch(Pod& pod) {
    Repeat("RunPodSandbox", [&](bool again) {
      const std::string& uid = pod.config.metadata().uid();
      if (again) {
        for (const simulator::SimulatedSandbox& sandbox : runtime_->Sandboxes()) {
          if (sandbox.config.metadata().uid() == uid) pod.sandbox = sandbox.id;
        }
      }
      if (!pod.sandbox.empty()) return grpc::Status::OK;
      pod.sandbox = Run(pod.config);
      return pod.sandbox.empty() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "no sandbox")
                                 : grpc::Status::OK;
    });
    Repeat("CreateContainer", [&](bool again) {
      if (again) {
        for (const simulator::SimulatedContainer& container : runtime_->Containers()) {
          if (container.sandbox_id == pod.sandbox) pod.container = container.id;
        }
      }
      if (!pod.container.empty()) return grpc::Status::OK;
      const auto created = Create(pod.sandbox, pod.config, pod.container_config);
      pod.container = created.response.container_id();
      pod.refused = created.status.error_code() == grpc::StatusCode::FAILED_PRECONDITION;
      return pod.refused ? grpc::Status::OK : created.status;
    });
    if (pod.refused) return;
    Repeat("StartContainer", [&](bool) {
      const auto container = runtime_->FindContainer(pod.container);
      if (container && container->state == v1::CONTAINER_RUNNING) return grpc::Status::OK;
      return StartContainer(pod.container);
    });
    ++started_;
  }

  void Remove(const Pod& pod) {
    Repeat("StopPodSandbox", [&](bool) { return StopSandbox(pod.sandbox); });
    Repeat("RemovePodSandbox", [&](bool) { return RemoveSandbox(pod.sandbox); });
  }

  void Client(int client) {
    std::mt19937 random(static_cast<unsigned>(client));
    std::vector<Pod> pods;
    for (int i = 0; !over_ || pods.size() < kPodsOfACreator; ++i) {
      if (pods.size() == kPodsOfACreator) {
        const size_t chosen = random() % pods.size();
        Remove(pods[chosen]);
        --present_;
        pods.erase(pods.begin() + static_cast<std::ptrdiff_t>(chosen));
      }
      Pod pod = NewPod("c" + std::to_string(client) + "-" + std::to_string(i), random);
      Launch(pod);
      ++present_;
      pods.push_back(std::move(pod));
      if (HasFailure()) return;
    }
    const MutexLock lock(mutex_);
    pods_.insert(pods_.end(), pods.begin(), pods.end());
  }

  // A CPU of the shared pool from the end that is assigned last; empty: there is none.
  std::string FreeCpu() const {
    const auto status = Control().GetStatus();
    if (!status.ok()) return "";
    const Result<CpuSet> pool = CpuSet::Parse(status->default_set());
    return pool.ok() && pool->Count() > 1 ? std::to_string(pool->ToVector().back()) : "";
  }

  // Whether the change was made. It is refused, for example, if the CPU that it reserves was
  // assigned meanwhile.
  bool Change(int change) {
    control::v1::ChangeRequest request;
    request.set_config(ChangedConfig(change, change % 2 == 0 ? FreeCpu() : ""));
    const auto begun = Control().ApplyChange(request);
    if (!begun.ok() || !begun->admitted()) return false;
    std::string outcome;
    EXPECT_TRUE(Eventually([&] {
      const auto answer = Control().GetChange(begun->change());
      if (!answer.ok() || answer->outcome() == "pending") return false;
      outcome = answer->outcome();
      if (outcome == "failed") refusals_.insert(answer->message());
      return true;
    })) << alignd_->Log();
    return outcome == "applied";
  }

  // Every version of the files assigns each CPU once, and each device to one container.
  void CheckFiles() const {
    const auto cpus = checkpoint::ParseCpuCheckpoint(State());
    ASSERT_TRUE(cpus.ok()) << cpus.error().Text();
    CpuSet seen = cpus->state.default_set;
    int count = seen.Count();
    for (const auto& [uid, containers] : cpus->state.assignments) {
      for (const auto& [name, own] : containers) {
        count += own.Count();
        seen |= own;
      }
    }
    EXPECT_EQ(count, seen.Count()) << State();
    const auto devices = checkpoint::ParseDeviceCheckpoint(
        ReadText(StateDir() / "device-plugins/kubelet_internal_checkpoint"));
    ASSERT_TRUE(devices.ok()) << devices.error().Text();
    std::set<std::string> ids;
    for (const auto& [key, resources] : devices->allocations) {
      for (const auto& [resource, allocation] : resources) {
        for (const std::string& id : allocation.Ids()) EXPECT_TRUE(ids.insert(id).second) << id;
      }
    }
  }

  std::atomic<bool> over_ = false;
  std::atomic<int> present_ = 0;
  std::atomic<int> started_ = 0;
  std::atomic<int> repeated_ = 0;
  std::set<std::string> refusals_;
  std::map<std::string, std::string> exclusive_;  // under the lock of the watch
  std::vector<std::string> moved_;                // likewise
  Mutex mutex_;
  std::vector<Pod> pods_ GUARDED_BY(mutex_);
};

TEST_F(DaemonManyChanges, TenChangesWhile250PodsComeAndGo) {
  StartRuntime();
  StartProcess();
  ASSERT_FALSE(HasFatalFailure());
  StartManyGpus();
  ASSERT_FALSE(HasFatalFailure());
  std::vector<std::thread> clients;
  for (int client = 0; client < kPodCreators; ++client) {
    clients.emplace_back([this, client] { Client(client); });
  }
  // With sanitizers, the first 250 pods take longer than one patience.
  for (int seen = 0; seen < kPodCreators * kPodsOfACreator && !HasFailure(); seen = present_) {
    EXPECT_TRUE(Eventually([&] { return present_ > seen || HasFailure(); })) << seen;
  }
  const int at_first = started_;
  const int wanted = Iterations(10);
  int made = 0;
  for (int change = 0; made < wanted && change < 5 * wanted && !HasFailure(); ++change) {
    made += Change(change) ? 1 : 0;
    CheckFiles();
    // Pods come and go between two changes, too.
    const int now = started_;
    Eventually([&] { return started_ > now || HasFailure(); });
  }
  over_ = true;
  for (std::thread& client : clients) client.join();
  std::cout << made << " changes, " << started_ - at_first << " pods started meanwhile, "
            << repeated_ << " calls repeated\n";
  EXPECT_EQ(made, wanted);
  for (const std::string& why : refusals_) std::cout << "refused: " << why << '\n';
  EXPECT_GT(started_ - at_first, wanted / 2);

  const MutexLock lock(mutex_);
  ASSERT_EQ(pods_.size(), size_t{kPodCreators * kPodsOfACreator});
  int exclusive = 0;
  int with_devices = 0;
  for (const Pod& pod : pods_) {
    if (pod.refused) continue;
    const auto container = runtime_->FindContainer(pod.container);
    ASSERT_TRUE(container.has_value());
    EXPECT_EQ(container->state, v1::CONTAINER_RUNNING);
    if (pod.container_config.linux().resources().cpu_quota() == 0) continue;
    ++exclusive;
    const auto wanted_cpus = pod.container_config.linux().resources().cpu_quota() / 100'000;
    EXPECT_EQ(CpuSet::Parse(CpusOf(pod.container))->Count(), wanted_cpus);
    if (!pod.config.annotations().empty()) ++with_devices;
  }
  EXPECT_GT(exclusive, 20);
  EXPECT_GT(with_devices, 5);
  watch_.OnEvent({});
  EXPECT_EQ(moved_, std::vector<std::string>());
  CheckFiles();
}

}  // namespace
}  // namespace alignd::daemon
