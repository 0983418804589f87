#include "reconcile/cdi_names.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "reconcile/verbose_status.h"

namespace alignd::reconcile {

void CdiNames::Created(const ContainerKey& key, Names names) {
  const MutexLock lock(mutex_);
  names_.insert_or_assign(key, std::move(names));
}

std::optional<CdiNames::Names> CdiNames::Of(const ContainerKey& key) const {
  const MutexLock lock(mutex_);
  const auto known = names_.find(key);
  return known == names_.end() ? std::nullopt : known->second;
}

CdiNames::Known CdiNames::known() const {
  const MutexLock lock(mutex_);
  return names_;
}

void CdiNames::Look(const std::set<std::string>& pods_with_claims) {
  std::vector<Asked> unknown;
  {
    const MutexLock lock(mutex_);
    // With the lock: the containers of a pod that is added from here on are recorded after this.
    std::set<std::string> running;
    for (const ContainerRegistry::Pod& pod : registry_.Pods()) running.insert(pod.uid);
    const auto is_gone = [&](const auto& entry) { return !running.contains(entry.first.pod_uid); };
    std::erase_if(names_, is_gone);
    std::erase_if(failures_, is_gone);
    if (is_asking_) return;
    for (const auto& footprint : registry_.Footprints()) {
      const bool is_asked =
          pods_with_claims.contains(footprint.key.pod_uid) && !names_.contains(footprint.key);
      if (!is_asked) continue;
      const auto failed = failures_.find(footprint.key);
      unknown.push_back(
          {footprint.id, footprint.key, failed == failures_.end() ? 0 : failed->second});
    }
    is_asking_ = !unknown.empty();
  }
  // A container that cannot be asked keeps no other one waiting: the last one to fail comes last.
  std::ranges::stable_sort(unknown, std::greater<>(), &Asked::failure);
  if (!unknown.empty()) Ask(std::move(unknown));
}

void CdiNames::Ask(std::vector<Asked> containers) {
  if (containers.empty()) {
    const MutexLock lock(mutex_);
    is_asking_ = false;
    return;
  }
  const Asked asked = std::move(containers.back());
  containers.pop_back();
  find_info_(asked.id, [this, key = asked.key,
                        rest = std::move(containers)](const Result<std::string>& info) mutable {
    Ask(Take(key, info) ? std::move(rest) : std::vector<Asked>());
  });
}

bool CdiNames::Take(const ContainerKey& key, const Result<std::string>& info) {
  const MutexLock lock(mutex_);
  if (info.ok()) {
    names_.try_emplace(key, CdiNamesInStatus(*info));
    failures_.erase(key);
    return true;
  }
  // The next listing has it asked again, if it still exists.
  failures_.insert_or_assign(key, ++last_failure_);
  spdlog::debug("CDI names of a container are not known yet: {}", info.error().Text());
  // Perhaps of the whole runtime, or of a client that is stopped.
  return info.error().code != ErrorCode::kUnavailable;
}

}  // namespace alignd::reconcile
