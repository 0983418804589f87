#include "proxy/headers.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace alignd::proxy {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

Fields FieldsOf(const Headers& headers) {
  Fields fields;
  for (const auto& [name, value] : headers) fields.emplace_back(name, value);
  return fields;
}

TEST(Headers, KeepOrderDuplicatesAndEmptyValues) {
  Headers headers = {{":path", "/a"}, {"x", ""}};
  headers.Add("", "nameless");
  headers.Add("x", "second");
  EXPECT_EQ(FieldsOf(headers),
            (Fields{{":path", "/a"}, {"x", ""}, {"", "nameless"}, {"x", "second"}}));
  EXPECT_EQ(headers.size(), 4u);
  EXPECT_EQ(headers.bytes(), 5u + 2 + 1 + 8 + 1 + 6);
  EXPECT_EQ(headers[3].value, "second");
}

TEST(Headers, AreFoundByName) {
  Headers headers = {{"a", "1"}, {"b", "2"}, {"b", "3"}};
  EXPECT_EQ(headers.Find("b"), "2");
  EXPECT_EQ(headers.Find("B"), "");
  EXPECT_EQ(headers.Find("2"), "");
}

// Fields are still found after the buffer has been reallocated.
TEST(Headers, GrowBeyondTheUsualSize) {
  Headers headers;
  Fields expected;
  for (int i = 0; i < 200; ++i) {
    expected.emplace_back("name" + std::to_string(i), std::string(static_cast<size_t>(i), 'v'));
    headers.Add(expected.back().first, expected.back().second);
  }
  EXPECT_EQ(FieldsOf(headers), expected);
}

TEST(Headers, AreEmptyAfterMoveAndClear) {
  Headers headers = {{"a", "1"}};
  const Headers taken = std::exchange(headers, {});
  EXPECT_TRUE(headers.empty());
  EXPECT_EQ(FieldsOf(headers), Fields());
  EXPECT_EQ(FieldsOf(taken), (Fields{{"a", "1"}}));
  headers.Add("b", "2");
  EXPECT_EQ(FieldsOf(headers), (Fields{{"b", "2"}}));
  headers.clear();
  EXPECT_TRUE(headers.empty());
  EXPECT_EQ(headers.bytes(), 0u);
}

}  // namespace
}  // namespace alignd::proxy
