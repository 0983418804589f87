// What containers of the shared pool request that stay on one NUMA node, and the text of alignd's
// own file cpu_shares.
#pragma once

#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "alignd/cpumanager/cpu_state.h"

namespace alignd::checkpoint {

using Shares = decltype(cpumanager::CpuState::shares);

inline constexpr std::string_view kSharesFileName = "cpu_shares";

// The whole file, with a checksum over its content. One line, no line end.
std::string FormatSharesCheckpoint(const Shares& shares);

// Errors: kCorrupt, naming what is wrong: not JSON, a wrong type, a checksum that does not match or
// is missing, an entry without a name or a request, or a kind of container that is not known.
Result<Shares> ParseSharesCheckpoint(std::string_view text);

}  // namespace alignd::checkpoint
