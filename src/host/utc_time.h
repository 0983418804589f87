// Times as text.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <string>

namespace alignd::host {

// "2026-11-22T12:03:11Z"; `with_ms`: "2026-11-22T12:03:11.123Z".
inline std::string UtcTime(std::chrono::system_clock::time_point time, bool with_ms = false) {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  const auto since = time.time_since_epoch();
  const auto whole = std::chrono::floor<seconds>(since);
  const std::time_t unix_seconds = whole.count();
  std::tm parts{};
  gmtime_r(&unix_seconds, &parts);
  std::array<char, 32> text{};
  const size_t length = std::strftime(text.data(), text.size(), "%FT%T", &parts);
  std::string written(text.data(), length);
  if (with_ms) {
    const auto ms = std::chrono::duration_cast<milliseconds>(since - whole).count();
    written += "." + std::to_string(1000 + ms).substr(1);
  }
  return written + "Z";
}

}  // namespace alignd::host
