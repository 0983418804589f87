// Finds out whether the kubelet of this node manages CPUs, too.
#pragma once

#include <filesystem>

#include "allocation/allocation_manager.h"
#include "allocation/checkpoint_store.h"
#include "reconcile/conditions.h"

namespace alignd::daemon {

// The paths of alignd's files; they may be the kubelet's own.
struct OwnFiles {
  std::filesystem::path state_dir;
  std::filesystem::path config;  // empty: none
};

// Reports in `conditions` if the kubelet's own files show a static CPU manager policy: its state
// file and its configuration, unless these are alignd's; and if alignd's state file is in the
// kubelet's directory. Files that do not exist, or cannot be read, show nothing. Conditions whose
// cause is gone are cleared.
// Source: kubelet pkg/kubelet/cm/cpumanager/state/state_checkpoint.go (a state file of another
// policy ends the kubelet's start), checkpoint.go (policyName); kubeadm's path of the
// configuration.
void LookForKubeletCpuManager(const std::filesystem::path& kubelet_dir, const OwnFiles& own,
                              reconcile::Conditions& conditions);

// If another program has written alignd's CPU or memory state file: reports that, saves the other
// version as `.foreign`, and writes alignd's state again. Neither alignd nor a kubelet then loads
// the state of the other program. Also writes the state again after a save has failed.
void RestoreStateFiles(allocation::CheckpointStore& store,
                       allocation::AllocationManager& allocation,
                       reconcile::Conditions& conditions);

}  // namespace alignd::daemon
