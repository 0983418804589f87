#include "allocation/boot_record.h"

#include <gtest/gtest.h>

#include "edge/fake_tree.h"
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

}  // namespace
}  // namespace alignd::allocation
