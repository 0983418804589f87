// `alignctl explain`: how a running alignd came to its last decisions.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

void AddExplainCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
