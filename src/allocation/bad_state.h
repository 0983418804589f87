// State files that cannot be used: what alignd does about them, and what it found.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "host/durable_file.h"

namespace alignd::allocation {

// --on-bad-state.
enum class OnBadState {
  kRefuse,   // the start ends, as the kubelet's does
  kRebuild,  // the file is kept under another name, and its content rebuilt from the containers
};

// A file that could not be used. A value.
struct BadFile {
  std::filesystem::path file;
  std::filesystem::path kept;  // its name now
  std::string why;
};

// What the start found in place of the state files. A value.
struct StateFindings {
  std::vector<BadFile> bad;
  std::vector<std::filesystem::path> missing;
  // Of alignd's own files, those that an alignd which does not know them has left as they were.
  std::vector<std::filesystem::path> outdated;
  OnBadState on_bad = OnBadState::kRebuild;  // what is to be done about bad ones
};

// What to do about a bad file with kRefuse.
std::string RebuildRemedy(const std::filesystem::path& file);

// Renames a file that cannot be used to `FILE.bad-TIME`, durably; an earlier file of that name
// stays. `why`: the error of reading it. Errors: kIo.
Result<BadFile> SetAside(const std::filesystem::path& file, const Error& why,
                         host::FileCalls& calls = host::FileCalls::System());

}  // namespace alignd::allocation
