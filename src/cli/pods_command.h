// `alignctl pods`: all pods of the node with their CPUs, NUMA nodes and devices.
#pragma once

#include "cli/program.h"

namespace alignd::cli {

void AddPodsCommand(CLI::App& app, Action& action);

}  // namespace alignd::cli
