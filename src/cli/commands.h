// All subcommands of alignctl. Each has its own file and one line here.
#pragma once

#include <vector>

#include "cli/bypass_command.h"
#include "cli/checkpoint_command.h"
#include "cli/config_command.h"
#include "cli/explain_command.h"
#include "cli/fit_command.h"
#include "cli/gather_command.h"
#include "cli/handover_command.h"
#include "cli/kubelet_command.h"
#include "cli/plan_command.h"
#include "cli/pods_command.h"
#include "cli/program.h"
#include "cli/simulate_command.h"
#include "cli/state_command.h"
#include "cli/status_command.h"
#include "cli/topology_command.h"
#include "cli/watch_command.h"
#include "cli/why_not_command.h"

namespace alignd::cli {

inline std::vector<Command> AllCommands() {
  return {AddApplyCommand,   AddBypassCommand, AddCheckpointCommand, AddConfigCommand,
          AddExplainCommand, AddFitCommand,    AddGatherCommand,     AddHandoverCommand,
          AddKubeletCommand, AddPlanCommand,   AddPodsCommand,       AddSimulateCommand,
          AddStateCommand,   AddStatusCommand, AddTopologyCommand,   AddWatchCommand,
          AddWhyNotCommand};
}

}  // namespace alignd::cli
