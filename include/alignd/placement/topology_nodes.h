// Nodes from what the API server has of them: Node objects, NodeResourceTopology objects, and the
// pods that are bound to them. docs/fleet-planning.md says which pods can be decided then.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/noderesourcetopology/pod_fingerprint.h"
#include "alignd/noderesourcetopology/zones.h"
#include "alignd/placement/fleet_node.h"
#include "alignd/placement/manifest.h"
#include "alignd/placement/node_input.h"

namespace alignd::placement {

// A NodeResourceTopology object, as alignd or another exporter writes it. A value.
struct TopologyObject {
  std::string name;  // of the Node
  std::vector<noderesourcetopology::Zone> zones;
  std::map<std::string, std::string> attributes;                   // of the object
  std::map<int, std::map<std::string, std::string>> of_zone = {};  // by NUMA node id
  // Of its pods, if it has one that covers all of them.
  std::string fingerprint = {};
};

// Reads a NodeResourceTopology (v1alpha2).
// Errors: kInvalidArgument with the object, the field, its value, and what to do: another version,
// a zone that is not named after a NUMA node, an amount that is not a whole number or larger than
// the one before it (available, allocatable, capacity).
Result<TopologyObject> ReadTopologyObject(std::string_view json);

// A pod that is bound to a node.
struct BoundPod {
  PlannedPod pod;
  bool is_starting = false;  // not all its containers have been created
  bool is_ending = false;    // it is being deleted
};

// The node that these objects describe. `config`: a KubeletConfiguration in JSON, for objects that
// do not have alignd's attributes; empty: none.
// Where an object does not say enough, the node is made, and decides less (ObjectView).
// Errors: kInvalidArgument: objects that contradict each other or themselves; no
// KubeletConfiguration for an object that needs one.
Result<FleetNode> NodeOfObjects(const TopologyObject& object, const NodeObject& node,
                                const std::vector<BoundPod>& pods, const std::string& config);

// A node without a NodeResourceTopology object: the scheduler's arithmetic can refuse pods there,
// nothing else is known.
Result<FleetNode> NodeWithoutTopology(const NodeObject& node, const std::vector<BoundPod>& pods);

// Collects objects in any order. A value.
class ClusterObjects {
 public:
  // Adds a Node, a NodeResourceTopology, a Pod, or a list of them. Returns false for an object of
  // another kind, which is not added. Pods that have ended are skipped, and so are
  // pods of the API server without spec.nodeName: they wait for a node. `file`: where it stands.
  // `node_of_pods`: the node of pods without spec.nodeName; empty: none.
  // Errors: kInvalidArgument: as the readers; two objects of one name; an element of a list that is
  // of another kind; a pod that has no node and is not from the API server.
  Result<bool> Add(std::string_view json, const std::string& file,
                   const std::string& node_of_pods = {});

  bool empty() const { return nodes_.empty() && topologies_.empty(); }
  const std::map<std::string, TopologyObject>& topologies() const { return topologies_; }

  // The nodes in order of their names. Pods of nodes that are not there are not counted. `others`:
  // names of nodes that are described otherwise.
  // Errors: as NodeOfObjects; a NodeResourceTopology without its Node; pods of `others`; pods, and
  // no node.
  Result<std::vector<FleetNode>> Nodes(const std::string& config,
                                       const std::set<std::string>& others = {}) const;

 private:
  std::map<std::string, NodeObject> nodes_;
  std::map<std::string, TopologyObject> topologies_;
  std::map<std::string, std::vector<BoundPod>> pods_;  // by node
  std::set<std::string> pod_names_;
};

}  // namespace alignd::placement
