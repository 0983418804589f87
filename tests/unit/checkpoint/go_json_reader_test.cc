#include "alignd/checkpoint/go_json_reader.h"

#include <gtest/gtest.h>

#include <limits>

#include "alignd/checkpoint/go_json.h"

namespace alignd::checkpoint {
namespace {

struct Inner {
  std::string name;
  int64_t number = 0;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"name", "Name", "string"}, self.name);
    visit({"number", "Number", "int"}, self.number);
  }
};

struct Outer {
  std::string text = "kept";
  uint64_t count = 7;
  GoMap<int64_t, std::string> by_number = {{}};
  GoSlice<Inner> list = {{}};
  GoMap<std::string, GoPointer<Inner>> pointers = {{}};
  GoBytes bytes;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"text", "Text", "string"}, self.text);
    visit({"checkSum", "Count", "uint64"}, self.count);
    visit({"byNumber", "ByNumber", "map[int]string"}, self.by_number);
    visit({"list", "List", "[]x.Inner"}, self.list);
    visit({"pointers", "Pointers", "map[string]*x.Inner"}, self.pointers);
    visit({"bytes", "Bytes", "[]uint8"}, self.bytes);
  }
};

constexpr const char* kUntouched =
    R"({"text":"kept","checkSum":7,"byNumber":{},"list":[],"pointers":{},"bytes":null})";

struct ReadCase {
  const char* name;
  std::string text;
  std::string result;  // written again
};

class GoJsonRead : public testing::TestWithParam<ReadCase> {};

TEST_P(GoJsonRead, ReadsAsGoDoes) {
  Outer value;
  const Result<Done> read = GoJsonReader::Read(GetParam().text, value);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(GoJsonWriter::ToText(value), GetParam().result);
}

// kUntouched with one member changed.
std::string With(std::string_view old_member, std::string_view new_member) {
  std::string text = kUntouched;
  return text.replace(text.find(old_member), old_member.size(), new_member);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, GoJsonRead,
    testing::Values(
        ReadCase{"MissingFieldsKeepTheirValue", "{}", kUntouched},
        ReadCase{"NullLeavesTheWholeAlone", " \r\n\tnull ", kUntouched},
        ReadCase{"NullLeavesTextsAndNumbersAlone", R"({"text":null,"checkSum":null})", kUntouched},
        ReadCase{
            "NullEmptiesMapsAndLists", R"({"byNumber":null,"list":null})",
            R"({"text":"kept","checkSum":7,"byNumber":null,"list":null,"pointers":{},"bytes":null})"},
        ReadCase{"UnknownFieldsAreSkipped",
                 R"({"x":[1,{"a":"]}\\\""},-0.5e+9,true,false,null,[]],"text":"t","y":{}})",
                 With("kept", "t")},
        ReadCase{"NamesMatchRegardlessOfCase", R"({"TEXT":"t"})", With("kept", "t")},
        ReadCase{"OnlyAsciiLettersFold", "{\"chec\u212A\u017Fum\":8}", kUntouched},
        ReadCase{"TheLastKeyWins", R"({"text":"a","Text":"b"})", With("kept", "b")},
        ReadCase{"RepeatedMapsMerge", R"({"byNumber":{"1":"a"},"byNumber":{"2":"b"}})",
                 With(R"("byNumber":{})", R"("byNumber":{"1":"a","2":"b"})")},
        ReadCase{"RepeatedListElementsMerge",
                 R"({"list":[{"name":"a","number":1},{}],"list":[{"number":2}]})",
                 With("[]", R"([{"name":"a","number":2}])")},
        ReadCase{"NumberKeys", R"({"byNumber":{"+1":"a","-1":"b","007":"c","-0":"d"}})",
                 With(R"("byNumber":{})", R"("byNumber":{"-1":"b","0":"d","1":"a","7":"c"})")},
        ReadCase{"Pointers", R"({"pointers":{"a":null,"b":{"name":"n"}}})",
                 With(R"("pointers":{})", R"("pointers":{"a":null,"b":{"name":"n","number":0}})")},
        ReadCase{"NullElement", R"({"list":[null]})", With("[]", R"([{"name":"","number":0}])")},
        ReadCase{"Bytes", R"({"bytes":"CgD/"})", With("null", R"("CgD/")")},
        ReadCase{"EmptyBytes", R"({"bytes":""})", With("null", R"("")")},
        ReadCase{"BytesAsNumbers", R"({"bytes":[10,0,255]})", With("null", R"("CgD/")")},
        ReadCase{
            "LargestNumbers",
            R"({"checkSum":18446744073709551615,"list":[{"number":-9223372036854775808}]})",
            R"({"text":"kept","checkSum":18446744073709551615,"byNumber":{},)"
            R"("list":[{"name":"","number":-9223372036854775808}],"pointers":{},"bytes":null})"},
        ReadCase{"Escapes", R"({"text":"\"\\\/\b\f\n\r\t\u00fc\ud83d\ude00"})",
                 With("kept", R"(\"\\/\b\f\n\r\tü😀)")}),
    [](const auto& test) { return test.param.name; });

struct ReaderErrorCase {
  const char* name;
  std::string text;
  const char* message;
};

class GoJsonRefuse : public testing::TestWithParam<ReaderErrorCase> {};

TEST_P(GoJsonRefuse, NamesTheProblemAndThePlace) {
  Outer value;
  const Result<Done> read = GoJsonReader::Read(GetParam().text, value);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error(), (Error{ErrorCode::kCorrupt, GetParam().message}));
}

INSTANTIATE_TEST_SUITE_P(
    Types, GoJsonRefuse,
    testing::Values(
        ReaderErrorCase{"Top", "[]", "an object is expected, not a list"},
        ReaderErrorCase{"Text", R"({"text":1})", "text: a string is expected, not a number"},
        ReaderErrorCase{"Number", R"({"checkSum":"1"})",
                        "checkSum: a number is expected, not a string"},
        ReaderErrorCase{"Negative", R"({"checkSum":-1})",
                        "checkSum: a whole number of 64 bits, not negative, is expected, not -1"},
        ReaderErrorCase{"MinusZero", R"({"checkSum":-0})",
                        "checkSum: a whole number of 64 bits, not negative, is expected, not -0"},
        ReaderErrorCase{"TooLarge", R"({"checkSum":18446744073709551616})",
                        "checkSum: a whole number of 64 bits, not negative, is expected, not "
                        "18446744073709551616"},
        ReaderErrorCase{"Fraction", R"({"list":[{},{"number":1.0}]})",
                        "list.1.number: a whole number of 64 bits is expected, not 1.0"},
        ReaderErrorCase{"InAMap", R"({"pointers":{"a":{},"b\n":true}})",
                        R"(pointers."b\n": an object is expected, not true or false)"},
        ReaderErrorCase{"Key", R"({"byNumber":{"x":"a"}})",
                        R"(byNumber."x": the key must be a whole number of 64 bits)"},
        ReaderErrorCase{"SignsOfAKey", R"({"byNumber":{"+-1":"a"}})",
                        R"(byNumber."+-1": the key must be a whole number of 64 bits)"},
        ReaderErrorCase{"Base64", R"({"bytes":"x"})", "bytes: base64 is expected"},
        ReaderErrorCase{"Byte", R"({"bytes":[256]})", "bytes: a byte is expected, not 256"},
        ReaderErrorCase{"TheFirstCounts", R"({"text":[{}],"checkSum":""})",
                        "text: a string is expected, not a list"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Syntax, GoJsonRefuse,
    testing::Values(
        ReaderErrorCase{"Empty", "", "unexpected end of JSON input"},
        ReaderErrorCase{"Cut", R"({"text":"a)", "unexpected end of JSON input"},
        ReaderErrorCase{"CutAfterAValue", R"({"a":1)", "unexpected end of JSON input"},
        ReaderErrorCase{"TextAfterTheValue", "{}x", "not JSON: line 1, column 3: unexpected text"},
        ReaderErrorCase{"NulAfterTheValue", std::string("{}\0x", 4),
                        "not JSON: line 1, column 3: unexpected text"},
        ReaderErrorCase{"ByteOrderMark", "\xEF\xBB\xBF{}",
                        "not JSON: line 1, column 1: unexpected text"},
        ReaderErrorCase{"TrailingComma", "[1,\n]", "not JSON: line 2, column 1: unexpected text"},
        ReaderErrorCase{"LeadingZero", "[01]", "not JSON: line 1, column 3: unexpected text"},
        ReaderErrorCase{"HalfASurrogatePair", R"({"text":"\ud83dx"})",
                        "not JSON: line 1, column 16: unexpected text"},
        ReaderErrorCase{"NotUtf8", "{\"text\":\"a\xff\"}",
                        "not JSON: line 1, column 11: unexpected text"},
        ReaderErrorCase{"TooLargeNumber", R"({"x":1e999})", "not JSON: a number is out of range"}),
    [](const auto& test) { return test.param.name; });

std::string Nested(size_t depth) {
  return R"({"x":)" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
}

TEST(GoJsonReader, ReadsAHundredLevels) {
  Outer value;
  EXPECT_TRUE(GoJsonReader::Read(Nested(100), value).ok());
  for (const size_t depth : {101U, 1'000'000U}) {
    const Result<Done> deeper = GoJsonReader::Read(Nested(depth), value);
    ASSERT_FALSE(deeper.ok());
    EXPECT_EQ(deeper.error(), (Error{ErrorCode::kCorrupt, "is nested deeper than 100 levels"}));
  }
}

TEST(ParseJson, KeepsRepeatedKeysAndWrittenNumbers) {
  const Result<JsonNode> parsed = ParseJson(R"({"a":1.50,"\u0062":[-0,true],"a":null})");
  ASSERT_TRUE(parsed.ok());
  ASSERT_EQ(parsed->children.size(), 3U);
  EXPECT_EQ(parsed->children[0].key, "a");
  EXPECT_EQ(parsed->children[0].text, "1.50");
  EXPECT_EQ(parsed->children[1].key, "b");
  ASSERT_EQ(parsed->children[1].children.size(), 2U);
  EXPECT_EQ(parsed->children[1].children[0].text, "-0");
  EXPECT_EQ(parsed->children[1].children[1].kind, JsonNode::Kind::kBool);
  EXPECT_EQ(parsed->children[2].key, "a");
  EXPECT_EQ(parsed->children[2].kind, JsonNode::Kind::kNull);
}

TEST(GoJsonReader, QuotesOnlyTheStartOfALongKey) {
  Outer value;
  const std::string text = R"({"pointers":{")" + std::string(1'000'000, 'k') + R"(":1}})";
  const Result<Done> read = GoJsonReader::Read(text, value);
  ASSERT_FALSE(read.ok());
  EXPECT_LT(read.error().message.size(), 200U);
}

TEST(MatchesField, TakesTheWholeNameOnly) {
  EXPECT_TRUE(MatchesField("podUID", "PodUID"));
  EXPECT_FALSE(MatchesField("PodUI", "PodUID"));
  EXPECT_FALSE(MatchesField("PodUIDs", "PodUID"));
  EXPECT_FALSE(MatchesField("", "PodUID"));
  EXPECT_FALSE(MatchesField("p\u00F6dUID", "PodUID"));
}

}  // namespace
}  // namespace alignd::checkpoint
