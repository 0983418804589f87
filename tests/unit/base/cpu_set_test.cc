#include "alignd/base/cpu_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

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

TEST(CpuSet, ARangeHasAllCpusBetweenItsEnds) {
  for (int first = 0; first < 140; ++first) {
    for (int last = first - 1; last < 200; ++last) {
      CpuSet one_by_one;
      for (int cpu = first; cpu <= last; ++cpu) one_by_one.Add(cpu);
      ASSERT_EQ(CpuSet::Range(first, last), one_by_one) << first << " " << last;
    }
  }
}

// Of this thread, so that other programs disturb it little; the least of several tries.
template <typename Work>
int64_t LeastCost(const Work& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 3; ++i) {
    const int64_t start = now();
    work();
    least = std::min(least, now() - start);
  }
  return least;
}

// The author of a pod can write such a list. Adding its CPUs one by one is the measure: on any
// machine, that costs far more than 4 times as much.
TEST(CpuSet, ALongListOfLongRangesIsReadAtOnce) {
  constexpr int kRanges = 200;
  std::string list = "0-65535";
  for (int i = 1; i < kRanges; ++i) list += ",0-65535";
  const int64_t read = LeastCost([&] { EXPECT_EQ(CpuSet::Parse(list)->Count(), 65536); });
  const int64_t one_by_one = LeastCost([] {
    CpuSet cpus;
    for (int i = 0; i < kRanges; ++i) {
      for (int cpu = 0; cpu <= CpuSet::kMaxCpu; ++cpu) cpus.Add(cpu);
    }
    EXPECT_EQ(cpus.Count(), 65536);
  });
  EXPECT_LT(read, one_by_one / 4);
}

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
