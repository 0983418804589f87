// The interface of the subcommands of `alignsim`. Each is a function in a file of its own, listed
// in alignsim.cc.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <iosfwd>

#include "alignd/base/result.h"

namespace alignd::simulator {

// Runs a subcommand after its options are parsed, until it is done or the program gets SIGINT or
// SIGTERM (see AwaitStop). Prints to `out`.
using Action = std::function<Result<Done>(std::ostream& out)>;

// Adds one subcommand to the program. If the user chooses it, its callback stores its work in
// `action`, which outlives the program's options.
using Command = void (*)(CLI::App& app, Action& action);

// Blocks SIGINT and SIGTERM in this thread and those that it starts. Call it before any thread.
void BlockStopSignals();

// Waits for SIGINT or SIGTERM.
void AwaitStop();

// `alignsim runtime --listen SOCKET`: an in-memory container runtime that prints what happens to
// its containers.
void AddRuntimeCommand(CLI::App& app, Action& action);

}  // namespace alignd::simulator
