// `MemoryState` and the text of memory_manager_state.
#pragma once

#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "alignd/checkpoint/documents.h"
#include "alignd/memorymanager/memory_state.h"

namespace alignd::checkpoint {

// What a memory_manager_state says. A value.
struct MemoryCheckpoint {
  std::string policy_name;  // `None` or `Static`
  memorymanager::MemoryState state;

  friend bool operator==(const MemoryCheckpoint&, const MemoryCheckpoint&) = default;
};

// The file as the kubelets of that form write it. One line, no line end. The plain form has no
// pods. Source: kubelet pkg/kubelet/cm/memorymanager/state/state_checkpoint.go, storeState.
std::string FormatMemoryCheckpoint(std::string_view policy_name,
                                   const memorymanager::MemoryState& state, StateForm form);

// Reads a file of any form and verifies the checksum (0 or none is accepted in the plain form).
// Blocks are sorted by type, their nodes and the cells ascending: the kubelet writes a container's
// blocks in random order. Errors: kCorrupt, naming what is wrong and the remedy: not JSON, a wrong
// type, a checksum that does not match, a null node or table, a node id or count beyond 32 bits.
// Source: as above, restoreState. Differs: a null node or table is an error here; it crashes the
// kubelet later. Containers without blocks, which no kubelet writes, are omitted.
Result<MemoryCheckpoint> ParseMemoryCheckpoint(std::string_view text);

// Whether the file was written under the configured policy.
// Errors: kInvalidArgument with the kubelet's text and the remedy.
Result<Done> RequirePolicy(const MemoryCheckpoint& checkpoint, std::string_view configured);

}  // namespace alignd::checkpoint
