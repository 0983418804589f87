#include "allocation/boot_record.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "edge/fake_tree.h"
#include "edge/faulty_file.h"
#include "edge/odd_files.h"

namespace alignd::allocation {
namespace {

using testing::FakeTree;
using testing::OddFile;

constexpr char kKernelsFile[] = "proc/sys/kernel/random/boot_id";

TEST(RunningBoot, IsUnknownOnlyIfTheKernelHasNone) {
  EXPECT_EQ(RunningBoot(FakeTree().root()).value(), "");
  const FakeTree tree{{kKernelsFile, "abc\n"}};
  EXPECT_EQ(RunningBoot(tree.root()).value(), "abc\n");
  for (const OddFile kind : testing::OddFiles()) {
    testing::MakeOddFile(kind, tree.root() / kKernelsFile);
    EXPECT_FALSE(RunningBoot(tree.root()).ok()) << NameOf(kind);
  }
}

TEST(BootRecord, DoesNotTakeAnythingButAnAbsentFileForANewState) {
  for (const OddFile kind : testing::OddFiles()) {
    SCOPED_TRACE(NameOf(kind));
    const FakeTree tree;
    testing::MakeOddFile(kind, tree.root() / "boot_id");
    const auto record = BootRecord::Load(tree.root() / "boot_id", "now");
    ASSERT_FALSE(record.ok());
    EXPECT_NE(record.error().remedy, "") << record.error().message;
  }
}

TEST(BootRecord, DistinguishesARebootFromARestart) {
  const FakeTree tree;
  EXPECT_FALSE((*BootRecord::Load(tree.root() / "boot_id", "first"))->IsEarlier());
  EXPECT_FALSE((*BootRecord::Load(tree.root() / "boot_id", "first"))->IsEarlier());
  const auto rebooted = *BootRecord::Load(tree.root() / "boot_id", "second");
  EXPECT_TRUE(rebooted->IsEarlier());
  ASSERT_TRUE(rebooted->Settle().ok());
  EXPECT_FALSE(rebooted->IsEarlier());
}

// As on a full disk: a start goes on, and writes it later.
TEST(BootRecord, AMissingFileThatCannotBeWrittenIsWrittenLater) {
  const FakeTree tree;
  const auto file = tree.root() / "boot_id";
  testing::FaultyFile disk;
  ASSERT_TRUE(BootRecord::Load(file, "now", disk).ok());
  const int calls = disk.calls();
  int failures = 0;
  for (int call = 0; call < calls; ++call) {
    std::filesystem::remove(file);
    disk.FailAt(call, ENOSPC);
    const auto record = BootRecord::Load(file, "now", disk);
    disk.Repair();
    if (!record.ok() || !(*record)->Unsaved()) continue;
    ++failures;
    EXPECT_FALSE((*record)->IsEarlier());
    EXPECT_NE((*record)->Unsaved()->remedy, "");
    EXPECT_TRUE((*record)->Settle().ok());
    EXPECT_FALSE((*record)->Unsaved());
    EXPECT_TRUE((*BootRecord::Load(file, "next", disk))->IsEarlier());
  }
  EXPECT_GT(failures, 0);
}

}  // namespace
}  // namespace alignd::allocation
