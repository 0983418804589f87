// `alignctl topology`: this machine, or a captured one, as a tree, as JSON or as a picture.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

void AddTopologyCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
