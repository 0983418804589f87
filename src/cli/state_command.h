// `alignctl state`: what the state files hold, also while alignd does not run.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

void AddStateCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
