#include "extender/node_policies.h"

#include <algorithm>
#include <utility>

namespace alignd::extender {

void NodePolicies::Set(const std::string& node, const KubeletConfig& config) {
  KubeletConfig policies;
  policies.pod_policies = config.pod_policies;
  policies.namespace_policies = config.namespace_policies;
  const MutexLock lock(mutex_);
  Erase(node);
  const auto kind = std::ranges::find(kinds_, policies, &Kind::config);
  if (kind == kinds_.end()) {
    kinds_.push_back({std::move(policies), {node}});
  } else {
    kind->nodes.insert(node);
  }
}

void NodePolicies::Remove(const std::string& node) {
  const MutexLock lock(mutex_);
  Erase(node);
}

void NodePolicies::KeepOnly(const std::set<std::string>& nodes) {
  const MutexLock lock(mutex_);
  for (Kind& kind : kinds_) {
    std::erase_if(kind.nodes, [&](const std::string& node) { return !nodes.contains(node); });
  }
  std::erase_if(kinds_, [](const Kind& kind) { return kind.nodes.empty(); });
}

bool NodePolicies::Concern(const placement::PlannedPod& pod) const {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(
      kinds_, [&](const Kind& kind) { return placement::DependsOnNode(pod, kind.config); });
}

void NodePolicies::Erase(const std::string& node) {
  for (Kind& kind : kinds_) kind.nodes.erase(node);
  std::erase_if(kinds_, [](const Kind& kind) { return kind.nodes.empty(); });
}

}  // namespace alignd::extender
