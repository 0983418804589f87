#include "alignd/placement/fleet_node.h"

#include <algorithm>
#include <array>
#include <utility>

#include "alignd/base/counted.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "core/json/json_view.h"
#include "core/placement/faults.h"

namespace alignd::placement {
namespace {

using json::View;

Error BadNode(std::string message, std::string remedy) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)};
}

Result<Done> CheckFleetMembers(const View& top) {
  constexpr auto kMembers = std::to_array<std::string_view>(
      {"config", "devices", "files", "name", "node", "object", "running"});
  constexpr auto kFiles = std::to_array<std::string_view>(
      {"cpu_manager_state", "cpu_shares", "kubelet_internal_checkpoint", "memory_manager_state"});
  Faults faults;
  CheckFields(top, kMembers, faults);
  if (const auto files = ObjectIn(top, "files", faults)) CheckFields(*files, kFiles, faults);
  if (faults.empty()) return Done{};
  return BadNode(faults.texts().front(), "name the members as docs/fleet-planning.md does");
}

Result<Done> ReadNodeParts(const View& top, FleetNode& node) {
  const Result<View> description = top.Require("node");
  if (!description.ok()) return description.error();
  Result<NodeInput> input = ReadNodeInput(description->value().dump());
  if (!input.ok()) return input.error().In("node");
  node.input = *std::move(input);
  const Result<std::optional<View>> object = top.Find("object");
  if (!object.ok()) return object.error();
  if (*object) {
    Result<NodeObject> read = ReadNodeObject((*object)->value().dump());
    if (!read.ok()) return read.error().In("object");
    node.input.object = *std::move(read);
  }
  const Result<std::optional<View>> list = top.Find("devices");
  if (!list.ok()) return list.error();
  if (!*list) return Done{};
  const Result<std::vector<View>> elements = (*list)->Elements();
  if (!elements.ok()) return elements.error();
  for (const View& element : *elements) {
    const Result<std::string> text = element.String();
    if (!text.ok()) return text.error();
    auto devices = ParseDevices(*text);
    if (!devices.ok()) return devices.error();
    const Result<Done> added = AddDevices(devices->first, std::move(devices->second), node.input);
    if (!added.ok()) return added;
  }
  return Done{};
}

Result<Done> ReadRunning(const View& top, FleetNode& node) {
  Faults faults;
  Manifests manifests;
  for (const View& element : ListIn(top, "running", faults)) {
    const Result<Done> read = ReadManifest(element.value().dump(), element.path(), manifests);
    if (!read.ok()) return read.error().In(element.path());
  }
  if (!faults.empty()) return BadNode(faults.texts().front(), "write `running` as a list of pods");
  LeaveOutControllers(manifests);
  Result<std::vector<PlannedPod>> pods = ExpandPods(manifests, std::nullopt);
  if (!pods.ok()) return pods.error().In("running");
  node.running = *std::move(pods);
  return KeepOwnPods(node);
}

Result<Done> ReadFiles(const View& top, FleetNode& node) {
  Faults faults;
  const auto files = ObjectIn(top, "files", faults);
  if (files) {
    const auto text_of = [&](const char* name) {
      std::optional<std::string> text = StringIn(*files, name, faults);
      // As a file that was copied in part. Without it, what it has would count as free.
      if (text && text->empty()) faults.Add("files." + std::string(name), "is empty");
      return std::move(text).value_or("");
    };
    NodeFiles& read = node.files;
    read.cpu_manager_state = text_of("cpu_manager_state");
    read.memory_manager_state = text_of("memory_manager_state");
    read.cpu_shares = text_of("cpu_shares");
    read.device_checkpoint = text_of("kubelet_internal_checkpoint");
  }
  if (!faults.empty())
    return BadNode(faults.texts().front(),
                   "give each file as one text, and leave out those that the node does not have");
  return Done{};
}

// With one of the files, the others that the node's managers write are needed.
Result<Done> CheckFiles(const FleetNode& node, const KubeletConfig& config) {
  const NodeFiles& files = node.files;
  if (files == NodeFiles{}) return Done{};
  const bool wants_cpu = config.cpu_manager_policy != CpuManagerPolicy::kNone;
  const bool wants_memory = config.memory_manager_policy != MemoryManagerPolicy::kNone;
  std::string missing;
  if (wants_cpu && files.cpu_manager_state.empty()) missing = "cpu_manager_state";
  if (wants_memory && files.memory_manager_state.empty()) missing = "memory_manager_state";
  if (missing.empty()) return Done{};
  return BadNode("node " + node.name + " has state files, but no " + missing,
                 "add it: without it, what containers are assigned is not known");
}

}  // namespace

void KeepPodsOfNode(const std::string& name, std::vector<PlannedPod>& pods,
                    std::vector<std::string>& notes) {
  const size_t others = std::erase_if(pods, [&name](const PlannedPod& pod) {
    return !pod.node_name.empty() && pod.node_name != name;
  });
  if (others == 0) return;
  notes.push_back("of the pods that run, " + std::to_string(others) + " " +
                  std::string(IsOrAre(others)) + " on other nodes and left out; " +
                  std::to_string(pods.size()) + " " + std::string(IsOrAre(pods.size())) +
                  " on node " + name);
}

Result<Done> KeepOwnPods(FleetNode& node) {
  const std::string name = node.input.object ? node.input.object->name : std::string();
  if (name.empty()) return Done{};
  if (name != node.name) {
    return BadNode("the Node object is of node " + name,
                   "give the Node object of node " + node.name + ", or name the node as it is");
  }
  KeepPodsOfNode(name, node.running, node.input.notes);
  return Done{};
}

Result<Done> CheckNodeName(const std::string& name) {
  constexpr size_t kMaxName = 253;
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (!name.empty() && name.size() <= kMaxName && std::ranges::none_of(name, is_control)) {
    return Done{};
  }
  return BadNode("name: is empty, longer than 253 bytes, or has a control character",
                 "give each node the name that it has in the cluster");
}

bool IsFleetNode(std::string_view text) {
  const Result<nlohmann::json> parsed = json::Parse(text);
  return parsed.ok() && parsed->is_object() && parsed->contains("node");
}

Result<FleetNode> ReadFleetNode(std::string_view text, const std::string& config) {
  // Of a member that is there twice, one would be ignored.
  const Result<nlohmann::ordered_json> ordered = json::ParseOrdered(text);
  if (!ordered.ok()) return ordered.error();
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.error();
  const View top(*parsed, "");
  const Result<View> name_view = top.Require("name");
  if (!name_view.ok()) return name_view.error();
  const Result<std::string> name = name_view->String();
  if (!name.ok()) return name.error();
  Result<Done> read = CheckNodeName(*name);
  if (!read.ok()) return read.error();
  FleetNode node;
  node.name = *name;
  read = CheckFleetMembers(top);
  if (read.ok()) read = ReadNodeParts(top, node);
  if (read.ok()) read = ReadRunning(top, node);
  if (read.ok()) read = ReadFiles(top, node);
  if (!read.ok()) return read.error().In("node " + node.name);
  const Result<std::optional<View>> own = top.Find("config");
  if (!own.ok()) return own.error();
  node.config = *own ? (*own)->value().dump() : config;
  return node;
}

Result<Done> UseFiles(FleetNode& node) {
  const NodeFiles& files = node.files;
  if (!files.device_checkpoint.empty()) {
    const auto parsed = checkpoint::ParseDeviceCheckpoint(files.device_checkpoint);
    if (!parsed.ok()) {
      return parsed.error().In("node " + node.name + ": kubelet_internal_checkpoint");
    }
    const Result<Done> added = AddCheckpointDevices(*parsed, node.input);
    if (!added.ok()) return added.error().In("node " + node.name);
  }
  if (files.cpu_manager_state.empty() && files.memory_manager_state.empty()) return Done{};
  if (files.device_checkpoint.empty() && !node.input.description.devices.empty()) {
    return BadNode("node " + node.name + ": no kubelet_internal_checkpoint, and it has devices",
                   "add the checkpoint: without it, allocated devices are not known");
  }
  if (node.running.empty()) {
    node.input.notes.emplace_back(
        "the state files do not have pods of the shared pool, nor what pods request beyond "
        "exclusive CPUs, pinned memory and devices; add the pods that run for them");
  }
  return Done{};
}

Result<PlannedNode> MakePlannedNode(const FleetNode& fleet_node, IfRefused if_refused) {
  if (fleet_node.problem) return *fleet_node.problem;
  const std::string place = "node " + fleet_node.name;
  if (fleet_node.config.empty()) {
    return BadNode(
        place + " has no KubeletConfiguration",
        "add `config` to the node, or give one configuration for all nodes (alignctl: --config; "
        "libalignd: options.config)");
  }
  const Result<KubeletConfig> config = ParseKubeletConfig(fleet_node.config);
  if (!config.ok()) return config.error().In(place + ": KubeletConfiguration");
  const Result<Done> checked = CheckFiles(fleet_node, *config);
  if (!checked.ok()) return checked.error();
  const Result<int64_t> pod_limit =
      PodLimitOf(fleet_node.config, fleet_node.input.description.machine.cpus().Count());
  if (!pod_limit.ok()) return pod_limit.error().In(place + ": KubeletConfiguration");
  Result<PlannedNode> node =
      PlannedNode::Make(fleet_node.input, *config, *pod_limit, fleet_node.files);
  if (!node.ok()) return node.error().In(place);
  for (const PlannedPod& pod : fleet_node.running) {
    const Result<Done> added = node->AddRunning(pod, if_refused);
    if (!added.ok()) return added.error().In(place);
  }
  for (const PlannedPod& pod : fleet_node.counted) node->CountRunning(pod);
  for (const PlannedPod& pod : fleet_node.arriving) node->AddArriving(pod);
  return node;
}

PlannedNode MakeUnusableNode(const FleetNode& node, const Error& problem) {
  NodeInput input;
  input.description.machine = *Machine::Make({{0, 0, 0, 0, 0}}, {NumaNode{}});
  input.unusable = WithoutNodeName(problem, node.name).Text();
  KubeletConfig config;
  config.eviction_hard_memory.clear();
  PlannedNode made = *PlannedNode::Make(std::move(input), config, /*pod_limit=*/0, NodeFiles{});
  for (const auto* const pods : {&node.running, &node.counted, &node.arriving}) {
    for (const PlannedPod& pod : *pods) made.CountRunning(pod);
  }
  return made;
}

Error WithoutNodeName(const Error& error, const std::string& name) {
  for (const char* const kind : {"NodeResourceTopology", "Node", "node"}) {
    const std::string start = std::string(kind) + " " + name;
    if (!error.message.starts_with(start + ": ")) continue;
    return {error.code, kind + error.message.substr(start.size()), error.remedy};
  }
  return error;
}

}  // namespace alignd::placement
