#include "cli/status_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <ostream>
#include <string>

#include "cli/report_json.h"
#include "cli/report_text.h"
#include "control/control_client.h"

namespace alignd::cli {
namespace {

struct StatusOptions {
  std::string socket = control::kDefaultSocket;
  std::string output = "text";
};

Result<int> ShowStatus(const StatusOptions& options, std::ostream& out) {
  const Result<control::v1::GetStatusResponse> status =
      control::ControlClient(options.socket).GetStatus();
  if (!status.ok()) return status.error();
  if (options.output == "json") {
    out << StatusJson(*status) << '\n';
  } else {
    PrintStatus(*status, out);
  }
  return kSuccess;
}

}  // namespace

void AddStatusCommand(CLI::App& app, Action& action) {
  const auto options = std::make_shared<StatusOptions>();
  CLI::App* const command = app.add_subcommand(
      "status", "Show what is assigned and what is free on this node, and the node's conditions");
  command->add_option("--socket", options->socket, "alignd's control socket")
      ->capture_default_str();
  command->add_option("-o,--output", options->output, "text: for people; json: for programs")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->callback([options, &action] {
    action = [options](std::ostream& out) { return ShowStatus(*options, out); };
  });
}

}  // namespace alignd::cli
