#include "host/printable.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace alignd::host {
namespace {

TEST(Printable, KeepsVisibleCharactersOfEveryScript) {
  for (const char* text : {"", "pod default/web-0: 3 CPUs (1-3)", "\"quoted\\\"", "größer", "容器",
                           "\u20ac \U0001f680", "\u2026"}) {
    EXPECT_EQ(Printable(text), text);
  }
}

TEST(Printable, EscapesControlCharactersAndLineEnds) {
  EXPECT_EQ(Printable("a\nb\r\tc"), "a\\nb\\r\\tc");
  EXPECT_EQ(Printable("\x1b[2J\x1b]0;title\x07"), "\\u001b[2J\\u001b]0;title\\u0007");
  EXPECT_EQ(Printable(std::string("\0x", 2)), "\\u0000x");
  EXPECT_EQ(Printable("\x7f"), "\\u007f");
  EXPECT_EQ(Printable("\xc2\x9b"), "\\u009b");  // CSI as one character
}

TEST(Printable, EscapesWhatIsInvisibleOrTurnsTheTextAround) {
  EXPECT_EQ(Printable("a\u202eb\u202c"), "a\\u202eb\\u202c");
  EXPECT_EQ(Printable("\u2066\u2069\u200f\u061c"), "\\u2066\\u2069\\u200f\\u061c");
  EXPECT_EQ(Printable("\u200b\ufeff\u2028\u2029\u00ad"), "\\u200b\\ufeff\\u2028\\u2029\\u00ad");
}

TEST(Printable, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(Printable("x\xff\xc3("), "x\\xff\\xc3(");
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
}

// Every text of up to two bytes, and every code point: the output is visible and one line.
TEST(Printable, LeavesNothingThatIsNotVisible) {
  const auto check = [](const std::string& text) {
    const std::string shown = Printable(text);
    for (const char c : shown) ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    ASSERT_EQ(Printable(shown), shown);
  };
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) check({static_cast<char>(a), static_cast<char>(b)});
  }
}

TEST(PrintableStream, EscapesLineByLineAndKeepsTheEndsOfLines) {
  std::ostringstream out;
  {
    const PrintableStream printable(out);
    out << "pod \x1b[31m" << 7 << '\n' << "caf\xc3";
    out << "\xa9 \xe2\x80\xae" << std::endl << "no end";
  }
  EXPECT_EQ(out.str(), "pod \\u001b[31m7\ncaf\u00e9 \\u202e\nno end");
  out << "\x1b";  // the stream is as before
  EXPECT_EQ(out.str().back(), '\x1b');
  EXPECT_TRUE(out.good());
}

class FullDisk : public std::streambuf {};  // takes nothing

TEST(PrintableStream, ReportsThatNothingCouldBeWritten) {
  FullDisk disk;
  std::ostream out(&disk);
  {
    const PrintableStream printable(out);
    out << "text";
  }
  EXPECT_FALSE(out.good());
}

TEST(Escaped, ShowsEveryByteThatIsNoText) {
  for (const std::string text : {"", "default/app-1", "\xC3\xBC \xF0\x9F\x98\x80"}) {
    EXPECT_TRUE(IsText(text)) << text;
    EXPECT_EQ(Escaped(text), text);
  }
  struct Case {
    std::string text;
    std::string escaped;
  };
  for (const auto& [text, escaped] : std::vector<Case>{{"a\xff", R"(a\xff)"},
                                                       {std::string("a\0z", 3), R"(a\x00z)"},
                                                       {"\x1b[1m\x7f", R"(\x1b[1m\x7f)"},
                                                       {"\xC2\x85", R"(\xc2\x85)"},
                                                       {"\xE2\x80!", R"(\xe2\x80!)"}}) {
    EXPECT_FALSE(IsText(text)) << escaped;
    EXPECT_EQ(Escaped(text), escaped);
    EXPECT_TRUE(IsText(Escaped(text)));
  }
}

}  // namespace
}  // namespace alignd::host
