#include "cli/topology_object.h"

#include <optional>
#include <utility>

#include "alignd/noderesourcetopology/object.h"
#include "alignd/placement/node_input.h"
#include "cli/documents.h"
#include "cli/lstopo_file.h"
#include "control/control_client.h"
#include "host/config_file.h"
#include "host/file.h"
#include "host/node_name.h"
#include "host/sysfs_machine.h"
#include "host/yaml.h"

namespace alignd::cli {
namespace {

Result<scenario::NodeDescription> ReadNodeOf(const ObjectOptions& options) {
  if (options.node.empty()) {
    Result<Machine> machine = host::ReadMachine(options.root);
    if (!machine.ok()) return machine.error();
    return scenario::NodeDescription{*std::move(machine), {}, {}};
  }
  return ReadDescription(options.node);
}

// The node as it is before its first container.
Result<std::string> BareObject(const std::string& name, const ObjectOptions& options) {
  Result<scenario::NodeDescription> described = ReadNodeOf(options);
  if (!described.ok()) return described.error();
  Result<KubeletConfig> config = options.config.empty()
                                     ? Result<KubeletConfig>(KubeletConfig())
                                     : host::ReadConfigFileOrPipe(options.config);
  if (!config.ok()) return config.error();
  const Result<admission::Node> node =
      admission::Node::Make(std::move(described->machine), *std::move(config));
  if (!node.ok()) {
    Error error = node.error();
    if (error.remedy.empty()) error.remedy = "correct the KubeletConfiguration";
    return error;
  }
  admission::NodeState state = admission::NodeState::Initial(*node);
  for (const auto& [resource, devices] : described->devices) {
    devicemanager::Resource& added = state.devices.resources[resource];
    added.registered = true;
    added.devices.insert(devices.begin(), devices.end());
  }
  // No pod is known to be absent: there is no fingerprint.
  noderesourcetopology::Annotations koordinator;
  if (options.koordinator_annotations) {
    auto made = noderesourcetopology::KoordinatorAnnotations(*node, state, {});
    if (!made.ok()) return made.error();
    koordinator = *std::move(made);
  }
  return noderesourcetopology::ObjectJson(name, *node, state, std::nullopt, koordinator);
}

}  // namespace

Result<scenario::NodeDescription> ReadDescription(const std::string& file) {
  const Result<std::string> text = host::ReadFileOrPipe(file);
  if (!text.ok()) return text.error();
  const Result<std::string> json = IsXml(*text) ? NodeJsonOfLstopo(*text) : host::YamlToJson(*text);
  if (!json.ok()) return host::ContentError(json.error(), file);
  if (*json == "null") return EmptyFile(file);
  // With the devices that a running alignd has reported, as planning has them.
  Result<placement::NodeInput> node = placement::ReadNodeInput(*json);
  if (!node.ok()) return host::ContentError(node.error(), file);
  return std::move(node->description);
}

Result<std::string> TopologyObject(const ObjectOptions& options) {
  const std::string name = options.name.empty() ? host::DefaultNodeName() : options.name;
  if (!host::IsObjectName(name)) {
    return Error{ErrorCode::kInvalidArgument, "\"" + name + "\" is not the name of a Node",
                 "give the name that `kubectl get nodes` shows with --node-name"};
  }
  if (options.is_bare) return BareObject(name, options);
  control::v1::GetTopologyRequest request;
  request.set_name(name);
  request.set_koordinator_annotations(options.koordinator_annotations);
  const auto answer = control::ControlClient(options.socket).GetTopology(request);
  if (!answer.ok()) {
    Error error = answer.error();
    if (error.code == ErrorCode::kUnavailable) {
      error.remedy += "; for the node without containers, name a KubeletConfiguration (--config)";
    }
    return error;
  }
  if (!answer->left_out().empty()) {
    return Error{ErrorCode::kInvalidArgument, answer->left_out(), {}};
  }
  return answer->object();
}

}  // namespace alignd::cli
