// `CpuState` and the text of cpu_manager_state.
#pragma once

#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "alignd/checkpoint/documents.h"
#include "alignd/cpumanager/cpu_state.h"

namespace alignd::checkpoint {

// The content of a cpu_manager_state. A value.
struct CpuCheckpoint {
  std::string policy_name;     // `none` or `static`
  cpumanager::CpuState state;  // without `reusable`, which is not saved

  friend bool operator==(const CpuCheckpoint&, const CpuCheckpoint&) = default;
};

// The file as the kubelets of that form write it. One line, no line end. The plain form has no
// pods. Source: kubelet pkg/kubelet/cm/cpumanager/state/state_checkpoint.go, storeState.
std::string FormatCpuCheckpoint(std::string_view policy_name, const cpumanager::CpuState& state,
                                StateForm form);

// Reads a file of any form and verifies the checksum (0 or none is accepted in the plain form).
// Errors: kCorrupt, naming what is wrong and the remedy: not JSON, a wrong type, a checksum that
// does not match, a CPU list that does not parse, or version 1, from a kubelet before 1.18.
// Source: as above, restoreState. Differs: entries without CPUs, which no kubelet writes, are
// omitted. A kubelet without the feature gate PodLevelResourceManagers ignores the pods.
Result<CpuCheckpoint> ParseCpuCheckpoint(std::string_view text);

// Whether the file was written under the configured policy.
// Errors: kInvalidArgument with the kubelet's text and the remedy.
Result<Done> RequirePolicy(const CpuCheckpoint& checkpoint, std::string_view configured);

}  // namespace alignd::checkpoint
