// Whether a state file verifies, and with which checksums: what `alignctl checkpoint verify` asks.
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
  int version = 2;          // of the file's format, in the kubelet's counting
  std::string policy_name;  // empty in the device file
  size_t entries = 0;  // containers in the CPU and memory files, allocations in the device file
  uint64_t stored_checksum = 0;  // 0: none is stored, and none was compared
  uint32_t computed_checksum = 0;

  friend bool operator==(const Verification&, const Verification&) = default;
};

// Whether kubelet 1.36 takes the text for an intact file of that kind. CPU lists and policy names
// are not looked at; Parse...Checkpoint does that.
// Errors: kCorrupt, naming what is wrong and the remedy; both checksums if they differ.
Result<Verification> VerifyCheckpoint(CheckpointKind kind, std::string_view text);

// The kind that the file name says, wherever in its last component; nothing if it says none.
std::optional<CheckpointKind> KindOfFileName(std::string_view path);

// The kind that the keys of the text's object say; nothing if it is no JSON object or could be
// more than one.
std::optional<CheckpointKind> KindOfText(std::string_view text);

}  // namespace alignd::checkpoint
