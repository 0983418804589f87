#include "host/heap_trimmer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "edge/sanitized.h"

namespace alignd::host {
namespace {

// In KiB: memory of this process that is no pages of files.
long HeapPages() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    long amount = 0;
    if (word == "RssAnon:" && status >> amount) return amount;
  }
  return -1;
}

TEST(HeapTrimmer, GivesBackWhatIsFreeBetweenAllocations) {
  if (testing::kSanitized) GTEST_SKIP() << "not malloc of the C library";
  constexpr size_t kPieces = 32 * 1024;
  constexpr size_t kSize = 1000;
  constexpr size_t kKept = 64;  // one of so many
  HeapTrimmer heap;
  heap.Look();  // what the tests before have left
  EXPECT_FALSE(heap.Look());
  std::vector<std::unique_ptr<std::string>> pieces;
  for (size_t i = 0; i < kPieces; ++i) {
    pieces.push_back(std::make_unique<std::string>(kSize, 'x'));
  }
  heap.Look();  // as while pods start: all of it is allocated
  for (size_t i = 0; i < kPieces; ++i) {
    if (i % kKept != 0) pieces[i].reset();
  }
  const long before = HeapPages();
  EXPECT_TRUE(heap.Look());  // 32 MB are free
  EXPECT_LT(HeapPages(), before - 20 * 1024);
  EXPECT_FALSE(heap.Look());
  EXPECT_EQ(pieces[kPieces - kKept]->back(), 'x');
}

}  // namespace
}  // namespace alignd::host
