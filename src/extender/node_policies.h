// Which pods concern a node only by its configuration: by what pods may choose there, and by the
// defaults of namespaces.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "alignd/config/kubelet_config.h"
#include "alignd/placement/planned_node.h"
#include "sync/mutex.h"

namespace alignd::extender {

// Thread-safe. Most pods concern no node: they are asked about here, and do not wait while the
// nodes decide about others.
class NodePolicies {
 public:
  // Replaces what is known of the node.
  void Set(const std::string& node, const KubeletConfig& config);
  void Remove(const std::string& node);
  // Removes all nodes but these.
  void KeepOnly(const std::set<std::string>& nodes);

  // Whether the pod concerns some node (placement::DependsOnNode).
  bool Concern(const placement::PlannedPod& pod) const;

 private:
  // Nodes of one configuration.
  struct Kind {
    KubeletConfig config;  // only these policies
    std::set<std::string> nodes;
  };
  void Erase(const std::string& node) REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<Kind> kinds_ GUARDED_BY(mutex_);
};

}  // namespace alignd::extender
