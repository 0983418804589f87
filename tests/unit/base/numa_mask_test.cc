#include "alignd/base/numa_mask.h"

#include <gtest/gtest.h>

#include <vector>

namespace alignd {
namespace {

NumaMask Mask(std::initializer_list<int> positions) {
  NumaMask mask;
  for (const int position : positions) mask.Add(position);
  return mask;
}

TEST(NumaMask, WalksItsPositionsInOrder) {
  const NumaMask mask = Mask({63, 0, 5});
  EXPECT_EQ(std::vector<int>(mask.begin(), mask.end()), (std::vector<int>{0, 5, 63}));
  EXPECT_EQ(mask.Count(), 3);
  EXPECT_EQ(mask.ToString(), "{0,5,63}");
  EXPECT_EQ(NumaMask().ToString(), "{}");
  EXPECT_TRUE(NumaMask().empty());
  EXPECT_EQ(NumaMask().begin(), NumaMask().end());
}

TEST(NumaMask, KnowsItsSubsets) {
  const NumaMask mask = Mask({1, 2, 40});
  EXPECT_TRUE(mask.Contains(40));
  EXPECT_FALSE(mask.Contains(0));
  EXPECT_TRUE(mask.Contains(Mask({1, 40})));
  EXPECT_TRUE(mask.Contains(NumaMask()));
  EXPECT_FALSE(mask.Contains(Mask({1, 3})));
  EXPECT_TRUE(mask.Intersects(Mask({0, 2})));
  EXPECT_FALSE(mask.Intersects(Mask({0, 3})));
}

TEST(NumaMask, CombinesBySet) {
  EXPECT_EQ(Mask({0, 1}) | Mask({1, 2}), Mask({0, 1, 2}));
  EXPECT_EQ(Mask({0, 1}) & Mask({1, 2}), NumaMask::Of(1));
  EXPECT_EQ(Mask({0, 1}) - Mask({1, 2}), NumaMask::Of(0));
}

TEST(NumaMask, FirstNodesReachesTheWholeMask) {
  EXPECT_EQ(NumaMask::FirstNodes(0), NumaMask());
  EXPECT_EQ(NumaMask::FirstNodes(3), Mask({0, 1, 2}));
  EXPECT_EQ(NumaMask::FirstNodes(64).bits(), ~uint64_t{0});
}

struct NarrowerCase {
  const char* name;
  NumaMask a;
  NumaMask b;
  bool narrower;
};

class NumaMaskNarrower : public testing::TestWithParam<NarrowerCase> {};

TEST_P(NumaMaskNarrower, IsFewerNodesThenTheSmallerValue) {
  EXPECT_EQ(GetParam().a.IsNarrowerThan(GetParam().b), GetParam().narrower);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, NumaMaskNarrower,
    testing::Values(NarrowerCase{"FewerThoughLarger", Mask({7}), Mask({0, 1}), true},
                    NarrowerCase{"MoreThoughSmaller", Mask({0, 1}), Mask({7}), false},
                    NarrowerCase{"AsManySmaller", Mask({0, 2}), Mask({1, 2}), true},
                    NarrowerCase{"AsManyLarger", Mask({1, 2}), Mask({0, 2}), false},
                    NarrowerCase{"HighestPosition", Mask({62}), Mask({63}), true},
                    NarrowerCase{"Equal", Mask({3}), Mask({3}), false}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace alignd
