// Addition that saturates at the largest number instead of overflowing.
#pragma once

#include <cstdint>
#include <limits>

namespace alignd {

constexpr uint64_t SaturatingSum(uint64_t a, uint64_t b) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  return a > kMax - b ? kMax : a + b;
}

}  // namespace alignd
