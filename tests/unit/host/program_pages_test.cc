#include "host/program_pages.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace alignd::host {
namespace {

// In KiB: memory of this process that is pages of files.
long FilePages() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    long amount = 0;
    if (word == "RssFile:" && status >> amount) return amount;
  }
  return -1;
}

TEST(ProgramPages, AreReadAgainWhereTheyAreUsed) {
  const long before = FilePages();
  ASSERT_GT(before, 0);
  LeaveProgramPages();
  const long after = FilePages();
  EXPECT_GT(after, 0);
  EXPECT_LT(after, before);
  LeaveProgramPages();  // twice does no harm
  EXPECT_EQ(std::to_string(6 * 7), "42");
}

}  // namespace
}  // namespace alignd::host
