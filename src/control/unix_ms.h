// Times in messages of the control service.
#pragma once

#include <chrono>
#include <cstdint>

namespace alignd::control {

inline int64_t UnixMs(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

}  // namespace alignd::control
