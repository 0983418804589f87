#include "host/rehearsed_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "edge/fake_tree.h"
#include "host/file.h"

namespace alignd::host {
namespace {

namespace fs = std::filesystem;
using testing::FakeTree;

TEST(RehearsedFiles, ChangeNothing) {
  const FakeTree tree{{"kept", "old"}, {".kept.alignd-new", "left by a crash"}};
  RehearsedFiles calls;
  EXPECT_TRUE(ReplaceFile(tree.root() / "kept", "new", calls).ok());
  EXPECT_TRUE(ReplaceFile(tree.root() / "added", "new", calls).ok());
  EXPECT_TRUE(RemoveFile(tree.root() / "kept", calls).ok());
  EXPECT_TRUE(RemoveTemporary(tree.root() / "kept", calls).ok());
  EXPECT_TRUE(MakeDirectory(tree.root() / "a/b/c", calls).ok());
  EXPECT_TRUE(ReplaceFile(tree.root() / "a/b/c/file", "new", calls).ok());
  EXPECT_EQ(ReadFile(tree.root() / "kept").value(), "old");
  EXPECT_EQ(ReadFile(tree.root() / ".kept.alignd-new").value(), "left by a crash");
  EXPECT_FALSE(fs::exists(tree.root() / "added"));
  EXPECT_FALSE(fs::exists(tree.root() / "a"));
}

TEST(RehearsedFiles, FailAsTheRealCallsDo) {
  const FakeTree tree{{"file", "text"}, {"directory", {}}};
  RehearsedFiles calls;
  for (const fs::path& path :
       {tree.root() / "missing/file", tree.root() / "file/below", tree.root() / "directory"}) {
    const Result<Done> rehearsed = ReplaceFile(path, "new", calls);
    const Result<Done> real = ReplaceFile(path, "new");
    ASSERT_FALSE(rehearsed.ok()) << path;
    ASSERT_FALSE(real.ok()) << path;
    EXPECT_EQ(rehearsed.error(), real.error()) << path;
  }
  const Result<Done> rehearsed = MakeDirectory(tree.root() / "file/below", calls);
  ASSERT_FALSE(rehearsed.ok());
  EXPECT_EQ(rehearsed.error(), MakeDirectory(tree.root() / "file/below").error());
}

TEST(RehearsedFiles, NeedThePermissionToWrite) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const FakeTree tree{{"closed", {}}};
  fs::permissions(tree.root() / "closed", fs::perms::owner_read | fs::perms::owner_exec);
  RehearsedFiles calls;
  const Result<Done> rehearsed = ReplaceFile(tree.root() / "closed/file", "new", calls);
  ASSERT_FALSE(rehearsed.ok());
  EXPECT_EQ(rehearsed.error(), ReplaceFile(tree.root() / "closed/file", "new").error());
  EXPECT_FALSE(MakeDirectory(tree.root() / "closed/below", calls).ok());
}

}  // namespace
}  // namespace alignd::host
