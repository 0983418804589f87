#include "extender/shared_defaults.h"

#include <algorithm>
#include <utility>

namespace alignd::extender {

void SharedDefaults::Set(const std::string& node, const KubeletConfig& config) {
  KubeletConfig policies;
  policies.namespace_policies = config.namespace_policies;
  const bool has_default = std::ranges::any_of(
      policies.namespace_policies,
      [](const NamespacePolicies& entry) { return entry.defaults.shared_on_one_node; });
  const MutexLock lock(mutex_);
  Erase(node);
  if (!has_default) return;
  const auto kind = std::ranges::find(kinds_, policies, &Kind::config);
  if (kind == kinds_.end()) {
    kinds_.push_back({std::move(policies), {node}});
  } else {
    kind->nodes.insert(node);
  }
}

void SharedDefaults::Remove(const std::string& node) {
  const MutexLock lock(mutex_);
  Erase(node);
}

void SharedDefaults::KeepOnly(const std::set<std::string>& nodes) {
  const MutexLock lock(mutex_);
  for (Kind& kind : kinds_) {
    std::erase_if(kind.nodes, [&](const std::string& node) { return !nodes.contains(node); });
  }
  std::erase_if(kinds_, [](const Kind& kind) { return kind.nodes.empty(); });
}

bool SharedDefaults::Has(const std::string& name_space) const {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(kinds_, [&](const Kind& kind) {
    return DefaultPoliciesFor(kind.config, name_space).shared_on_one_node;
  });
}

void SharedDefaults::Erase(const std::string& node) {
  for (Kind& kind : kinds_) kind.nodes.erase(node);
  std::erase_if(kinds_, [](const Kind& kind) { return kind.nodes.empty(); });
}

}  // namespace alignd::extender
