// Other programs, run to their end.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "alignd/base/result.h"

namespace alignd::host {

struct ProcessResult {
  int exit_status = 0;  // 128 + the signal that ended it
  std::string output;   // standard output, and standard error
  bool is_cut = false;  // there was more output
};

// Runs a program, which is searched in PATH, without standard input. It is killed after `timeout`.
// Blocks. Errors: kNotFound if there is no such program; kIo; kDeadlineExceeded.
Result<ProcessResult> RunProcess(const std::vector<std::string>& command,
                                 std::chrono::milliseconds timeout,
                                 size_t max_bytes = size_t{64} << 20);

}  // namespace alignd::host
