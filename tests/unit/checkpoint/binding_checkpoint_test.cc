#include "alignd/checkpoint/binding_checkpoint.h"

#include <gtest/gtest.h>

#include <string>

namespace alignd::checkpoint {
namespace {

TEST(BindingCheckpoint, IsReadAsItWasWritten) {
  const Bindings bindings{
      {{"p", "app"}, {{"a.com/b", {{"1", "2"}, {"3", "3"}}}, {"a.com/c", {{"x", "y"}}}}},
      {{"p", "init"}, {{"a.com/b", {{"1", "2"}}}}}};
  for (const Bindings& some : {bindings, Bindings()}) {
    const Result<Bindings> read = ParseBindingCheckpoint(FormatBindingCheckpoint(some));
    ASSERT_TRUE(read.ok()) << read.error().Text();
    EXPECT_EQ(*read, some);
  }
}

// The same text with a checksum that fits.
std::string Sealed(const std::string& entries) {
  for (uint64_t guess = 0;; ++guess) {
    const std::string text =
        "{\"entries\":" + entries + ",\"checksum\":" + std::to_string(guess) + "}";
    const Result<Bindings> read = ParseBindingCheckpoint(text);
    if (read.ok()) return text;
    const std::string kSays = "its content has ";
    const size_t at = read.error().message.find(kSays);
    if (at == std::string::npos) return text;
    guess = std::stoull(read.error().message.substr(at + kSays.size())) - 1;
  }
}

TEST(BindingCheckpoint, NamesTheProblem) {
  const struct {
    const char* what;
    std::string text;
    std::string says;
  } kCases[] = {
      {"not JSON", "{", ""},
      {"no checksum", R"({"entries":[]})", "its checksum is 0"},
      {"wrong type", R"({"entries":{},"checksum":1})", "entries"},
      {"no name", Sealed(R"([{"podUID":"","container":"c","resource":"r","devices":{"1":"2"}}])"),
       "a name is missing"},
      {"no devices", Sealed(R"([{"podUID":"p","container":"c","resource":"r","devices":{}}])"),
       "no devices"},
      {"empty id", Sealed(R"([{"podUID":"p","container":"c","resource":"r","devices":{"1":""}}])"),
       "an id is empty"},
      {"two ids with one device",
       Sealed(R"([{"podUID":"p","container":"c","resource":"r","devices":{"1":"2","2":"2"}}])"),
       "device \"2\" belongs to two ids"},
      {"twice",
       Sealed(R"([{"podUID":"p","container":"c","resource":"r","devices":{"1":"2"}},)"
              R"({"podUID":"p","container":"c","resource":"r","devices":{"1":"2"}}])"),
       "a second entry"},
  };
  for (const auto& c : kCases) {
    const Result<Bindings> read = ParseBindingCheckpoint(c.text);
    ASSERT_FALSE(read.ok()) << c.what;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt) << c.what;
    EXPECT_NE(read.error().message.find(c.says), std::string::npos) << read.error().message;
  }
}

}  // namespace
}  // namespace alignd::checkpoint
