// `alignctl simulate`: what would happen to these pods on that node? No daemon, no runtime.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

void AddSimulateCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
