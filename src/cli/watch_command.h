// `alignctl watch`: the status, shown again and again.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

void AddWatchCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
