// `alignctl bypass on|off|status`: the emergency switch.
#pragma once

#include <CLI/App.hpp>

#include "cli/program.h"

namespace alignd::cli {

void AddBypassCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
