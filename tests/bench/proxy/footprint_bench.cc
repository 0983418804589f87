// The memory of alignd and the time until it is ready.
#include <benchmark/benchmark.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <fstream>

#include "host/descriptor.h"
#include "pods.h"

namespace alignd::bench {
namespace {

// Kibibytes of a line of /proc/PID/status.
double StatusKib(pid_t pid, const std::string& name) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stod(line.substr(name.size() + 1));
  }
  throw std::runtime_error("no " + name + " of " + std::to_string(pid));
}

void ReportMemory(benchmark::State& state, pid_t pid, const std::string& when) {
  state.counters["rss_mib" + when] = StatusKib(pid, "VmRSS") / 1024;
  state.counters["rss_own_mib" + when] =
      StatusKib(pid, "RssAnon") / 1024;  // the rest is mapped files
}

// The socket to which a program reports readiness, like systemd's (sd_notify(3)).
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path)
      : socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(path, address.sun_path);
    if (bind(socket_.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error(path + ": " + std::strerror(errno));
    }
  }
  void WaitForReady() const {
    char text[256];
    ssize_t size = 0;
    do {
      size = recv(socket_.fd(), text, sizeof(text), 0);
      if (size <= 0) throw std::runtime_error(std::strerror(errno));
    } while (std::string_view(text, static_cast<size_t>(size)).find("READY=1") ==
             std::string_view::npos);
  }

 private:
  const host::Descriptor socket_;
};

// With that many pods, a third of which have an exclusive CPU: memory before and after a restart,
// and the time from exec to readiness.
void Footprint(benchmark::State& state) {
  ProxiedRuntime node({ALIGNSIM_PROGRAM, "runtime", "--listen"}, /*cpus=*/256);
  RunPods(*node.Through(), static_cast<int>(state.range(0)), /*exclusive_too=*/true);
  ReportMemory(state, node.alignd().pid(), "");
  // alignd looks every few seconds whether it has memory to give back.
  std::this_thread::sleep_for(std::chrono::seconds(20));
  ReportMemory(state, node.alignd().pid(), "_later");
  node.StopAlignd();
  const std::string path = (node.root() / "notify.sock").string();
  const NotifySocket notify(path);
  std::vector<std::string> command = node.AligndCommand();
  command.insert(command.begin(), {"env", "NOTIFY_SOCKET=" + path});
  for (auto _ : state) {
    Sample ready;
    for (int i = 0; i < 10; ++i) {
      const Clock::time_point begin = Clock::now();
      const testing::Process alignd(command, node.root() / "restarted.log");
      notify.WaitForReady();
      ready.Add(Microseconds(Clock::now() - begin).count() / 1000);
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      if (i == 0) ReportMemory(state, alignd.pid(), "_restarted");
    }
    state.counters["ready_ms_p50"] = ready.Percentile(0.5);
    state.counters["ready_ms_max"] = ready.Percentile(1);
  }
}
BENCHMARK(Footprint)->Arg(0)->Arg(250)->ArgName("pods")->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace
}  // namespace alignd::bench
