// The objects of a cluster as its API server has them, and the nodes that they describe.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/placement/topology_nodes.h"
#include "extender/extender.h"

namespace alignd::extender {

enum class ObjectKind { kNode, kTopology, kPod };

// "nodes", "noderesourcetopologies", "pods".
std::string_view ToString(ObjectKind kind);

// Keeps what was read of each object, and which nodes have changed since they were taken. An object
// that cannot be read concerns its node only: nothing is let through to it. Not thread-safe.
class ClusterView {
 public:
  // The object as the API server has it now. `key`: KeyOf. `json` has kind and apiVersion.
  void Set(ObjectKind kind, const std::string& key, const std::string& json);
  // The API server no longer has it; nothing if it is not known.
  void Remove(ObjectKind kind, const std::string& key);
  // Removes all objects of the kind but these.
  void KeepOnly(ObjectKind kind, const std::set<std::string>& keys);

  size_t size(ObjectKind kind) const;

  // What a node is made of.
  struct Parts {
    std::string name;
    bool is_gone = false;  // there is no Node of that name
    std::shared_ptr<const Result<placement::NodeObject>> node;
    std::shared_ptr<const Result<placement::TopologyObject>> topology;  // null: there is none
    std::vector<placement::BoundPod> pods;
  };
  // The nodes that have changed since the last call.
  std::vector<Parts> TakeChanged();

  // The node of these parts. `config`: of objects that do not have alignd's attributes, in JSON.
  static Extender::NodeChange ChangeOf(const Parts& parts, const std::string& config);

 private:
  struct Text {
    std::string json;  // without what changes with each write
    std::shared_ptr<const Result<placement::TopologyObject>> object;
  };
  struct PodEntry {
    std::string node;
    placement::BoundPod pod;
  };

  void SetPod(const std::string& key, const std::string& json);

  std::map<std::string, std::shared_ptr<const Result<placement::NodeObject>>> nodes_;
  std::map<std::string, Text> topologies_;
  std::map<std::string, PodEntry> pods_;                        // by namespace/name
  std::map<std::string, std::set<std::string>> pods_of_nodes_;  // keys of pods_, by node
  std::set<std::string> changed_;                               // names of nodes
};

}  // namespace alignd::extender
