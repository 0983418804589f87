#include "reconcile/kubelet_watch.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace alignd::reconcile {
namespace {

bool IsOfKubelet(std::string_view path) {
  return path.ends_with("/ListPodSandbox") || path.ends_with("/StreamPodSandboxes") ||
         path.ends_with("RuntimeService/Status");
}

}  // namespace

void KubeletWatch::Called(std::string_view path, Clock::time_point now) {
  if (!IsOfKubelet(path)) return;
  {
    const MutexLock lock(mutex_);
    calls_[next_] = now;
    next_ = (next_ + 1) % kCalls;
    count_ = std::min(count_ + 1, kCalls);
    const Clock::time_point oldest = calls_[next_];
    if (count_ < kCalls || now - oldest > kWithin) return;
    const bool was_attached = Attached(now);
    recognised_ = now;
    if (was_attached) return;
  }
  spdlog::info("the kubelet calls through alignd");
  conditions_.KubeletAttached();
}

bool KubeletWatch::IsAttached(Clock::time_point now) const {
  const MutexLock lock(mutex_);
  return Attached(now);
}

void KubeletWatch::Listed(const std::vector<std::string>& past_alignd, Clock::time_point now) {
  std::vector<std::string> signs;
  {
    const MutexLock lock(mutex_);
    const bool calls_now = recognised_ && now - *recognised_ <= kWithin;
    if (calls_now) no_sign_ = {past_alignd.begin(), past_alignd.end()};
    if (!Attached(now)) {
      for (const std::string& id : past_alignd) {
        if (!no_sign_.contains(id)) signs.push_back(id);
      }
    }
    if (signs.empty()) since_.reset();
    if (!signs.empty() && !since_) since_ = now;
    if (since_ && now - *since_ < grace_) return;
  }
  if (!signs.empty()) conditions_.KubeletMissing(signs.size(), signs.front());
  // The kubelet may have called meanwhile.
  if (signs.empty() || IsAttached(now)) conditions_.KubeletAttached();
}

void KubeletWatch::RuntimeIs(std::string_view name) {
  if (name == "cri-o" && !listen_.ends_with(kCrioSocket)) return conditions_.CrioNotSeen(listen_);
  conditions_.StatsProviderKept();
}

}  // namespace alignd::reconcile
