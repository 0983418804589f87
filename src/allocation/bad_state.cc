#include "allocation/bad_state.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "host/utc_time.h"

namespace alignd::allocation {

std::string RebuildRemedy(const std::filesystem::path& file) {
  return "start alignd with --on-bad-state=rebuild: it keeps " + file.string() +
         " under another name and rebuilds the assignments from the running containers, none of "
         "which has to stop";
}

Result<BadFile> SetAside(const std::filesystem::path& file, const Error& why,
                         host::FileCalls& calls) {
  std::string time = host::UtcTime(std::chrono::system_clock::now());
  std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
  std::filesystem::path kept = file.string() + ".bad-" + time;
  std::error_code code;
  for (int i = 2; std::filesystem::exists(std::filesystem::symlink_status(kept, code)); ++i) {
    kept = file.string() + ".bad-" + time + "-" + std::to_string(i);
  }
  if (const Result<Done> moved = host::MoveFile(file, kept, calls); !moved.ok()) {
    return moved.error();
  }
  return BadFile{file, kept, why.message};
}

}  // namespace alignd::allocation
