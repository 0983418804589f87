// The configuration is changed ten times while pods come and go in front of a real containerd, and
// each container writes down, from inside, on which CPUs the kernel lets it run.
// ALIGND_E2E_PODS: how many pods of the shared pool the node has (default 6); tried with 250.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "control/control_client.h"
#include "real_node.h"

namespace alignd::testing {
namespace {

constexpr int kChanges = 10;
constexpr std::chrono::minutes kChangePatience{2};

// Appends lines `UPTIME UPTIME CPUS` to /seen: the list of CPUs was read between these times.
std::string WatchScript(const std::string& pause) {
  return "while :; do read -r a rest < /proc/uptime; "
         "while read -r key value; do "
         "if [ \"$key\" = Cpus_allowed_list: ]; then cpus=$value; fi; done < /proc/self/status; "
         "read -r b rest < /proc/uptime; echo \"$a $b $cpus\" >> /seen; sleep " +
         pause + "; done";
}

// What a container has seen at one moment between two times, in seconds since the boot.
struct Sighting {
  double begin = 0;
  double end = 0;
  CpuSet cpus;
};

class RealChanges : public RealNode {
 protected:
  struct RunningPod {
    PodManifest pod;
    std::string id;
    int pid = 0;
  };
  // The time for which a container has had CPUs for itself, as it has seen it.
  struct Ownership {
    std::string pod;
    CpuSet cpus;
    double begin = 0;
    double end = 0;
  };

  static int SharedPods() {
    const char* const text = std::getenv("ALIGND_E2E_PODS");
    return text == nullptr ? 6 : std::max(1, std::atoi(text));
  }

  static PodManifest Watching(PodManifest pod, double pause) {
    pod.containers.at("app").command = {"sh", "-c", WatchScript(std::to_string(pause))};
    return pod;
  }

  // The container's first process. The others, which wait between two readings, may have smaller
  // numbers.
  int FirstProcessOf(const PodManifest& pod, const std::string& id) const {
    std::istringstream list(ReadText(CgroupOf(pod, id) / "cgroup.procs"));
    const std::vector<std::string> pids{std::istream_iterator<std::string>(list), {}};
    for (const std::string& pid : pids) {
      const std::string status = ReadText("/proc/" + pid + "/status");
      const size_t parent = status.find("\nPPid:\t");
      if (parent == std::string::npos) continue;  // it has ended
      std::string number = status.substr(parent + 7, 12);
      number.resize(number.find('\n'));
      if (std::ranges::find(pids, number) == pids.end()) return std::stoi(pid);
    }
    ADD_FAILURE() << "no process in " << CgroupOf(pod, id);
    return 0;
  }

  // As a kubelet: it repeats calls that a change of the configuration has interrupted. No id after
  // a failure.
  RunningPod RunWatching(PodManifest pod, Kubelet& kubelet) {
    RunningPod running{std::move(pod), "", 0};
    const bool runs = WaitUntil(
        [&] {
          const auto run = kubelet.Run(running.pod);
          if (run.ok() && run->containers.at(0).id.ok()) running.id = *run->containers.at(0).id;
          if (running.id.empty()) ++interrupted_;
          return !running.id.empty();
        },
        kChangePatience);
    EXPECT_TRUE(runs) << running.pod.pod.name;
    if (runs) running.pid = FirstProcessOf(running.pod, running.id);
    return running;
  }

  void RemoveWatched(const PodManifest& pod, Kubelet& kubelet) {
    const bool removed = WaitUntil(
        [&] {
          const auto pods = kubelet.List();
          if (!pods.ok()) return false;
          for (const ListedPod& listed : *pods) {
            if (listed.uid != pod.pod.uid) continue;
            if (!kubelet.Remove(listed, std::chrono::seconds(0)).ok()) return false;
          }
          return true;
        },
        kChangePatience);
    EXPECT_TRUE(removed) << pod.pod.name;
  }

  // The last line may be incomplete.
  static std::vector<Sighting> SeenBy(const RunningPod& running) {
    std::istringstream text(ReadText("/proc/" + std::to_string(running.pid) + "/root/seen"));
    std::vector<Sighting> seen;
    for (std::string line; std::getline(text, line) && !text.eof();) {
      std::istringstream fields(line);
      std::string cpus;
      Sighting& one = seen.emplace_back();
      fields >> one.begin >> one.end >> cpus;
      one.cpus = ParseCpus(cpus);
    }
    return seen;
  }

  // Exclusive pods come and go, one at a time. Each sees its own CPUs alone, all the time.
  void ChurnExclusive(const std::atomic<bool>& stop) {
    const auto kubelet = MakeKubelet(Socket());
    for (int round = 0; !stop; ++round) {
      const RunningPod running = RunWatching(
          Watching(ExclusivePod("exclusive-" + std::to_string(round), 1), 0.05), *kubelet);
      if (running.id.empty()) return;
      ++exclusive_rounds_;
      const auto was_watched = [&] {  // while each other container has looked
        const std::vector<Sighting> seen = SeenBy(running);
        return seen.size() > 3 && seen.back().begin - seen.front().end > pause_;
      };
      EXPECT_TRUE(WaitUntil(was_watched, kChangePatience));
      AddOwnerships(running.pod.pod.name, SeenBy(running));
      RemoveWatched(running.pod, *kubelet);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
  }
  // Each CPU was the pod's from the first to the last reading that saw it: the container may have
  // been moved right after that.
  void AddOwnerships(const std::string& pod, const std::vector<Sighting>& seen) {
    for (size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(seen[i].cpus.Count(), 1) << pod << " " << seen[i].cpus.ToString();
      if (i > 0 && seen[i].cpus == seen[i - 1].cpus) {
        owned_.back().end = seen[i].begin;
        continue;
      }
      if (i > 0) ++moves_;
      owned_.push_back({pod, seen[i].cpus, seen[i].end, seen[i].end});
    }
  }

  // Pods of the shared pool come and go.
  void ChurnShared(const std::atomic<bool>& stop) {
    const auto kubelet = MakeKubelet(Socket());
    for (int round = 0; !stop; ++round) {
      const RunningPod running =
          RunWatching(Watching(MakePod("coming-" + std::to_string(round), ""), 0.2), *kubelet);
      if (running.id.empty()) return;
      ++shared_rounds_;
      EXPECT_TRUE(WaitUntil([&] { return SeenBy(running).size() > 2; }, kChangePatience));
      shared_seen_[running.pod.pod.name] = SeenBy(running);
      RemoveWatched(running.pod, *kubelet);
    }
  }

  // The reserved CPU is the first or the last one of the machine.
  std::string ConfigOf(int change) const {
    static const std::vector<std::string> kSettings = {
        "topologyManagerPolicy: single-numa-node\n",
        "topologyManagerPolicy: restricted\ntopologyManagerScope: pod\n",
        "topologyManagerPolicy: none\n",
        "topologyManagerPolicy: best-effort\n"
        "cpuManagerPolicyOptions: {distribute-cpus-across-numa: \"true\"}\n",
        "topologyManagerPolicy: restricted\n"};
    int last = reserved_;
    for (const int cpu : all_) last = cpu;
    return "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
           "cpuManagerPolicy: static\nreservedSystemCPUs: \"" +
           std::to_string(change % 4 < 2 ? reserved_ : last) + "\"\n" +
           kSettings[static_cast<size_t>(change) % kSettings.size()];
  }

  // A change that a running container does not allow is refused as a whole, and repeated.
  void ApplyAndAwait(const std::string& config) {
    daemon::Options options;
    options.listen = Socket();
    options.state_dir = tree_.root() / "state";
    const control::ControlClient control(options.ControlSocket());
    control::v1::ChangeRequest request;
    request.set_config(config);
    request.set_may_move(true);
    std::string last;
    const auto once = [&] {
      const auto change = control.ApplyChange(request);
      if (!change.ok() || !change->admitted()) {
        last = change.ok() ? change->ShortDebugString() : change.error().Text();
        return false;
      }
      std::string outcome = "pending";
      EXPECT_TRUE(WaitUntil([&] {
        const auto answer = control.GetChange(change->change());
        if (answer.ok()) outcome = answer->outcome();
        if (answer.ok()) last = answer->message();
        return outcome != "pending";
      }));
      return outcome == "applied";
    };
    EXPECT_TRUE(WaitUntil([&] { return once() || (++repeated_, false); }, kChangePatience)) << last;
  }

  void ExpectNotOn(const std::string& name, const std::vector<Sighting>& seen) {
    for (const Sighting& one : seen) {
      ++sightings_;
      for (const Ownership& owned : owned_) {
        const bool is_within = one.begin >= owned.begin && one.end <= owned.end;
        if (is_within) ++within_;
        EXPECT_FALSE(is_within && one.cpus.Intersects(owned.cpus))
            << name << " was on CPUs " << one.cpus.ToString() << " at " << one.begin << ", while "
            << owned.pod << " had CPUs " << owned.cpus.ToString() << " for itself";
      }
    }
  }

  // Waits until a pod of each kind has been started since.
  void AwaitComers() const {
    const int exclusives = exclusive_rounds_;
    const int comers = shared_rounds_;
    EXPECT_TRUE(WaitUntil([&] { return exclusive_rounds_ > exclusives && shared_rounds_ > comers; },
                          kChangePatience));
  }

  // Seconds between two readings of a shared container. Each costs a process.
  const double pause_ = SharedPods() > 20 ? 3 : 0.1;
  std::atomic<int> interrupted_ = 0;
  std::atomic<int> exclusive_rounds_ = 0;
  std::atomic<int> shared_rounds_ = 0;
  int repeated_ = 0;
  int moves_ = 0;
  int64_t sightings_ = 0;
  int64_t within_ = 0;  // while an exclusive container ran, counted for each
  std::vector<Ownership> owned_;
  std::map<std::string, std::vector<Sighting>> shared_seen_;  // of pods that have gone
};

TEST_F(RealChanges, TenChangesWhilePodsComeAndGo) {
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::vector<RunningPod> shared;
  for (int i = 0; i < SharedPods(); ++i) {
    shared.push_back(
        RunWatching(Watching(MakePod("shared-" + std::to_string(i), ""), pause_), *kubelet_));
    ASSERT_NE(shared.back().id, "");
  }
  const double started = seconds();
  EXPECT_EQ(interrupted_, 0) << "nothing has changed yet";

  std::atomic<bool> stop = false;
  std::thread exclusives([&] { ChurnExclusive(stop); });
  std::thread comers([&] { ChurnShared(stop); });
  double longest = 0;
  for (int change = 0; change < kChanges; ++change) {
    const double before = seconds();
    ApplyAndAwait(ConfigOf(change));
    longest = std::max(longest, seconds() - before);
    if (change % 2 == 1) AwaitComers();
  }
  stop = true;
  exclusives.join();
  comers.join();

  // Nothing was restarted, and each container runs on.
  std::map<std::string, size_t> readings;
  for (const RunningPod& running : shared) {
    EXPECT_EQ(FirstProcessOf(running.pod, running.id), running.pid) << running.pod.pod.name;
    EXPECT_TRUE(WaitUntil([&] { return AllowedCpus(running.pid) == all_; }));
    readings[running.id] = SeenBy(running).size();
  }
  for (const RunningPod& running : shared) {
    const size_t before = readings.at(running.id);
    EXPECT_TRUE(WaitUntil([&] { return SeenBy(running).size() > before; }, kChangePatience))
        << running.pod.pod.name;
    ExpectNotOn(running.pod.pod.name, SeenBy(running));
  }
  for (const auto& [name, seen] : shared_seen_) ExpectNotOn(name, seen);
  EXPECT_GE(owned_.size(), 2U);
  EXPECT_GE(shared_seen_.size(), 2U);
  EXPECT_GT(within_, 0) << "no container was watched while another one had CPUs for itself";
  const auto state = checkpoint::ParseCpuCheckpoint(CpuState());
  ASSERT_TRUE(state.ok()) << state.error().Text();
  EXPECT_EQ(state->state.assignments.size(), 0U) << CpuState();
  EXPECT_EQ(state->state.default_set, all_);
  std::cout << SharedPods() << " pods started in " << started << " s; " << kChanges
            << " changes in " << seconds() - started << " s, the longest " << longest << " s, "
            << repeated_ << " repeated; beside them " << owned_.size() << " exclusive and "
            << shared_seen_.size() << " shared pods came and went, " << moves_ << " moves, "
            << interrupted_ << " calls repeated; " << sightings_ << " readings from inside, "
            << within_ << " of them while CPUs were exclusive\n";
}

}  // namespace
}  // namespace alignd::testing
