// Keeps the cgroups of pods with exclusive CPUs without CFS quota, and with their shares, while a
// resize of the pod is refused. A pod that a resize has left without exclusive CPUs gets its quota
// back.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "allocation/pod_notes.h"
#include "cgroup/cgroup_tree.h"
#include "host/event_loop.h"
#include "host/file_watch.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"
#include "sync/mutex.h"
#include "sync/recurring_task.h"
#include "sync/task_queue.h"

namespace alignd::reconcile {

// The last quota that was lifted of a pod. A value.
struct LiftedQuota {
  std::string path;   // of the pod's cgroup
  int64_t quota = 0;  // microseconds in each period
};
using LiftedQuotas = std::map<std::string, LiftedQuota>;  // by the pods' UIDs

// Thread-safe. Its work runs on a task queue, which may block: it reads and writes cgroup files. It
// runs when a process writes to a watched file, and when it is asked to.
//
// When the kubelet resizes a pod, it writes the pod's cgroup itself: before the containers what
// grows, after them what shrinks. A lifted quota counts as the smallest one. So every try of a
// resize that alignd refuses begins with a quota that throttles the exclusive CPUs.
// Source: kubelet pkg/kubelet/kuberuntime/kuberuntime_manager.go, doPodResizeAction.
class PodCpuGuard {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    // What was written is undone at once, unless that has happened more than this often within
    // `window`. Then it is undone once per `pause`: a conflict with another program costs little
    // CPU time.
    size_t repairs{5};
    // Likewise for writes and refused resizes after which there may be nothing to undo.
    size_t checks{100};
    std::chrono::seconds window{60};
    std::chrono::milliseconds pause{200};
    // Shares that another program has written are those of the pod if alignd refuses no resize of
    // the pod for this long.
    std::chrono::milliseconds settle{5'000};
    // After a quota could not be restored; then doubled, up to the second.
    std::chrono::milliseconds first_retry{1'000};
    std::chrono::milliseconds last_retry{30'000};
    LiftedQuotas lifted = {};  // by another guard of this process, which has stopped
  };

  // What is decided about a pod. Any thread.
  struct Decisions {
    using OfPod = std::function<bool(const std::string& pod_uid)>;

    OfPod has_exclusive;  // a container of it has exclusive CPUs
    OfPod was_shared;     // a resize has moved a container of it from them, or to them
    std::function<allocation::PodQuota(const std::string& pod_uid)> quota_of;
  };

  // All references outlive this object.
  PodCpuGuard(TaskQueue& io, std::shared_ptr<host::EventLoop> events, Decisions decisions,
              const ContainerRegistry& registry, const cgroup::CgroupTree& cgroups,
              Conditions& conditions, Options options);
  PodCpuGuard(const PodCpuGuard&) = delete;
  PodCpuGuard& operator=(const PodCpuGuard&) = delete;
  ~PodCpuGuard() { Stop(); }

  void Stop() { task_.Stop(); }

  // For the next guard. Call after Stop.
  LiftedQuotas Lifted() const;

  // Guards the pod until it is gone or has no exclusive CPUs any more, and checks it now. If a
  // resize has taken them, it then gets the last quota that was lifted here: with a lifted quota,
  // the kubelet writes the new one before it asks to resize a container, and not again. `parent`:
  // the cgroup parent of its sandbox, or the path of its cgroup. Does nothing if that is not the
  // pod's own cgroup.
  void Guard(const std::string& pod_uid, const std::string& parent) EXCLUDES(mutex_);

  // alignd refuses a resize of the pod: its quota is lifted, and its shares become those that it
  // had before.
  void ResizeRefused(const std::string& pod_uid) EXCLUDES(mutex_);
  // alignd resizes the pod: its shares are from now on those that it has now.
  void ResizeAccepted(const std::string& pod_uid) EXCLUDES(mutex_);

  // Forgets the pods that are gone.
  void Look() { task_.RunSoon(); }

 private:
  struct Pod {
    std::string path;  // of its cgroup
    bool watched = false;
    std::string shares;                        // as text of the file; empty: not known yet
    std::optional<Clock::time_point> changed;  // other shares were found, first
    std::optional<Clock::time_point> refused;  // a resize, last
    bool restore = false;                      // the shares: a resize was refused since the check
    bool logged = false;                       // that shares were restored
    std::deque<Clock::time_point> repairs;     // within `window`
    std::deque<Clock::time_point> checks;      // likewise, that others have caused
    bool asked = false;                        // for a check, by others
    Clock::time_point paused;                  // until then
    bool reported = false;                     // PodQuotaRewritten
    std::optional<int64_t> lifted;             // the last quota
    std::optional<bool> found_lifted;          // PodQuota::kAsFound: at the first check
    // It has no exclusive CPUs any more, and its quota could not be restored.
    std::optional<Clock::time_point> retry;
    int failures = 0;
  };

  Clock::time_point Run() EXCLUDES(mutex_);
  void TakeRequests() EXCLUDES(mutex_);
  // Takes over what the guard before has lifted, of pods that are known by now.
  void TakeLifted();
  void ForgetGone();
  // Whether that is done: there is nothing to restore, or it has been.
  bool RestoreQuota(const std::string& uid, Pod& pod);
  void Check(const std::string& uid, Pod& pod);
  void WatchFiles(const std::string& uid, Pod& pod);
  // Whether the pod is to have no quota.
  bool MayLift(const std::string& uid, Pod& pod) const;
  // Whether they have undone what was written.
  bool CheckQuota(const std::string& uid, Pod& pod);
  bool CheckShares(const std::string& uid, Pod& pod);
  void ReportRepairs(const std::string& uid, Pod& pod, bool repaired);
  // Counts one more event, unless there are more than `limit` within the window: then answers true.
  bool IsTooMuch(std::deque<Clock::time_point>& events, size_t limit, bool one_more) const;
  // The pod is not checked for a while.
  void Pause(const std::string& uid, Pod& pod);
  void CheckAt(const std::string& uid, Clock::time_point time);
  Subject SubjectOf(const std::string& uid) const;

  const Decisions decisions_;
  const ContainerRegistry& registry_;
  const cgroup::CgroupTree& cgroups_;
  Conditions& conditions_;
  const Options options_;

  // Used by the task only.
  std::map<std::string, Pod> pods_;               // by UID
  std::map<std::string, Clock::time_point> due_;  // by UID
  LiftedQuotas lifted_before_;                    // not taken over yet

  Mutex mutex_;
  std::map<std::string, std::string> wanted_ GUARDED_BY(mutex_);  // to be guarded: paths by UID
  std::set<std::string> refused_ GUARDED_BY(mutex_);              // resizes of these pods
  std::set<std::string> accepted_ GUARDED_BY(mutex_);
  // Pods whose files were written; true: or removed.
  std::map<std::string, bool> written_ GUARDED_BY(mutex_);

  RecurringTask task_;
  host::FileWatch watch_;  // keys: UIDs; its callback uses the task
};

}  // namespace alignd::reconcile
