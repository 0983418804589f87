#include "alignd/base/numa_subsets.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace alignd {
namespace {

std::vector<NumaMask> Walk(NumaMask nodes) {
  std::vector<NumaMask> seen;
  ForEachSubset(nodes, [&](NumaMask set) { seen.push_back(set); });
  return seen;
}

TEST(NumaSubsets, NarrowestFirstAlsoWithGaps) {
  const auto mask = [](uint64_t bits) { return NumaMask::FromBits(bits); };
  EXPECT_EQ(Walk(mask(0b10110)),
            (std::vector<NumaMask>{mask(0b00010), mask(0b00100), mask(0b10000), mask(0b00110),
                                   mask(0b10010), mask(0b10100), mask(0b10110)}));
  EXPECT_TRUE(Walk(NumaMask()).empty());
}

TEST(NumaSubsets, AllOfThem) {
  for (int count = 1; count <= 12; ++count) {
    const std::vector<NumaMask> seen = Walk(NumaMask::FirstNodes(count));
    EXPECT_EQ(seen.size(), (size_t{1} << count) - 1);
    EXPECT_EQ(std::set<NumaMask>(seen.begin(), seen.end()).size(), seen.size());
    for (size_t i = 1; i < seen.size(); ++i) EXPECT_TRUE(seen[i - 1].IsNarrowerThan(seen[i]));
  }
}

TEST(NumaSubsets, UpToTheHighestPosition) {
  EXPECT_EQ(Walk(NumaMask::Of(63)), std::vector<NumaMask>{NumaMask::Of(63)});
  const std::vector<NumaMask> seen = Walk(NumaMask::Of(0) | NumaMask::Of(63));
  EXPECT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen.back(), NumaMask::Of(0) | NumaMask::Of(63));
}

}  // namespace
}  // namespace alignd
