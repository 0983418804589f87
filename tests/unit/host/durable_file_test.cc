#include "host/durable_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "edge/fake_tree.h"
#include "edge/faulty_file.h"
#include "edge/odd_files.h"
#include "host/file.h"

namespace alignd::host {
namespace {

using testing::FakeTree;
using testing::FaultyFile;

const std::string kOld(10'000, 'o');
const std::string kNew(20'000, 'n');

// How many system calls one replacement makes.
int CallsOfOneReplacement() {
  const FakeTree tree{{"state", kOld}};
  FaultyFile disk;
  EXPECT_TRUE(ReplaceFile(tree.root() / "state", kNew, disk).ok());
  return disk.calls();
}

TEST(ReplaceFile, MakesAFileThatOnlyItsOwnerReads) {
  const FakeTree tree;
  ASSERT_TRUE(ReplaceFile(tree.root() / "state", "text").ok());
  EXPECT_EQ(ReadFile(tree.root() / "state").value(), "text");
  struct stat status;
  ASSERT_EQ(stat((tree.root() / "state").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

// A relative path without a directory is in the current one.
TEST(ReplaceFile, ReplacesAFileOfTheCurrentDirectory) {
  const FakeTree tree{{"state", kOld}};
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(tree.root());
  const Result<Done> replaced = ReplaceFile("state", kNew);
  std::filesystem::current_path(before);
  ASSERT_TRUE(replaced.ok()) << replaced.error().Text();
  EXPECT_EQ(ReadFile(tree.root() / "state").value(), kNew);
}

TEST(ReplaceFile, LeavesNothingElseBehind) {
  const FakeTree tree{{"state", kOld}};
  ASSERT_TRUE(ReplaceFile(tree.root() / "state", kNew).ok());
  EXPECT_EQ(ReadFile(tree.root() / "state").value(), kNew);
  EXPECT_EQ(ListDirectory(tree.root()).value(), std::vector<std::string>{"state"});
}

// A process without the right to give files away, such as alignd under its unit.
class NoGiving final : public FileCalls {
 public:
  int Fchown(int, uid_t, gid_t) override {
    errno = EPERM;
    return -1;
  }
};

TEST(ReplaceFile, KeepsItsOwnFilesWithoutTheRightToGiveThemAway) {
  const FakeTree tree{{"config", kOld}};
  const std::filesystem::path path = tree.root() / "config";
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  NoGiving calls;
  const FileOwner own{.mode = 0640, .ids = std::pair(status.st_uid, status.st_gid)};
  ASSERT_TRUE(ReplaceFile(path, kNew, own, calls).ok());
  EXPECT_EQ(ReadFile(path).value(), kNew);
  const FileOwner other{.mode = 0640, .ids = std::pair(status.st_uid + 1, status.st_gid)};
  const Result<Done> refused = ReplaceFile(path, kOld, other, calls);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find(path.string() + " belongs to user " +
                                         std::to_string(status.st_uid + 1)),
            std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().remedy.find("chown root:root " + path.string()), std::string::npos);
  EXPECT_EQ(ReadFile(path).value(), kNew);
  EXPECT_EQ(ListDirectory(tree.root()).value(), std::vector<std::string>{"config"});
}

TEST(ReplaceFile, WritesAnEmptyText) {
  const FakeTree tree{{"state", kOld}};
  ASSERT_TRUE(ReplaceFile(tree.root() / "state", "").ok());
  EXPECT_EQ(ReadFile(tree.root() / "state").value(), "");
}

TEST(ReplaceFile, SyncsTheTextBeforeTheRenameAndTheNameAfterIt) {
  const FakeTree tree;
  FaultyFile disk;
  ASSERT_TRUE(ReplaceFile(tree.root() / "state", kNew, disk).ok());
  EXPECT_EQ(disk.log(), (std::vector<std::string>{"unlink", "open", "write", "fsync", "close",
                                                  "rename", "open", "fsync", "close"}));
}

TEST(ReplaceFile, ContinuesAfterShortWritesAndInterruptions) {
  const FakeTree tree{{"state", kOld}};
  FaultyFile disk;
  disk.WriteInPiecesOf(999);
  disk.InterruptOnce();
  ASSERT_TRUE(ReplaceFile(tree.root() / "state", kNew, disk).ok());
  EXPECT_EQ(ReadFile(tree.root() / "state").value(), kNew);
}

TEST(ReplaceFile, KeepsOneWholeTextIfAnyCallFails) {
  const int calls = CallsOfOneReplacement();
  for (int index = 0; index < calls; ++index) {
    SCOPED_TRACE(index);
    const FakeTree tree{{"state", kOld}};
    FaultyFile disk;
    disk.FailAt(index, ENOSPC);
    const Result<Done> result = ReplaceFile(tree.root() / "state", kNew, disk);
    ASSERT_TRUE(disk.failed());
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kIo);
    EXPECT_NE(result.error().message.find("No space left on device"), std::string::npos);
    EXPECT_NE(result.error().message.find(tree.root().string()), std::string::npos);
    const auto& log = disk.log();
    const bool renamed =
        std::find(log.begin(), log.begin() + index, "rename") != log.begin() + index;
    EXPECT_EQ(ReadFile(tree.root() / "state").value(), renamed ? kNew : kOld);
    EXPECT_EQ(ListDirectory(tree.root()).value(), std::vector<std::string>{"state"});
    ASSERT_TRUE(ReplaceFile(tree.root() / "state", kNew, disk).ok());
    EXPECT_EQ(ReadFile(tree.root() / "state").value(), kNew);
  }
}

TEST(ReplaceFile, KeepsOneWholeTextAfterAPowerFailure) {
  const int calls = CallsOfOneReplacement();
  for (int index = 0; index <= calls; ++index) {
    for (const bool undo_renames : {false, true}) {
      SCOPED_TRACE(std::to_string(index) + (undo_renames ? ", renames undone" : ""));
      const FakeTree tree{{"state", kOld}};
      FaultyFile disk;
      disk.DieAt(index);
      const bool replaced = ReplaceFile(tree.root() / "state", kNew, disk).ok();
      EXPECT_EQ(replaced, index == calls);
      disk.LosePower(undo_renames);
      const std::string text = ReadFile(tree.root() / "state").value();
      EXPECT_TRUE(text == kNew || (text == kOld && !replaced)) << text.size() << " bytes";
      ASSERT_TRUE(RemoveTemporary(tree.root() / "state", disk).ok());
      EXPECT_EQ(ListDirectory(tree.root()).value(), std::vector<std::string>{"state"});
    }
  }
}

TEST(ReplaceFile, ReportsAMissingDirectory) {
  const FakeTree tree;
  const Result<Done> result = ReplaceFile(tree.root() / "absent/state", kNew);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "create " + (tree.root() / "absent").string() +
                                        "/.state.alignd-new: No such file or directory");
}

TEST(MakeDirectory, MakesMissingParentsAndAcceptsWhatIsThere) {
  const FakeTree tree;
  ASSERT_TRUE(MakeDirectory(tree.root() / "a/b/c/").ok());
  EXPECT_TRUE(std::filesystem::is_directory(tree.root() / "a/b/c"));
  EXPECT_TRUE(MakeDirectory(tree.root() / "a/b").ok());
}

TEST(MakeDirectory, FailsWhereAFileIsInTheWay) {
  const FakeTree tree{{"a", "text"}};
  const Result<Done> result = MakeDirectory(tree.root() / "a/b");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message,
            "make directory " + (tree.root() / "a").string() + ": File exists");
}

TEST(MakeDirectory, ReportsEachFailingCall) {
  FaultyFile counter;
  const FakeTree sound;
  ASSERT_TRUE(MakeDirectory(sound.root() / "a/b", counter).ok());
  for (int index = 0; index < counter.calls(); ++index) {
    const FakeTree tree;
    FaultyFile disk;
    disk.FailAt(index);
    EXPECT_FALSE(MakeDirectory(tree.root() / "a/b", disk).ok()) << index;
  }
}

// What mkdir() sets depends on the umask of the process.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(umask(mask)) {}
  ~Umask() { umask(before_); }

 private:
  const mode_t before_;
};

TEST(MakeDirectory, SetsTheModeWhateverTheUmaskIs) {
  for (const mode_t mask : {0U, 022U, 077U, 0777U}) {
    const FakeTree tree;
    const Umask now(mask);
    ASSERT_TRUE(MakeDirectory(tree.root() / "a/b").ok()) << mask;
    for (const char* made : {"a", "a/b"}) {
      struct stat status {};
      ASSERT_EQ(stat((tree.root() / made).c_str(), &status), 0);
      EXPECT_EQ(status.st_mode & 07777, 0755U) << made << " with " << mask;
    }
  }
}

TEST(MakeDirectory, KeepsTheModeOfADirectoryThatExists) {
  const FakeTree tree;
  ASSERT_EQ(mkdir((tree.root() / "a").c_str(), 0700), 0);
  ASSERT_TRUE(MakeDirectory(tree.root() / "a").ok());
  struct stat status {};
  ASSERT_EQ(stat((tree.root() / "a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700U);
}

TEST(ReplaceFile, ReplacesALinkAndLeavesItsTargetAlone) {
  const FakeTree tree{{"precious", kOld}, testing::FakeEntry::Link("state", "precious")};
  ASSERT_TRUE(ReplaceFile(tree.root() / "state", kNew).ok());
  EXPECT_EQ(ReadFile(tree.root() / "precious").value(), kOld);
  EXPECT_EQ(ReadFile(tree.root() / "state").value(), kNew);
  EXPECT_FALSE(std::filesystem::is_symlink(tree.root() / "state"));
}

TEST(ReplaceFile, ReplacesWhatIsNoFileButNoDirectory) {
  for (const testing::OddFile kind : testing::OddFiles()) {
    SCOPED_TRACE(NameOf(kind));
    const FakeTree tree;
    const std::filesystem::path path = tree.root() / "state";
    testing::MakeOddFile(kind, path);
    // A crash may have left anything in the place of the temporary file.
    if (kind != testing::OddFile::kDirectory) {
      testing::MakeOddFile(kind, tree.root() / ".state.alignd-new");
    }
    const Result<Done> replaced = ReplaceFile(path, kNew);
    if (kind == testing::OddFile::kDirectory) {
      ASSERT_FALSE(replaced.ok());
      EXPECT_EQ(replaced.error().remedy, "remove the directory that is in the place of the file");
      EXPECT_TRUE(std::filesystem::is_directory(path / "inner"));
    } else {
      ASSERT_TRUE(replaced.ok()) << replaced.error().Text();
      EXPECT_EQ(ReadFile(path).value(), kNew);
    }
    EXPECT_FALSE(std::filesystem::exists(tree.root() / "nowhere"));
  }
}

TEST(LockDirectory, LocksNothingButARegularFile) {
  for (const testing::OddFile kind : testing::OddFiles()) {
    SCOPED_TRACE(NameOf(kind));
    const FakeTree tree;
    testing::MakeOddFile(kind, tree.root() / "alignd.lock");
    const Result<DirectoryLock> lock = LockDirectory(tree.root());
    ASSERT_FALSE(lock.ok());
    EXPECT_EQ(lock.error().code, ErrorCode::kIo);
    EXPECT_EQ(lock.error().message.find("lock "), 0U) << lock.error().Text();
    EXPECT_NE(lock.error().remedy, "") << lock.error().Text();
    EXPECT_FALSE(std::filesystem::exists(tree.root() / "nowhere"));
  }
}

TEST(LockDirectory, DoesNotOverwriteTheTargetOfALink) {
  const FakeTree tree{{"precious", kOld}, testing::FakeEntry::Link("alignd.lock", "precious")};
  EXPECT_FALSE(LockDirectory(tree.root()).ok());
  EXPECT_EQ(ReadFile(tree.root() / "precious").value(), kOld);
}

TEST(LockDirectory, RefusesASecondOwnerAndNamesTheFirst) {
  const FakeTree tree;
  std::optional<Result<DirectoryLock>> first = LockDirectory(tree.root());
  ASSERT_TRUE(first->ok()) << first->error().message;
  const Result<DirectoryLock> second = LockDirectory(tree.root());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(second.error().message,
            "lock " + tree.root().string() + ": locked by process " + std::to_string(getpid()));
  EXPECT_EQ(second.error().remedy, "stop that process, or give this alignd another --state-dir");
  first.reset();
  EXPECT_TRUE(LockDirectory(tree.root()).ok());
}

// The owner is another process of this program, not a fork: the thread sanitizer does not support a
// fork of a process with threads.
TEST(LockDirectory, EndsWithItsProcess) {
  constexpr char kVariable[] = "ALIGND_TEST_LOCKED_DIRECTORY";  // for that process
  const FakeTree tree;
  setenv(kVariable, tree.root().c_str(), /*overwrite=*/0);
  const std::filesystem::path root = getenv(kVariable);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto lock_and_exit = [&root] {
    const Result<DirectoryLock> lock = LockDirectory(root);
    _exit(lock.ok() ? 0 : 1);
  };
  EXPECT_EXIT(lock_and_exit(), ::testing::ExitedWithCode(0), "");
  unsetenv(kVariable);
  const std::string owner = ReadFile(root / "alignd.lock").value();
  EXPECT_FALSE(owner.empty());
  EXPECT_NE(owner, std::to_string(getpid()));
  const Result<DirectoryLock> lock = LockDirectory(root);
  ASSERT_TRUE(lock.ok()) << lock.error().message;
  EXPECT_EQ(ReadFile(root / "alignd.lock").value(), std::to_string(getpid()));
}

TEST(LockDirectory, ReportsAMissingDirectory) {
  const FakeTree tree;
  const Result<DirectoryLock> lock = LockDirectory(tree.root() / "absent");
  ASSERT_FALSE(lock.ok());
  EXPECT_EQ(lock.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace alignd::host
