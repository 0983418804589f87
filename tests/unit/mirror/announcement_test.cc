#include "mirror/announcement.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "alignd/admission/admission.h"
#include "edge/allocation_node.h"

namespace alignd::mirror {
namespace {

using admission::NodeState;
using checkpoint::Bindings;
using testing::kGpu;

// gpu0 and gpu1 on NUMA node 0, gpu2 and gpu3 on node 1.
NodeState StateOf(const admission::Node& node) {
  NodeState state = NodeState::Initial(node);
  devicemanager::Resource& resource = state.devices.resources[kGpu];
  resource.registered = true;
  for (int i = 0; i < 4; ++i) resource.devices["gpu" + std::to_string(i)] = {true, {i / 2}};
  return state;
}

void Assign(const std::string& pod, const std::string& device, NodeState& state) {
  state.devices.allocations[{pod, "app"}][kGpu].devices[-1].push_back(device);
}

std::set<std::string> Healthy(const Announcement& announced) {
  std::set<std::string> ids;
  for (const auto& [id, device] : announced) {
    if (device.healthy) ids.insert(id);
  }
  return ids;
}

TEST(Announcement, IsThePluginsListIfNothingIsBound) {
  const admission::Node node = testing::MakeNode();
  NodeState state = StateOf(node);
  state.devices.resources[kGpu].devices["gpu3"].healthy = false;
  const Announcement announced = Announce(state, {}, kGpu);
  EXPECT_EQ(announced.size(), 4U);
  EXPECT_EQ(Healthy(announced), (std::set<std::string>{"gpu0", "gpu1", "gpu2"}));
}

TEST(Announcement, HealthFollowsTheBinding) {
  const admission::Node node = testing::MakeNode();
  NodeState state = StateOf(node);
  Assign("p", "gpu2", state);
  const Bindings bindings{{{"p", "app"}, {{kGpu, {{"gpu0", "gpu2"}}}}}};
  Announcement announced = Announce(state, bindings, kGpu);
  // The kubelet has allocated gpu0 and takes gpu2 for free, which stands for the free gpu0.
  EXPECT_EQ(announced.at("gpu0"), (AnnouncedDevice{"gpu2", true}));
  EXPECT_EQ(announced.at("gpu2"), (AnnouncedDevice{"gpu0", true}));
  state.devices.resources[kGpu].devices["gpu2"].healthy = false;
  EXPECT_EQ(Healthy(Announce(state, bindings, kGpu)),
            (std::set<std::string>{"gpu1", "gpu2", "gpu3"}));
  state.devices.resources[kGpu].devices["gpu2"].healthy = true;
  state.devices.resources[kGpu].devices["gpu0"].healthy = false;
  EXPECT_EQ(Healthy(Announce(state, bindings, kGpu)),
            (std::set<std::string>{"gpu0", "gpu1", "gpu3"}));
}

TEST(Announcement, DeviceThatTheKubeletDidNotAllocateIsUnhealthy) {
  const admission::Node node = testing::MakeNode();
  NodeState state = StateOf(node);
  Assign("annotated", "gpu1", state);
  EXPECT_EQ(Healthy(Announce(state, {}, kGpu)), (std::set<std::string>{"gpu0", "gpu2", "gpu3"}));
}

TEST(Announcement, BoundIdStaysWhenItsOwnDeviceGoes) {
  const admission::Node node = testing::MakeNode();
  NodeState state = StateOf(node);
  Assign("p", "gpu2", state);
  state.devices.resources[kGpu].devices.erase("gpu0");
  const Announcement announced =
      Announce(state, {{{"p", "app"}, {{kGpu, {{"gpu0", "gpu2"}}}}}}, kGpu);
  EXPECT_EQ(announced.at("gpu0"), (AnnouncedDevice{"gpu2", true}));
  EXPECT_EQ(announced.at("gpu2"), (AnnouncedDevice{"", false}));  // no device is free
}

// With any binding, the kubelet has no more free healthy ids than there are free healthy devices,
// and no two ids stand for one device.
TEST(Announcement, NeverShowsMoreThanExists) {
  const admission::Node node = testing::MakeNode();
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      for (int unhealthy = 0; unhealthy < 4; ++unhealthy) {
        NodeState state = StateOf(node);
        const std::string id = "gpu" + std::to_string(from);
        const std::string device = "gpu" + std::to_string(to);
        Assign("p", device, state);
        state.devices.resources[kGpu].devices["gpu" + std::to_string(unhealthy)].healthy = false;
        const Announcement announced =
            Announce(state, {{{"p", "app"}, {{kGpu, {{id, device}}}}}}, kGpu);
        std::set<std::string> behind;
        for (const auto& [known, place] : announced) {
          EXPECT_TRUE(place.device.empty() || behind.insert(place.device).second);
        }
        EXPECT_EQ(Healthy(announced).size(), 3U);
        EXPECT_EQ(announced.at(id).healthy, unhealthy != to);
      }
    }
  }
}

TEST(PreferredIds, AreOnTheNumaNodeWithFreeCpus) {
  const admission::Node node = testing::MakeNode();  // CPU 0 is reserved
  const NodeState state = StateOf(node);
  const Announcement announced = Announce(state, {}, kGpu);
  const std::set<std::string> all{"gpu0", "gpu1", "gpu2", "gpu3"};
  using Ids = std::set<std::string>;
  EXPECT_EQ(PreferredIds(node, state, kGpu, announced, {all, {}, 1}), (Ids{"gpu2", "gpu3"}));
  EXPECT_EQ(PreferredIds(node, state, kGpu, announced, {all, {}, 2}), (Ids{"gpu2", "gpu3"}));
  EXPECT_EQ(PreferredIds(node, state, kGpu, announced, {all, {}, 3}), all);
  EXPECT_EQ(PreferredIds(node, state, kGpu, announced, {{"gpu0", "gpu1", "gpu2"}, {}, 2}),
            (Ids{"gpu0", "gpu1"}));
  EXPECT_EQ(PreferredIds(node, state, kGpu, announced, {all, {"gpu0"}, 2}), (Ids{"gpu0", "gpu1"}));
  EXPECT_EQ(PreferredIds(node, state, kGpu, announced, {{"gpu0"}, {}, 2}), Ids{"gpu0"});
}

TEST(PreferredIds, LeaveLargerGroupsWholeIfThatCostsNoCpus) {
  const admission::Node node = testing::MakeNode();  // 7 and 8 free CPUs
  NodeState state = StateOf(node);
  state.devices.resources[kGpu].devices.erase("gpu1");
  using Ids = std::set<std::string>;
  const Ids all{"gpu0", "gpu2", "gpu3"};
  const auto preferred = [&](size_t size) {
    return PreferredIds(node, state, kGpu, Announce(state, {}, kGpu), {all, {}, size});
  };
  EXPECT_EQ(preferred(1), Ids{"gpu0"});
  EXPECT_EQ(preferred(2), (Ids{"gpu2", "gpu3"}));
  const auto filled = admission::Admit(node, state, testing::AppPod("f", 4), {});
  ASSERT_TRUE(filled.admitted());
  state.cpu = filled.next.cpu;  // 3 are free on node 0
  EXPECT_EQ(preferred(1), (Ids{"gpu2", "gpu3"}));
}

TEST(Announcement, BeforeThePluginRegistersHasTheBoundIds) {
  const KubeletAllocatedBefore before = KubeletAllocatedIn(
      {{{"p", "app"}, {{kGpu, {{"a", "x"}, {"b", "y"}}}}}, {{"q", "app"}, {{kGpu, {{"c", "c"}}}}}});
  EXPECT_EQ(before, (KubeletAllocatedBefore{{kGpu, {"a", "b", "c"}}}));
  const Announcement announced = AnnounceBefore(before.at(kGpu));
  EXPECT_EQ(announced.size(), 3U);
  EXPECT_EQ(Healthy(announced), (std::set<std::string>{"a", "b", "c"}));
}

}  // namespace
}  // namespace alignd::mirror
