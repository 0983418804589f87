// A scenario: a node, its configuration and the steps to run on it. The same format serves what-if
// planning and the conformance vectors.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/devicemanager/device_state.h"
#include "alignd/machine/machine.h"
#include "alignd/pod/pod.h"

namespace alignd::scenario {

struct AdmitPod {
  Pod pod;
};
// The pod's containers start one after another.
struct StartPod {
  std::string pod_uid;
};
// The container is removed, the pod stays.
struct RemoveContainer {
  ContainerKey key;
};
struct RemovePod {
  std::string pod_uid;
};
struct SetDeviceHealth {
  std::string resource;
  std::string id;
  bool healthy = true;
};
// The manager stops and starts again from its state files.
struct Restart {};

using Step = std::variant<AdmitPod, StartPod, RemoveContainer, RemovePod, SetDeviceHealth, Restart>;

// The devices that one plugin reports, in its order.
using DeviceList = std::vector<std::pair<std::string, devicemanager::Device>>;

// A machine with the devices whose plugins are registered from the start: `node` of a scenario.
struct NodeDescription {
  Machine machine;
  std::map<std::string, DeviceList> devices;  // by resource
  std::set<std::string> preferred;            // resources whose plugin has a preference

  friend bool operator==(const NodeDescription&, const NodeDescription&) = default;
};

// Texts of state files; empty: no such file.
struct StateFiles {
  std::string cpu_manager_state;
  std::string memory_manager_state;
  // kubelet_internal_checkpoint; only its allocations are taken. Not in the scenario format.
  std::string device_checkpoint = {};
};

struct Scenario {
  std::string name;
  NodeDescription node;
  KubeletConfig config;
  StateFiles files;  // there before the first start
  std::vector<Step> steps;
};

// Errors: kInvalidArgument with the place of the fault ("steps[3].op: ...").
Result<Scenario> ParseScenario(std::string_view json);

// Reads `node` alone. Errors as above.
Result<NodeDescription> ParseNode(std::string_view json);

}  // namespace alignd::scenario
