// Durations as Go writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace alignd {

// "10s", "1h30m", "1.5s", "0", "-2ms": nanoseconds, or nothing if the text is no duration or is
// beyond 292 years. Source: Go time.ParseDuration.
std::optional<int64_t> ParseGoDuration(std::string_view text);

}  // namespace alignd
