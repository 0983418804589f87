// `alignctl why-not`: what would have to change or end for a pod to fit.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

void AddWhyNotCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
