// `alignctl explain`: the last decisions of a running alignd and their reasons.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

void AddExplainCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
