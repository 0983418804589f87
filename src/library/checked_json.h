// Reads JSON of callers that may be hostile.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "alignd/base/result.h"

namespace alignd::library {

// The value of a whole JSON text, and that of no other text. `name` is the argument, for errors.
// Errors: kInvalidArgument: longer than `max_bytes`, deeper than alignd::kMaxJsonDepth, not JSON, a
// key that an object has twice.
Result<nlohmann::json> CheckedJson(std::string_view text, std::string_view name, size_t max_bytes);

}  // namespace alignd::library
