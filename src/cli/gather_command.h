// `alignctl gather`: one archive for a support case, with secrets left out.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

void AddGatherCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
