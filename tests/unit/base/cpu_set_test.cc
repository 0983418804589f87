#include "alignd/base/cpu_set.h"

#include <gtest/gtest.h>

namespace alignd {
namespace {

struct ListCase {
  const char* name;
  const char* text;
  const char* canonical;  // null: refused
};

class CpuSetList : public testing::TestWithParam<ListCase> {};

TEST_P(CpuSetList, ReadsAsTheKubeletDoes) {
  const Result<CpuSet> set = CpuSet::Parse(GetParam().text);
  if (GetParam().canonical == nullptr) {
    ASSERT_FALSE(set.ok());
    EXPECT_NE(set.error().message.find(GetParam().text), std::string::npos) << set.error().message;
    return;
  }
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ(set->ToString(), GetParam().canonical);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CpuSetList,
    testing::Values(
        ListCase{"Empty", "", ""}, ListCase{"One", "7", "7"}, ListCase{"RunOfTwo", "0,1", "0-1"},
        ListCase{"AnyOrder", "8,0-3", "0-3,8"}, ListCase{"Overlapping", "0-5,3-7", "0-7"},
        ListCase{"AcrossWords", "62-65,127,128", "62-65,127-128"},
        ListCase{"LargestNumber", "65535", "65535"}, ListCase{"TooLarge", "65536", nullptr},
        ListCase{"FarTooLarge", "99999999999999999999", nullptr},
        ListCase{"Descending", "3-1", nullptr}, ListCase{"EmptyElement", "1,,2", nullptr},
        ListCase{"TrailingComma", "1,", nullptr}, ListCase{"Space", "1, 2", nullptr},
        ListCase{"Negative", "-1", nullptr}, ListCase{"TwoDashes", "1-2-3", nullptr},
        ListCase{"Word", "all", nullptr}),
    [](const auto& test) { return test.param.name; });

TEST(CpuSet, EqualSetsAreEqualHoweverTheyWereMade) {
  CpuSet set = CpuSet::Range(0, 200);
  set -= CpuSet::Range(3, 200);
  EXPECT_EQ(set, (CpuSet{0, 1, 2}));
  set.Remove(2);
  set.Add(2);
  EXPECT_EQ(set, CpuSet::Range(0, 2));
}

TEST(CpuSet, CountsContainsAndWalks) {
  const CpuSet set{1, 64, 65, 300};
  EXPECT_EQ(set.Count(), 4);
  EXPECT_EQ(set.ToVector(), (std::vector<int>{1, 64, 65, 300}));
  EXPECT_EQ(set.Lowest(2), (CpuSet{1, 64}));
  EXPECT_TRUE(set.Contains(CpuSet{64, 300}));
  EXPECT_FALSE(set.Contains(CpuSet{64, 301}));
  EXPECT_EQ(set.CountCommon(CpuSet{2, 65, 300, 1000}), 2);
  EXPECT_EQ((set & CpuSet{2, 65, 1000}), CpuSet{65});
  EXPECT_EQ((set | CpuSet{2}), (CpuSet{1, 2, 64, 65, 300}));
  EXPECT_TRUE(CpuSet{}.empty());
  EXPECT_EQ(CpuSet{}.First(), -1);
}

}  // namespace
}  // namespace alignd
