// The objects of a cluster, as kubectl prints them, put together to nodes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/placement/fleet_node.h"
#include "alignd/placement/node_input.h"
#include "alignd/placement/topology_nodes.h"
#include "alignd/placement/topology_object.h"

namespace alignd::placement {

// Collects objects in any order. An object that cannot be used concerns its node only
// (FleetNode::problem). A value.
class ClusterObjects {
 public:
  // Adds a Node, a NodeResourceTopology, a Pod, or a list of them. Returns false for an object of
  // another kind, which is not added. Pods that have ended are skipped, and so are
  // pods of the API server without spec.nodeName: they wait for a node. `file`: where it stands.
  // `node_of_pods`: the node of pods without spec.nodeName; empty: none.
  // Errors: kInvalidArgument: an object without a usable name; two objects of one name; an element
  // of a list that is of another kind; a pod that has no node and is not from the API server.
  Result<bool> Add(std::string_view json, const std::string& file,
                   const std::string& node_of_pods = {});

  // `earlier`: pods as they were before the topology objects were read. What has changed since may
  // not be in them.
  void CompareWith(const ClusterObjects& earlier);

  // Removes the NodeResourceTopology objects without a Node: if all objects were listed, their
  // nodes are gone. Returns the names.
  std::vector<std::string> RemoveWithoutNode();

  bool empty() const { return nodes_.empty() && topologies_.empty(); }
  // Of Nodes and of NodeResourceTopology objects.
  std::set<std::string> Names() const;

  // The nodes in order of their names. Pods of nodes that are not there are not counted. `others`:
  // names of nodes that are described otherwise.
  // Errors: objects or pods of `others`; pods, and no node.
  Result<std::vector<FleetNode>> Nodes(const std::string& config,
                                       const std::set<std::string>& others = {}) const;

  // One of Names(). It has a problem if one of its objects cannot be read, if they contradict each
  // other, as NodeOfObjects, or if there is no Node.
  FleetNode NodeNamed(const std::string& name, const std::string& config) const;

 private:
  struct Head;

  Result<Done> AddNode(std::string_view json, const Head& head);
  Result<Done> AddTopology(std::string_view json, const Head& head);
  Result<Done> AddPod(std::string_view json, const Head& head, const std::string& file,
                      const std::string& node_of_pods);
  Result<Done> KeepPod(const std::string& node, BoundPod bound);

  std::map<std::string, Result<NodeObject>> nodes_;
  std::map<std::string, Result<TopologyObject>> topologies_;
  std::map<std::string, std::vector<BoundPod>> pods_;  // by node; of the unread ones, the names
  std::map<std::string, Error> unread_pods_;           // by node: the first one
  std::set<std::string> pod_names_;
};

}  // namespace alignd::placement
