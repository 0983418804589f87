// Is the kubelet of this node a CPU manager, too?
#pragma once

#include <filesystem>

#include "allocation/allocation_manager.h"
#include "allocation/checkpoint_store.h"
#include "reconcile/conditions.h"

namespace alignd::daemon {

// Where we keep our things; they may be the kubelet's own.
struct OwnFiles {
  std::filesystem::path state_dir;
  std::filesystem::path config;  // empty: none
};

// Notes in `conditions` what the kubelet's own files say of a static CPU manager policy: its state
// file and its configuration, unless these are ours; and that our state file is in the kubelet's
// directory. What is not there, or cannot be read, says nothing. What is no longer so is taken
// back. Source: kubelet pkg/kubelet/cm/cpumanager/state/state_checkpoint.go (a state file of
// another policy ends the kubelet's start), checkpoint.go (policyName); kubeadm's place of the
// configuration.
void LookForKubeletCpuManager(const std::filesystem::path& kubelet_dir, const OwnFiles& own,
                              reconcile::Conditions& conditions);

// Where somebody else has written our CPU or memory state file: notes that, keeps his beside it
// (".foreign"), and writes our state again, so that neither we nor a kubelet that gets the file
// load what the other one thinks. Also where a save has failed.
void RestoreStateFiles(allocation::CheckpointStore& store,
                       allocation::AllocationManager& allocation,
                       reconcile::Conditions& conditions);

}  // namespace alignd::daemon
