// The CPUs that resized containers had when they were created, and the text of alignd's own file
// cpu_originals.
#pragma once

#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "alignd/cpumanager/cpu_state.h"

namespace alignd::checkpoint {

using Originals = decltype(cpumanager::CpuState::originals);

inline constexpr std::string_view kOriginalsFileName = "cpu_originals";

// The whole file, with a checksum over its content. One line, no line end.
std::string FormatOriginalsCheckpoint(const Originals& originals);

// Errors: kCorrupt, naming what is wrong: not JSON, a wrong type, a checksum that does not match or
// is missing, an entry without a name, or a CPU list that cannot be read. An empty list:
// CpuState::WasShared.
Result<Originals> ParseOriginalsCheckpoint(std::string_view text);

}  // namespace alignd::checkpoint
