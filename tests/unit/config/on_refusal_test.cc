#include "alignd/config/on_refusal.h"

#include <gtest/gtest.h>

namespace alignd {
namespace {

TEST(OnRefusal, ParsesTheThreeForms) {
  EXPECT_EQ(*ParseOnRefusal("wait"), OnRefusal{});
  EXPECT_EQ(*ParseOnRefusal("refuse"), OnRefusal{.waits = false});
  EXPECT_EQ(*ParseOnRefusal("fail-after=10m"), (OnRefusal{.fail_after_ms = 600'000}));
  EXPECT_EQ(*ParseOnRefusal("fail-after=1h30m"), (OnRefusal{.fail_after_ms = 5'400'000}));
  EXPECT_EQ(*ParseOnRefusal("fail-after=1ms"), (OnRefusal{.fail_after_ms = 1}));
  EXPECT_EQ(*ParseOnRefusal("fail-after=720h"), (OnRefusal{.fail_after_ms = kMaxFailAfterMs}));
}

TEST(OnRefusal, RefusesEverythingElseWithARemedy) {
  for (const char* const text : {"", "Wait", "wait ", "fail-after", "fail-after=", "fail-after=10",
                                 "fail-after=0s", "fail-after=-1m", "fail-after=1us",
                                 "fail-after=721h", "fail-after=9999999999999h", "refuse=1m"}) {
    const Result<OnRefusal> parsed = ParseOnRefusal(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(parsed.error().remedy.find("fail-after=10m"), std::string::npos);
  }
}

}  // namespace
}  // namespace alignd
