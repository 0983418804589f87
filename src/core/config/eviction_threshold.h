// One threshold of evictionHard: an amount, or a share of the node's capacity.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "alignd/base/quantity.h"
#include "alignd/base/result.h"

namespace alignd {

// A value.
struct EvictionThreshold {
  struct None {};
  // An amount, or a fraction from 0 to 1.
  std::variant<None, Quantity, float> value;

  // The bytes of `capacity` that it reserves; zero for None.
  Quantity Of(uint64_t capacity) const;
};

// Reads "100Mi" or "5%". "0%", "100%" and the empty text are no threshold.
// Errors: kInvalidArgument, quoting the text.
// Source: kubelet pkg/kubelet/eviction/helpers.go, parseThresholdStatement.
Result<EvictionThreshold> ParseEvictionThreshold(std::string_view text);

}  // namespace alignd
