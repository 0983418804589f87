// Seed and size of property tests: ALIGND_SEED repeats a run, ALIGND_ITERATIONS makes it any size.
#pragma once

#include <cstdlib>
#include <iostream>
#include <random>

namespace alignd {

// A generator whose seed is printed, so that a failure can be repeated.
inline std::mt19937_64 SeededRandom() {
  const char* text = std::getenv("ALIGND_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  std::cout << "ALIGND_SEED=" << seed << '\n';
  return std::mt19937_64(seed);
}

inline int Iterations(int usual) {
  const char* text = std::getenv("ALIGND_ITERATIONS");
  return text != nullptr ? std::atoi(text) : usual;
}

}  // namespace alignd
