#include "cli/topology_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "alignd/machine/machine.h"
#include "cli/output.h"
#include "cli/topology_json.h"
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
};

// With the owners, if alignd answers and its machine is this one.
Result<picture::Picture> Look(const TopologyOptions& options) {
  // Beside the machine, alignd is an addition: it is not waited for long.
  constexpr std::chrono::seconds kPatience{3};
  Result<Machine> machine = host::ReadMachine(options.root);
  if (!machine.ok()) return machine.error();
  host::MachineParts parts = host::ReadParts(options.root, *machine);
  picture::Picture picture{
      .machine = *std::move(machine), .parts = std::move(parts), .owners = std::nullopt};
  if (options.is_root_stated) return picture;
  const auto status =
      control::ControlClient(options.socket, kPatience).GetStatus(/*list_devices=*/true);
  if (status.ok()) {
    return picture::MakePicture(std::move(picture.machine), std::move(picture.parts), *status);
  }
  picture.note = "owners are not known: " + status.error().message;
  return picture;
}

Result<int> ShowTopology(const TopologyOptions& options, std::ostream& out) {
  const Result<picture::Picture> picture = Look(options);
  if (!picture.ok()) return picture.error();
  if (options.svg) {
    out << picture::RenderSvg(*picture);
  } else if (IsData(options.output)) {
    out << AsData(TopologyJson(*picture), options.output);
  } else {
    out << TopologyTree(*picture);
  }
  return kSuccess;
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
                       "text, wide, tree: for people; json, yaml: the \"node\" of a scenario")
          ->check(CLI::IsMember({"text", "wide", "tree", "json", "yaml"}))
          ->capture_default_str();
  command->add_flag("--svg", options->svg, "Write a picture (SVG) instead")->excludes(output);
  AddExamples(*command, {"alignctl topology", "alignctl topology --svg > node.svg",
                         "alignctl topology -o json > node.json"});
  command->callback([options, root, &action] {
    options->is_root_stated = root->count() > 0;
    action = [options](std::ostream& out) { return ShowTopology(*options, out); };
  });
}

}  // namespace alignd::cli
