// The record of containers that are being moved for a change of the configuration.
#pragma once

#include <filesystem>
#include <vector>

#include "alignd/admission/cpu_moves.h"
#include "alignd/base/result.h"

namespace alignd::daemon {

// While it is in the state directory, these containers may be assigned their CPUs of before and of
// after, and are to be moved back. One thread at a time; the directory is locked.
class MovesFile {
 public:
  static constexpr char kFileName[] = "config_change_moves";

  explicit MovesFile(const std::filesystem::path& state_dir) : path_(state_dir / kFileName) {}

  // In one step, durably. Errors: kIo.
  Result<Done> Write(const std::vector<admission::CpuMove>& moves) const;
  // Empty: there is no file. Errors: kCorrupt, kIo.
  Result<std::vector<admission::CpuMove>> Read() const;
  // Errors: kIo.
  Result<Done> Remove() const;

 private:
  std::filesystem::path path_;
};

}  // namespace alignd::daemon
