// The objects of a cluster as its API server has them, and the nodes that they describe.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/placement/topology_nodes.h"
#include "apiserver/object_list.h"
#include "extender/extender.h"

namespace alignd::extender {

using apiserver::ObjectKind;

// Keeps what was read of each object, and which nodes have changed since they were taken. An object
// that cannot be read concerns its node only: nothing is let through to it. Not thread-safe.
class ClusterView {
 public:
  // The object as the API server has it now. `key`: apiserver::KeyOf. `json` has kind and
  // apiVersion.
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
    std::string replaced;  // a pod that has replaced another of its name since the topology object
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
  // The pod is not on its node any more, or another pod of its name is.
  void Erase(std::map<std::string, PodEntry>::iterator pod);

  // Since the topology object of a node was written last. The fingerprint of other exporters has
  // the names of pods only: it does not show that a pod is another one.
  struct Since {
    std::map<std::string, placement::PlannedPod> ended;  // without names, by namespace/name
    std::map<std::string, bool> replaced;  // likewise; whether the new pod requests the same
  };
  // So many are remembered for a node; with more, nothing is known until the object is written.
  static constexpr size_t kMaxEnded = 64;
  void NoteReplaced(const std::string& key, const PodEntry& entry);

  std::map<std::string, std::shared_ptr<const Result<placement::NodeObject>>> nodes_;
  std::map<std::string, Text> topologies_;
  std::map<std::string, PodEntry> pods_;                        // by namespace/name
  std::map<std::string, std::set<std::string>> pods_of_nodes_;  // keys of pods_, by node
  std::map<std::string, Since> since_;                          // by node
  std::set<std::string> changed_;                               // names of nodes
};

}  // namespace alignd::extender
