// What is known of a node for planning, from its description, a Node object, a list of devices and
// the kubelet's checkpoint.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/machine/machine.h"
#include "alignd/placement/object_view.h"
#include "alignd/pod/pod.h"
#include "alignd/scenario/scenario.h"

namespace alignd::placement {

// A Node object of Kubernetes, as far as it matters here.
struct NodeObject {
  struct Taint {
    std::string key;
    std::string value;
    std::string effect;

    friend bool operator==(const Taint&, const Taint&) = default;
  };

  std::string name;
  std::map<std::string, std::string> labels;
  ResourceList capacity;
  ResourceList allocatable;
  std::vector<Taint> taints;  // NoSchedule and NoExecute; an unschedulable node has one

  friend bool operator==(const NodeObject&, const NodeObject&) = default;
};

// A value.
struct NodeInput {
  scenario::NodeDescription description;
  std::optional<NodeObject> object;
  // Resource -> why it is not known where its devices are.
  std::map<std::string, std::string> unlocated_devices = {};
  // What a user should know about the description.
  std::vector<std::string> notes = {};
  // Resources whose devices AddDevices has added: the ids are not those of the node.
  std::set<std::string> generated_ids = {};
  // The description is made up from a NodeResourceTopology object: what is known of the node.
  std::optional<ObjectView> object_view = {};
  // What containers had when the description was made (`owners`), by NAMESPACE/NAME of their pod,
  // or its UID if the name is not known. `cpu`, and resources of devices.
  std::map<std::string, std::set<std::string>> owned = {};
  // Why nothing can be decided, not even by the scheduler's sums; empty: it can.
  std::string unusable = {};

  friend bool operator==(const NodeInput&, const NodeInput&) = default;
};

// Reads a node as `alignctl topology -o json` prints it, or the `node` of a scenario: the machine,
// and `devices`. Without `devices`, those that alignd has reported there (`owners`) are taken.
// Which containers had them is not. Errors: kInvalidArgument: as scenario::ParseNode; also a member
// that is not known, with the nearest name, and a device on a NUMA node that the machine does not
// have.
Result<NodeInput> ReadNodeInput(std::string_view json);

// Reads a v1 Node, as `kubectl get node NAME -o json` prints it.
// Errors: kInvalidArgument with the path of the fault, and what to do.
Result<NodeObject> ReadNodeObject(std::string_view json);

// Whether the JSON text is an object with `kind: Node`.
bool IsNodeObject(std::string_view json);

// Reads "nvidia.com/gpu=4@0,4@1": four devices on NUMA node 0 and four on NUMA node 1. Without '@'
// they are on no NUMA node.
// Errors: kInvalidArgument with the form that is expected.
Result<std::pair<std::string, scenario::DeviceList>> ParseDevices(std::string_view text);

// Adds the devices of one resource, with generated ids. Errors: kInvalidArgument if the node has
// that resource already, or a device is on a NUMA node that does not exist.
Result<Done> AddDevices(const std::string& resource, scenario::DeviceList devices,
                        NodeInput& input);

// Adds the devices that a kubelet's checkpoint names. It has the NUMA nodes of allocated devices
// only. Devices that are described otherwise take the ids of the allocated ones on their NUMA
// nodes. Those that it does not register are unhealthy, or their plugin is gone: if it is not known
// which they are, the resource is one of `unlocated_devices`. If a resource is not described and
// the NUMA node of one of its devices is not known, the resource is one of `unlocated_devices`.
// Errors: kInvalidArgument if description and checkpoint contradict each other: a device that only
// the checkpoint has, or an id, not generated, that they place on different NUMA nodes.
Result<Done> AddCheckpointDevices(const checkpoint::DeviceCheckpoint& checkpoint, NodeInput& input);

}  // namespace alignd::placement
