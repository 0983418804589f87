#include "podresources/answers.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "edge/allocation_node.h"

namespace alignd::podresources {
namespace {

using testing::AppPod;
using testing::kGpu;

TEST(PodResources, AreTheRealAssignmentsOfThePod) {
  const admission::Node node = testing::MakeNode();
  admission::NodeState state = admission::NodeState::Initial(node);
  state.devices.resources[kGpu] = testing::EightDevices("gpu");
  const auto admitted = admission::Admit(node, state, AppPod("p", 3, {{kGpu, "2"}}), {});
  ASSERT_TRUE(admitted.admitted());
  const ::v1::PodResources pod = Describe(admitted.next, {"p", "name", "space", {"app", "idle"}});
  EXPECT_EQ(pod.name(), "name");
  EXPECT_EQ(pod.namespace_(), "space");
  ASSERT_EQ(pod.containers_size(), 2);
  const ::v1::ContainerResources& app = pod.containers(0);
  EXPECT_EQ(app.name(), "app");
  EXPECT_EQ(app.cpu_ids_size(), 3);
  ASSERT_EQ(app.devices_size(), 2);
  const auto allocated = admitted.next.devices.Find({"p", "app"}, kGpu)->Ids();
  std::set<std::string> shown;
  for (const ::v1::ContainerDevices& device : app.devices()) {
    EXPECT_EQ(device.resource_name(), kGpu);
    ASSERT_EQ(device.device_ids_size(), 1);
    ASSERT_EQ(device.topology().nodes_size(), 1);
    shown.insert(device.device_ids(0));
  }
  EXPECT_EQ(shown, allocated);
  ASSERT_EQ(app.memory_size(), 1);
  EXPECT_EQ(app.memory(0).memory_type(), "memory");
  EXPECT_EQ(app.memory(0).size(), 1024U * 1024 * 1024);
  EXPECT_EQ(pod.containers(1).devices_size() + pod.containers(1).cpu_ids_size(), 0);
}

TEST(PodResources, AllocatableIsAllExceptReservedAndUnhealthy) {
  const admission::Node node = testing::MakeNode();
  admission::NodeState state = admission::NodeState::Initial(node);
  state.devices.resources[kGpu] = testing::EightDevices("gpu");
  state.devices.resources[kGpu].devices["gpu1"].healthy = false;
  state.devices.resources[kGpu].devices["gpu2"].numa.clear();
  const ::v1::AllocatableResourcesResponse all = Allocatable(node, state);
  EXPECT_EQ(all.devices_size(), 7);
  EXPECT_EQ(all.cpu_ids_size(), 15);  // CPU 0 is reserved
  EXPECT_GT(all.memory_size(), 0);
  for (const ::v1::ContainerDevices& device : all.devices()) {
    EXPECT_EQ(device.has_topology(), device.device_ids(0) != "gpu2");
  }
}

}  // namespace
}  // namespace alignd::podresources
