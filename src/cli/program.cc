#include "cli/program.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <ostream>

#include "host/printable.h"

namespace alignd::cli {
namespace {

Result<int> RunPrintable(const Action& action, std::ostream& out) {
  const host::PrintableStream printable(out);
  return action(out);
}

}  // namespace

int RunProgram(int argc, const char* const* argv, const std::vector<Command>& commands,
               std::ostream& out, std::ostream& err) {
  CLI::App app("Inspects a node, and alignd on it.", "alignctl");
  app.set_version_flag("--version", "alignctl " ALIGND_VERSION);
  app.require_subcommand(1);
  Action action;
  for (const Command add : commands) add(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version are reported this way too; they are successes.
    return app.exit(error, out, err) == 0 ? kSuccess : kUsage;
  }
  const Result<int> status = RunPrintable(action, out);
  if (!status.ok()) {
    err << "alignctl: " << host::Printable(status.error().Text()) << '\n';
    return kFailure;
  }
  if (!out.flush()) {
    err << "alignctl: standard output cannot be written; check the disk or the pipe\n";
    return kFailure;
  }
  return *status;
}

}  // namespace alignd::cli
