// `CpuState` and the text of cpu_manager_state.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/cpumanager/cpu_state.h"
#include "alignd/pod/pod.h"

namespace alignd::checkpoint {

// What a cpu_manager_state says. A value.
struct CpuCheckpoint {
  std::string policy_name;     // `none` or `static`
  cpumanager::CpuState state;  // without `reusable`, which is not saved
  int version = 2;             // 1: written before 1.18
  // Version 1 only: container id of the runtime -> CPUs. See MigrateCpuCheckpoint.
  std::map<std::string, CpuSet> by_container_id;

  friend bool operator==(const CpuCheckpoint&, const CpuCheckpoint&) = default;
};

// The file as kubelet 1.36 writes it (version 2). One line, no line end.
// Source: kubelet pkg/kubelet/cm/cpumanager/state/state_checkpoint.go, storeStateV2.
std::string FormatCpuCheckpoint(std::string_view policy_name, const cpumanager::CpuState& state);

// Reads version 2, then version 1; verifies the checksum (0 or none is accepted).
// Errors: kCorrupt, naming what is wrong and the remedy: not JSON, a wrong type, a checksum that
// does not match, or a CPU list that does not parse. Source: as above, restoreState. Differs:
// entries without CPUs, which no kubelet writes, are left out of the state.
Result<CpuCheckpoint> ParseCpuCheckpoint(std::string_view text);

// A version 1 checkpoint with its entries under the names that the runtime gives for their
// container ids; a version 2 checkpoint unchanged.
// Errors: kCorrupt if an id is not in `containers`.
// Source: as above, migrateV1CheckpointToV2Checkpoint.
Result<CpuCheckpoint> MigrateCpuCheckpoint(CpuCheckpoint checkpoint,
                                           const std::map<std::string, ContainerKey>& containers);

// Whether the file was written under the configured policy.
// Errors: kInvalidArgument with the kubelet's text and the remedy.
Result<Done> RequirePolicy(const CpuCheckpoint& checkpoint, std::string_view configured);

}  // namespace alignd::checkpoint
