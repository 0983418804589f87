#include "cli/topology_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <ostream>
#include <string>

#include "alignd/machine/machine.h"
#include "alignd/machine/node_json.h"
#include "cli/topology_tree.h"
#include "host/sysfs_machine.h"

namespace alignd::cli {
namespace {

struct TopologyOptions {
  std::string root = "/";
  std::string output = "tree";
};

Result<int> ShowTopology(const TopologyOptions& options, std::ostream& out) {
  const Result<Machine> machine = host::ReadMachine(options.root);
  if (!machine.ok()) return machine.error();
  out << (options.output == "json" ? MachineToNodeJson(*machine) + "\n" : TopologyTree(*machine));
  return kSuccess;
}

}  // namespace

void AddTopologyCommand(CLI::App& app, Action& action) {
  const auto options = std::make_shared<TopologyOptions>();
  CLI::App* const command =
      app.add_subcommand("topology", "Show CPUs, caches, memory and distances per NUMA node");
  command->add_option("--root", options->root, "Directory with the sys/ of the machine to show")
      ->type_name("DIR")
      ->capture_default_str();
  command
      ->add_option("-o,--output", options->output,
                   "tree: readable; json: the \"node\" of a scenario, on one line")
      ->check(CLI::IsMember({"tree", "json"}))
      ->capture_default_str();
  command->callback([options, &action] {
    action = [options](std::ostream& out) { return ShowTopology(*options, out); };
  });
}

}  // namespace alignd::cli
