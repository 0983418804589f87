#include "host/yaml.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace alignd::host {
namespace {

std::string Converted(std::string_view yaml) {
  const Result<std::string> json = YamlToJson(yaml);
  return json.ok() ? *json : "error: " + json.error().message;
}

using Cases = std::vector<std::pair<std::string, std::string>>;

void ExpectConverted(const Cases& cases) {
  for (const auto& [yaml, json] : cases) EXPECT_EQ(Converted(yaml), json) << yaml;
}

TEST(YamlToJson, KeepsStructure) {
  ExpectConverted({
      {"a: b", R"({"a":"b"})"},
      {"a:\n- 1\n- b: c\n  d: e", R"({"a":[1,{"b":"c","d":"e"}]})"},
      {"a: {}\nb: []\nc:", R"({"a":{},"b":[],"c":null})"},
      {"a: |\n  two\n  lines\n", R"({"a":"two\nlines\n"})"},
      {"---\na: b\n...\n", R"({"a":"b"})"},
      {"a: b\n---\n", R"({"a":"b"})"},
      {"# only a comment", "null"},
      {"", "null"},
  });
}

TEST(YamlToJson, LeavesJsonAlone) {
  ExpectConverted(
      {{"{\"a\":\t1.0}", "{\"a\":\t1.0}"}, {"\n {\"not even JSON", "\n {\"not even JSON"}});
}

// As `kubectl get -o kyaml` writes it.
TEST(YamlToJson, ReadsMappingsInBraces) {
  ExpectConverted({
      {"{apiVersion: v1, kind: Pod}", R"({"apiVersion":"v1","kind":"Pod"})"},
      {"---\n{\n  kind: \"Pod\",\n  spec: {\n    containers: [{\n      name: \"a\",\n    }],\n"
       "  },\n}\n",
       R"({"kind":"Pod","spec":{"containers":[{"name":"a"}]}})"},
  });
}

TEST(YamlToJson, ScalarsHaveTheTypesOfKubernetes) {
  ExpectConverted({
      {"- yes\n- No\n- on\n- OFF\n- y\n- N\n- TRUE\n- False",
       "[true,false,true,false,true,false,true,false]"},
      {"- tRUE\n- yEs\n- oN", R"(["tRUE","yEs","oN"])"},
      {"- ~\n- null\n- Null\n- NULL\n-", "[null,null,null,null,null]"},
      {"- 1\n- -1\n- +1\n- 1_000\n- 0x1F\n- 0b11\n- 0o17\n- 017\n- 0",
       "[1,-1,1,1000,31,3,15,15,0]"},
      {"- 9223372036854775808\n- -9223372036854775808",
       "[9223372036854775808,-9223372036854775808]"},
      {"- 1.5\n- .5\n- 1.\n- 1e3\n- -1.5e-3\n- 08", "[1.5,0.5,1.0,1000.0,-0.0015,8.0]"},
      {"- 1Gi\n- 500m\n- 1.2.3\n- 0-3\n- 2024-01-01\n- 0x\n- +-1\n- 1e\n- 12:30:45",
       R"(["1Gi","500m","1.2.3","0-3","2024-01-01","0x","+-1","1e","12:30:45"])"},
      {"- inf\n- nan\n- .foo\n- '-'\n- +", R"(["inf","nan",".foo","-","+"])"},
  });
}

TEST(YamlToJson, WhatIsQuotedStaysAString) {
  ExpectConverted({
      {R"(["1", 'yes', "null", "", '~', "0x1F"])", R"(["1","yes","null","","~","0x1F"])"},
      {"- !!str 1\n- !!str yes\n- !!int 1\n- !!float 1\n- !!bool on\n- !!null ~",
       R"(["1","yes",1,1,true,null])"},
      {"- \"\\u00e9\\n\"", "[\"\u00e9\\n\"]"},
  });
}

TEST(YamlToJson, KeysBecomeStrings) {
  ExpectConverted({
      {"1: a\nyes: b\n\"no\": c\n1.5: d", R"({"1":"a","1.5":"d","no":"c","true":"b"})"},
      {"a: 1\nb: 2\na: 3", "error: line 3, column 1: the key \"a\" occurs twice"},
      {"on: 1\nyes: 2", "error: line 2, column 1: the key \"true\" occurs twice"},
      {"? [a]\n: b", "error: line 1, column 3: a key must be a scalar"},
      {"~: b", "error: line 1, column 1: a key must be a scalar"},
  });
}

TEST(YamlToJson, FollowsAliasesAndMergeKeys) {
  ExpectConverted({
      {"a: &x {b: 1}\nc: *x", R"({"a":{"b":1},"c":{"b":1}})"},
      {"a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  b: 3", R"({"a":{"b":1,"c":2},"d":{"b":3,"c":2}})"},
      {"- &x {b: 1}\n- &y {b: 2, c: 3}\n- <<: [*x, *y]",
       R"([{"b":1},{"b":2,"c":3},{"b":1,"c":3}])"},
      {"<<: 1", "error: line 1, column 5: << needs a map or a list of maps"},
      {"\"<<\": 1", R"({"<<":1})"},
  });
}

TEST(YamlToJson, RefusesWithLineAndColumn) {
  ExpectConverted({
      {"a: b\n  c: d", "error: line 2, column 4: not YAML: illegal map value"},
      {"a: [1, 2", "error: not YAML: end of sequence flow not found"},
      {"a: *missing", "error: line 1, column 4: not YAML: the referenced anchor is not defined"},
      {"a: .inf", "error: line 1, column 4: .inf cannot be written in JSON"},
      {"a: !!int b", "error: line 1, column 4: \"b\" does not fit the tag tag:yaml.org,2002:int"},
      {"a: !mine b", "error: line 1, column 4: \"b\" does not fit the tag !mine"},
      {"a: b\n---\nc: d", "error: line 2, column 1: a second document; a file must have only one"},
      {"[a] b", "error: line 1, column 5: a second document; a file must have only one"},
      // The library would give out empty documents for ever.
      {"&a b\n? c \"d\"", "error: line 2, column 1: not YAML: unexpected text"},
  });
}

TEST(YamlToJson, BoundsWhatAliasesUnfoldTo) {
  std::string yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    yaml += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
    for (int j = 1; j < 10; ++j) yaml += ", " + last;
    yaml += "]\n";
  }
  const Result<std::string> converted = YamlToJson(yaml);
  ASSERT_FALSE(converted.ok());
  EXPECT_NE(converted.error().message.find("more than 20,000 values"), std::string::npos);
  EXPECT_NE(converted.error().remedy.find("kubectl get -o json"), std::string::npos);
}

TEST(YamlToJson, BoundsDepth) {
  const auto nested = [](size_t levels) {
    return "- " + std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ(Converted(nested(99)).find("error"), std::string::npos);
  EXPECT_EQ(Converted(nested(150)), "error: line 1, column 103: more than 100 levels");
  EXPECT_EQ(Converted(nested(100'000)).find("error: "), 0U);
  EXPECT_EQ(Converted("&a [*a]"), "error: line 1, column 1: more than 100 levels");
}

}  // namespace
}  // namespace alignd::host
