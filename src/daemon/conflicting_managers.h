// Finds out whether the kubelet of this node manages CPUs, too.
#pragma once

#include <filesystem>

#include "allocation/allocation_manager.h"
#include "allocation/checkpoint_store.h"
#include "mirror/binding_table.h"
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

// If another program has written alignd's CPU or memory state file: reports that, and saves the
// other version as `.foreign`. SaveUncertainFiles then writes alignd's state again, so that neither
// alignd nor a kubelet loads the state of the other program.
void LookForForeignFiles(allocation::CheckpointStore& store, reconcile::Conditions& conditions);

// Writes the state again after LookForForeignFiles has found a file, or after a save has failed,
// also that of the bindings, and one that was refused before it reached the disk. A save that fails
// again is logged.
void SaveUncertainFiles(const allocation::CheckpointStore& store,
                        const mirror::BindingTable& bindings,
                        allocation::AllocationManager& allocation);

}  // namespace alignd::daemon
