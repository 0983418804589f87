// Compares what the cgroups say with what containers were told, and has repaired what somebody else
// has changed.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "allocation/allocation_manager.h"
#include "cgroup/cgroup_tree.h"
#include "cgroup/file_watch.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"
#include "reconcile/runtime_client.h"
#include "sync/mutex.h"

namespace alignd::reconcile {

// Thread-safe. One thread of its own, which waits for neither the runtime nor decisions. It sleeps
// until somebody writes to a cpuset that it watches; what the kernel changes by itself it finds in
// its next round. A round over 250 containers takes about 5 ms of CPU time.
class CpusetGuard {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::chrono::milliseconds round{5'000};  // between looks at everything
    std::chrono::milliseconds confirm{30};   // what looks wrong is looked at once more after this
    size_t repairs{5};                       // so many of one container within `window`: a fight,
    std::chrono::milliseconds window{60'000};
    std::chrono::milliseconds backoff{60'000};  // and this long it is left as it is; then doubled,
    int longest_backoff{4};                     // so often at most
    bool lift_pod_quotas = true;  // of pods with exclusive CPUs, as cgroup/pod_quota.h
    std::chrono::milliseconds ask_again{30'000};  // for a cgroup that the runtime did not tell
  };

  // `apply_anew` has containers told that the registry has as not told, and has those looked at
  // that wait for their CPUs. All references outlive this object.
  CpusetGuard(const admission::Node& node, const allocation::AllocationManager& allocation,
              ContainerRegistry& registry, RuntimeClient& runtime,
              const cgroup::CgroupTree& cgroups, Conditions& conditions,
              std::function<void()> apply_anew, Options options);
  CpusetGuard(const CpusetGuard&) = delete;
  CpusetGuard& operator=(const CpusetGuard&) = delete;
  ~CpusetGuard();

  void Start();
  // The runtime client has been stopped: calls under way end.
  void Stop();

  // Containers came, went or were started.
  void Look();

 private:
  struct Drift {
    std::string was;
    Clock::time_point right_before;
    Clock::time_point noticed;
  };
  struct Guarded {
    ContainerKey key;
    std::optional<std::string> path;  // of its cgroup; nullopt: not known yet
    Clock::time_point ask;            // for it, not earlier than this
    bool watched = false;
    Clock::time_point right;     // when it was last seen to be right
    bool suspect = false;        // looked wrong the last time
    Clock::time_point noticed;   // that, first
    std::optional<Drift> drift;  // is wrong
    std::deque<Clock::time_point> repairs;
    int truces = 0;
    Clock::time_point backoff_until;
    bool kept = false;  // by somebody else, as the registry knows
    std::string cut;    // what was said of a narrower cgroup above; empty: nothing
  };

  void Run();
  // Takes over which containers there are.
  void Sync();
  // Asks the runtime where the cgroups of new ones are.
  void AskForPaths();
  void TakePaths();
  void Check(const std::string& id);
  void LiftPodQuota(const std::string& pod_uid, const std::string& path);
  void Right(const std::string& id, Guarded& container, const admission::Assignment& grant,
             const cgroup::Cpuset& now);
  void Wrong(const std::string& id, Guarded& container, const admission::Assignment& grant,
             const cgroup::Cpuset& now);
  // Somebody else keeps moving it to `cpus`: it is left there.
  void Leave(const std::string& id, Guarded& container, const CpuSet& cpus);
  // It is right: whoever kept it elsewhere may have given up.
  void SeeWhetherLeftAlone(const std::string& id, Guarded& container);
  // A cgroup above is narrower, or no longer is.
  void NoteCut(const std::string& id, Guarded& container, const cgroup::Cpuset& now);
  // For those who read what we say of it.
  Subject SubjectOf(const std::string& id, const Guarded& container) const;
  void CheckSoon(const std::string& id, std::chrono::milliseconds pause);

  const admission::Node& node_;
  const allocation::AllocationManager& allocation_;
  ContainerRegistry& registry_;
  RuntimeClient& runtime_;
  const cgroup::CgroupTree& cgroups_;
  Conditions& conditions_;
  const std::function<void()> apply_anew_;
  const Options options_;

  // The own thread's.
  std::map<std::string, Guarded> guarded_;        // by container id
  std::map<std::string, Clock::time_point> due_;  // by container id
  cgroup::FileWatch watch_;                       // keys: container ids

  Mutex mutex_;
  CondVar found_all_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool look_ GUARDED_BY(mutex_) = true;
  std::set<std::string> asked_ GUARDED_BY(mutex_);  // the runtime is asked for their cgroups
  std::vector<std::pair<std::string, Result<std::string>>> answers_ GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace alignd::reconcile
