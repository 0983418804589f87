// Seed and size of random tests: ALIGND_SEED repeats a run, ALIGND_ITERATIONS makes it any size.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>

namespace alignd {

// A number that an environment variable states; `fallback` if it is not set.
inline uint64_t FromEnvironment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

// A generator whose seed is printed, so that a failure can be repeated.
inline std::mt19937_64 SeededRandom() {
  const uint64_t seed = FromEnvironment("ALIGND_SEED", std::random_device{}());
  std::cout << "ALIGND_SEED=" << seed << '\n';
  return std::mt19937_64(seed);
}

inline int Iterations(int usual) {
  return static_cast<int>(FromEnvironment("ALIGND_ITERATIONS", static_cast<uint64_t>(usual)));
}

}  // namespace alignd
