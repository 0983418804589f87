#include "daemon/change_undo.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "edge/fake_tree.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;

class ChangeUndoTest : public ::testing::Test {
 protected:
  ChangeUndoTest() {
    fs::create_directories(Dir());
    std::ofstream(Dir() / "a") << std::string("old\0a\n", 6);
    std::ofstream(tree_.root() / "config.yaml") << "x: 1\n";
  }

  fs::path Dir() const { return tree_.root() / "state"; }
  fs::path Record() const { return Dir() / ChangeUndo::kFileName; }
  std::vector<fs::path> Files() const {
    return {Dir() / "a", Dir() / "absent", tree_.root() / "config.yaml"};
  }
  static std::string Text(const fs::path& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  void ChangeAll() const {
    std::ofstream(Dir() / "a") << "new";
    std::ofstream(Dir() / "absent") << "made";
    std::ofstream(tree_.root() / "config.yaml") << "x: 2\n";
  }
  void ExpectOldFiles() const {
    EXPECT_EQ(Text(Dir() / "a"), std::string("old\0a\n", 6));
    EXPECT_FALSE(fs::exists(Dir() / "absent"));
    EXPECT_EQ(Text(tree_.root() / "config.yaml"), "x: 1\n");
    EXPECT_FALSE(fs::exists(Record()));
  }

  const testing::FakeTree tree_;
};

TEST_F(ChangeUndoTest, UndoRestoresEveryFileAndItsMode) {
  fs::permissions(tree_.root() / "config.yaml", fs::perms(0644));
  const auto undo = ChangeUndo::Begin(Dir(), Files(), "x: 1\n");
  ASSERT_TRUE(undo.ok()) << undo.error().Text();
  EXPECT_TRUE(fs::exists(Record()));
  ChangeAll();
  ASSERT_TRUE(undo->Undo().ok());
  ExpectOldFiles();
  EXPECT_EQ(fs::status(tree_.root() / "config.yaml").permissions(), fs::perms(0644));
}

TEST_F(ChangeUndoTest, AnotherProcessFindsWhatWasNotEnded) {
  ASSERT_TRUE(ChangeUndo::Begin(Dir(), Files(), "x: 1\n").ok());
  ChangeAll();
  const auto found = ChangeUndo::Find(Dir());
  ASSERT_TRUE(found.ok()) << found.error().Text();
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->config(), "x: 1\n");
  ASSERT_TRUE((*found)->Undo().ok());
  ExpectOldFiles();
}

TEST_F(ChangeUndoTest, RestoreKeepsTheRecord) {
  const auto undo = ChangeUndo::Begin(Dir(), Files(), "x: 1\n");
  ASSERT_TRUE(undo.ok()) << undo.error().Text();
  for (int start = 0; start < 2; ++start) {
    ChangeAll();
    const auto found = ChangeUndo::Find(Dir());
    ASSERT_TRUE(found.ok() && found->has_value()) << start;
    ASSERT_TRUE((*found)->Restore().ok());
    EXPECT_EQ(Text(Dir() / "a"), std::string("old\0a\n", 6));
    EXPECT_FALSE(fs::exists(Dir() / "absent"));
    EXPECT_TRUE(fs::exists(Record()));
  }
  ASSERT_TRUE(undo->Undo().ok());
  ExpectOldFiles();
}

TEST_F(ChangeUndoTest, AfterCommitNothingIsFound) {
  const auto undo = ChangeUndo::Begin(Dir(), Files(), "");
  ASSERT_TRUE(undo.ok());
  ChangeAll();
  ASSERT_TRUE(undo->Commit().ok());
  const auto found = ChangeUndo::Find(Dir());
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->has_value());
  EXPECT_EQ(Text(Dir() / "a"), "new");
  // The change can still be undone by this process.
  ASSERT_TRUE(undo->Undo().ok());
  ExpectOldFiles();
}

TEST_F(ChangeUndoTest, UndoOfTheFilesKeepsTheConfiguration) {
  const auto undo = ChangeUndo::Begin(Dir(), Files(), "x: 1\n");
  ASSERT_TRUE(undo.ok());
  for (const bool is_committed : {false, true}) {
    ChangeAll();
    if (is_committed) {
      ASSERT_TRUE(undo->Commit().ok());
    }
    ASSERT_TRUE(undo->UndoFiles().ok());
    EXPECT_EQ(Text(Dir() / "a"), std::string("old\0a\n", 6));
    // From here on, the files are no concern of the record.
    ChangeAll();
    const auto found = ChangeUndo::Find(Dir());
    ASSERT_TRUE(found.ok() && found->has_value());
    EXPECT_EQ((*found)->config(), "x: 1\n");
    ASSERT_TRUE((*found)->Restore().ok());
    EXPECT_EQ(Text(Dir() / "a"), "new");
  }
}

TEST_F(ChangeUndoTest, EveryDamagedRecordIsRefused) {
  ASSERT_TRUE(ChangeUndo::Begin(Dir(), Files(), "x: 1\n").ok());
  const std::string record = Text(Record());
  for (size_t size = 0; size < record.size(); ++size) {
    std::ofstream(Record()) << record.substr(0, size);
    const auto found = ChangeUndo::Find(Dir());
    ASSERT_FALSE(found.ok()) << size;
    EXPECT_EQ(found.error().code, ErrorCode::kCorrupt) << size;
    EXPECT_NE(found.error().Text().find(Record().string()), std::string::npos);
  }
  std::ofstream(Record()) << "something else";
  EXPECT_FALSE(ChangeUndo::Find(Dir()).ok());
  std::ofstream(Record()) << record << "rest";
  EXPECT_FALSE(ChangeUndo::Find(Dir()).ok());
}

}  // namespace
}  // namespace alignd::daemon
