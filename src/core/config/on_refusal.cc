#include "alignd/config/on_refusal.h"

#include <cstdint>
#include <optional>
#include <string>

#include "alignd/config/go_duration.h"

namespace alignd {

Result<OnRefusal> ParseOnRefusal(std::string_view text) {
  constexpr std::string_view kFailAfter = "fail-after=";
  if (text == "wait") return OnRefusal{};
  if (text == "refuse") return OnRefusal{.waits = false};
  const bool is_fail_after = text.starts_with(kFailAfter);
  const std::optional<int64_t> nanoseconds =
      is_fail_after ? ParseGoDuration(text.substr(kFailAfter.size())) : std::nullopt;
  if (nanoseconds) {
    const int64_t wait_ms = *nanoseconds / 1'000'000;
    if (wait_ms >= 1 && wait_ms <= kMaxFailAfterMs) {
      return OnRefusal{.waits = true, .fail_after_ms = wait_ms};
    }
  }
  return Error{ErrorCode::kInvalidArgument,
               "\"" + std::string(text) + "\" is not wait, refuse or fail-after=DURATION",
               "give wait, refuse, or for example fail-after=10m (1ms to 720h)"};
}

}  // namespace alignd
