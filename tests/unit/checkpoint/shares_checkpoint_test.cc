#include "alignd/checkpoint/shares_checkpoint.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace alignd::checkpoint {
namespace {

Shares ThreeContainers() {
  Shares shares;
  shares[{"uid-a", "app"}] = {.numa_id = 1, .millis = 1500};
  shares[{"uid-a", "first"}] = {.numa_id = 1, .millis = 0, .kind = ContainerKind::kInit};
  shares[{"uid-b", "log"}] = {.numa_id = 8, .millis = 1, .kind = ContainerKind::kSidecar};
  return shares;
}

TEST(SharesCheckpoint, IsReadBack) {
  for (const Shares& shares : {ThreeContainers(), Shares()}) {
    for (const std::vector<uint64_t>& cpu_files :
         {std::vector<uint64_t>{}, std::vector<uint64_t>{UINT32_MAX, 7}}) {
      const auto read = ParseSharesCheckpoint(FormatSharesCheckpoint(shares, cpu_files));
      ASSERT_TRUE(read.ok()) << read.error().Text();
      EXPECT_EQ(*read, (SharesCheckpoint{shares, cpu_files}));
    }
  }
}

// Of a version that does not write beside which cpu_manager_state the shares were saved. It reads
// the new form, too: its checksum is that of the shares.
TEST(SharesCheckpoint, TheFirstFormIsRead) {
  const std::string first =
      R"({"entries":{"uid-a":{"app":{"numaNode":1,"cpuMillis":1500,"kind":"app"}}},"checksum":3612533774})";
  const Result<SharesCheckpoint> read = ParseSharesCheckpoint(first);
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(read->shares.size(), 1U);
  EXPECT_FALSE(read->IsOfAnotherCpuFile("any"));
  EXPECT_EQ(FormatSharesCheckpoint(read->shares), first);
  const std::string checksum = first.substr(first.rfind(':'));
  EXPECT_TRUE(FormatSharesCheckpoint(read->shares, {1}).ends_with(checksum));
}

TEST(SharesCheckpoint, SaysOfWhichCpuFileItIs) {
  const SharesCheckpoint saved{{}, {CpuFileChecksum("now"), CpuFileChecksum("next")}};
  EXPECT_FALSE(saved.IsOfAnotherCpuFile("now"));
  EXPECT_FALSE(saved.IsOfAnotherCpuFile("next"));
  EXPECT_TRUE(saved.IsOfAnotherCpuFile("later"));
  EXPECT_TRUE(saved.IsOfAnotherCpuFile(""));
}

TEST(SharesCheckpoint, EachChangedByteIsFound) {
  const std::string text = FormatSharesCheckpoint(ThreeContainers());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = other[i] == '1' ? '2' : '1';
    EXPECT_FALSE(ParseSharesCheckpoint(other).ok()) << other;
    EXPECT_FALSE(ParseSharesCheckpoint(text.substr(0, i)).ok()) << i;
  }
}

// With the right checksum, so that only the content is wrong.
TEST(SharesCheckpoint, ContentThatCannotBeIsRefused) {
  const auto with_checksum = [](const std::string& entries) {
    // The error of a wrong checksum has the right one.
    const Result<SharesCheckpoint> wrong =
        ParseSharesCheckpoint("{\"entries\":" + entries + ",\"checksum\":0}");
    EXPECT_FALSE(wrong.ok());
    const std::string& message = wrong.error().message;
    const std::string sum = message.substr(message.find_last_of(' ') + 1);
    return "{\"entries\":" + entries + ",\"checksum\":" + sum + "}";
  };
  const std::string good = R"({"u":{"c":{"numaNode":0,"cpuMillis":5,"kind":"app"}}})";
  EXPECT_TRUE(ParseSharesCheckpoint(with_checksum(good)).ok());
  for (const auto& [entries, error] : std::vector<std::pair<std::string, std::string>>{
           {R"({"u":{"c":{"numaNode":-1,"cpuMillis":5,"kind":"app"}}})", "no NUMA node"},
           {R"({"u":{"c":{"numaNode":0,"cpuMillis":-5,"kind":"app"}}})", "no request"},
           {R"({"u":{"c":{"numaNode":0,"cpuMillis":5,"kind":"x"}}})", "kind \"x\" is not known"},
           {R"({"u":{"":{"numaNode":0,"cpuMillis":5,"kind":"app"}}})", "a name is missing"},
           {R"({"u":{}})", "pod \"u\": no container"},
           {"null", "there are no entries"}}) {
    const Result<SharesCheckpoint> read = ParseSharesCheckpoint(with_checksum(entries));
    ASSERT_FALSE(read.ok()) << entries;
    EXPECT_NE(read.error().message.find(error), std::string::npos) << read.error().message;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  }
}

}  // namespace
}  // namespace alignd::checkpoint
