#include "host/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "edge/fake_tree.h"
#include "edge/odd_files.h"

namespace alignd::host {
namespace {

using testing::FakeEntry;
using testing::FakeTree;

TEST(ReadFile, ReturnsTheWholeContentWithItsLineEnd) {
  const FakeTree tree{{"a", "0-3\n"}, {"empty", ""}};
  EXPECT_EQ(ReadFile(tree.root() / "a").value(), "0-3\n");
  EXPECT_EQ(ReadFile(tree.root() / "empty").value(), "");
}

TEST(ReadFile, ReadsAFileWithoutAKnownSize) {
  const Result<std::string> status = ReadFile("/proc/self/status");
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(status->rfind("Name:", 0), 0u);
}

TEST(ReadFile, StopsAtTheLimit) {
  const std::string long_text(40'000, 'x');
  const FakeTree tree{{"long", long_text}};
  EXPECT_EQ(ReadFile(tree.root() / "long", 40'000).value(), long_text);
  const Result<std::string> refused = ReadFile(tree.root() / "long", 39'999);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().message,
            "read " + (tree.root() / "long").string() + ": longer than 39999 bytes");
  EXPECT_EQ(refused.error().remedy, "check the path; no file of this kind is that long");
}

TEST(ReadFile, DistinguishesAbsentFromUnreadableFiles) {
  const FakeTree tree{{"file", ""}};
  EXPECT_EQ(ReadFile(tree.root() / "absent").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ReadFile(tree.root() / "file/below").error().code, ErrorCode::kNotFound);
  const Result<std::string> directory = ReadFile(tree.root());
  ASSERT_FALSE(directory.ok());
  EXPECT_EQ(directory.error().code, ErrorCode::kIo);
  EXPECT_EQ(directory.error().message, "read " + tree.root().string() + ": Is a directory");
  EXPECT_EQ(directory.error().remedy, "name a file, not a directory");
}

TEST(ReadFile, RefusesAFifoAtOnce) {
  const FakeTree tree;
  const std::filesystem::path fifo = tree.root() / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const Result<std::string> read = ReadFile(fifo);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error(), (Error{ErrorCode::kIo, "read " + fifo.string() + ": not a regular file",
                                 "remove the FIFO, socket or device, or name another file"}));
}

TEST(ReadFile, RefusesAtOnceWhatIsNoFileAndDoesNotTakeItForAbsent) {
  const FakeTree tree;
  for (const testing::OddFile kind : testing::OddFiles()) {
    SCOPED_TRACE(NameOf(kind));
    const std::filesystem::path path = tree.root() / "state";
    testing::MakeOddFile(kind, path);
    const Result<std::string> read = ReadFile(path);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code, ErrorCode::kIo) << read.error().Text();
    EXPECT_EQ(read.error().message.find("read " + path.string() + ": "), 0U);
    EXPECT_NE(read.error().remedy, "") << read.error().Text();
  }
}

TEST(ReadFile, FollowsALinkToAFileAndReportsADanglingLinkOnTheWay) {
  const FakeTree tree{{"real", {{"file", "text"}}}, FakeEntry::Link("link", "real")};
  EXPECT_EQ(ReadFile(tree.root() / "link/file").value(), "text");
  EXPECT_EQ(ReadFile(tree.root() / "link/absent").error().code, ErrorCode::kNotFound);
  tree.Write(FakeEntry::Link("broken", "gone"));
  const Result<std::string> read = ReadFile(tree.root() / "broken/below/file");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error(), (Error{ErrorCode::kIo,
                                 "read " + (tree.root() / "broken/below/file").string() +
                                     ": the target of the symbolic link " +
                                     (tree.root() / "broken").string() + " does not exist",
                                 "remove the link, or restore its target"}));
}

TEST(ContentError, NamesTheFileAndAddsARemedyWhereThereIsNone) {
  EXPECT_EQ(ContentError({ErrorCode::kCorrupt, "line 1", ""}, "/x"),
            (Error{ErrorCode::kCorrupt, "/x: line 1", "correct the file, or name another one"}));
  EXPECT_EQ(ContentError({ErrorCode::kCorrupt, "line 1", "burn it"}, "/x").remedy, "burn it");
}

TEST(ReadFileOrPipe, ReadsAPipe) {
  const FakeTree tree;
  const std::filesystem::path fifo = tree.root() / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::thread writer([&fifo] { std::ofstream(fifo) << "text"; });
  const Result<std::string> read = ReadFileOrPipe(fifo);
  writer.join();
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(*read, "text");
}

TEST(ListDirectory, SortsTheNames) {
  const FakeTree tree{{"b", ""}, {"a", {{"inner", ""}}}, {"a10", ""}};
  EXPECT_EQ(ListDirectory(tree.root()).value(), (std::vector<std::string>{"a", "a10", "b"}));
}

TEST(ListDirectory, ReportsAMissingDirectory) {
  const FakeTree tree;
  const Result<std::vector<std::string>> names = ListDirectory(tree.root() / "absent");
  ASSERT_FALSE(names.ok());
  EXPECT_EQ(names.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(names.error().message,
            "list " + (tree.root() / "absent").string() + ": No such file or directory");
}

}  // namespace
}  // namespace alignd::host
