// What becomes of a pod that does not fit now, and would fit if other pods released resources.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "alignd/base/result.h"

namespace alignd {

// The value of --on-refusal.
struct OnRefusal {
  bool waits = true;  // false: it is refused at once, as the kubelet does
  // How long it may wait in all; nullopt: as long as it takes. Only with `waits`.
  std::optional<int64_t> fail_after_ms = {};

  friend bool operator==(const OnRefusal&, const OnRefusal&) = default;
};

inline constexpr int64_t kMaxFailAfterMs = int64_t{30} * 24 * 3600 * 1000;

// "wait", "refuse", or "fail-after=DURATION" with a duration as Go writes it, between 1 ms and 30
// days: "90s", "10m". Errors: kInvalidArgument.
Result<OnRefusal> ParseOnRefusal(std::string_view text);

}  // namespace alignd
