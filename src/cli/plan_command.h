// `alignctl plan` and `alignctl apply`: changes of the configuration without a drain.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

void AddPlanCommand(CLI::App& app, Action& action);
void AddApplyCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
