// `alignctl status`: what a running alignd has given away and what is left.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

void AddStatusCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
