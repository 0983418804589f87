// The command `alignctl handover`.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

void AddHandoverCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
