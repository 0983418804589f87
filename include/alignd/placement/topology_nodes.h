// Nodes from what the API server has of them: Node objects, NodeResourceTopology objects, and the
// pods that are bound to them. docs/fleet-planning.md says which pods can be decided then.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/placement/fleet_node.h"
#include "alignd/placement/manifest.h"
#include "alignd/placement/node_input.h"
#include "alignd/placement/topology_object.h"

namespace alignd::placement {

// A pod that is bound to a node.
struct BoundPod {
  // While it is resized in place, with what the scheduler counts: at least what it has on the node.
  PlannedPod pod;
  bool is_starting = false;  // not all its containers have been created
  bool is_ending = false;    // it is being deleted
  // It runs, and a container of it does not, and is started again.
  bool is_restarting = false;
  bool is_resizing = false;  // in place: what its containers have is not what its spec says
  bool is_replaced = false;  // while the objects were read: there was another pod of its name
  bool has_started = false;  // its phase is Running

  friend bool operator==(const BoundPod&, const BoundPod&) = default;
};

// Reads a v1 Pod; nullopt: it has ended. `file`: where it stands.
// Errors: kInvalidArgument: as ReadManifest. What the API server would refuse about the pod is in
// PlannedPod::faults.
Result<std::optional<BoundPod>> ReadBoundPod(std::string_view json, const std::string& file);

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

}  // namespace alignd::placement
