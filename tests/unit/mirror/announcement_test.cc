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

void Hold(const std::string& pod, const std::string& device, NodeState& state) {
  state.devices.allocations[{pod, "app"}][kGpu].devices[-1].push_back(device);
}

std::set<std::string> Healthy(const Announcement& announced) {
  std::set<std::string> ids;
  for (const auto& [id, device] : announced) {
    if (device.healthy) ids.insert(id);
  }
  return ids;
}

TEST(Announcement, IsThePluginsListWhereNothingIsBound) {
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
  Hold("p", "gpu2", state);
  const Bindings bindings{{{"p", "app"}, {{kGpu, {{"gpu0", "gpu2"}}}}}};
  Announcement announced = Announce(state, bindings, kGpu);
  // The kubelet has gpu0 and believes gpu2 to be free: it stands for what is really free.
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

TEST(Announcement, DeviceThatIsHeldBehindTheKubeletsBackIsUnhealthy) {
  const admission::Node node = testing::MakeNode();
  NodeState state = StateOf(node);
  Hold("annotated", "gpu1", state);
  EXPECT_EQ(Healthy(Announce(state, {}, kGpu)), (std::set<std::string>{"gpu0", "gpu2", "gpu3"}));
}

TEST(Announcement, BoundIdStaysWhenItsOwnDeviceGoes) {
  const admission::Node node = testing::MakeNode();
  NodeState state = StateOf(node);
  Hold("p", "gpu2", state);
  state.devices.resources[kGpu].devices.erase("gpu0");
  const Announcement announced =
      Announce(state, {{{"p", "app"}, {{kGpu, {{"gpu0", "gpu2"}}}}}}, kGpu);
  EXPECT_EQ(announced.at("gpu0"), (AnnouncedDevice{"gpu2", true}));
  EXPECT_EQ(announced.at("gpu2"), (AnnouncedDevice{"", false}));  // nothing is left for it
}

// Whatever is bound to whatever: the kubelet's free healthy ids are no more than the free healthy
// devices, and no device stands behind two of its ids.
TEST(Announcement, NeverShowsMoreThanThereIs) {
  const admission::Node node = testing::MakeNode();
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      for (int sick = 0; sick < 4; ++sick) {
        NodeState state = StateOf(node);
        const std::string id = "gpu" + std::to_string(from);
        const std::string device = "gpu" + std::to_string(to);
        Hold("p", device, state);
        state.devices.resources[kGpu].devices["gpu" + std::to_string(sick)].healthy = false;
        const Announcement announced =
            Announce(state, {{{"p", "app"}, {{kGpu, {{id, device}}}}}}, kGpu);
        std::set<std::string> behind;
        for (const auto& [known, place] : announced) {
          EXPECT_TRUE(place.stands_for.empty() || behind.insert(place.stands_for).second);
        }
        EXPECT_EQ(Healthy(announced).size(), 3U);
        EXPECT_EQ(announced.at(id).healthy, sick != to);
      }
    }
  }
}

TEST(Steering, GoesWhereTheFreeCpusAre) {
  const admission::Node node = testing::MakeNode();  // CPU 0 is reserved
  const NodeState state = StateOf(node);
  const Announcement announced = Announce(state, {}, kGpu);
  const std::set<std::string> all{"gpu0", "gpu1", "gpu2", "gpu3"};
  using Ids = std::set<std::string>;
  EXPECT_EQ(Steer(node, state, kGpu, announced, {all, {}, 1}), (Ids{"gpu2", "gpu3"}));
  EXPECT_EQ(Steer(node, state, kGpu, announced, {all, {}, 2}), (Ids{"gpu2", "gpu3"}));
  EXPECT_EQ(Steer(node, state, kGpu, announced, {all, {}, 3}), all);
  EXPECT_EQ(Steer(node, state, kGpu, announced, {{"gpu0", "gpu1", "gpu2"}, {}, 2}),
            (Ids{"gpu0", "gpu1"}));
  EXPECT_EQ(Steer(node, state, kGpu, announced, {all, {"gpu0"}, 2}), (Ids{"gpu0", "gpu1"}));
  EXPECT_EQ(Steer(node, state, kGpu, announced, {{"gpu0"}, {}, 2}), Ids{"gpu0"});
}

TEST(Steering, LeavesLargerGroupsWholeWhereThatCostsNoCpus) {
  const admission::Node node = testing::MakeNode();  // 7 and 8 CPUs to give away
  NodeState state = StateOf(node);
  state.devices.resources[kGpu].devices.erase("gpu1");
  using Ids = std::set<std::string>;
  const Ids all{"gpu0", "gpu2", "gpu3"};
  const auto steer = [&](size_t size) {
    return Steer(node, state, kGpu, Announce(state, {}, kGpu), {all, {}, size});
  };
  EXPECT_EQ(steer(1), Ids{"gpu0"});
  EXPECT_EQ(steer(2), (Ids{"gpu2", "gpu3"}));
  const auto filled = admission::Admit(node, state, testing::AppPod("f", 4), {});
  ASSERT_TRUE(filled.admitted());
  state.cpu = filled.next.cpu;  // 3 are left on node 0
  EXPECT_EQ(steer(1), (Ids{"gpu2", "gpu3"}));
}

TEST(Announcement, BeforeItsPluginComesIsWhatContainersHad) {
  const KubeletAllocatedBefore counted = KubeletAllocatedIn(
      {{{"p", "app"}, {{kGpu, {{"a", "x"}, {"b", "y"}}}}}, {{"q", "app"}, {{kGpu, {{"c", "c"}}}}}});
  EXPECT_EQ(counted, (KubeletAllocatedBefore{{kGpu, {"a", "b", "c"}}}));
  const Announcement announced = AnnounceBefore(counted.at(kGpu));
  EXPECT_EQ(announced.size(), 3U);
  EXPECT_EQ(Healthy(announced), (std::set<std::string>{"a", "b", "c"}));
}

}  // namespace
}  // namespace alignd::mirror
