#include "daemon/moves_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "edge/fake_tree.h"

namespace alignd::daemon {
namespace {

using MoveList = std::vector<admission::CpuMove>;

TEST(MovesFile, IsReadAsItWasWritten) {
  const testing::FakeTree tree;
  const MovesFile file(tree.root());
  const auto absent = file.Read();
  ASSERT_TRUE(absent.ok());
  EXPECT_TRUE(absent->empty());
  const MoveList moves = {
      {{"uid-1", "app"}, *CpuSet::Parse("1-3"), *CpuSet::Parse("2-4")},
      {{"any\nbytes \xff", "5\n12345\n"}, *CpuSet::Parse("8"), *CpuSet::Parse("9")}};
  ASSERT_TRUE(file.Write(moves).ok());
  const auto read = file.Read();
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(*read, moves);
  ASSERT_TRUE(file.Remove().ok());
  EXPECT_TRUE(file.Read()->empty());
  EXPECT_TRUE(file.Remove().ok());
}

TEST(MovesFile, IsNotReadInParts) {
  const testing::FakeTree tree;
  const MovesFile file(tree.root());
  ASSERT_TRUE(file.Write({{{"uid-1", "app"}, *CpuSet::Parse("1-3"), *CpuSet::Parse("2-4")}}).ok());
  const auto path = tree.root() / MovesFile::kFileName;
  std::string text;
  {
    std::ifstream in(path);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  for (size_t size = 0; size < text.size(); ++size) {
    std::ofstream(path) << text.substr(0, size);
    const auto read = file.Read();
    ASSERT_FALSE(read.ok()) << size;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(read.error().message.find(MovesFile::kFileName), std::string::npos);
  }
  std::ofstream(path) << text << "more";
  EXPECT_FALSE(file.Read().ok());
}

}  // namespace
}  // namespace alignd::daemon
