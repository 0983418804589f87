#include "cli/status_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <ostream>
#include <string>

#include "cli/output.h"
#include "cli/report_json.h"
#include "cli/report_text.h"
#include "control/control_client.h"
#include "control/health.h"

namespace alignd::cli {
namespace {

struct StatusOptions {
  std::string socket;
  std::string output = "text";
};

Result<int> ShowStatus(const StatusOptions& options, std::ostream& out) {
  const Result<control::v1::GetStatusResponse> status =
      control::ControlClient(options.socket).GetStatus();
  // Whatever the cause: it is not known whether the node is healthy.
  if (!status.ok()) {
    return Error{ErrorCode::kUnavailable, status.error().message, status.error().remedy};
  }
  if (IsData(options.output)) {
    out << AsData(StatusJson(*status), options.output);
  } else {
    PrintStatus(*status, options.output == "wide", out);
  }
  return control::ProblemsOf(*status).empty() ? kSuccess : kFailure;
}

}  // namespace

void AddStatusCommand(CLI::App& app, Action& action) {
  const auto options = std::make_shared<StatusOptions>();
  CLI::App* const command = app.add_subcommand(
      "status",
      "Show this node on one screen: health, what is free, pending containers, "
      "conditions; exit status 0: healthy, 1: degraded, 2: alignd does not answer");
  AddSocketOption(*command, options->socket);
  AddOutputOption(*command, options->output);
  AddExamples(*command, {"alignctl status", "alignctl status -o json | jq .problems",
                         "alignctl status >/dev/null || echo 'this node needs attention'"});
  command->callback([options, &action] {
    action = [options](std::ostream& out) { return ShowStatus(*options, out); };
  });
}

}  // namespace alignd::cli
