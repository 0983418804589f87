// `CpuState` and the text of cpu_manager_state.
#pragma once

#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "alignd/cpumanager/cpu_state.h"

namespace alignd::checkpoint {

// The content of a cpu_manager_state. A value.
struct CpuCheckpoint {
  std::string policy_name;     // `none` or `static`
  cpumanager::CpuState state;  // without `reusable`, which is not saved

  friend bool operator==(const CpuCheckpoint&, const CpuCheckpoint&) = default;
};

// The file as kubelet 1.36 writes it (version 2). One line, no line end.
// Source: kubelet pkg/kubelet/cm/cpumanager/state/state_checkpoint.go, storeStateV2.
std::string FormatCpuCheckpoint(std::string_view policy_name, const cpumanager::CpuState& state);

// Reads version 2 and verifies the checksum (0 or none is accepted).
// Errors: kCorrupt, naming what is wrong and the remedy: not JSON, a wrong type, a checksum that
// does not match, a CPU list that does not parse, or version 1, from a kubelet before 1.18.
// Source: as above, restoreState. Differs: entries without CPUs, which no kubelet writes, are
// omitted. The kubelet migrates version 1.
Result<CpuCheckpoint> ParseCpuCheckpoint(std::string_view text);

// Whether the file was written under the configured policy.
// Errors: kInvalidArgument with the kubelet's text and the remedy.
Result<Done> RequirePolicy(const CpuCheckpoint& checkpoint, std::string_view configured);

}  // namespace alignd::checkpoint
