#include "reconcile/cdi_names.h"

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

void CdiNames::Look(const std::set<std::string>& pods_with_claims) {
  std::set<std::string> running;
  for (const ContainerRegistry::Pod& pod : registry_.Pods()) running.insert(pod.uid);
  std::vector<Asked> unknown;
  {
    const MutexLock lock(mutex_);
    std::erase_if(names_,
                  [&](const auto& entry) { return !running.contains(entry.first.pod_uid); });
    if (is_asking_) return;
    for (const auto& footprint : registry_.Footprints()) {
      const bool is_asked =
          pods_with_claims.contains(footprint.key.pod_uid) && !names_.contains(footprint.key);
      if (is_asked) unknown.emplace_back(footprint.id, footprint.key);
    }
    is_asking_ = !unknown.empty();
  }
  if (!unknown.empty()) Ask(std::move(unknown));
}

void CdiNames::Ask(std::vector<Asked> containers) {
  if (containers.empty()) {
    const MutexLock lock(mutex_);
    is_asking_ = false;
    return;
  }
  const auto [id, key] = containers.back();
  containers.pop_back();
  runtime_.FindSpec(id, [this, key = key,
                         rest = std::move(containers)](const Result<ContainerSpec>& spec) mutable {
    {
      const MutexLock lock(mutex_);
      // With an error, the next listing has it asked again.
      if (spec.ok()) names_.try_emplace(key, spec->cdi_names);
    }
    Ask(spec.ok() || spec.error().code == ErrorCode::kNotFound ? std::move(rest)
                                                               : std::vector<Asked>());
  });
}

}  // namespace alignd::reconcile
