#include "alignd/checkpoint/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace alignd::checkpoint {
namespace {

struct RuneCase {
  const char* name;
  std::string text;
  Rune first;
};

class DecodeRuneTest : public testing::TestWithParam<RuneCase> {};

TEST_P(DecodeRuneTest, TakesWhatGoTakes) {
  const Rune rune = DecodeRune(GetParam().text);
  EXPECT_EQ(rune.code, GetParam().first.code);
  EXPECT_EQ(rune.bytes, GetParam().first.bytes);
  EXPECT_EQ(rune.valid, GetParam().first.valid);
}

constexpr Rune kBad{kReplacementRune, 1, false};

INSTANTIATE_TEST_SUITE_P(
    Cases, DecodeRuneTest,
    testing::Values(RuneCase{"Ascii", "az", {'a', 1, true}},
                    RuneCase{"Nul", std::string(1, '\0'), {0, 1, true}},
                    RuneCase{"TwoBytes", "\xC3\xBC", {0xFC, 2, true}},
                    RuneCase{"ThreeBytes", "\xE2\x80\xA8", {0x2028, 3, true}},
                    RuneCase{"FourBytes", "\xF0\x9F\x98\x80", {0x1F600, 4, true}},
                    RuneCase{"TheReplacementItself", "\xEF\xBF\xBD", {kReplacementRune, 3, true}},
                    RuneCase{"LargestCode", "\xF4\x8F\xBF\xBF", {0x10FFFF, 4, true}},
                    RuneCase{"BeyondTheLargest", "\xF4\x90\x80\x80", kBad},
                    RuneCase{"LoneContinuation", "\x80", kBad},
                    RuneCase{"NoSuchLead", "\xFF", kBad}, RuneCase{"Truncated", "\xE2\x80", kBad},
                    RuneCase{"BrokenInside", "\xE2(\xA8", kBad},
                    RuneCase{"OverlongSlash", "\xC0\xAF", kBad},
                    RuneCase{"OverlongThree", "\xE0\x80\xAF", kBad},
                    RuneCase{"Surrogate", "\xED\xA0\x80", kBad}),
    [](const auto& test) { return test.param.name; });

TEST(AppendRune, IsTheInverseOfDecodeRune) {
  for (const uint32_t code : {0x0U, 0x7FU, 0x80U, 0x7FFU, 0x800U, 0xFFFFU, 0x10000U, 0x10FFFFU}) {
    std::string text;
    AppendRune(text, code);
    const Rune rune = DecodeRune(text);
    EXPECT_TRUE(rune.valid);
    EXPECT_EQ(rune.code, code);
    EXPECT_EQ(rune.bytes, text.size());
  }
}

TEST(ToValidUtf8, ReplacesEachByteThatIsNotUtf8) {
  for (const std::string text : {"", "default/app-1", "\xC3\xBC \xF0\x9F\x98\x80"}) {
    EXPECT_EQ(ToValidUtf8(text), text);
  }
  EXPECT_EQ(ToValidUtf8("a\xff\xC0z"), "a\xEF\xBF\xBD\xEF\xBF\xBDz");
}

}  // namespace
}  // namespace alignd::checkpoint
