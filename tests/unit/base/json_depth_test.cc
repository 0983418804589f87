// The depth of JSON texts.
#include "alignd/base/json_depth.h"

#include <gtest/gtest.h>

#include <string>

namespace alignd {
namespace {

TEST(JsonDepth, CountsOpenBrackets) {
  EXPECT_EQ(JsonDepthOf(""), 0);
  EXPECT_EQ(JsonDepthOf("1"), 0);
  EXPECT_EQ(JsonDepthOf(R"({"a":[1,{"b":[]}],"c":{}})"), 4);
  EXPECT_EQ(JsonDepthOf(R"(["[[[{\"[[","\\"])"), 1);
  EXPECT_EQ(JsonDepthOf("]]][["), 0);
  EXPECT_EQ(JsonDepthOf(std::string(1'000'000, '[')), 1'000'000);
}

}  // namespace
}  // namespace alignd
