// Notices that the kubelet of the node does not use alignd, or takes its runtime for another.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reconcile/conditions.h"
#include "sync/mutex.h"

namespace alignd::reconcile {

// Reports KubeletNotAttached if containers of pods were created past alignd while no kubelet calls
// through alignd's socket. A kubelet lists the sandboxes every second and asks for the runtime's
// status every 5 s; other programs, such as crictl, call now and then. Containers that are older
// than alignd, or were found while the kubelet called, are no sign: a kubelet that is stopped
// leaves them running.
//
// Reports StatsProviderChanged if the runtime is CRI-O and alignd's socket is not named like that
// of CRI-O: the kubelet recognises CRI-O by the end of its endpoint's path. Source: kubelet
// pkg/kubelet/cadvisor/util.go, UsingLegacyCadvisorStats. Thread-safe.
class KubeletWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // So many of these calls within this time come from a kubelet. The slowest, with the feature gate
  // EventedPLEG, makes twice as many.
  static constexpr size_t kCalls = 10;
  static constexpr std::chrono::seconds kWithin{40};
  // From the last time that such calls came until the kubelet is taken for one that does not call.
  static constexpr std::chrono::minutes kForget{5};
  // From the first such container until the report.
  static constexpr std::chrono::seconds kGrace{60};

  // What the path of CRI-O's socket ends with.
  static constexpr std::string_view kCrioSocket = "run/crio/crio.sock";

  // `listen`: alignd's own socket.
  explicit KubeletWatch(Conditions& conditions, std::chrono::milliseconds grace = kGrace,
                        std::string listen = "")
      : conditions_(conditions), grace_(grace), listen_(std::move(listen)) {}

  // A call has come to alignd's socket; `path`: "/runtime.v1.RuntimeService/Status".
  void Called(std::string_view path, Clock::time_point now = Clock::now()) EXCLUDES(mutex_);

  // Whether a kubelet calls through alignd.
  bool IsAttached(Clock::time_point now = Clock::now()) const EXCLUDES(mutex_);

  // After each listing: the containers of kubepods that were created past alignd and run now.
  void Listed(const std::vector<std::string>& past_alignd, Clock::time_point now = Clock::now())
      EXCLUDES(mutex_);

  // After each listing: the name that the runtime calls itself.
  void RuntimeIs(std::string_view name);

 private:
  bool Attached(Clock::time_point now) const REQUIRES(mutex_) {
    return recognised_ && now - *recognised_ <= kForget;
  }

  Conditions& conditions_;
  const std::chrono::milliseconds grace_;
  const std::string listen_;
  mutable Mutex mutex_;
  std::array<Clock::time_point, kCalls> calls_ GUARDED_BY(mutex_);  // the last ones, in a ring
  size_t next_ GUARDED_BY(mutex_) = 0;
  size_t count_ GUARDED_BY(mutex_) = 0;                             // at most kCalls
  std::optional<Clock::time_point> recognised_ GUARDED_BY(mutex_);  // a kubelet, the last time
  std::set<std::string> no_sign_ GUARDED_BY(mutex_);  // containers found while the kubelet called
  std::optional<Clock::time_point> since_ GUARDED_BY(mutex_);  // other containers were found
};

}  // namespace alignd::reconcile
