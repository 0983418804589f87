#include "cli/explain_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>

#include "cli/output.h"
#include "cli/report_json.h"
#include "cli/report_text.h"
#include "control/control_client.h"

namespace alignd::cli {
namespace {

struct ExplainOptions {
  std::string pod;
  std::string socket;
  std::string output = "text";
  uint32_t limit = 10;
};

Result<int> ShowDecisions(const ExplainOptions& options, std::ostream& out) {
  const Result<control::v1::ExplainResponse> explained =
      control::ControlClient(options.socket).Explain(options.pod, options.limit);
  if (!explained.ok()) return explained.error();
  const bool is_unknown = !options.pod.empty() && explained->decisions().empty();
  if (IsData(options.output)) {
    out << AsData(DecisionsJson(*explained), options.output);
  } else if (is_unknown) {
    out << "no decision about pod " << options.pod << " is known\n"
        << "  What to do: give its UID, name or namespace/name as `alignctl explain` shows it; if "
           "`alignctl pods` shows the pod, see `alignctl status` for UnmanagedContainer; if no "
           "pods are shown at all, run `alignctl kubelet status`\n";
  } else {
    PrintDecisions(*explained, /*knows_queue=*/true, out);
  }
  return is_unknown ? kFailure : kSuccess;
}

}  // namespace

void AddExplainCommand(CLI::App& app, Action& action) {
  const auto options = std::make_shared<ExplainOptions>();
  CLI::App* const command = app.add_subcommand(
      "explain", "Show the last decisions of alignd and their reasons, newest first");
  command->add_option("pod", options->pod, "UID, name or namespace/name; all pods if not given")
      ->type_name("POD");
  command->add_option("-n,--limit", options->limit, "The maximum number of decisions")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  AddSocketOption(*command, options->socket);
  AddOutputOption(*command, options->output);
  AddExamples(*command, {"alignctl explain", "alignctl explain default/train-7",
                         "alignctl explain -n 1 -o json"});
  command->callback([options, &action] {
    action = [options](std::ostream& out) { return ShowDecisions(*options, out); };
  });
}

}  // namespace alignd::cli
