// Addition that saturates at the largest number instead of overflowing.
#pragma once

#include <cstdint>
#include <limits>

namespace alignd {

constexpr uint64_t SaturatingSum(uint64_t a, uint64_t b) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  return a > kMax - b ? kMax : a + b;
}

// Of two amounts that are not negative.
constexpr int64_t SaturatingSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

}  // namespace alignd
