// The frame of `alignctl`: subcommands register themselves, one is chosen and run, and its outcome
// becomes an exit status.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <iosfwd>
#include <memory>
#include <utility>
#include <vector>

#include "alignd/base/result.h"

namespace alignd::cli {

// The exit statuses of all commands; docs/configuration.md has them for each.
inline constexpr int kSuccess = 0;   // done; or: yes, healthy
inline constexpr int kFailure = 1;   // not done; or: no, degraded, a bad file
inline constexpr int kNoAnswer = 2;  // alignd does not answer; or: the command line is wrong
inline constexpr int kBadInput = 2;  // of commands for which 1 is an answer: an input is wrong

// What a subcommand does once its options are parsed: writes its result to `out` and gives the exit
// status. An error goes to the error stream as `alignctl: MESSAGE` and makes the status kNoAnswer
// if its code is kUnavailable or kDeadlineExceeded, else `on_error`.
struct Action {
  using Run = std::function<Result<int>(std::ostream& out)>;

  Action() = default;
  template <typename Function>
  Action(Function function, int status = kFailure) : run(std::move(function)), on_error(status) {}

  Run run;
  int on_error = kFailure;
};

// Adds one subcommand to the program. Its callback, run when it is the chosen one, stores what to
// do in `action` (which outlives the program's options).
using Command = void (*)(CLI::App& app, Action& action);

// The program's description, for help, completions and manual pages. The commands store in
// `action`.
std::unique_ptr<CLI::App> MakeProgram(const std::vector<Command>& commands, Action& action);

// The whole program, but for its streams: parses, runs, reports. Gives the exit status.
int RunProgram(int argc, const char* const* argv, const std::vector<Command>& commands,
               std::ostream& out, std::ostream& err);

}  // namespace alignd::cli
