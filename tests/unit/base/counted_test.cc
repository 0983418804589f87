#include "alignd/base/counted.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace alignd {
namespace {

TEST(Counted, OnlyOneIsInTheSingular) {
  EXPECT_EQ(Counted(0, "pod"), "0 pods");
  EXPECT_EQ(Counted(size_t{1}, "NUMA node"), "1 NUMA node");
  EXPECT_EQ(Counted(int64_t{1}, "exclusive CPU"), "1 exclusive CPU");
  EXPECT_EQ(Counted(2, "pod"), "2 pods");
  EXPECT_EQ(Counted(std::numeric_limits<uint64_t>::max(), "byte"), "18446744073709551615 bytes");
}

TEST(Counted, TheVerbFollowsTheNumber) {
  EXPECT_EQ(IsOrAre(0), "are");
  EXPECT_EQ(IsOrAre(size_t{1}), "is");
  EXPECT_EQ(IsOrAre(2), "are");
}

}  // namespace
}  // namespace alignd
