// A whole daemon between a CRI client and a simulated runtime, with simulated device plugins, on a
// simulated node: 28 CPUs on two NUMA nodes, CPU 0 reserved.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "daemon/daemon.h"
#include "edge/cri_pods.h"
#include "edge/fake_tree.h"
#include "edge/raw_call.h"
#include "runtime/v1/cri.pb.h"
#include "simulator/device_plugin.h"
#include "simulator/embedded_runtime.h"
#include "simulator/grpc_socket.h"
#include "sync/mutex.h"

namespace alignd::daemon {

namespace v1 = runtime::v1;
using simulator::RuntimeModel;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr seconds kPatience{30};
inline constexpr char kGpu[] = "nvidia.com/gpu";
inline constexpr char kGpuOfNode0[] = "GPU-77a702db-e37f-3a74-d46d-c5713f66058c";
inline constexpr char kResources[] = "alignd.io/resources";

inline std::string StaticConfig(const std::string& more = "topologyManagerPolicy: best-effort\n") {
  return "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
         "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"
         "cpuManagerReconcilePeriod: 2s\n" +
         more;
}

// A machine without hyper-threading, whose NUMA nodes are alike and a socket each.
inline std::string NodeJson(int cpus, int numa_nodes) {
  std::string rows;
  for (int cpu = 0; cpu < cpus; ++cpu) {
    const std::string node = std::to_string(cpu / (cpus / numa_nodes));
    const std::string id = std::to_string(cpu);
    rows += (cpu == 0 ? "[" : ",[") + id + "," + id + "," + node + "," + node + "," + node + "]";
  }
  std::string numa;
  for (int node = 0; node < numa_nodes; ++node) {
    std::string distances;
    for (int other = 0; other < numa_nodes; ++other) {
      distances += (other == 0 ? "" : ",") + std::string(other == node ? "10" : "21");
    }
    numa += (node == 0 ? "" : ",") + ("{\"id\":" + std::to_string(node)) +
            ",\"memory\":67645734912,\"distances\":[" + distances + "]}";
  }
  return "{\"cpus\":[" + rows + "],\"numa\":[" + numa + "]}";
}

inline std::string BlogNode() { return NodeJson(28, 2); }

// Records the runtime's events, and every moment at which two containers could run on an exclusive
// CPU. Containers without CFS quota are exclusive.
class Watch {
 public:
  void Note(const RuntimeModel::Event& event) {
    const MutexLock lock(mutex_);
    if (on_event_) on_event_(event);
    if (std::ssize(events_) >= kEventsKept)
      events_.erase(events_.begin(), events_.end() - kEventsKept / 2);
    events_.push_back(event);
    const simulator::SimulatedContainer& now = event.container;
    if (event.change == RuntimeModel::Change::kRemoved || now.state != v1::CONTAINER_RUNNING) {
      running_.erase(now.id);
      return;
    }
    const Result<CpuSet> cpus = CpuSet::Parse(now.resources.cpuset_cpus());
    running_[now.id] = {cpus.ok() ? *cpus : CpuSet(), now.resources.cpu_quota() < 0, now.cgroup};
    for (auto& [id, container] : running_) {
      if (!read_cpus_) break;
      const Result<CpuSet> read = CpuSet::Parse(read_cpus_(container.cgroup));
      container.cpus = read.ok() ? *read : CpuSet();
    }
    const Running& self = running_[now.id];
    for (const auto& [id, other] : running_) {
      if (id == now.id || !(self.exclusive || other.exclusive)) continue;
      // A container without a cpuset runs on all CPUs.
      if (self.cpus.empty() || other.cpus.empty() || self.cpus.Intersects(other.cpus)) {
        overlaps_.push_back(now.config.metadata().name() + " on " + self.cpus.ToString() +
                            ", another on " + other.cpus.ToString());
      }
    }
  }

  void OnEvent(std::function<void(const RuntimeModel::Event&)> on_event) {
    const MutexLock lock(mutex_);
    on_event_ = std::move(on_event);
  }
  // The CPUs of a container are those of its cgroup, not those of the last update of the runtime.
  void ReadCpus(std::function<std::string(const std::string& cgroup)> read) {
    const MutexLock lock(mutex_);
    read_cpus_ = std::move(read);
  }
  std::vector<std::string> overlaps() const {
    const MutexLock lock(mutex_);
    return overlaps_;
  }
  std::vector<RuntimeModel::Event> events() const {
    const MutexLock lock(mutex_);
    return events_;
  }
  // The runtime restarts and has lost everything.
  void Forget() {
    const MutexLock lock(mutex_);
    running_.clear();
  }

 private:
  static constexpr std::ptrdiff_t kEventsKept = 20'000;

  struct Running {
    CpuSet cpus;
    bool exclusive = false;
    std::string cgroup{};
  };

  mutable Mutex mutex_;
  std::function<void(const RuntimeModel::Event&)> on_event_ GUARDED_BY(mutex_);
  std::function<std::string(const std::string&)> read_cpus_ GUARDED_BY(mutex_);
  std::vector<RuntimeModel::Event> events_ GUARDED_BY(mutex_);
  std::map<std::string, Running> running_ GUARDED_BY(mutex_);
  std::vector<std::string> overlaps_ GUARDED_BY(mutex_);
};

template <typename Response>
struct Answer {
  grpc::Status status;
  Response response;
};

// The sandbox of a pod as a kubelet sends it.
inline v1::PodSandboxConfig PodConfig(const std::string& uid, const std::string& qos_directory = "",
                                      const std::string& annotation = "") {
  const std::string parent = "/kubepods" + qos_directory + "/pod" + uid;
  v1::PodSandboxConfig config = annotation.empty()
                                    ? podsource::Sandbox(parent)
                                    : podsource::Annotated(annotation, parent, kResources);
  config.mutable_metadata()->set_uid(uid);
  config.mutable_metadata()->set_name("pod-" + uid);
  config.mutable_metadata()->set_namespace_("default");
  return config;
}
inline v1::PodSandboxConfig BurstablePod(const std::string& uid) {
  return PodConfig(uid, "/burstable");
}

// A container of a Guaranteed pod with that many CPUs and 100Mi.
inline v1::ContainerConfig Pinned(int cpus, const std::string& name = "app") {
  return podsource::Kubelet(cpus * 1000, cpus * 1000, 100 * podsource::kMi, name);
}
// A container that requests 100m.
inline v1::ContainerConfig Shared(const std::string& name = "app") {
  return podsource::Kubelet(100, 0, 0, name);
}
inline std::string Annotation(int cpus, int gpus, const std::string& container = "app") {
  return "{\"" + container + "\":{\"limits\":{\"cpu\":\"" + std::to_string(cpus) +
         "\",\"memory\":\"100Mi\",\"nvidia.com/gpu\":" + std::to_string(gpus) + "}}}";
}

class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest() { tree_.Write({"node.json", BlogNode()}); }
  ~DaemonTest() override {
    EXPECT_EQ(watch_.overlaps(), std::vector<std::string>());
    StopDaemon();
  }

  // If a test writes nothing there, no cpuset is guarded.
  std::filesystem::path CgroupRoot() const { return tree_.root() / "cgroup"; }
  std::string RuntimeEndpoint() const { return (tree_.root() / "runtime.sock").string(); }
  std::string PodsApiEndpoint() const { return (tree_.root() / "pods-api.sock").string(); }
  std::filesystem::path StateDir() const { return tree_.root() / "state"; }
  std::string State() const { return ReadText(StateDir() / "cpu_manager_state"); }
  static std::string ReadText(const std::filesystem::path& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  virtual Options DaemonOptions() const {
    Options options;
    options.listen = (tree_.root() / "alignd.sock").string();
    options.runtime_endpoint = RuntimeEndpoint();
    options.state_dir = StateDir();
    options.node = tree_.root() / "node.json";
    options.config = tree_.root() / "config.yaml";
    options.plugin_timeout = kPatience;
    options.pods_api_endpoint = PodsApiEndpoint();
    options.cgroup_root = CgroupRoot();
    options.kubelet_dir = tree_.root() / "kubelet";
    options.metrics_address = "off";  // tests run side by side
    // Most tests are not about pods that wait: a refusal is answered at once, and no earlier pod
    // makes a later one wait. daemon_queue_test.cc has the queue.
    options.on_refusal.waits = false;
    return options;
  }

  void StartRuntime() {
    auto runtime = simulator::EmbeddedRuntime::Start(
        RuntimeEndpoint(), [this](const RuntimeModel::Event& event) { watch_.Note(event); });
    ASSERT_TRUE(runtime.ok()) << runtime.error().Text();
    runtime_ = *std::move(runtime);
  }
  void StartDaemon(const std::string& config = StaticConfig()) {
    tree_.Write({"config.yaml", config});
    auto started = Daemon::Start(DaemonOptions());
    ASSERT_TRUE(started.ok()) << started.error().Text();
    daemon_ = *std::move(started);
    client_ = *simulator::Dial(DaemonOptions().listen);
  }
  void StopDaemon() {
    client_.reset();
    daemon_.reset();
  }
  void Start(const std::string& config = StaticConfig()) {
    StartRuntime();
    StartDaemon(config);
  }

  // One GPU on NUMA node 0, two on node 1.
  static std::vector<simulator::SimulatedDevice> Gpus() {
    return {{kGpuOfNode0, {0}, true},
            {"GPU-9b341c59-f96b-ba85-c137-78c3652fea65", {1}, true},
            {"GPU-c1e9f249-b37b-81c2-a8d9-ba5ca0294841", {1}, true}};
  }
  // Returns when they can be allocated.
  void StartGpus(bool pre_start = false) {
    simulator::DeviceProfile profile;
    profile.directory = StateDir() / "device-plugins";
    profile.resource = kGpu;
    profile.pre_start_required = pre_start;
    profile.devices = Gpus();
    profile.envs = {{"NVIDIA_VISIBLE_DEVICES", "{ids}"}};
    profile.device_nodes = {{"/dev/nvidia{index}", "/dev/nvidia{index}", "rw"}};
    auto plugin = simulator::DevicePlugin::Start(profile);
    ASSERT_TRUE(plugin.ok()) << plugin.error().Text();
    gpus_ = *std::move(plugin);
    const auto checkpoint = profile.directory / "kubelet_internal_checkpoint";
    ASSERT_TRUE(
        Eventually([&] { return ReadText(checkpoint).find(kGpuOfNode0) != std::string::npos; }));
  }

  static bool Eventually(const std::function<bool()>& is_so) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!is_so()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
  }

  template <typename Response, typename Request>
  Answer<Response> Call(const std::string& method, const Request& request,
                        std::optional<milliseconds> time = {}) const {
    const milliseconds deadline = time.value_or(call_deadline_);
    const std::string path = "/" + service_ + "/" + method;
    const testing::RawAnswer raw =
        testing::CallUnary(client_, path.c_str(), request.SerializeAsString(),
                           [deadline](grpc::ClientContext& context) {
                             context.set_deadline(std::chrono::system_clock::now() + deadline);
                           });
    Answer<Response> answer{raw.status, {}};
    if (raw.message && !answer.response.ParseFromString(*raw.message)) {
      ADD_FAILURE() << method << ": unreadable answer";
    }
    return answer;
  }

  // The sandbox's id; empty if the call failed.
  std::string Run(const v1::PodSandboxConfig& pod) const {
    v1::RunPodSandboxRequest request;
    *request.mutable_config() = pod;
    return Call<v1::RunPodSandboxResponse>("RunPodSandbox", request).response.pod_sandbox_id();
  }
  Answer<v1::CreateContainerResponse> Create(const std::string& sandbox,
                                             const v1::PodSandboxConfig& pod,
                                             const v1::ContainerConfig& container) const {
    v1::CreateContainerRequest request;
    request.set_pod_sandbox_id(sandbox);
    *request.mutable_config() = container;
    *request.mutable_sandbox_config() = pod;
    return Call<v1::CreateContainerResponse>("CreateContainer", request);
  }
  grpc::Status StartContainer(const std::string& id) const {
    v1::StartContainerRequest request;
    request.set_container_id(id);
    return Call<v1::StartContainerResponse>("StartContainer", request).status;
  }
  grpc::Status StopSandbox(const std::string& id) const {
    v1::StopPodSandboxRequest request;
    request.set_pod_sandbox_id(id);
    return Call<v1::StopPodSandboxResponse>("StopPodSandbox", request).status;
  }
  grpc::Status RemoveSandbox(const std::string& id) const {
    v1::RemovePodSandboxRequest request;
    request.set_pod_sandbox_id(id);
    return Call<v1::RemovePodSandboxResponse>("RemovePodSandbox", request).status;
  }
  grpc::Status Update(const v1::UpdateContainerResourcesRequest& request) const {
    return Call<v1::UpdateContainerResourcesResponse>("UpdateContainerResources", request).status;
  }

  struct Running {
    std::string sandbox;
    std::string container;
  };
  // The id of a container that was created and started in a sandbox.
  std::string CreateAndStart(const std::string& sandbox, const v1::PodSandboxConfig& pod,
                             const v1::ContainerConfig& container) const {
    const auto created = Create(sandbox, pod, container);
    EXPECT_TRUE(created.status.ok()) << created.status.error_message();
    const grpc::Status started = StartContainer(created.response.container_id());
    EXPECT_TRUE(started.ok()) << started.error_message();
    return created.response.container_id();
  }

  // A pod with one running container.
  Running RunOne(const v1::PodSandboxConfig& pod, const v1::ContainerConfig& container) const {
    Running running{Run(pod), ""};
    running.container = CreateAndStart(running.sandbox, pod, container);
    return running;
  }

  // The cpuset of the container in the runtime.
  std::string CpusOf(const std::string& id) const {
    const auto container = runtime_->FindContainer(id);
    return container ? container->resources.cpuset_cpus() : "no such container";
  }

  Watch watch_;
  const testing::FakeTree tree_;
  std::string service_ = "runtime.v1.RuntimeService";
  milliseconds call_deadline_ = kPatience;
  std::unique_ptr<simulator::EmbeddedRuntime> runtime_;
  std::unique_ptr<simulator::DevicePlugin> gpus_;
  std::unique_ptr<Daemon> daemon_;
  std::shared_ptr<grpc::Channel> client_;
};

}  // namespace alignd::daemon
