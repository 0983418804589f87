#include "mirror/binding_table.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "edge/allocation_node.h"
#include "edge/fake_tree.h"
#include "edge/faulty_file.h"

namespace alignd::mirror {
namespace {

using admission::NodeState;
using checkpoint::Bindings;
using testing::kGpu;

TEST(BindingTable, IsOnTheDisk) {
  const testing::FakeTree tree;
  const auto file = tree.root() / "device_bindings";
  const Bindings bindings{{{"p", "app"}, {{kGpu, {{"a", "x"}}}}},
                          {{"q", "app"}, {{kGpu, {{"b", "b"}}}}}};
  {
    const auto table = BindingTable::Load(file);
    ASSERT_TRUE(table.ok()) << table.error().Text();
    EXPECT_FALSE(std::filesystem::exists(file));
    ASSERT_TRUE((*table)->Set(bindings).ok());
    EXPECT_FALSE(std::filesystem::exists(file));
    ASSERT_TRUE((*table)->Save(bindings).ok());
  }
  {
    const auto table = BindingTable::Load(file);
    ASSERT_TRUE(table.ok()) << table.error().Text();
    EXPECT_EQ(*(*table)->snapshot(), bindings);
    NodeState state;
    state.devices.allocations[{"q", "app"}][kGpu].devices[0] = {"b"};
    ASSERT_TRUE((*table)->RetainAssigned(state).ok());
  }
  const auto table = BindingTable::Load(file);
  ASSERT_TRUE(table.ok()) << table.error().Text();
  EXPECT_EQ((*table)->snapshot()->size(), 1U);
  (*table)->Forget({"q"});
  EXPECT_TRUE((*table)->snapshot()->empty());
}

// A restored copy: the container has another device now, and its old id must not stand for the new
// owner's device.
TEST(BindingTable, BindingsOfDevicesThatTheContainerDoesNotHaveAreDropped) {
  const testing::FakeTree tree;
  const Bindings bindings{{{"p", "app"}, {{kGpu, {{"a", "x"}, {"b", "y"}}}}},
                          {{"q", "app"}, {{kGpu, {{"c", "z"}}}}}};
  const auto table = BindingTable::Load(tree.root() / "device_bindings");
  ASSERT_TRUE(table.ok()) << table.error().Text();
  ASSERT_TRUE((*table)->Set(bindings).ok());
  NodeState state;
  state.devices.allocations[{"p", "app"}][kGpu].devices[0] = {"w", "y"};
  state.devices.allocations[{"q", "app"}][kGpu].devices[0] = {"z"};
  (*table)->DropUnassigned(state, "p");
  EXPECT_EQ(*(*table)->snapshot(), (Bindings{{{"q", "app"}, {{kGpu, {{"c", "z"}}}}}}));
}

// Between the two, the assignments are saved: a crash never leaves one without its bindings.
TEST(BindingTable, NewBindingsComeFirstAndOldOnesGoLast) {
  const testing::FakeTree tree;
  const auto file = tree.root() / "device_bindings";
  const Bindings before{{{"old", "app"}, {{kGpu, {{"a", "x"}}}}}};
  const Bindings after{{{"new", "app"}, {{kGpu, {{"a", "y"}}}}}};
  const auto on_disk = [&file] { return *(*BindingTable::Load(file))->snapshot(); };
  const auto table = BindingTable::Load(file);
  ASSERT_TRUE(table.ok()) << table.error().Text();
  ASSERT_TRUE((*table)->Save(before).ok());
  ASSERT_TRUE((*table)->SaveNew(after).ok());
  Bindings both = before;
  both.insert(after.begin(), after.end());
  EXPECT_EQ(on_disk(), both);
  ASSERT_TRUE((*table)->Save(after).ok());
  EXPECT_EQ(on_disk(), after);
  ASSERT_TRUE((*table)->Save({}).ok());
  EXPECT_TRUE(on_disk().empty());
}

TEST(BindingTable, WritesAgainWhatItCouldNotWrite) {
  const testing::FakeTree tree;
  const auto file = tree.root() / "device_bindings";
  const Bindings bindings{{{"p", "app"}, {{kGpu, {{"a", "x"}}}}}};
  testing::FaultyFile disk;
  const auto table = BindingTable::Load(file, disk);
  ASSERT_TRUE(table.ok()) << table.error().Text();
  disk.FailAt(0);
  EXPECT_FALSE((*table)->SaveNew(bindings).ok());
  EXPECT_TRUE((*table)->SaveNew(bindings).ok());
  EXPECT_EQ(*(*BindingTable::Load(file))->snapshot(), bindings);
  disk.FailAt(0);
  EXPECT_FALSE((*table)->Save({}).ok());
  EXPECT_TRUE((*table)->Save({}).ok());
  EXPECT_TRUE((*BindingTable::Load(file))->snapshot()->empty());
}

constexpr size_t kMaxFile = 4096;

// Of nearly half of it as text: each byte is six in the file.
Bindings LargeBindings(const std::string& pod_uid) {
  return {{{pod_uid, "app"}, {{kGpu, {{"a", std::string(300, '<')}}}}}};
}

TEST(BindingTable, RefusesWhatItCouldNotRead) {
  const testing::FakeTree tree;
  const auto table =
      BindingTable::Load(tree.root() / "device_bindings", host::FileCalls::System(), kMaxFile);
  ASSERT_TRUE(table.ok()) << table.error().Text();
  const Result<Done> set = (*table)->Set(LargeBindings("p"));
  ASSERT_TRUE(set.ok()) << set.error().Text();
  const Result<Done> more = (*table)->Set(LargeBindings("q"));
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(more.error().Text().find("more than the 2048 that device_bindings may have; give"),
            std::string::npos)
      << more.error().Text();
  EXPECT_EQ(*(*table)->snapshot(), LargeBindings("p"));
  // Two ids with one device.
  const Bindings twice{{{"q", "app"}, {{kGpu, {{"a", "x"}, {"b", "x"}}}}}};
  const Result<Done> unreadable = (*table)->Set(twice);
  ASSERT_FALSE(unreadable.ok());
  EXPECT_EQ(unreadable.error().code, ErrorCode::kInternal);
  EXPECT_EQ(*(*table)->snapshot(), LargeBindings("p"));
}

// The old bindings go last, so that the file has both for a while.
TEST(BindingTable, OldAndNewBindingsTogetherCanBeRead) {
  const testing::FakeTree tree;
  const auto file = tree.root() / "device_bindings";
  const auto table = BindingTable::Load(file, host::FileCalls::System(), kMaxFile);
  ASSERT_TRUE(table.ok()) << table.error().Text();
  ASSERT_TRUE((*table)->Save(LargeBindings("old")).ok());
  ASSERT_TRUE((*table)->SaveNew(LargeBindings("new")).ok());
  // The assignments could not be saved, and others come.
  const Result<Done> third = (*table)->SaveNew(LargeBindings("third"));
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(third.error().Text().find("more than the 4096 that alignd reads; repair the disk"),
            std::string::npos)
      << third.error().Text();
  EXPECT_FALSE((*table)->IsUncertain());
  const auto read = BindingTable::Load(file, host::FileCalls::System(), kMaxFile);
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ((*read)->snapshot()->size(), 2U);
  EXPECT_TRUE((*table)->Save(LargeBindings("new")).ok());
  EXPECT_TRUE((*table)->SaveNew(LargeBindings("third")).ok());
}

TEST(BindingTable, WritesNothingThatWouldBeReadAsSomethingElse) {
  const testing::FakeTree tree;
  const auto file = tree.root() / "device_bindings";
  const auto table = BindingTable::Load(file);
  ASSERT_TRUE(table.ok()) << table.error().Text();
  const Bindings before{{{"p", "app"}, {{kGpu, {{"a", "x"}}}}}};
  ASSERT_TRUE((*table)->Save(before).ok());
  for (const Bindings& bad : {Bindings{{{"q", "app"}, {{kGpu, {{"a", "x"}, {"b", "x"}}}}}},
                              Bindings{{{"q", ""}, {{kGpu, {{"a", "x"}}}}}}}) {
    const Result<Done> saved = (*table)->SaveNew(bad);
    ASSERT_FALSE(saved.ok());
    EXPECT_EQ(saved.error().code, ErrorCode::kInternal);
    EXPECT_FALSE((*table)->IsUncertain());
    EXPECT_EQ(*(*BindingTable::Load(file))->snapshot(), before);
  }
}

// A write that failed leaves nothing that later writes must carry along.
TEST(BindingTable, BindingsThatWereNotWrittenAreNotKept) {
  const testing::FakeTree tree;
  const auto file = tree.root() / "device_bindings";
  testing::FaultyFile disk;
  const auto table = BindingTable::Load(file, disk);
  ASSERT_TRUE(table.ok()) << table.error().Text();
  const Bindings before{{{"p", "app"}, {{kGpu, {{"a", "x"}}}}}};
  const Bindings dropped{{{"q", "app"}, {{kGpu, {{"a", "y"}}}}}};
  ASSERT_TRUE((*table)->Save(before).ok());
  disk.FailAt(0);
  ASSERT_FALSE((*table)->SaveNew(dropped).ok());
  EXPECT_TRUE((*table)->IsUncertain());
  ASSERT_TRUE((*table)->SaveNew(before).ok());
  EXPECT_FALSE((*table)->IsUncertain());
  EXPECT_EQ(*(*BindingTable::Load(file))->snapshot(), before);
}

TEST(BindingTable, SaysWhatIsWrongWithItsFile) {
  const testing::FakeTree tree{{"device_bindings", "{\"entries\":[],\"checksum\":1}"}};
  const auto table = BindingTable::Load(tree.root() / "device_bindings");
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(table.error().message.find("its checksum is 1"), std::string::npos);
  EXPECT_NE(table.error().remedy.find("--on-bad-state=rebuild"), std::string::npos);
}

}  // namespace
}  // namespace alignd::mirror
