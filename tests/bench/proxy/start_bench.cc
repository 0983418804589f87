// The start of a container with an exclusive CPU beside containers of the shared pool, on a real
// containerd.
#include <benchmark/benchmark.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "alignd/base/cpu_set.h"
#include "edge/containerd_script.h"
#include "edge/raw_call.h"
#include "host/durable_file.h"
#include "host/file.h"
#include "pods.h"

namespace alignd::bench {
namespace {

constexpr int kContainersOfAPod = 10;

double Milliseconds(Clock::time_point begin) {
  return Microseconds(Clock::now() - begin).count() / 1000;
}

std::string ContainerdScript(const std::string& action, const std::string& directory) {
  const Result<std::string> output =
      testing::RunContainerdScript(ALIGND_SOURCE_DIR, action, directory);
  if (!output.ok()) throw std::runtime_error(output.error().Text());
  return *output;
}

// A private containerd, and alignd in front of it as long as it is wanted. The node is this
// machine; its first CPU is reserved.
class RealNode {
 public:
  RealNode() {
    const auto online = host::ReadFile("/sys/devices/system/cpu/online");
    if (!online.ok()) throw std::runtime_error(online.error().Text());
    const auto cpus = CpuSet::Parse(online->substr(0, online->find('\n')));
    if (!cpus.ok()) throw std::runtime_error(cpus.error().Text());
    free_cpu_ = std::to_string((*cpus - CpuSet{cpus->First()}).First());
    tree_.Write({"config.yaml",
                 "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
                 "cpuManagerPolicy: static\ntopologyManagerPolicy: best-effort\n"
                 "reservedSystemCPUs: \"" +
                     std::to_string(cpus->First()) + "\"\n"});
    ContainerdScript("prepare", Containerd());
    ContainerdScript("start", Containerd());
    ContainerdScript("import", Containerd());
    direct_ = *simulator::Dial(Containerd() + "/containerd.sock");
  }
  RealNode(const RealNode&) = delete;
  RealNode& operator=(const RealNode&) = delete;
  ~RealNode() {
    alignd_.reset();
    try {
      ContainerdScript("stop", Containerd());
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
  }

  void StartAlignd() {
    alignd_ = std::make_unique<testing::Process>(
        std::vector<std::string>{ALIGND_PROGRAM, "--config", tree_.root() / "config.yaml",
                                 "--listen", Socket(), "--runtime-endpoint",
                                 Containerd() + "/containerd.sock", "--state-dir",
                                 tree_.root() / "state"},
        tree_.root() / "alignd.log");
    if (!alignd_->WaitForLog("ready:")) throw std::runtime_error(alignd_->Log());
    through_ = *simulator::Dial(Socket());
  }
  // A paused alignd takes no part in the starts without it.
  void PauseAlignd() const { kill(alignd_->pid(), SIGSTOP); }
  void ResumeAlignd() const { kill(alignd_->pid(), SIGCONT); }

  // One that is not reserved.
  const std::string& free_cpu() const { return free_cpu_; }
  grpc::Channel& direct() const { return *direct_; }
  grpc::Channel& through() const { return *through_; }

  // Replaces a file as long as alignd's state, in alignd's directory.
  double DurableWrite() const {
    const auto text = host::ReadFile(tree_.root() / "state/cpu_manager_state");
    if (!text.ok()) throw std::runtime_error(text.error().Text());
    const Clock::time_point begin = Clock::now();
    const auto written = host::ReplaceFile(tree_.root() / "state/reference", *text);
    if (!written.ok()) throw std::runtime_error(written.error().Text());
    return Milliseconds(begin);
  }

 private:
  std::string Containerd() const { return tree_.root() / "containerd"; }
  std::string Socket() const { return tree_.root() / "alignd.sock"; }

  const testing::FakeTree tree_;
  std::string free_cpu_;
  std::shared_ptr<grpc::Channel> direct_;
  std::shared_ptr<grpc::Channel> through_;
  std::unique_ptr<testing::Process> alignd_;
};

// A pod on the host's network whose containers sleep.
BenchPod SleepingPod(const std::string& uid, int exclusive_cpus) {
  BenchPod pod(uid, exclusive_cpus);
  pod.sandbox.mutable_linux()->mutable_security_context()->mutable_namespace_options()->set_network(
      v1::NODE);
  pod.container.mutable_image()->set_image("localhost/busybox:1");
  for (const char* const word : {"sleep", "100000"}) pod.container.add_command(word);
  return pod;
}

void StopPod(grpc::Channel& channel, const BenchPod& pod) {
  v1::StopPodSandboxRequest request;
  request.set_pod_sandbox_id(pod.sandbox_id);
  CallTyped<v1::StopPodSandboxResponse>(channel, "StopPodSandbox", request);
  pod.Remove(channel);
}

// The machine's CPU time so far, in ticks.
struct CpuTime {
  long idle = 0;
  long all = 0;
};
CpuTime ReadCpuTime() {
  std::ifstream file("/proc/stat");
  std::string word;
  file >> word;  // "cpu"
  CpuTime time;
  constexpr int kKinds = 8;  // user, nice, system, idle, iowait, irq, softirq, steal
  constexpr int kIdle = 3;
  for (int kind = 0; kind < kKinds; ++kind) {
    long ticks = 0;
    file >> ticks;
    time.all += ticks;
    if (kind == kIdle) time.idle = ticks;
  }
  return time;
}

// Waits until what follows an earlier start is over: with many shared containers, their records are
// updated for seconds. On a machine that does other work, this takes 30 s.
void AwaitIdleMachine() {
  int idle_periods = 0;
  testing::WaitUntil(
      [&idle_periods] {
        const CpuTime begin = ReadCpuTime();
        std::this_thread::sleep_for(std::chrono::milliseconds(250));
        const CpuTime end = ReadCpuTime();
        const bool is_idle = 10 * (end.idle - begin.idle) >= 9 * (end.all - begin.all);
        idle_periods = is_idle ? idle_periods + 1 : 0;
        return idle_periods >= 2;
      },
      std::chrono::seconds(30));
}

// Milliseconds of CreateContainer and StartContainer together, on a machine that is idle. `cpus`:
// in the request, as a kubelet with a CPU manager sends them; empty: none.
double TimeStart(grpc::Channel& channel, int number, const std::string& cpus = {}) {
  BenchPod pod = SleepingPod("timed-" + std::to_string(number), 1);
  pod.container.mutable_linux()->mutable_resources()->set_cpuset_cpus(cpus);
  pod.Run(channel);
  AwaitIdleMachine();
  const Clock::time_point begin = Clock::now();
  StartContainer(channel, pod.Create(channel));
  const double took = Milliseconds(begin);
  StopPod(channel, pod);
  return took;
}

// The three ways by turns. Measured one way after the other, they differed by up to 10 ms more: the
// machine changes from minute to minute.
void StartExclusive(benchmark::State& state) {
  if (std::getenv("ALIGND_BENCH_CONTAINERD") == nullptr) {
    state.SkipWithError("starts real containers: set ALIGND_BENCH_CONTAINERD=1 (needs root)");
    return;
  }
  const std::string missing = ContainerdScript("missing", "");
  if (!missing.empty()) {
    state.SkipWithError(("not here: " + missing).c_str());
    return;
  }
  constexpr int kStarts = 25;
  RealNode node;
  std::vector<BenchPod> shared;
  for (int i = 0; i < state.range(0); ++i) {
    if (i % kContainersOfAPod == 0) {
      shared.push_back(SleepingPod("shared-" + std::to_string(i), 0));
      shared.back().Run(node.direct());
    }
    shared.back().container.mutable_metadata()->set_name("app-" + std::to_string(i));
    StartContainer(node.direct(), shared.back().Create(node.direct()));
  }
  for (auto _ : state) {
    Sample without;
    Sample pinned;  // without alignd; a cpuset costs runtime and kernel time in any case
    Sample with;
    Sample write;
    int number = 0;
    node.StartAlignd();
    TimeStart(node.through(), ++number);  // waits until the shared containers are confirmed
    for (int i = 0; i < kStarts; ++i) {
      AwaitIdleMachine();
      node.PauseAlignd();
      without.Add(TimeStart(node.direct(), ++number));
      pinned.Add(TimeStart(node.direct(), ++number, node.free_cpu()));
      node.ResumeAlignd();
      with.Add(TimeStart(node.through(), ++number));
      write.Add(node.DurableWrite());
    }
    for (const auto& [name, share] : {std::pair{"p50", 0.5}, std::pair{"max", 1.0}}) {
      state.counters[std::string("direct_ms_") + name] = without.Percentile(share);
      state.counters[std::string("pinned_ms_") + name] = pinned.Percentile(share);
      state.counters[std::string("through_ms_") + name] = with.Percentile(share);
      state.counters[std::string("durable_write_ms_") + name] = write.Percentile(share);
    }
  }
  for (const BenchPod& pod : shared) StopPod(node.direct(), pod);
}
BENCHMARK(StartExclusive)
    ->Arg(0)
    ->Arg(50)
    ->Arg(250)
    ->ArgName("shared")
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace alignd::bench
