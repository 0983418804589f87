#include "allocation/shares_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "alignd/admission/node_state.h"
#include "alignd/checkpoint/shares_checkpoint.h"
#include "allocation/bad_state.h"
#include "allocation/checkpoint_store.h"
#include "core/machine_builder.h"
#include "core/property_seed.h"
#include "core/random_machine.h"
#include "edge/fake_tree.h"
#include "edge/faulty_file.h"
#include "host/file.h"

namespace alignd::allocation {
namespace {

using checkpoint::Shares;

// Two NUMA nodes of four CPUs; CPU 0 is reserved.
admission::Node NodeWhere(bool pods_may_ask) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  if (pods_may_ask) config.pod_policies = {PodPolicy::kSharedNumaNode};
  Result<admission::Node> node =
      admission::Node::Make(MakeMachine("socket:2 numa:1 core:4"), config);
  EXPECT_TRUE(node.ok()) << node.error().Text();
  return *std::move(node);
}

// Of a CPU file that does not change.
const CpuTexts kCpu{"cpus", "cpus"};

class SharesFileTest : public ::testing::Test {
 protected:
  static Shares Entry(const std::string& uid, int numa_id, int64_t millis) {
    Shares shares;
    shares[{uid, "app"}] = {.numa_id = numa_id, .millis = millis};
    return shares;
  }
  // Of another process.
  Shares Loaded(const admission::Node& node, const CpuSet& assigned = {}) {
    cpumanager::CpuState state = admission::NodeState::Initial(node).cpu;
    state.default_set -= assigned;
    if (!assigned.empty()) state.assignments["x"]["app"] = assigned;
    SharesFile file(path_, host::FileCalls::System());
    const Result<Done> loaded = file.Load(node, kCpu.next, state);
    EXPECT_TRUE(loaded.ok()) << loaded.error().Text();
    return state.shares;
  }
  bool IsThere() const { return std::filesystem::exists(path_); }

  const admission::Node node_ = NodeWhere(true);
  const testing::FakeTree tree_;
  const std::filesystem::path path_ = tree_.root() / "cpu_shares";
  testing::FaultyFile disk_;
  SharesFile file_{path_, disk_};
};

TEST_F(SharesFileTest, IsThereIfPodsCanAskForIt) {
  const admission::Node without = NodeWhere(false);
  ASSERT_TRUE(file_.Save(without, {}, kCpu).ok());
  EXPECT_FALSE(IsThere());
  ASSERT_TRUE(file_.Save(node_, {}, kCpu).ok());
  EXPECT_TRUE(IsThere()) << "no container has it: that is known";
  ASSERT_TRUE(file_.Save(node_, Entry("p", 1, 1500), kCpu).ok());
  EXPECT_EQ(Loaded(node_), Entry("p", 1, 1500));
  EXPECT_TRUE(Loaded(without).empty());
  ASSERT_TRUE(file_.Save(without, {}, kCpu).ok());
  EXPECT_FALSE(IsThere());
}

TEST_F(SharesFileTest, WritesOnlyWhatIsNew) {
  ASSERT_TRUE(file_.Save(node_, Entry("p", 1, 1500), kCpu).ok());
  std::filesystem::remove(path_);
  ASSERT_TRUE(file_.Save(node_, Entry("p", 1, 1500), kCpu).ok());
  EXPECT_FALSE(IsThere());
  ASSERT_TRUE(file_.Save(node_, Entry("p", 1, 1501), kCpu).ok());
  EXPECT_TRUE(IsThere());
}

// It is of the CPU file of before the save and of the one after it, and is written again for a
// third one only.
TEST_F(SharesFileTest, IsOutdatedBesideAnotherCpuFile) {
  const auto outdated = [&](const std::string& cpu_text) {
    SharesFile file(path_, host::FileCalls::System());
    cpumanager::CpuState state = admission::NodeState::Initial(node_).cpu;
    EXPECT_TRUE(file.Load(node_, cpu_text, state).ok());
    EXPECT_EQ(state.shares.empty(), file.is_outdated());
    return file.is_outdated();
  };
  ASSERT_TRUE(file_.Save(node_, Entry("p", 1, 1500), {"a", "b"}).ok());
  EXPECT_FALSE(outdated("a"));
  EXPECT_FALSE(outdated("b"));
  EXPECT_TRUE(outdated("c"));
  const std::string text = *host::ReadFile(path_);
  ASSERT_TRUE(file_.Save(node_, Entry("p", 1, 1500), {"b", "b"}).ok());
  EXPECT_EQ(*host::ReadFile(path_), text);
  ASSERT_TRUE(file_.Save(node_, Entry("p", 1, 1500), {"b", "c"}).ok());
  EXPECT_TRUE(outdated("a"));
  EXPECT_FALSE(outdated("c"));
  ASSERT_TRUE(file_.Save(node_, Entry("p", 1, 1500), {std::nullopt, "d"}).ok());
  EXPECT_TRUE(outdated("a"));
  EXPECT_FALSE(outdated("c")) << "the write of it may have failed, or that of the next one";
  EXPECT_FALSE(outdated("d"));
}

// Writes fail at any call, and alignd goes on, until the power fails: whichever CPU file is there
// then, cpu_shares is of it.
TEST(SharesFile, IsOfTheCpuFileThatAnyFailureLeaves) {
  Random random;
  const admission::Node node = NodeWhere(true);
  int failures = 0;
  for (int run = 0; run < Iterations(100); ++run) {
    const testing::FakeTree tree;
    testing::FaultyFile disk;
    const StatePaths paths{tree.root() / "state", tree.root() / "plugins"};
    CheckpointStore store(paths, disk);
    admission::NodeState state = admission::NodeState::Initial(node);
    ASSERT_TRUE(store.Load(node).ok());
    const auto is_of_the_file = [&] {
      const auto shares = checkpoint::ParseSharesCheckpoint(*host::ReadFile(paths.SharesFile()));
      return shares.ok() && !shares->IsOfAnotherCpuFile(*host::ReadFile(paths.CpuFile()));
    };
    ASSERT_TRUE(store.Save(node, state).ok());
    for (int step = 0; step < 12; ++step) {
      state.cpu = admission::NodeState::Initial(node).cpu;
      const CpuSet exclusive{random.Number(1, 3)};
      if (random.OnceIn(2)) {
        state.cpu.assignments["x"]["app"] = exclusive;
        state.cpu.default_set -= exclusive;
      }
      if (random.OnceIn(2)) {
        state.cpu.shares[{"p", "app"}] = {.numa_id = 1, .millis = random.Number(1, 4) * 500};
      }
      if (random.OnceIn(2)) disk.FailAt(random.Number(0, 12));
      failures += store.Save(node, state).ok() ? 0 : 1;
      ASSERT_TRUE(is_of_the_file()) << "run " << run << " step " << step;
      disk.Repair();
    }
    if (random.OnceIn(2)) disk.DieAt(random.Number(0, 12));
    state.cpu.shares[{"q", "app"}] = {.numa_id = 1, .millis = 1};
    static_cast<void>(store.Save(node, state));
    disk.LosePower(/*undo_renames=*/random.OnceIn(2));
    ASSERT_TRUE(is_of_the_file()) << "run " << run << " after the power has failed";
  }
  EXPECT_GT(failures, Iterations(100));
}

// Of NUMA node 0, three CPUs are left: too few for 3500m with another pod's two.
TEST_F(SharesFileTest, WhatTheCpuFileDoesNotLeaveIsNotTaken) {
  Shares shares = Entry("p", 0, 2500);
  shares[{"q", "app"}] = {.numa_id = 1, .millis = 4000};
  ASSERT_TRUE(file_.Save(node_, shares, kCpu).ok());
  EXPECT_EQ(Loaded(node_), shares);
  EXPECT_EQ(Loaded(node_, CpuSet{1}), Entry("q", 1, 4000));
  EXPECT_EQ(Loaded(node_, CpuSet{4}), Entry("p", 0, 2500));
  // All of a NUMA node or none: which one is wrong is not known.
  shares[{"r", "app"}] = {.numa_id = 0, .millis = 501};
  ASSERT_TRUE(file_.Save(node_, shares, kCpu).ok());
  EXPECT_EQ(Loaded(node_), Entry("q", 1, 4000));
  ASSERT_TRUE(file_.Save(node_, Entry("x", 1, 0), kCpu).ok());
  EXPECT_TRUE(Loaded(node_, CpuSet{4}).empty()) << "it has exclusive CPUs";
  ASSERT_TRUE(file_.Save(node_, Entry("p", 7, 0), kCpu).ok());
  EXPECT_TRUE(Loaded(node_).empty()) << "no such NUMA node";
}

TEST_F(SharesFileTest, ADamagedFileIsRefusedAndStays) {
  std::ofstream(path_) << R"({"entries":{},"checksum":1})";
  cpumanager::CpuState state = admission::NodeState::Initial(node_).cpu;
  const Result<Done> loaded = file_.Load(node_, kCpu.next, state);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(loaded.error().remedy, RebuildRemedy(path_));
  EXPECT_TRUE(loaded.error().message.starts_with("load " + path_.string()))
      << loaded.error().message;
  EXPECT_TRUE(IsThere());
}

// Without a file, planning does not know that there are no such containers.
TEST_F(SharesFileTest, IsToBeWrittenIfItIsMissing) {
  EXPECT_TRUE(Loaded(node_).empty());
  cpumanager::CpuState state;
  ASSERT_TRUE(file_.Load(node_, "", state).ok());
  EXPECT_TRUE(file_.IsUncertain());
  EXPECT_FALSE(IsThere());
  ASSERT_TRUE(file_.Save(node_, {}, kCpu).ok());
  EXPECT_TRUE(IsThere());
  EXPECT_FALSE(file_.IsUncertain());
  ASSERT_TRUE(file_.Load(node_, kCpu.next, state).ok());
  EXPECT_FALSE(file_.IsUncertain());
  // Pods cannot ask for it: there is none.
  const admission::Node other = NodeWhere(false);
  ASSERT_TRUE(file_.Save(other, {}, kCpu).ok());
  ASSERT_TRUE(file_.Load(other, "", state).ok());
  EXPECT_FALSE(file_.IsUncertain());
}

TEST_F(SharesFileTest, WritesAgainAfterAFailure) {
  ASSERT_TRUE(file_.Save(node_, Entry("old", 1, 1), kCpu).ok());
  for (int index = 0;; ++index) {
    SCOPED_TRACE(index);
    ASSERT_LT(index, 100);
    disk_.FailAt(index);
    const bool ok = file_.Save(node_, Entry("new", 1, 2), kCpu).ok();
    if (!disk_.failed()) {
      EXPECT_TRUE(ok);
      break;
    }
    EXPECT_EQ(file_.IsUncertain(), !ok);
    const Shares now = Loaded(node_);
    EXPECT_TRUE(now == Entry("old", 1, 1) || now == Entry("new", 1, 2));
    disk_.Repair();
    ASSERT_TRUE(file_.Save(node_, Entry("new", 1, 2), kCpu).ok());
    EXPECT_FALSE(file_.IsUncertain());
    EXPECT_EQ(Loaded(node_), Entry("new", 1, 2));
    ASSERT_TRUE(file_.Save(node_, Entry("old", 1, 1), kCpu).ok());
  }
  EXPECT_EQ(Loaded(node_), Entry("new", 1, 2));
}

// Whenever the power fails, the files have the shares of before or of after. Those of a NUMA node
// that no longer fit the CPUs are dropped together.
TEST(SharesFileCrash, LosesNoneThatFits) {
  const admission::Node node = NodeWhere(true);
  admission::NodeState before = admission::NodeState::Initial(node);
  before.cpu.shares[{"stays", "app"}] = {.numa_id = 1, .millis = 1000};
  before.cpu.shares[{"ends", "app"}] = {.numa_id = 1, .millis = 2000};
  admission::NodeState after = before;
  after.cpu.shares.erase({"ends", "app"});
  after.cpu.shares[{"new", "app"}] = {.numa_id = 0, .millis = 1};
  after.cpu.default_set -= CpuSet{4, 5, 6};
  after.cpu.assignments["x"]["app"] = CpuSet{4, 5, 6};
  bool whole = false;
  for (int index = 0; !whole; ++index) {
    for (const bool undo_renames : {false, true}) {
      SCOPED_TRACE(index);
      ASSERT_LT(index, 200);
      const testing::FakeTree tree;
      const StatePaths paths{tree.root() / "state", tree.root() / "plugins"};
      testing::FaultyFile disk;
      CheckpointStore store(paths, disk);
      ASSERT_TRUE(store.Load(node).ok());
      ASSERT_TRUE(store.Save(node, before).ok());
      disk.DieAt(index);
      whole = store.Save(node, after).ok();
      disk.LosePower(undo_renames);
      const Result<admission::NodeState> loaded = CheckpointStore(paths).Load(node);
      ASSERT_TRUE(loaded.ok()) << loaded.error().Text();
      EXPECT_TRUE(loaded->BrokenInvariants(node).empty());
      if (whole) {
        EXPECT_EQ(*loaded, after);
      }
      EXPECT_TRUE(loaded->cpu.shares == before.cpu.shares ||
                  loaded->cpu.shares == after.cpu.shares);
    }
  }
}

// When pods can ask again, it would be out of date.
TEST(SharesFileStart, RemovesItWhereNoPodsCanAsk) {
  const admission::Node node = NodeWhere(true);
  const admission::Node without = NodeWhere(false);
  admission::NodeState state = admission::NodeState::Initial(node);
  state.cpu.shares[{"p", "app"}] = {.numa_id = 1, .millis = 1000};
  const testing::FakeTree tree;
  const StatePaths paths{tree.root() / "state", tree.root() / "plugins"};
  CheckpointStore store(paths);
  ASSERT_TRUE(store.Load(node).ok());
  ASSERT_TRUE(store.Save(node, state).ok());
  ASSERT_TRUE(CheckpointStore(paths).Load(without).ok());
  EXPECT_FALSE(std::filesystem::exists(paths.SharesFile()));
  EXPECT_TRUE(CheckpointStore(paths).Load(node)->cpu.shares.empty());
  // Also one that cannot be read.
  std::ofstream(paths.SharesFile()) << "{";
  EXPECT_FALSE(CheckpointStore(paths).Load(node).ok());
  EXPECT_TRUE(CheckpointStore(paths).Load(without).ok());
  EXPECT_FALSE(std::filesystem::exists(paths.SharesFile()));
}

// The CPU file is read, and written anew.
TEST(SharesFileStart, UsesItWhenCpusWereAdded) {
  const admission::Node node = NodeWhere(true);
  admission::NodeState state = admission::NodeState::Initial(node);
  state.cpu.shares[{"p", "app"}] = {.numa_id = 1, .millis = 1000};
  state.cpu.default_set -= CpuSet{7};
  const testing::FakeTree tree;
  const StatePaths paths{tree.root() / "state", tree.root() / "plugins"};
  CheckpointStore store(paths);
  ASSERT_TRUE(store.Load(node).ok());
  ASSERT_TRUE(store.Save(node, state).ok());
  state.cpu.default_set |= CpuSet{7};
  const Result<admission::NodeState> loaded =
      CheckpointStore(paths).Load(node, OnBadState::kRebuild);
  ASSERT_TRUE(loaded.ok()) << loaded.error().Text();
  EXPECT_EQ(*loaded, state);
  EXPECT_EQ(*CheckpointStore(paths).Load(node), state) << "the file is of the CPU file of now";
}

// It lacks what the CPU file had, which decides what fits.
TEST(SharesFileCrash, IsNotUsedWithoutTheCpuFile) {
  const admission::Node node = NodeWhere(true);
  admission::NodeState state = admission::NodeState::Initial(node);
  state.cpu.shares[{"p", "app"}] = {.numa_id = 1, .millis = 1000};
  const testing::FakeTree tree;
  const StatePaths paths{tree.root() / "state", tree.root() / "plugins"};
  CheckpointStore store(paths);
  ASSERT_TRUE(store.Load(node).ok());
  ASSERT_TRUE(store.Save(node, state).ok());
  EXPECT_EQ(*CheckpointStore(paths).Load(node), state);
  std::filesystem::remove(paths.CpuFile());
  CheckpointStore without(paths);
  const Result<admission::NodeState> loaded = without.Load(node);
  ASSERT_TRUE(loaded.ok()) << loaded.error().Text();
  EXPECT_TRUE(loaded->cpu.shares.empty());
  ASSERT_TRUE(without.Save(node, *loaded).ok());
  const auto saved = checkpoint::ParseSharesCheckpoint(*host::ReadFile(paths.SharesFile()));
  ASSERT_TRUE(saved.ok());
  EXPECT_TRUE(saved->shares.empty());
}

// An alignd that does not know the file runs in between and changes the CPU file.
TEST(SharesFileStart, RecognisesOneThatWasLeftBehind) {
  const admission::Node node = NodeWhere(true);
  admission::NodeState state = admission::NodeState::Initial(node);
  state.cpu.shares[{"p", "app"}] = {.numa_id = 1, .millis = 1000};
  const testing::FakeTree tree;
  const StatePaths paths{tree.root() / "state", tree.root() / "plugins"};
  {
    CheckpointStore store(paths);
    ASSERT_TRUE(store.Load(node).ok());
    ASSERT_TRUE(store.Save(node, state).ok());
  }
  const std::string left = *host::ReadFile(paths.SharesFile());
  const admission::Node earlier = NodeWhere(false);
  admission::NodeState between = admission::NodeState::Initial(earlier);
  between.cpu.default_set -= CpuSet{1};
  between.cpu.assignments["x"]["app"] = CpuSet{1};
  {
    CheckpointStore store(paths);
    ASSERT_TRUE(store.Load(earlier).ok());
    ASSERT_TRUE(store.Save(earlier, between).ok());
  }
  std::ofstream(paths.SharesFile()) << left;
  for (const OnBadState on_bad : {OnBadState::kRefuse, OnBadState::kRebuild}) {
    CheckpointStore store(paths);
    const Result<admission::NodeState> loaded = store.Load(node, on_bad);
    ASSERT_TRUE(loaded.ok()) << loaded.error().Text();
    EXPECT_TRUE(loaded->cpu.shares.empty()) << "1000m would fit";
    EXPECT_EQ(store.findings().outdated, std::vector<std::filesystem::path>{paths.SharesFile()});
    EXPECT_TRUE(store.findings().bad.empty());
  }
  CheckpointStore store(paths);
  ASSERT_TRUE(store.Load(node).ok());
  ASSERT_TRUE(store.Save(node, between).ok());
  CheckpointStore next(paths);
  ASSERT_TRUE(next.Load(node).ok());
  EXPECT_TRUE(next.findings().outdated.empty());
}

}  // namespace
}  // namespace alignd::allocation
