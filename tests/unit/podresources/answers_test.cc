#include "podresources/answers.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "edge/allocation_node.h"

namespace alignd::podresources {
namespace {

using testing::AppPod;
using testing::kGpu;

const dra::ContainerClaims kNoClaims({}, nullptr);

TEST(PodResources, AreTheRealAssignmentsOfThePod) {
  const admission::Node node = testing::MakeNode();
  admission::NodeState state = admission::NodeState::Initial(node);
  state.devices.resources[kGpu] = testing::EightDevices("gpu");
  const auto admitted = admission::Admit(node, state, AppPod("p", 3, {{kGpu, "2"}}), {});
  ASSERT_TRUE(admitted.admitted());
  const ::v1::PodResources pod =
      Describe(admitted.next, {"p", "name", "space", {"app", "idle"}}, kNoClaims);
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

TEST(PodResources, ListWhatRunsAndWhatIsAssignedButNoEndedInitContainer) {
  admission::NodeState state;
  for (const char* container : {"init", "app", "other"}) {
    state.devices.allocations[{"p", container}][kGpu].devices = {{0, {container}}};
  }
  state.devices.allocations[{"stopped", "app"}][kGpu].devices = {{0, {"gpu5"}}};
  reconcile::ContainerRegistry registry;
  registry.AddSandbox("s1", "p", "space/name");
  registry.AddContainer("c1", {"p", "app"}, {});
  registry.AddContainer("c2", {"p", "shared"}, {});
  registry.AddSandbox("s2", "stopped", "space/stopped");
  registry.SandboxStopped("s2");
  registry.AddSandbox("s3", "gone", "space/gone");
  registry.SandboxStopped("s3");
  const auto init = [](const std::string& uid) {
    return uid == "p" ? std::set<std::string>{"init"} : std::set<std::string>();
  };
  const auto pods = WithHolders(state, registry, init);
  ASSERT_EQ(pods.size(), 2U);
  EXPECT_EQ(pods[0].uid, "p");
  EXPECT_EQ(pods[0].containers, (std::set<std::string>{"app", "other", "shared"}));
  EXPECT_EQ(pods[1].uid, "stopped");
  EXPECT_EQ(pods[1].containers, std::set<std::string>{"app"});
  // Nor one that runs.
  registry.AddContainer("c3", {"p", "init"}, {});
  EXPECT_EQ(WithHolders(state, registry, init)[0].containers,
            (std::set<std::string>{"app", "other", "shared"}));
}

// As the kubelet lists them: no CPU appears twice, and no app container is missing.
TEST(PodResources, ListAppContainersWhileAnInitContainerIsOnTheirCpus) {
  reconcile::ContainerRegistry registry;
  registry.AddSandbox("s", "p", "space/name");
  registry.AddContainer("c", {"p", "init"}, {});
  const auto known = [](const std::string&) { return std::set<std::string>{"init"}; };
  const auto unknown = [](const std::string&) { return std::set<std::string>(); };
  admission::NodeState state;
  state.cpu.assignments["p"]["init"] = CpuSet::Parse("1-2").value();
  state.cpu.assignments["p"]["app"] = CpuSet::Parse("2-3").value();
  EXPECT_EQ(WithHolders(state, registry, known)[0].containers, std::set<std::string>{"app"});
  EXPECT_EQ(WithHolders(state, registry, unknown)[0].containers,
            (std::set<std::string>{"app", "init"}));
  state.cpu.assignments["p"]["init"] = CpuSet::Parse("1-4").value();
  EXPECT_EQ(WithHolders(state, registry, known)[0].containers, std::set<std::string>{"app"});
  EXPECT_EQ(WithHolders(state, registry, unknown)[0].containers, std::set<std::string>{"init"});
}

TEST(PodResources, HaveTheClaimsOfEachContainer) {
  dra::PreparedDevice part = {"d.com", "pool", "gpu0", {"d.com/gpu=0", "d.com/m=0"}};
  part.share_id = "s1";
  const dra::PreparedDevice plain = {"e.com", "pool", "eth0", {}};
  const dra::PreparedClaim claim = {{"p"}, {part, plain}, "gpus", "space"};
  const dra::PreparedClaim foreign = {{"q"}, {part}, "other", "space"};
  const dra::ContainerClaims claims({claim, foreign}, [](const ContainerKey& key) {
    return key.container == "app" ? std::set<std::string>{"d.com/gpu=0"} : std::set<std::string>();
  });
  const ::v1::PodResources pod = Describe({}, {"p", "name", "space", {"app", "x"}}, claims);
  EXPECT_EQ(pod.ShortDebugString(),
            "name: \"name\" namespace: \"space\" containers { name: \"app\" dynamic_resources { "
            "claim_name: \"gpus\" claim_namespace: \"space\" "
            "claim_resources { cdi_devices { name: \"d.com/gpu=0\" } "
            "cdi_devices { name: \"d.com/m=0\" } driver_name: \"d.com\" pool_name: \"pool\" "
            "device_name: \"gpu0\" share_id: \"s1\" } "
            "claim_resources { driver_name: \"e.com\" pool_name: \"pool\" device_name: \"eth0\" } "
            "} } containers { name: \"x\" }");
}

// The numbers of the fields are the kubelet's.
TEST(PodResources, ClaimsHaveTheNumbersOfTheProtocol) {
  ::v1::ContainerResources container;
  ::v1::DynamicResource& claim = *container.add_dynamic_resources();
  claim.set_claim_name("c");
  claim.set_claim_namespace("n");
  ::v1::ClaimResource& device = *claim.add_claim_resources();
  device.add_cdi_devices()->set_name("i");
  device.set_driver_name("d");
  device.set_pool_name("p");
  device.set_device_name("v");
  device.set_share_id("s");
  EXPECT_EQ(container.SerializeAsString(),
            "\x2a\x19\x12\x01"
            "c\x1a\x01n\"\x11\x0a\x03\x0a\x01i\x12\x01"
            "d\x1a\x01p\"\x01v*\x01s");
}

TEST(PodResources, OfTheFirstVersionAreTheDevices) {
  admission::NodeState state;
  state.cpu.assignments["p"]["app"] = CpuSet::Parse("1-2").value();
  state.devices.allocations[{"p", "app"}][kGpu].devices = {{-1, {"gpu0"}}, {1, {"gpu4"}}};
  const ::v1alpha1::PodResources pod = DescribeDevices(state, {"p", "name", "space", {"app", "x"}});
  EXPECT_EQ(pod.ShortDebugString(),
            "name: \"name\" namespace: \"space\" "
            "containers { name: \"app\" devices { resource_name: \"example.com/gpu\" "
            "device_ids: \"gpu0\" } devices { resource_name: \"example.com/gpu\" "
            "device_ids: \"gpu4\" } } containers { name: \"x\" }");
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
