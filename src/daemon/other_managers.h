// Is the kubelet of this node a CPU manager, too?
#pragma once

#include <filesystem>

#include "allocation/upkeep_log.h"

namespace alignd::daemon {

// Notes in `upkeep` what the kubelet's own files say of a static CPU manager policy: its state file
// and its configuration, unless these are ours (`our_state_dir`, `our_config`; the latter may be
// empty). What is not there, or cannot be read, says nothing.
// Source: kubelet pkg/kubelet/cm/cpumanager/state/checkpoint.go (policyName); kubeadm's place of
// the configuration.
void LookForKubeletCpuManager(const std::filesystem::path& kubelet_dir,
                              const std::filesystem::path& our_state_dir,
                              const std::filesystem::path& our_config,
                              allocation::UpkeepLog& upkeep);

}  // namespace alignd::daemon
