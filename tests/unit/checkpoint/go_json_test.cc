#include "alignd/checkpoint/go_json.h"

#include <gtest/gtest.h>

namespace alignd::checkpoint {
namespace {

struct QuoteCase {
  const char* name;
  std::string text;
  const char* quoted;
};

class GoQuotedTest : public testing::TestWithParam<QuoteCase> {};

TEST_P(GoQuotedTest, EscapesAsGoDoes) { EXPECT_EQ(GoQuoted(GetParam().text), GetParam().quoted); }

INSTANTIATE_TEST_SUITE_P(
    Cases, GoQuotedTest,
    testing::Values(QuoteCase{"Plain", "app-1", R"("app-1")"}, QuoteCase{"Empty", "", R"("")"},
                    QuoteCase{"QuoteAndBackslash", R"(a"b\c)", R"("a\"b\\c")"},
                    QuoteCase{"SlashStays", "r/x", R"("r/x")"},
                    QuoteCase{"ShortEscapes", "\b\f\n\r\t", R"("\b\f\n\r\t")"},
                    QuoteCase{"OtherControls", std::string("\0\x1f", 2), R"("\u0000\u001f")"},
                    QuoteCase{"DeleteStays", "\x7f", "\"\x7f\""},
                    QuoteCase{"Html", "<a>&", R"("\u003ca\u003e\u0026")"},
                    QuoteCase{"LineSeparators", "\u2028\u2029", R"("\u2028\u2029")"},
                    QuoteCase{"Utf8Stays", "ü😀", "\"ü😀\""},
                    QuoteCase{"EachBadByte",
                              "a\xff\xfe"
                              "b",
                              R"("a\ufffd\ufffdb")"},
                    QuoteCase{"TheReplacementItselfStays", "\uFFFD", "\"\uFFFD\""}),
    [](const auto& test) { return test.param.name; });

TEST(Base64, IsReadAndWrittenWithPadding) {
  const std::string bytes("\x0a\x00\xff\x10", 4);
  for (size_t length = 0; length <= bytes.size(); ++length) {
    const std::string text = EncodeBase64(bytes.substr(0, length));
    EXPECT_EQ(text.size() % 4, 0U);
    EXPECT_EQ(DecodeBase64(text), bytes.substr(0, length)) << text;
  }
  EXPECT_EQ(EncodeBase64(bytes), "CgD/EA==");
  EXPECT_EQ(DecodeBase64("Cg\r\nD/\n"), bytes.substr(0, 3));
}

TEST(Base64, IsRefusedWithoutItsFormInEveryPlace) {
  for (const char* text :
       {"C", "Cg", "Cg=", "C===", "====", "=AAA", "A=AA", "AA=A", "AA==AAAA", "CgD-", "Cg D"}) {
    EXPECT_EQ(DecodeBase64(text), std::nullopt) << text;
  }
}

struct Pair {
  GoMap<int64_t, GoSlice<std::string>> lists;
  GoMap<std::string, std::string> texts;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"lists", "Lists", "map[int64][]string"}, self.lists);
    visit({"texts", "Texts", "map[string]string", true}, self.texts);
  }
};

TEST(GoJsonWriter, SortsNumberKeysByTheirText) {
  const Pair pair{.lists = {{{-1, {{}}}, {2, {}}, {10, {{"a", "b"}}}}}, .texts = {}};
  EXPECT_EQ(GoJsonWriter::ToText(pair), R"({"lists":{"-1":[],"10":["a","b"],"2":null}})");
}

TEST(GoJsonWriter, DistinguishesNullFromEmptyAndOmits) {
  EXPECT_EQ(GoJsonWriter::ToText(Pair{}), R"({"lists":null})");
  EXPECT_EQ(GoJsonWriter::ToText(Pair{.lists = {{}}, .texts = {{}}}), R"({"lists":{}})");
  EXPECT_EQ(GoJsonWriter::ToText(Pair{.lists = {{}}, .texts = {{{"k", ""}}}}),
            R"({"lists":{},"texts":{"k":""}})");
}

}  // namespace
}  // namespace alignd::checkpoint
