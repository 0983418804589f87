// What containers of the shared pool request that stay on one NUMA node, and the text of alignd's
// own file cpu_shares.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/cpumanager/cpu_state.h"

namespace alignd::checkpoint {

using Shares = decltype(cpumanager::CpuState::shares);

inline constexpr std::string_view kSharesFileName = "cpu_shares";

// What a cpu_shares says. A value.
struct SharesCheckpoint {
  Shares shares;
  // The checksums (CpuFileChecksum) of the texts of cpu_manager_state beside which it was saved: of
  // before and after a change of both files. Empty: not known, as in the first form of the file.
  std::vector<uint64_t> cpu_files = {};

  // Whether it was saved beside another cpu_manager_state than this one, which an alignd that does
  // not know cpu_shares has changed since, or which is from elsewhere: it is out of date then.
  bool IsOfAnotherCpuFile(std::string_view cpu_text) const;

  friend bool operator==(const SharesCheckpoint&, const SharesCheckpoint&) = default;
};

// Of the whole text of a cpu_manager_state.
uint64_t CpuFileChecksum(std::string_view text);

// The whole file, with a checksum over its shares. One line, no line end.
std::string FormatSharesCheckpoint(const Shares& shares,
                                   const std::vector<uint64_t>& cpu_files = {});

// Errors: kCorrupt, naming what is wrong: not JSON, a wrong type, a checksum that does not match or
// is missing, an entry without a name or a request, or a kind of container that is not known.
Result<SharesCheckpoint> ParseSharesCheckpoint(std::string_view text);

}  // namespace alignd::checkpoint
