// Hostile clients, a hostile device plugin, a hostile runtime and noise on every socket, at random
// and all at once, for ALIGND_HOSTILE_SECONDS. What must hold meanwhile: no CPU and no device is
// used by two pods, no container exists without the devices that its pod requests, the state files
// can be read, every call is answered before its deadline, and threads, pods and memory do not pile
// up.
// Afterwards everything is free again. ALIGND_SEED repeats the choices, not the threads' timing.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "core/property_seed.h"
#include "daemon_fixture.h"
#include "edge/unix_socket.h"
#include "host/descriptor.h"
#include "hostile_callers.h"

namespace alignd::daemon {
namespace {

constexpr int kHostileClients = 4;
constexpr size_t kPodsOfAHostileClient = 6;
constexpr size_t kMaxThreads = 300;
// Of daemon, simulators and callers together, where the allocator counts (not under a sanitizer).
constexpr size_t kMaxMemory = size_t{768} << 20;
constexpr char kWanted[] = "devices-wanted";  // a label: how many devices the container requests

// Which pod's containers use which device.
class DeviceWatch {
 public:
  void Note(const RuntimeModel::Event& event) {
    const MutexLock lock(mutex_);
    const simulator::SimulatedContainer& now = event.container;
    if (event.change == RuntimeModel::Change::kRemoved || now.state == v1::CONTAINER_EXITED) {
      used_.erase(now.id);
      return;
    }
    const bool is_created = event.change == RuntimeModel::Change::kCreated;
    if (!is_created && event.change != RuntimeModel::Change::kStarted) return;
    std::set<std::string> devices;
    for (const v1::KeyValue& env : now.config.envs()) {
      if (env.key() != "NVIDIA_VISIBLE_DEVICES") continue;
      std::stringstream ids((std::string(env.value())));
      for (std::string id; std::getline(ids, id, ',');) devices.insert(id);
    }
    const auto wanted = now.config.labels().find(kWanted);
    const size_t count =
        wanted == now.config.labels().end() ? 0 : std::stoul(std::string(wanted->second));
    if (devices.size() != count) {
      faults_.push_back(now.id + " has " + std::to_string(devices.size()) + " devices, wants " +
                        std::to_string(count));
    }
    // One that was never started, in a sandbox that was stopped, uses nothing any more.
    if (is_created) return;
    for (const auto& [id, other] : used_) {
      if (other.sandbox == now.sandbox_id) continue;
      for (const std::string& device : devices) {
        if (other.devices.contains(device)) faults_.push_back(device + " is used twice");
      }
    }
    used_[now.id] = {now.sandbox_id, std::move(devices)};
  }
  std::vector<std::string> faults() const {
    const MutexLock lock(mutex_);
    return faults_;
  }

 private:
  struct Used {
    std::string sandbox;
    std::set<std::string> devices;
  };

  mutable Mutex mutex_;
  std::map<std::string, Used> used_ GUARDED_BY(mutex_);  // by container, while it may use them
  std::vector<std::string> faults_ GUARDED_BY(mutex_);
};

class DaemonHostile : public DaemonTest {
 protected:
  struct Pod {
    v1::PodSandboxConfig config;
    v1::ContainerConfig container_config;
    std::string sandbox;
    std::string container;  // the last one that was created; empty: none
  };

  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.plugin_timeout = milliseconds(500);
    options.plugin_preference_timeout = milliseconds(500);
    options.plugin_pre_start_timeout = milliseconds(500);
    options.plugin_patience = milliseconds(500);
    options.plugin_connect_timeout = milliseconds(500);
    options.runtime_timeout = seconds(2);
    options.log_level = "error";
    return options;
  }

  // Any answer is right, but there must be one.
  static void ExpectAnswered(const grpc::Status& status) {
    EXPECT_NE(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << status.error_message();
  }

  void Launch(Pod& pod) const {
    pod.container_config.mutable_metadata()->set_attempt(pod.container_config.metadata().attempt() +
                                                         1);
    const auto created = Create(pod.sandbox, pod.config, pod.container_config);
    ExpectAnswered(created.status);
    pod.container = created.response.container_id();
    if (!pod.container.empty()) ExpectAnswered(StartContainer(pod.container));
  }

  Pod NewPod(const std::string& uid, Random& random) const {
    Pod pod;
    const int cpus = static_cast<int>(1 + random() % 8);
    const int devices = static_cast<int>(random() % 4);
    if (Chance(3, random)) {
      pod.config = BurstablePod(uid);
      pod.container_config = Shared();
    } else {
      pod.config = PodConfig(uid, "", Annotation(cpus, devices));
      pod.container_config = Pinned(cpus);
      (*pod.container_config.mutable_labels())[kWanted] = std::to_string(devices);
    }
    if (Chance(3, random)) pod.container_config.add_args(BytesAtRandom(8, random));
    v1::RunPodSandboxRequest request;
    *request.mutable_config() = pod.config;
    const auto run = Call<v1::RunPodSandboxResponse>("RunPodSandbox", request);
    ExpectAnswered(run.status);
    pod.sandbox = run.response.pod_sandbox_id();
    if (!pod.sandbox.empty()) Launch(pod);
    return pod;
  }

  // A caller that has no patience.
  void Abandon(const Pod& pod, Random& random) const {
    v1::CreateContainerRequest request;
    request.set_pod_sandbox_id(pod.sandbox);
    *request.mutable_config() = pod.container_config;
    request.mutable_config()->mutable_metadata()->set_attempt(static_cast<uint32_t>(random()));
    *request.mutable_sandbox_config() = pod.config;
    Call<v1::CreateContainerResponse>("CreateContainer", request, milliseconds(1 + random() % 100));
  }

  // What a kubelet with a CPU manager of its own, or anybody else, sends.
  void Disturb(const Pod& pod, Random& random) const {
    if (pod.container.empty()) return;
    v1::UpdateContainerResourcesRequest request;
    request.set_container_id(pod.container);
    request.mutable_linux()->set_cpuset_cpus(Chance(2, random) ? "0-27" : BytesAtRandom(5, random));
    request.mutable_linux()->set_memory_limit_in_bytes(1 << 28);
    if (Chance(3, random)) request.mutable_linux()->set_cpu_shares(static_cast<int64_t>(random()));
    ExpectAnswered(Update(request));
  }

  // Requests of every intercepted method, cut off or of random bytes. None of them succeeds: the
  // runtime knows no such ids.
  void SendGarbage(const Pod& pod, Random& random) const {
    static constexpr std::array<const char*, 8> kMethods{
        "RunPodSandbox",   "CreateContainer",          "StartContainer",   "StopContainer",
        "RemoveContainer", "UpdateContainerResources", "RemovePodSandbox", "StopPodSandbox"};
    v1::CreateContainerRequest whole;
    whole.set_pod_sandbox_id(pod.sandbox);
    *whole.mutable_config() = pod.container_config;
    std::string bytes = whole.SerializeAsString();
    if (Chance(2, random)) {
      bytes = BytesAtRandom(random() % 200, random);
    } else {
      bytes.resize(bytes.size() - 1 - random() % std::min<size_t>(bytes.size() - 1, 20));
    }
    const std::string path = "/" + service_ + "/" + OneOf(kMethods, random);
    ExpectAnswered(
        testing::CallUnary(client_, path.c_str(), bytes, [](grpc::ClientContext& context) {
          context.set_deadline(std::chrono::system_clock::now() + kPatience);
        }).status);
  }

  void Client(int client, Random random) {
    std::vector<Pod> pods;
    for (int i = 0; !over_; ++i) {
      if (pods.size() < kPodsOfAHostileClient) {
        pods.push_back(NewPod("h" + std::to_string(client) + "-" + std::to_string(i), random));
        if (pods.back().sandbox.empty()) pods.pop_back();
        continue;
      }
      const size_t chosen = random() % pods.size();
      Pod& pod = pods[chosen];
      switch (random() % 8) {
        case 0:
          runtime_->EndContainer(pod.container, 1);
          Launch(pod);
          break;
        case 1:
          Disturb(pod, random);
          break;
        case 2:
          SendGarbage(pod, random);
          break;
        case 3:
          Abandon(pod, random);
          [[fallthrough]];
        default:
          ExpectAnswered(StopSandbox(pod.sandbox));
          ExpectAnswered(RemoveSandbox(pod.sandbox));
          pods.erase(pods.begin() + static_cast<std::ptrdiff_t>(chosen));
      }
    }
  }

  void DisturbPlugin(Random random) {
    const std::vector<simulator::SimulatedDevice> good = Gpus();
    for (int round = 0; !over_; ++round) {
      using simulator::Manner;
      gpus_->SetManner(
          Chance(2, random)
              ? Manner::kAnswer
              : OneOf(std::array{Manner::kHang, Manner::kFail, Manner::kNothing}, random));
      std::vector<simulator::SimulatedDevice> devices = good;
      for (simulator::SimulatedDevice& device : devices) {
        if (Chance(4, random)) device.healthy = false;
        if (Chance(6, random)) device.numa = {static_cast<int64_t>(random() % 5) - 1};
      }
      if (Chance(4, random)) devices.pop_back();
      if (Chance(6, random)) devices.push_back(devices.front());
      gpus_->SetDevices(devices);
      if (Chance(20, random)) {  // killed, and started again
        gpus_.reset();
        StartGpus();
      }
      std::this_thread::sleep_for(milliseconds(random() % 200));
    }
  }

  void DisturbRuntime(Random random) const {
    static constexpr std::array<const char*, 10> kMethods{
        "RunPodSandbox",  "CreateContainer",  "StartContainer", "UpdateContainerResources",
        "StopPodSandbox", "RemovePodSandbox", "ListPodSandbox", "ListContainers",
        "Status",         "ContainerStatus"};
    const std::array<grpc::Status, 4> moods{
        grpc::Status(grpc::StatusCode::ABORTED, "not now"),
        grpc::Status(grpc::StatusCode::UNKNOWN, BytesAtRandom(20, random)),
        grpc::Status(grpc::StatusCode::UNAVAILABLE, ""),
        grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "the runtime's own")};
    while (!over_) {
      const char* const method = OneOf(kMethods, random);
      // Of the callers' view, a deadline of the runtime looks like their own.
      runtime_->SetFailure(method, moods[random() % 3]);
      std::this_thread::sleep_for(milliseconds(random() % 50));
      runtime_->SetFailure(method, grpc::Status::OK);
      const char* const slow = OneOf(kMethods, random);
      runtime_->SetDelay(slow, milliseconds(random() % 300));
      std::this_thread::sleep_for(milliseconds(random() % 50));
      runtime_->SetDelay(slow, milliseconds(0));
    }
  }

  // Connections that send noise, some of them behind a right beginning, and stay for a while.
  void DisturbSockets(Random random) const {
    const Options options = DaemonOptions();
    const std::array<std::string, 4> sockets{options.listen, options.ControlSocket(),
                                             options.PodResourcesSocket(),
                                             options.DevicePluginDir() / "kubelet.sock"};
    std::vector<host::Descriptor> open;
    while (!over_) {
      host::Descriptor peer = testing::ConnectUnix(OneOf(sockets, random));
      if (peer.fd() >= 0) {
        std::string bytes = Chance(2, random) ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "";
        bytes += BytesAtRandom(random() % 3000, random);
        (void)send(peer.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        open.push_back(std::move(peer));
      }
      if (open.size() > 40) open.erase(open.begin(), open.begin() + 20);
      std::this_thread::sleep_for(milliseconds(random() % 20));
    }
  }

  // Each version of the files is whole, and has every CPU and every device at most once.
  void CheckState() const {
    const Result<checkpoint::CpuCheckpoint> cpus = checkpoint::ParseCpuCheckpoint(State());
    ASSERT_TRUE(cpus.ok()) << cpus.error().Text();
    CpuSet seen = cpus->state.default_set;
    int count = seen.Count();
    for (const auto& [uid, containers] : cpus->state.assignments) {
      CpuSet of_pod;
      for (const auto& [name, assigned] : containers) of_pod |= assigned;
      count += of_pod.Count();
      seen |= of_pod;
    }
    EXPECT_EQ(count, 28) << "a CPU is owned twice or lost: " << State();
    EXPECT_EQ(seen.Count(), 28) << State();
    const Result<checkpoint::DeviceCheckpoint> devices =
        checkpoint::ParseDeviceCheckpoint(DeviceFile());
    ASSERT_TRUE(devices.ok()) << devices.error().Text();
    const auto threads = std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
    EXPECT_LT(static_cast<size_t>(threads), kMaxThreads);
    EXPECT_LT(mallinfo2().uordblks, kMaxMemory);
    EXPECT_LT(daemon_->KnownPods().size(), kHostileClients * kPodsOfAHostileClient * 20);
  }

  std::string DeviceFile() const {
    return ReadText(DaemonOptions().DevicePluginDir() / "kubelet_internal_checkpoint");
  }

  DeviceWatch devices_;
  std::atomic<bool> over_ = false;
};

TEST_F(DaemonHostile, KeepsItsPromises) {
  Random random = SeededRandom();
  watch_.OnEvent([this](const RuntimeModel::Event& event) { devices_.Note(event); });
  Start();
  StartGpus();
  std::vector<std::thread> threads;
  for (int client = 0; client < kHostileClients; ++client) {
    threads.emplace_back([this, client, seed = random()] { Client(client, Random(seed)); });
  }
  threads.emplace_back([this, seed = random()] { DisturbPlugin(Random(seed)); });
  threads.emplace_back([this, seed = random()] { DisturbRuntime(Random(seed)); });
  threads.emplace_back([this, seed = random()] { DisturbSockets(Random(seed)); });
  const HostileCallers callers(DaemonOptions(), over_);
  threads.emplace_back([&, seed = random()] { callers.FloodServices(Random(seed)); });
  threads.emplace_back([&, seed = random()] { callers.DisturbStreams(Random(seed)); });
  const auto end =
      std::chrono::steady_clock::now() + seconds(FromEnvironment("ALIGND_HOSTILE_SECONDS", 20));
  while (std::chrono::steady_clock::now() < end && !HasFatalFailure()) {
    std::this_thread::sleep_for(milliseconds(100));
    CheckState();
    EXPECT_EQ(devices_.faults(), std::vector<std::string>());
  }
  over_ = true;
  for (std::thread& thread : threads) thread.join();

  // When everybody is sane again, nothing is lost: the whole node fits one pod.
  gpus_->SetManner(simulator::Manner::kAnswer);
  gpus_->SetDevices(Gpus());
  for (const simulator::SimulatedSandbox& sandbox : runtime_->Sandboxes()) {
    EXPECT_TRUE(StopSandbox(sandbox.id).ok());
    EXPECT_TRUE(RemoveSandbox(sandbox.id).ok());
  }
  Pod whole{PodConfig("whole", "", Annotation(27, 3)), Pinned(27), "", ""};
  (*whole.container_config.mutable_labels())[kWanted] = "3";
  whole.sandbox = Run(whole.config);
  EXPECT_TRUE(Eventually([&] {
    Launch(whole);
    return !whole.container.empty();
  })) << State()
      << DeviceFile();
  EXPECT_EQ(CpusOf(whole.container), "1-27");
  EXPECT_EQ(devices_.faults(), std::vector<std::string>());
}

}  // namespace
}  // namespace alignd::daemon
