// The fixture of the end-to-end tests: this machine with a private containerd, alignd as a process
// in front of it, and the simulated kubelet as the client. The tests are skipped, with the reason,
// where the machine cannot run containers.
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/config/on_refusal.h"
#include "edge/alignd_command.h"
#include "edge/containerd_script.h"
#include "edge/fake_tree.h"
#include "edge/process.h"
#include "edge/raw_call.h"
#include "runtime/v1/cri.pb.h"
#include "simulator/grpc_socket.h"
#include "simulator/kubelet.h"

namespace alignd::testing {

using simulator::Kubelet;
using simulator::KubeletSettings;
using simulator::ListedPod;
using simulator::ParsePodManifest;
using simulator::PodManifest;

inline constexpr char kGpu[] = "example.com/gpu";

// The CPUs of a list such as `0-3,8`, as the kernel writes it.
inline CpuSet ParseCpus(const std::string& list) {
  const auto cpus = CpuSet::Parse(list.substr(0, list.find('\n')));
  EXPECT_TRUE(cpus.ok()) << "\"" << list << "\"";
  return cpus.ok() ? *cpus : CpuSet();
}

// The CPUs that the kernel lets a process use.
inline CpuSet AllowedCpus(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  const std::string key = "Cpus_allowed_list:\t";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return ParseCpus(line.substr(key.size()));
  }
  ADD_FAILURE() << "process " << pid << " has ended";
  return CpuSet();
}

class RealNode : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    missing_ = new std::string(Script("missing", ""));
    if (!missing_->empty()) return;
    runtime_tree_ = new FakeTree();
    Script("prepare", RuntimeDir());
    Script("start", RuntimeDir());
    Script("import", RuntimeDir());
  }

  static void TearDownTestSuite() {
    if (runtime_tree_ != nullptr) Script("stop", RuntimeDir());
    delete std::exchange(runtime_tree_, nullptr);
    delete std::exchange(missing_, nullptr);
  }

  void SetUp() override {
    if (!missing_->empty()) {
      std::string reasons = *missing_;
      for (char& c : reasons) c = c == '\n' ? ';' : c;
      GTEST_SKIP() << "not here: " << reasons;
    }
    all_ = AllowedCpus(getpid());
    reserved_ = all_.First();
    cgroup_root_ = "/alignd-e2e-" + std::to_string(getpid()) + "-" + std::to_string(++tests_);
    direct_ = MakeKubelet(RuntimeSocket());
    kubelet_ = MakeKubelet(Socket());
    StartAlignd();
  }

  void TearDown() override {
    if (!missing_->empty()) return;
    if (HasFailure() && alignd_) std::cerr << alignd_->Log();
    devices_.reset();
    alignd_.reset();
    const auto pods = direct_->List();
    EXPECT_TRUE(pods.ok()) << pods.error().Text();
    for (const ListedPod& pod : pods.ok() ? *pods : std::vector<ListedPod>()) {
      const auto removed = direct_->Remove(pod, std::chrono::seconds(0));
      EXPECT_TRUE(removed.ok()) << removed.error().Text();
    }
    RemoveCgroups();
  }

  // --- The daemon, the runtime and device plugins.

  std::string Socket() const { return (tree_.root() / "alignd.sock").string(); }
  static std::string RuntimeDir() { return runtime_tree_->root() / "containerd"; }
  static std::string RuntimeSocket() { return RuntimeDir() + "/containerd.sock"; }

  void StartAlignd() {
    tree_.Write({"config.yaml",
                 "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
                 "cpuManagerPolicy: static\ntopologyManagerPolicy: best-effort\n"
                 "reservedSystemCPUs: \"" +
                     std::to_string(reserved_) + "\"\n"});
    daemon::Options options;
    options.config = tree_.root() / "config.yaml";
    options.metrics_address = "off";
    options.on_refusal = on_refusal_;
    options.listen = Socket();
    options.runtime_endpoint = RuntimeSocket();
    options.state_dir = tree_.root() / "state";
    alignd_ = std::make_unique<Process>(AligndCommand(ALIGND_PROGRAM, options),
                                        tree_.root() / "alignd.log");
    ASSERT_TRUE(alignd_->WaitForLog("ready:")) << alignd_->Log();
    // The first call on a connection to the former process fails. A kubelet polls the list.
    ASSERT_TRUE(WaitUntil([this] { return kubelet_->List().ok(); }));
  }

  void CrashAlignd() { EXPECT_EQ(alignd_->Kill(SIGKILL), SIGKILL) << alignd_->Log(); }

  void CrashAndRestartAlignd() {
    CrashAlignd();
    StartAlignd();
  }

  void CrashAndRestartRuntime() {
    const int pid = std::stoi(ReadText(RuntimeDir() + "/pid"));
    ASSERT_EQ(kill(pid, SIGKILL), 0);
    // The parent was the script, so init reaps the process. Wait until it does not answer.
    ASSERT_TRUE(WaitUntil([pid] {
      const std::string stat = ReadText("/proc/" + std::to_string(pid) + "/stat");
      return stat.empty() || stat.find(") Z ") != std::string::npos;
    }));
    Script("start", RuntimeDir());
  }

  // A plugin with that many devices; the device node of each is /dev/null.
  void StartDevices(int count) {
    std::vector<std::string> command = {ALIGNSIM_PROGRAM, "devices",
                                        "--dir",          tree_.root() / "state/device-plugins",
                                        "--resource",     kGpu,
                                        "--env",          "VISIBLE_GPUS={ids}",
                                        "--device-node",  "/dev/null:/dev/gpu{index}:rw",
                                        "--mount",        "/proc/version:/driver-version:ro"};
    for (int i = 0; i < count; ++i) {
      command.push_back("--device");
      command.push_back("gpu-" + std::to_string(i) + ":numa=0");
    }
    devices_ = std::make_unique<Process>(command, tree_.root() / "devices.log");
    ASSERT_TRUE(devices_->WaitForLog(std::string("registered ") + kGpu)) << devices_->Log();
  }

  std::string CpuState() const { return ReadText(tree_.root() / "state/cpu_manager_state"); }

  // --- Pods.

  // A pod with one container `app` that sleeps and a unique uid. `limits` is the inside of a YAML
  // flow mapping, empty for a pod of the shared pool.
  PodManifest MakePod(const std::string& name, const std::string& limits) const {
    const std::string uid = name + "-" + std::to_string(getpid()) + "-" + std::to_string(tests_);
    const auto manifest = ParsePodManifest(
        "metadata: {name: " + name + ", uid: " + uid + "}\n" +
        "spec: {hostNetwork: true, containers: [{name: app, image: 'localhost/busybox:1', "
        "imagePullPolicy: Never, command: [sleep, '100000'], resources: {limits: {" +
        limits + "}}}]}\n");
    EXPECT_TRUE(manifest.ok()) << manifest.error().Text();
    return manifest.ok() ? *manifest : PodManifest();
  }
  PodManifest SharedPod() const { return MakePod("shared", ""); }
  PodManifest ExclusivePod(const std::string& name, int cpus) const {
    return MakePod(name, "cpu: " + std::to_string(cpus) + ", memory: 64Mi");
  }
  // The number of CPUs that can be allocated exclusively.
  int AllocatableCpus() const { return all_.Count() - 1; }

  // The id of the pod's running container; empty after a failure.
  std::string Run(const PodManifest& pod) {
    const auto run = kubelet_->Run(pod);
    EXPECT_TRUE(run.ok()) << run.error().Text();
    if (!run.ok()) return "";
    const Result<std::string>& id = run->containers.at(0).id;
    EXPECT_TRUE(id.ok()) << id.error().Text();
    return id.ok() ? *id : "";
  }

  // Why the pod's container does not run; empty if it runs.
  std::string RunAndFail(const PodManifest& pod) {
    const auto run = kubelet_->Run(pod);
    if (!run.ok()) return run.error().Text();
    const Result<std::string>& id = run->containers.at(0).id;
    return id.ok() ? "" : id.error().Text();
  }

  void Remove(const PodManifest& pod, Kubelet& through) {
    const auto pods = through.List();
    ASSERT_TRUE(pods.ok()) << pods.error().Text();
    for (const ListedPod& listed : *pods) {
      if (listed.uid != pod.pod.uid) continue;
      const auto removed = through.Remove(listed, std::chrono::seconds(0));
      EXPECT_TRUE(removed.ok()) << removed.error().Text();
    }
  }
  void Remove(const PodManifest& pod) { Remove(pod, *kubelet_); }

  // --- What the kernel reports.

  std::filesystem::path CgroupOf(const PodManifest& pod, const std::string& id) const {
    return CpusetMount() + simulator::CgroupParent(pod.pod, {cgroup_root_, {}, true}) + "/" + id;
  }
  // The pod's own cgroup of the CPU controller (version 1), which a kubelet makes before the pod.
  std::filesystem::path MakeCpuCgroupOf(const PodManifest& pod) const {
    const std::filesystem::path cpuset = CgroupOf(pod, "").parent_path();
    std::filesystem::path cpu =
        "/sys/fs/cgroup/cpu" / cpuset.lexically_relative("/sys/fs/cgroup/cpuset");
    std::filesystem::create_directories(cpu);
    return cpu;
  }
  int PidOf(const PodManifest& pod, const std::string& id) const {
    const std::string pids = ReadText(CgroupOf(pod, id) / "cgroup.procs");
    EXPECT_NE(pids, "") << "no process in " << CgroupOf(pod, id);
    return pids.empty() ? 0 : std::stoi(pids);
  }
  // The CPUs that the container's process may use. They are also those of its cgroup.
  CpuSet CpusOf(const PodManifest& pod, const std::string& id) const {
    const int pid = PidOf(pod, id);
    if (pid == 0) return CpuSet();
    return AllowedCpus(pid);
  }
  // The CPUs that the runtime would give the container at its next update.
  CpuSet RecordedCpusOf(const std::string& id) const {
    runtime::v1::ContainerStatusRequest request;
    request.set_container_id(id);
    request.set_verbose(true);
    const RawAnswer answer =
        CallUnary(*simulator::Dial(RuntimeSocket()), "/runtime.v1.RuntimeService/ContainerStatus",
                  request.SerializeAsString());
    runtime::v1::ContainerStatusResponse status;
    EXPECT_TRUE(answer.message && status.ParseFromString(*answer.message))
        << answer.status.error_message();
    const auto info = nlohmann::json::parse(status.info().at("info"));
    const nlohmann::json::json_pointer cpus("/runtimeSpec/linux/resources/cpu/cpus");
    return info.contains(cpus) ? ParseCpus(info[cpus].get<std::string>()) : CpuSet();
  }
  CpuSet CgroupCpusOf(const PodManifest& pod, const std::string& id) const {
    return ParseCpus(ReadText(CgroupOf(pod, id) / "cpuset.cpus"));
  }

  // A client of alignd, or of the runtime.
  std::unique_ptr<Kubelet> MakeKubelet(const std::string& socket) const {
    const auto channel = simulator::Dial(socket);
    EXPECT_TRUE(channel.ok());
    return std::make_unique<Kubelet>(*channel, KubeletSettings{cgroup_root_, {}, true});
  }

  const FakeTree tree_;
  OnRefusal on_refusal_{.waits = false};
  CpuSet all_;
  int reserved_ = 0;
  std::unique_ptr<Kubelet> direct_;   // a client of containerd
  std::unique_ptr<Kubelet> kubelet_;  // a client of alignd
  std::unique_ptr<Process> alignd_;
  std::unique_ptr<Process> devices_;

 private:
  // Runs scripts/lib/containerd.sh and returns its output.
  static std::string Script(const std::string& action, const std::string& dir) {
    const Result<std::string> output = RunContainerdScript(ALIGND_SOURCE_DIR, action, dir);
    EXPECT_TRUE(output.ok()) << output.error().Text();
    return output.ok() ? *output : "";
  }

  static bool IsUnified() { return std::filesystem::exists("/sys/fs/cgroup/cgroup.controllers"); }
  static std::string CpusetMount() {
    return IsUnified() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpuset";
  }

  // Removes the pods' cgroups, as the kubelet does, once they are empty.
  void RemoveCgroups() const {
    std::vector<std::filesystem::path> roots = {"/sys/fs/cgroup" + cgroup_root_};
    for (const auto& controller : std::filesystem::directory_iterator("/sys/fs/cgroup")) {
      roots.push_back(controller.path().string() + cgroup_root_);
    }
    for (const std::filesystem::path& root : roots) {
      std::error_code fault;
      std::vector<std::filesystem::path> groups = {root};
      for (auto at = std::filesystem::recursive_directory_iterator(root, fault);
           !fault && at != std::filesystem::end(at); at.increment(fault)) {
        if (at->is_directory(fault)) groups.push_back(at->path());
      }
      while (!groups.empty()) {
        rmdir(groups.back().c_str());
        groups.pop_back();
      }
      EXPECT_FALSE(std::filesystem::exists(root, fault)) << root;
    }
  }

  static inline std::string* missing_ = nullptr;
  static inline FakeTree* runtime_tree_ = nullptr;
  static inline int tests_ = 0;
  std::string cgroup_root_;
};

}  // namespace alignd::testing
