#include "cli/topology_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "alignd/machine/machine.h"
#include "cli/output.h"
#include "cli/topology_json.h"
#include "cli/topology_object.h"
#include "cli/topology_tree.h"
#include "control/control_client.h"
#include "host/sysfs_machine.h"
#include "host/sysfs_parts.h"
#include "picture/picture.h"
#include "picture/svg.h"

namespace alignd::cli {
namespace {

struct TopologyOptions {
  std::string root = "/";
  bool is_root_stated = false;
  std::string socket;
  std::string output = "text";
  bool svg = false;
  ObjectOptions object;
};

bool IsObject(const std::string& output) { return output == "nrt" || output == "nrt-yaml"; }

// What is shown, and the devices of a description.
struct Shown {
  picture::Picture picture;
  std::map<std::string, scenario::DeviceList> devices = {};
};

Result<Shown> LookAtDescription(const std::string& file) {
  Result<scenario::NodeDescription> node = ReadDescription(file);
  if (!node.ok()) return node.error();
  Shown shown{.picture = {.machine = std::move(node->machine), .parts = {}, .owners = {}},
              .devices = std::move(node->devices)};
  return shown;
}

// With the owners, if alignd answers and its machine is this one.
Result<Shown> Look(const TopologyOptions& options) {
  // Beside the machine, alignd is an addition: it is not waited for long.
  constexpr std::chrono::seconds kPatience{3};
  if (!options.object.node.empty()) return LookAtDescription(options.object.node);
  Result<Machine> machine = host::ReadMachine(options.root);
  if (!machine.ok()) return machine.error();
  host::MachineParts parts = host::ReadParts(options.root, *machine);
  picture::Picture picture{
      .machine = *std::move(machine), .parts = std::move(parts), .owners = std::nullopt};
  if (options.is_root_stated) return Shown{std::move(picture)};
  const auto status =
      control::ControlClient(options.socket, kPatience).GetStatus(/*list_devices=*/true);
  if (status.ok()) {
    return Shown{
        picture::MakePicture(std::move(picture.machine), std::move(picture.parts), *status)};
  }
  picture.note = "owners are not known: " + status.error().message;
  return Shown{std::move(picture)};
}

Result<int> ShowObject(const TopologyOptions& options, std::ostream& out) {
  ObjectOptions source = options.object;
  source.socket = options.socket;
  source.root = options.root;
  source.is_bare = options.is_root_stated || !source.node.empty() || !source.config.empty();
  const Result<std::string> object = TopologyObject(source);
  if (!object.ok()) return object.error();
  out << AsData(*object, options.output == "nrt" ? "json" : "yaml");
  return kSuccess;
}

Result<int> ShowTopology(const TopologyOptions& options, std::ostream& out) {
  if (IsObject(options.output)) return ShowObject(options, out);
  const ObjectOptions& object = options.object;
  if (!object.name.empty() || !object.config.empty() || object.koordinator_annotations) {
    return Error{ErrorCode::kInvalidArgument,
                 "--node-name, --config and --koordinator-annotations are for an object",
                 "add -o nrt or -o nrt-yaml, or leave them out"};
  }
  Result<Shown> shown = Look(options);
  if (!shown.ok()) return shown.error();
  picture::Picture& picture = shown->picture;
  if (IsData(options.output) && !options.svg) {
    out << AsData(TopologyJson(picture, shown->devices), options.output);
    return kSuccess;
  }
  if (!shown->devices.empty()) {
    picture.note = "the devices of the description are not shown; -o json has them";
  }
  out << (options.svg ? picture::RenderSvg(picture) : TopologyTree(picture));
  return kSuccess;
}

// Of -o nrt.
void AddObjectOptions(CLI::App& command, CLI::Option& root, ObjectOptions& options) {
  command.add_option("--node-name", options.name,
                     "With -o nrt: name of the Node; if not given, the host name in lower case");
  command
      .add_option("--config", options.config,
                  "With -o nrt: the node without containers, with this KubeletConfiguration, "
                  "instead of what alignd has assigned")
      ->type_name("FILE");
  command.add_flag("--koordinator-annotations", options.koordinator_annotations,
                   "With -o nrt: also the annotations from which Koordinator's scheduler knows the "
                   "CPUs of the node");
  command
      .add_option("--node", options.node,
                  "Show this node instead of this machine: JSON, as `alignctl topology -o json` "
                  "prints it, with `devices` added if there are any, or lstopo's XML; alignd is "
                  "not asked")
      ->type_name("FILE")
      ->excludes(&root);
}

}  // namespace

void AddTopologyCommand(CLI::App& app, Action& action) {
  const auto options = std::make_shared<TopologyOptions>();
  CLI::App* const command =
      app.add_subcommand("topology",
                         "Show CPUs, caches, memory, distances and devices per NUMA node, and, if "
                         "alignd runs, which containers have them; as a tree or as a picture");
  CLI::Option* const root =
      command
          ->add_option("--root", options->root,
                       "Directory with the sys/ of the machine to show; alignd is not asked")
          ->type_name("DIR")
          ->capture_default_str();
  AddSocketOption(*command, options->socket);
  CLI::Option* const output =
      command
          ->add_option("-o,--output", options->output,
                       "text, wide, tree: for people; json, yaml: the \"node\" of a scenario; nrt, "
                       "nrt-yaml: a NodeResourceTopology object for schedulers, in JSON or YAML")
          ->check(CLI::IsMember({"text", "wide", "tree", "json", "yaml", "nrt", "nrt-yaml"}))
          ->capture_default_str();
  AddObjectOptions(*command, *root, options->object);
  command->add_flag("--svg", options->svg, "Write a picture (SVG) instead")->excludes(output);
  AddExamples(*command, {"alignctl topology", "alignctl topology --svg > node.svg",
                         "alignctl topology -o json > node.json", "alignctl topology -o nrt-yaml",
                         "alignctl topology --node lstopo.xml -o json > node.json"});
  command->callback([options, root, &action] {
    options->is_root_stated = root->count() > 0;
    action = [options](std::ostream& out) { return ShowTopology(*options, out); };
  });
}

}  // namespace alignd::cli
