// `alignctl fit`: which nodes of a fleet can take these pods? No daemon, no cluster.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

void AddFitCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
