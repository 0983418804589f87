#include "alignd/checkpoint/originals_checkpoint.h"

#include <gtest/gtest.h>

#include <string>

namespace alignd::checkpoint {
namespace {

TEST(OriginalsCheckpoint, IsReadAsItWasWritten) {
  Originals originals;
  originals["p"]["app"] = CpuSet::Range(1, 2);
  originals["p"]["log"] = CpuSet::Range(5, 5);
  originals["q"]["app"] = CpuSet::Range(8, 11);
  for (const Originals& some : {originals, Originals()}) {
    const Result<Originals> read = ParseOriginalsCheckpoint(FormatOriginalsCheckpoint(some));
    ASSERT_TRUE(read.ok()) << read.error().Text();
    EXPECT_EQ(*read, some);
  }
}

TEST(OriginalsCheckpoint, HasPodsContainersAndCpuLists) {
  Originals originals;
  originals["p"]["app"] = CpuSet::Range(1, 2);
  EXPECT_TRUE(FormatOriginalsCheckpoint(originals).starts_with(
      R"({"entries":{"p":{"app":"1-2"}},"checksum":)"));
}

// The same entries with a checksum that fits.
std::string SealedOriginals(const std::string& entries) {
  const auto with = [&](const std::string& checksum) {
    return "{\"entries\":" + entries + ",\"checksum\":" + checksum + "}";
  };
  const Result<Originals> read = ParseOriginalsCheckpoint(with("0"));
  if (read.ok()) return with("0");
  const std::string kSays = "its content has ";
  const size_t at = read.error().message.find(kSays);
  return at == std::string::npos ? with("0") : with(read.error().message.substr(at + kSays.size()));
}

TEST(OriginalsCheckpoint, NamesTheProblem) {
  const struct {
    const char* what;
    std::string text;
    std::string says;
  } kCases[] = {
      {"not JSON", "{", ""},
      {"no checksum", R"({"entries":{}})", "its checksum is 0"},
      {"another checksum", R"({"entries":{"p":{"app":"1-2"}},"checksum":1})", "its checksum is 1"},
      {"wrong type", R"({"entries":[],"checksum":1})", "entries"},
      {"no UID", SealedOriginals(R"({"":{"app":"1"}})"), "a name is missing"},
      {"no container name", SealedOriginals(R"({"p":{"":"1"}})"), "a name is missing"},
      {"no container", SealedOriginals(R"({"p":{}})"), "no container"},
      {"null", SealedOriginals(R"({"p":null})"), "no container"},
      {"no list", SealedOriginals(R"({"p":{"app":"1-"}})"), "container \"app\""},
  };
  for (const auto& c : kCases) {
    const Result<Originals> read = ParseOriginalsCheckpoint(c.text);
    ASSERT_FALSE(read.ok()) << c.what;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt) << c.what;
    EXPECT_NE(read.error().message.find(c.says), std::string::npos)
        << c.what << ": " << read.error().message;
  }
}

}  // namespace
}  // namespace alignd::checkpoint
