// `alignctl config`: the settings of alignd.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

void AddConfigCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
