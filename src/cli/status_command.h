// `alignctl status`: what is assigned and what is free on a node, and its conditions.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

void AddStatusCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
