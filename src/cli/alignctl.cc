// alignctl. Each subcommand has its own file and one line here.
#include <iostream>

#include "cli/checkpoint_command.h"
#include "cli/explain_command.h"
#include "cli/program.h"
#include "cli/simulate_command.h"
#include "cli/status_command.h"
#include "cli/topology_command.h"

int main(int argc, char** argv) {
  return alignd::cli::RunProgram(argc, argv,
                                 {
                                     alignd::cli::AddCheckpointCommand,
                                     alignd::cli::AddExplainCommand,
                                     alignd::cli::AddSimulateCommand,
                                     alignd::cli::AddStatusCommand,
                                     alignd::cli::AddTopologyCommand,
                                 },
                                 std::cout, std::cerr);
}
