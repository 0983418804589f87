// The commands `alignctl state import` and `alignctl state export`.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

void AddStateImport(CLI::App& state, Action& action);
void AddStateExport(CLI::App& state, Action& action);

}  // namespace alignd::cli
