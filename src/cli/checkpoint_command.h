// `alignctl checkpoint verify`: whether state files are intact, and what to do if they are not.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

void AddCheckpointCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
