#include "alignd/base/shared_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace alignd {
namespace {

using Map = SharedMap<int, std::string>;
using Plain = std::map<int, std::string>;

Plain Contents(const Map& map) {
  Plain contents;
  int last = -1;
  for (const auto& [key, value] : map) {
    EXPECT_LT(last, key);
    last = key;
    contents[key] = value;
  }
  return contents;
}

TEST(SharedMapTest, StartsEmpty) {
  const Map map;
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(map.size(), 0U);
  EXPECT_TRUE(map.begin() == map.end());
  EXPECT_TRUE(map.find(1) == map.end());
  EXPECT_TRUE(map.lower_bound(1) == map.end());
  EXPECT_FALSE(map.contains(1));
  EXPECT_EQ(map, Map{});
}

TEST(SharedMapTest, ACopyDoesNotSeeLaterChanges) {
  Map map = {{1, "one"}, {2, "two"}};
  const Map copy = map;
  map[1] = "changed";
  map[3] = "three";
  map.erase(2);
  EXPECT_EQ(Contents(copy), (Plain{{1, "one"}, {2, "two"}}));
  EXPECT_EQ(Contents(map), (Plain{{1, "changed"}, {3, "three"}}));
}

TEST(SharedMapTest, ACopyDoesNotShareItsChanges) {
  const Map map = {{1, "one"}};
  Map copy = map;
  copy[1] += "!";
  copy.clear();
  EXPECT_EQ(map.at(1), "one");
}

TEST(SharedMapTest, UnchangedEntriesAreTheSameObjects) {
  Map map = {{1, "one"}, {2, "two"}};
  const Map copy = map;
  map[2] = "changed";
  EXPECT_EQ(&map.at(1), &copy.at(1));
  EXPECT_NE(&map.at(2), &copy.at(2));
}

TEST(SharedMapTest, EqualsByContent) {
  const Map one = {{1, "one"}, {2, "two"}};
  const Map other = {{2, "two"}, {1, "one"}};
  EXPECT_EQ(one, other);
  Map changed = one;
  EXPECT_EQ(changed, one);
  changed[2] = "else";
  EXPECT_NE(changed, one);
  changed[2] = "two";
  EXPECT_EQ(changed, one);
  changed.erase(2);
  EXPECT_NE(changed, one);
}

TEST(SharedMapTest, AnUnknownKeyIsNotThere) {
  Map map = {{1, "one"}};
  EXPECT_FALSE(map.erase(2));
  EXPECT_THROW(map.at(2), std::out_of_range);
  EXPECT_EQ(map.size(), 1U);
}

TEST(SharedMapTest, LowerBoundFindsTheNextKeyAcrossBlocks) {
  Map map;
  for (int key = 0; key < 500; key += 5) map[key] = std::to_string(key);
  for (int key = 0; key <= 495; ++key) {
    EXPECT_EQ(map.lower_bound(key)->first, (key + 4) / 5 * 5);
  }
  EXPECT_TRUE(map.lower_bound(496) == map.end());
}

// Long random sequences of changes and copies, compared with std::map.
TEST(SharedMapTest, BehavesAsStdMap) {
  std::mt19937 random(1);
  Map map;
  Plain plain;
  Map kept;
  Plain plain_kept;
  for (int step = 0; step < 20'000; ++step) {
    const int key = static_cast<int>(random() % 300);
    const bool growing = step / 2000 % 2 == 0;
    if (random() % 10 < (growing ? 7 : 3)) {
      map[key] = plain[key] = std::to_string(step);
    } else {
      ASSERT_EQ(map.erase(key), plain.erase(key) == 1);
    }
    if (step % 500 == 0) {
      const int rest = static_cast<int>(random() % 7);
      erase_if(map, [rest](const auto& entry) { return entry.first % 7 == rest; });
      std::erase_if(plain, [rest](const auto& entry) { return entry.first % 7 == rest; });
      ASSERT_EQ(Contents(kept), plain_kept);
      kept = map;
      plain_kept = plain;
    }
    if (step % 50 == 0) {
      ASSERT_EQ(Contents(map), plain);
    }
    ASSERT_EQ(map.size(), plain.size());
    ASSERT_EQ(map.contains(key), plain.contains(key));
  }
}

}  // namespace
}  // namespace alignd
