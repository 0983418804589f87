// Times in messages of the control service.
#pragma once

#include <chrono>
#include <cstdint>

namespace alignd::control {

inline int64_t UnixMs(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

inline int64_t UnixMs(std::chrono::steady_clock::time_point time) {
  using std::chrono::system_clock;
  const auto ago = std::chrono::steady_clock::now() - time;
  return UnixMs(system_clock::now() - std::chrono::duration_cast<system_clock::duration>(ago));
}

}  // namespace alignd::control
