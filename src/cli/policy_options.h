// The flags of a node's alignd that commands need for its answers.
#pragma once

#include "alignd/placement/policy_flags.h"

namespace CLI {
class App;
}  // namespace CLI

namespace alignd::cli {

// Adds --pod-policies and --shared-pool-handlers. `flags` outlives `command`.
void AddPolicyOptions(CLI::App& command, placement::PolicyFlags& flags);

}  // namespace alignd::cli
