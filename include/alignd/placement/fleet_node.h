// One node of a fleet, as planning reads it: its machine and devices, its KubeletConfiguration, and
// the pods that run on it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/placement/manifest.h"
#include "alignd/placement/node_input.h"
#include "alignd/placement/planned_node.h"

namespace alignd::placement {

// A value.
struct FleetNode {
  std::string name;
  NodeInput input;
  std::string config;  // the JSON form of a KubeletConfiguration
  NodeFiles files;
  std::vector<PlannedPod> running;  // placed in this order
  // With ObjectView: pods whose assignments the object has already, and pods on their way to the
  // node whose assignments it does not have yet. `running` is empty then.
  std::vector<PlannedPod> counted = {};
  std::vector<PlannedPod> arriving = {};
  // Why the node cannot be used. All else but the name and `counted` is empty then.
  std::optional<Error> problem = {};

  friend bool operator==(const FleetNode&, const FleetNode&) = default;
};

// Reads a node of a fleet:
// {"name": NAME, "node": {...}, "config": {...}, "devices": ["nvidia.com/gpu=4@0,4@1"],
//  "object": {"kind": "Node", ...}, "running": [{"kind": "Pod", ...}],
//  "files": {"cpu_manager_state": TEXT, "memory_manager_state": TEXT,
//            "kubelet_internal_checkpoint": TEXT}}
// `node` is as ReadNodeInput reads it, `config` a KubeletConfiguration, `devices` as ParseDevices
// reads them, `running` objects as ReadManifest reads them. With `object`, pods that are bound to
// other nodes are left out, with a note. Only `name` and `node` are required;
// without `config` it is `config`.
// UseFiles is still to be called. Errors: kInvalidArgument with the place of the fault.
Result<FleetNode> ReadFleetNode(std::string_view json, const std::string& config);

// Leaves out of FleetNode::running the pods that are bound to other nodes, with a note, if the Node
// object has the name of the node. Errors: kInvalidArgument: it is of another node.
Result<Done> KeepOwnPods(FleetNode& node);
// Leaves out the pods that are bound to other nodes than `name`, with a note.
void KeepPodsOfNode(const std::string& name, std::vector<PlannedPod>& pods,
                    std::vector<std::string>& notes);

// Whether a node can have that name. Kubernetes' names are DNS subdomains; here, only what cannot
// be shown is refused. Errors: kInvalidArgument: empty, longer than 253 bytes, a control character.
Result<Done> CheckNodeName(const std::string& name);

// Whether the JSON text is such an object: it has the member `node`.
bool IsFleetNode(std::string_view json);

// Adds the devices of a checkpoint in `files` to the input, and a note about what state files do
// not have. To be called once, when all devices and pods of the node are there.
// Errors: kInvalidArgument: the checkpoint cannot be read or contradicts the description; there are
// state files and devices, but no checkpoint.
Result<Done> UseFiles(FleetNode& node);

// The node with all its pods.
// Errors: kInvalidArgument: what is wrong with a part, or how they do not fit together; its
// problem.
Result<PlannedNode> MakePlannedNode(const FleetNode& node, IfRefused if_refused = IfRefused::kOpen);

// In place of a node that has that problem: it can decide about no pod, and has the pods of the
// node.
PlannedNode MakeUnusableNode(const FleetNode& node, const Error& problem);

// The error without the name of the node at its beginning: the same text for all nodes that have
// the same problem.
Error WithoutNodeName(const Error& error, const std::string& name);

// Another setting of all nodes: what `--compare KEY=VALUE` names.
struct ConfigChange {
  std::string key;    // as in ConfigChangeKeys
  std::string value;  // NAME=VALUE for a policy option; RESOURCE=COUNT@NUMA,... for a device

  friend bool operator==(const ConfigChange&, const ConfigChange&) = default;
};

// policy, scope, cpu-policy, memory-policy, reserved-cpus, cpu-policy-option,
// topology-policy-option, device.
const std::vector<std::string>& ConfigChangeKeys();

// Reads "policy=restricted,best-effort" as two changes. The values of reserved-cpus, device, and of
// options have commas of their own: they are one.
// Errors: kInvalidArgument: no such key, or no value.
Result<std::vector<ConfigChange>> ParseConfigChanges(std::string_view text);

// Changes the node's configuration, or its devices.
// Errors: kInvalidArgument: the configuration does not accept the value; devices are changed that
// the checkpoint names.
Result<Done> Apply(const ConfigChange& change, FleetNode& node);

}  // namespace alignd::placement
