// Verifies a state file and reports its checksums, for `alignctl checkpoint verify`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "alignd/checkpoint/documents.h"

namespace alignd::checkpoint {

// A file that verifies. A value.
struct Verification {
  CheckpointKind kind = CheckpointKind::kCpu;
  int version = 2;          // of the file's form, in the kubelet's counting
  std::string policy_name;  // empty in the device file
  size_t entries = 0;  // containers in the CPU and memory files, allocations in the device file
  size_t pods = 0;     // with CPUs or memory of the pod as a whole
  // Whether the part for kubelets before 1.37 verifies and has the same content. True without such
  // a part.
  bool plain_part_agrees = true;
  uint64_t stored_checksum =
      0;  // of `data` where there is one; 0: none is stored, none was compared
  uint32_t computed_checksum = 0;
  uint64_t plain_checksum = 0;  // as stored in the part for kubelets before 1.37; 0: no such part

  friend bool operator==(const Verification&, const Verification&) = default;
};

// Whether kubelet 1.37 accepts the text as an intact file of that kind. CPU lists and policy names
// are not checked; Parse...Checkpoint does that.
// Errors: kCorrupt, naming what is wrong and the remedy; both checksums if they differ.
Result<Verification> VerifyCheckpoint(CheckpointKind kind, std::string_view text);

// The kind whose file name is part of the path's last component; nothing if there is none.
std::optional<CheckpointKind> KindOfFileName(std::string_view path);

// The kind by the keys of the text's object; nothing if the text is no JSON object or the keys are
// ambiguous.
std::optional<CheckpointKind> KindOfText(std::string_view text);

}  // namespace alignd::checkpoint
