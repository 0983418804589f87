// Which namespaces have pods that stay on one NUMA node by default, by the configurations of nodes.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "alignd/config/kubelet_config.h"
#include "sync/mutex.h"

namespace alignd::extender {

// Thread-safe. Most pods concern no node: they are asked about here, and do not wait while the
// nodes decide about others.
class SharedDefaults {
 public:
  // Replaces what is known of the node.
  void Set(const std::string& node, const KubeletConfig& config);
  void Remove(const std::string& node);
  // Removes all nodes but these.
  void KeepOnly(const std::set<std::string>& nodes);

  // Whether the pods of the namespace have that default on some node.
  bool Has(const std::string& name_space) const;

 private:
  // Nodes of one configuration.
  struct Kind {
    KubeletConfig config;  // only its policies of namespaces
    std::set<std::string> nodes;
  };
  void Erase(const std::string& node) REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<Kind> kinds_ GUARDED_BY(mutex_);  // that have such a default
};

}  // namespace alignd::extender
