#include "cli/pods_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <ostream>
#include <string>

#include "cli/output.h"
#include "cli/report_json.h"
#include "cli/report_text.h"
#include "control/control_client.h"

namespace alignd::cli {
namespace {

struct PodsOptions {
  std::string socket;
  std::string output = "text";
};

Result<int> ShowPods(const PodsOptions& options, std::ostream& out) {
  const auto pods = control::ControlClient(options.socket).ListPods();
  if (!pods.ok()) return pods.error();
  if (IsData(options.output)) {
    out << AsData(PodsJson(*pods), options.output);
  } else {
    PrintPods(*pods, options.output == "wide", out);
  }
  return kSuccess;
}

}  // namespace

void AddPodsCommand(CLI::App& app, Action& action) {
  const auto options = std::make_shared<PodsOptions>();
  CLI::App* const command = app.add_subcommand(
      "pods", "Show all pods with their CPUs, NUMA nodes, memory and devices, shared ones too");
  AddSocketOption(*command, options->socket);
  AddOutputOption(*command, options->output);
  AddExamples(*command, {"alignctl pods", "alignctl pods -o wide"});
  command->callback([options, &action] {
    action = [options](std::ostream& out) { return ShowPods(*options, out); };
  });
}

}  // namespace alignd::cli
