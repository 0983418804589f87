#include "mirror/kubelet_checkpoint.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "edge/allocation_node.h"
#include "edge/fake_tree.h"
#include "edge/odd_files.h"
#include "mirror/binding_table.h"

namespace alignd::mirror {
namespace {

using checkpoint::DeviceCheckpoint;
using devicemanager::DeviceAllocation;
using testing::kGpu;
using testing::kNic;
using Ids = std::set<std::string>;

bool IsMirrors(const std::string& response) { return response == "the mirror's"; }

// What the kubelet allocated is unknown then, not nothing: no device would be allocated.
TEST(KubeletCheckpoint, IsAbsentOnlyIfThereIsNothing) {
  const testing::FakeTree tree;
  const std::filesystem::path file = tree.root() / "kubelet_internal_checkpoint";
  for (const testing::OddFile kind : testing::OddFiles()) {
    SCOPED_TRACE(NameOf(kind));
    testing::MakeOddFile(kind, file);
    const auto read = ReadKubeletCheckpoint(file);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code, ErrorCode::kIo);
    EXPECT_NE(read.error().remedy, "");
  }
}

TEST(BindingTable, IsNewOnlyIfThereIsNoFile) {
  const testing::FakeTree tree;
  const std::filesystem::path file = tree.root() / "device_bindings";
  for (const testing::OddFile kind : testing::OddFiles()) {
    SCOPED_TRACE(NameOf(kind));
    testing::MakeOddFile(kind, file);
    const auto loaded = BindingTable::Load(file);
    ASSERT_FALSE(loaded.ok());
    EXPECT_NE(loaded.error().remedy, "") << loaded.error().message;
  }
  std::filesystem::remove(file);
  EXPECT_TRUE(BindingTable::Load(file).ok());
}

TEST(KubeletCheckpoint, IsRead) {
  devicemanager::DeviceState state;
  state.allocations[{"p", "app"}][kGpu].devices = {{0, {"gpu0"}}, {1, {"gpu0", "gpu4"}}};
  state.allocations[{"p", "app"}][kNic].devices = {{-1, {"nic0"}}};
  state.allocations[{"p", "init"}][kGpu].devices = {{-1, {"gpu0"}}};
  state.allocations[{"q", "app"}][kGpu].devices = {{-1, {"gpu1"}}};
  const testing::FakeTree tree{{"checkpoint", checkpoint::FormatDeviceCheckpoint(state)},
                               {"damaged", "{"}};
  const auto read = ReadKubeletCheckpoint(tree.root() / "checkpoint");
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(AllocatedTo(*read, "p"),
            (KubeletAllocatedPod{{"app", {{kGpu, {"gpu0", "gpu4"}}, {kNic, {"nic0"}}}},
                                 {"init", {{kGpu, {"gpu0"}}}}}));
  EXPECT_TRUE(AllocatedTo(*read, "r").empty());
  EXPECT_EQ(ReadKubeletCheckpoint(tree.root() / "none").error().code, ErrorCode::kNotFound);
  const auto damaged = ReadKubeletCheckpoint(tree.root() / "damaged");
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(damaged.error().message.find("damaged"), std::string::npos);
}

class KubeletCheckpointTest : public ::testing::Test {
 protected:
  static DeviceAllocation Of(const Ids& ids, const std::string& response = "its plugin's") {
    DeviceAllocation allocation;
    allocation.devices[0] = {ids.begin(), ids.end()};
    allocation.response = response;
    return allocation;
  }
  TakenOver Take() {
    return TakeOver(WithoutMirrors(kubelets_, IsMirrors), kGpu, bindings_, state_);
  }

  DeviceCheckpoint kubelets_;
  checkpoint::Bindings bindings_;
  admission::NodeState state_ = admission::NodeState::Initial(testing::MakeNode());
};

TEST_F(KubeletCheckpointTest, WhatItsPluginAssignedStays) {
  kubelets_.allocations[{"p", "init"}][kGpu] = Of({"gpu0"});
  kubelets_.allocations[{"p", "app"}][kGpu] = Of({"gpu0", "gpu1"});
  kubelets_.allocations[{"p", "app"}][kNic] = Of({"nic0"});
  kubelets_.allocations[{"q", "app"}][kGpu] = Of({"gpu2"});
  const TakenOver taken = Take();
  EXPECT_TRUE(taken.conflicts.empty());
  EXPECT_EQ(taken.bound,
            (checkpoint::Bindings{{{"p", "app"}, {{kGpu, {{"gpu0", "gpu0"}, {"gpu1", "gpu1"}}}}},
                                  {{"p", "init"}, {{kGpu, {{"gpu0", "gpu0"}}}}},
                                  {{"q", "app"}, {{kGpu, {{"gpu2", "gpu2"}}}}}}));
  EXPECT_EQ(state_.devices.AllocatedIds(kGpu), (Ids{"gpu0", "gpu1", "gpu2"}));
  EXPECT_EQ(*state_.devices.Find({"p", "app"}, kGpu), Of({"gpu0", "gpu1"}));
  EXPECT_EQ(state_.devices.Find({"p", "app"}, kNic), nullptr);  // its plugin has not come
  EXPECT_TRUE(devicemanager::BrokenInvariants(state_.devices).empty());
}

TEST_F(KubeletCheckpointTest, WhatWasDecidedHereStays) {
  // p: allocated gpu0, bound to gpu5. q: taken over before. r: decided here after its device was
  // released.
  kubelets_.allocations[{"p", "app"}][kGpu] = Of({"gpu0"}, "the mirror's");
  kubelets_.allocations[{"q", "app"}][kGpu] = Of({"gpu3"});
  kubelets_.allocations[{"r", "app"}][kGpu] = Of({"gpu6"});
  state_.devices.allocations[{"p", "app"}][kGpu] = Of({"gpu5"});
  state_.devices.allocations[{"q", "app"}][kGpu] = Of({"gpu3"}, "as taken over");
  state_.devices.allocations[{"r", "app"}][kGpu] = Of({"gpu7"});
  bindings_ = {{{"p", "app"}, {{kGpu, {{"gpu0", "gpu5"}}}}},
               {{"q", "app"}, {{kGpu, {{"gpu3", "gpu3"}}}}}};
  const admission::NodeState before = state_;
  const TakenOver taken = Take();
  EXPECT_TRUE(taken.bound.empty());
  EXPECT_TRUE(taken.conflicts.empty());
  EXPECT_EQ(state_, before);
  // An answer of the mirror is never taken over.
  state_.devices.allocations.erase({"p", "app"});
  EXPECT_TRUE(Take().bound.empty());
  EXPECT_EQ(state_.devices.Find({"p", "app"}, kGpu), nullptr);
}

TEST_F(KubeletCheckpointTest, AssignmentOfACopiedFileIsBound) {
  kubelets_.allocations[{"p", "app"}][kGpu] = Of({"gpu0"});
  state_.devices.allocations[{"p", "app"}][kGpu] = Of({"gpu0"});
  // Asked for by annotation, unknown to the kubelet.
  state_.devices.allocations[{"q", "app"}][kGpu] = Of({"gpu1"});
  const admission::NodeState before = state_;
  EXPECT_EQ(Take().bound, (checkpoint::Bindings{{{"p", "app"}, {{kGpu, {{"gpu0", "gpu0"}}}}}}));
  EXPECT_EQ(state_, before);
}

TEST_F(KubeletCheckpointTest, NoDeviceIsAssignedToTwoPods) {
  state_.devices.allocations[{"ours", "app"}][kGpu] = Of({"gpu1"});
  kubelets_.allocations[{"p", "app"}][kGpu] = Of({"gpu0", "gpu1"});
  kubelets_.allocations[{"q", "app"}][kGpu] = Of({"gpu2"});
  kubelets_.allocations[{"r", "app"}][kGpu] = Of({"gpu2"});  // of a file with a right checksum
  const TakenOver taken = Take();
  // The other devices are taken over: the container uses them.
  EXPECT_EQ(taken.bound, (checkpoint::Bindings{{{"p", "app"}, {{kGpu, {{"gpu0", "gpu0"}}}}},
                                               {{"q", "app"}, {{kGpu, {{"gpu2", "gpu2"}}}}}}));
  EXPECT_EQ(*state_.devices.Find({"p", "app"}, kGpu), Of({"gpu0"}));
  EXPECT_EQ(
      taken.conflicts,
      (std::vector<std::string>{
          "the kubelet allocated it to container app of pod p, but gpu1 is assigned to pod ours",
          "the kubelet allocated it to container app of pod r, but gpu2 is assigned to pod q"}));
  EXPECT_TRUE(devicemanager::BrokenInvariants(state_.devices).empty());
}

TEST_F(KubeletCheckpointTest, OneContainerAloneIsTakenOver) {
  kubelets_.allocations[{"p", "app"}][kGpu] = Of({"gpu0"});
  kubelets_.allocations[{"q", "app"}][kGpu] = Of({"gpu1"});
  const ContainerKey only{"q", "app"};
  TakeOver(WithoutMirrors(kubelets_, IsMirrors), kGpu, bindings_, state_, &only);
  EXPECT_EQ(state_.devices.AllocatedIds(kGpu), Ids{"gpu1"});
}

}  // namespace
}  // namespace alignd::mirror
