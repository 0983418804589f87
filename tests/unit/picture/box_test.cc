// Texts of other programs in lines of a given width.
#include "picture/box.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "host/printable.h"
#include "picture/fitting.h"

namespace alignd::picture {
namespace {

constexpr int kLongWidth = 100'000;

TEST(FittingBytes, AsksForEachByteAtMostOnceAndForNoneBeyondTheWidth) {
  size_t asked = 0;
  const auto ten = [&asked](unsigned char) {
    ++asked;
    return 10;
  };
  const std::string text(kLongWidth / 10 + 1, 'x');
  EXPECT_EQ(FittingBytes(text, kLongWidth, 20, ten), text.size() - 3);
  EXPECT_EQ(asked, text.size());
  asked = 0;
  EXPECT_EQ(FittingBytes(text, 100, 20, ten), 8U);
  EXPECT_EQ(asked, 11U);
  EXPECT_EQ(FittingBytes("1234567890", 100, 20, ten), std::nullopt);
  EXPECT_EQ(FittingBytes("", 0, 20, ten), std::nullopt);
  EXPECT_EQ(FittingBytes("1", 0, 20, ten), 0U);
  // The two bytes of a character stay together.
  EXPECT_EQ(FittingBytes("ääääää", 100, 20, ten), 8U);
  EXPECT_EQ(FittingBytes("aäääää", 100, 20, ten), 7U);
}

// The longest beginning that fits, by trying all.
std::string LongestFitting(const std::string& text, int width, int size, bool bold) {
  if (TextWidth(text, size, bold) <= width) return text;
  std::string longest = "…";
  for (size_t end = 1; end < text.size(); ++end) {
    if (IsContinuation(text[end])) continue;
    const std::string shown = text.substr(0, end) + "…";
    if (TextWidth(shown, size, bold) <= width) longest = shown;
  }
  return longest;
}

TEST(FittedLine, IsTheLongestBeginningThatFits) {
  for (const std::string text :
       {"", "i", "nvidia.com/gpu-0", "WWWWWWWWWWWWiiiiiiiii", "ä漢字€𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞𝄞",
        "\x01\x02\n\x7f", "\x80\x80\x80\x80\x80\x80\x80\x80", "a\xff…b", "ends with …"}) {
    for (int width = 0; width <= 200; ++width) {
      for (const bool bold : {false, true}) {
        for (const int size : {10, 11, 18}) {
          EXPECT_EQ(FittedLine(text, 0, 0, width, size, bold).text,
                    LongestFitting(host::Printable(text), width, size, bold))
              << width << " " << size << " " << bold;
        }
      }
    }
  }
}

TEST(FittedLine, HasNoBytesBeforeAnEmptyText) {
  EXPECT_EQ(FittedLine("", 0, 0, -1, 12).text, "");
  EXPECT_EQ(FittedLine("", 0, 0, 0, 12).text, "");
  EXPECT_EQ(FittedLine("x", 0, 0, -1000, 12, true).text, "…");
}

TEST(FittedLine, BoundsLongTexts) {
  EXPECT_EQ(FittedLine(std::string(1 << 20, '\x01'), 0, 0, 80, 10).text.substr(0, 6), "\\u0001");
  EXPECT_LE(FittedLine(std::string(1 << 20, 'x'), 0, 0, kLongWidth, 10).text.size(), 503U);
  EXPECT_LE(FittedLine(std::string(1 << 20, '\x01'), 0, 0, kLongWidth, 10).text.size(), 3003U);
}

TEST(Shortened, KeepsWholeCharacters) {
  EXPECT_EQ(Shortened("abc", 3), "abc");
  EXPECT_EQ(Shortened("abcd", 3), "abc…");
  EXPECT_EQ(Shortened("ab漢", 4), "ab…");
  EXPECT_EQ(Shortened("𝄞𝄞", 7), "𝄞…");
  // Not UTF-8: as much as is allowed, but for one character.
  EXPECT_EQ(Shortened(std::string(100, '\x80'), 50), std::string(47, '\x80') + "…");
}

}  // namespace
}  // namespace alignd::picture
