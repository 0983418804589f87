// The error of the last system call.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include "alignd/base/result.h"

namespace alignd::simulator {

// Reads errno. `what`: the call and its object.
inline Error SystemError(const std::string& what) {
  return {ErrorCode::kIo, what + ": " + std::generic_category().message(errno)};
}

}  // namespace alignd::simulator
