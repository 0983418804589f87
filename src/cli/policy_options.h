// The flags of a node's alignd that commands need for its answers.
#pragma once

#include "alignd/placement/policy_flags.h"

namespace CLI {
class App;
}  // namespace CLI

namespace alignd::cli {

inline constexpr char kFlagsOfNodes[] =
    "--pod-policies, --shared-pool-handlers, --not-devices, --annotated-extended-resources";
// Why they are refused where no KubeletConfiguration is read.
inline constexpr char kFlagsNeedConfig[] =
    "they replace fields of a KubeletConfiguration, and none is given; they do not change what "
    "alignd has written into NodeResourceTopology objects";

// Adds the options of kFlagsOfNodes. `flags` outlives `command`.
void AddPolicyOptions(CLI::App& command, placement::PolicyFlags& flags);

}  // namespace alignd::cli
