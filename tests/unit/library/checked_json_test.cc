// JSON of callers: what is refused before anything is done with it.
#include "library/checked_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "alignd/base/json_depth.h"

namespace alignd::library {
namespace {

std::string ErrorFor(const std::string& text, size_t most = 1000) {
  const Result<nlohmann::json> value = CheckedJson(text, "pod", most);
  return value.ok() ? "" : value.error().message;
}

TEST(CheckedJson, HasLimits) {
  EXPECT_EQ(ErrorFor(R"({"a": [1, "[[{\"", {"b": null}]})"), "");
  EXPECT_EQ(ErrorFor("[1]", 2), "pod: has more than 2 bytes");
  const std::string deep(kMaxJsonDepth, '[');
  EXPECT_EQ(ErrorFor(deep + std::string(kMaxJsonDepth, ']')), "");
  EXPECT_EQ(ErrorFor('[' + deep + std::string(kMaxJsonDepth + 1, ']')),
            "pod: has more than 100 levels");
  EXPECT_EQ(ErrorFor(std::string(900, '[')), "pod: has more than 100 levels");
}

TEST(CheckedJson, CountsOpenBrackets) {
  EXPECT_EQ(JsonDepthOf(""), 0);
  EXPECT_EQ(JsonDepthOf("1"), 0);
  EXPECT_EQ(JsonDepthOf(R"({"a":[1,{"b":[]}],"c":{}})"), 4);
  EXPECT_EQ(JsonDepthOf(R"(["[[[{\"[[","\\"])"), 1);
  EXPECT_EQ(JsonDepthOf("]]][["), 0);
  EXPECT_EQ(JsonDepthOf(std::string(1'000'000, '[')), 1'000'000);
}

TEST(CheckedJson, IsJsonWithoutDoubleKeys) {
  EXPECT_EQ(ErrorFor(""), "pod: is not JSON");
  EXPECT_EQ(ErrorFor("{} {}"), "pod: is not JSON");
  EXPECT_EQ(ErrorFor("kind: Pod"), "pod: is not JSON");
  EXPECT_EQ(ErrorFor("[1e999]"), "pod: is not JSON");
  EXPECT_EQ(ErrorFor(R"([{"a": 1, "a": 2}])"), "pod: an object has \"a\" twice");
  EXPECT_EQ(ErrorFor(R"({"a": {"a": 2}, "b": {"a": 1}})"), "");
}

}  // namespace
}  // namespace alignd::library
