#include "cli/program.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <ostream>

#include "daemon/command_line.h"
#include "host/printable.h"

namespace alignd::cli {
namespace {

Result<int> RunPrintable(const Action& action, std::ostream& out) {
  const host::PrintableStream printable(out);
  return action.run(out);
}

}  // namespace

std::unique_ptr<CLI::App> MakeProgram(const std::vector<Command>& commands, Action& action) {
  auto app = std::make_unique<CLI::App>("Inspects a node, and alignd on it.", "alignctl");
  daemon::SetUpProgram(*app);
  app->require_subcommand(1);
  app->footer(
      "Exit status: 0 done, yes or healthy; 1 not done, no or degraded; 2 alignd does not answer, "
      "or the command line is wrong.\nalignctl COMMAND --help has examples.");
  for (const Command add : commands) add(*app, action);
  return app;
}

int RunProgram(int argc, const char* const* argv, const std::vector<Command>& commands,
               std::ostream& out, std::ostream& err) {
  Action action;
  const std::unique_ptr<CLI::App> app = MakeProgram(commands, action);
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version are reported this way too; they are successes.
    return app->exit(error, out, err) == 0 ? kSuccess : kNoAnswer;
  }
  const Result<int> status = RunPrintable(action, out);
  if (!status.ok()) {
    err << "alignctl: " << host::Printable(status.error().Text()) << '\n';
    const ErrorCode code = status.error().code;
    const bool is_silent = code == ErrorCode::kUnavailable || code == ErrorCode::kDeadlineExceeded;
    return is_silent ? kNoAnswer : action.on_error;
  }
  if (!out.flush()) {
    err << "alignctl: standard output cannot be written; check the disk or the pipe\n";
    return kFailure;
  }
  return *status;
}

}  // namespace alignd::cli
