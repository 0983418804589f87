// What is known of a node for planning.
#include "alignd/placement/node_input.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "alignd/machine/node_json.h"
#include "core/machine_builder.h"

namespace alignd::placement {
namespace {

std::string NodeText(const std::string& more) {
  std::string json = MachineToNodeJson(MakeMachine("socket:2 numa:1 core:2"));
  json.pop_back();
  return json + more + "}";
}

std::string NodeErrorOf(const std::string& more) {
  const Result<NodeInput> input = ReadNodeInput(NodeText(more));
  return input.ok() ? "" : input.error().Text();
}

TEST(NodeInput, RefusesADeviceOnANumaNodeThatDoesNotExist) {
  EXPECT_EQ(NodeErrorOf(R"(,"devices":{"a.com/x":[{"id":"x0","numa":[2]}]})"),
            "device x0 of a.com/x is on NUMA node 2, which the machine does not have; its NUMA "
            "nodes are 0, 1");
  EXPECT_EQ(NodeErrorOf(R"(,"devices":{"a.com/x":[{"id":"x0","numa":[1]}]})"), "");
}

// As alignctl topology prints it on a machine with such CPUs.
TEST(NodeInput, TakesIsolatedCpus) {
  const Result<NodeInput> input = ReadNodeInput(NodeText(R"(,"isolated":"1,3")"));
  ASSERT_TRUE(input.ok()) << input.error().Text();
  EXPECT_EQ(input->description.machine.isolated().ToString(), "1,3");
}

TEST(NodeInput, RefusesDevicesNamedLikeOtherResources) {
  EXPECT_NE(NodeErrorOf(R"(,"devices":{"cpu":[{"id":"x0","numa":[1]}]})"), "");
  EXPECT_NE(NodeErrorOf(R"(,"devices":{"hugepages-1Gi":[]})"), "");
}

TEST(NodeInput, RefusesMisspeltMembers) {
  EXPECT_EQ(NodeErrorOf(R"(,"device":{})"), "device: unknown field; did you mean \"devices\"?");
  EXPECT_EQ(NodeErrorOf(R"(,"devices":{"a.com/x":[{"id":"x0","numas":[0]}]})"),
            "devices.a.com/x[0].numas: unknown field; did you mean \"numa\"?");
  EXPECT_NE(NodeErrorOf(R"(,"devices":{},"devices":{})"), "");
}

TEST(NodeInput, TakesReportedDevices) {
  const Result<NodeInput> input = ReadNodeInput(NodeText(
      R"(,"owners":{"containers":[{"key":"c"}],"devices":[)"
      R"({"resource":"a.com/x","id":"x0","numa":[1],"owner":null,"problem":""},)"
      R"({"resource":"a.com/x","id":"x1","numa":[1],"owner":null,"problem":"unhealthy"}]})"));
  ASSERT_TRUE(input.ok()) << input.error().Text();
  const scenario::DeviceList& devices = input->description.devices.at("a.com/x");
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].second.numa, std::vector<int64_t>{1});
  EXPECT_TRUE(input->owned.empty()) << "the container has no CPUs and devices";
}

TEST(NodeInput, TakesWhatContainersHave) {
  const Result<NodeInput> input = ReadNodeInput(NodeText(
      R"(,"owners":{"containers":[{"key":"A","pod":"ns/a","cpus":"0","devices":{}},)"
      R"({"key":"B","pod":"uid-b","cpus":"","devices":{"a.com/x":1}}],"devices":[],"devices_left_out":[)"
      R"({"resource":"a.com/x","numa":1,"devices":6,"free":5},)"
      R"({"resource":"a.com/y","numa":null,"devices":2,"free":2},)"
      R"({"resource":"a.com/z","numa":null,"devices":2,"free":0}]})"));
  ASSERT_TRUE(input.ok()) << input.error().Text();
  EXPECT_EQ(input->owned, (std::map<std::string, std::set<std::string>>{{"ns/a", {"cpu"}},
                                                                        {"uid-b", {"a.com/x"}}}));
  const scenario::DeviceList& devices = input->description.devices.at("a.com/x");
  ASSERT_EQ(devices.size(), 5U) << "the sixth is not free";
  EXPECT_EQ(devices[4].second.numa, std::vector<int64_t>{1});
  ASSERT_EQ(input->unlocated_devices.size(), 1U);
  EXPECT_TRUE(input->unlocated_devices.at("a.com/y").starts_with("2 free devices on no NUMA node"));
  EXPECT_EQ(NodeErrorOf(R"(,"owners":{"devices_left_out":[)"
                        R"({"resource":"a.com/x","numa":1,"devices":9999,"free":9999}]})"),
            "owners.devices_left_out: has more than 4096 devices");
  EXPECT_NE(NodeErrorOf(R"(,"owners":{"containers":[{"cpus":3}]})"), "");
}

TEST(NodeInput, ReadsDevices) {
  const auto devices = ParseDevices("nvidia.com/gpu=1@0,2@1,1");
  ASSERT_TRUE(devices.ok()) << devices.error().Text();
  EXPECT_EQ(devices->first, "nvidia.com/gpu");
  ASSERT_EQ(devices->second.size(), 4U);
  EXPECT_EQ(devices->second[2].first, "gpu-2");
  EXPECT_EQ(devices->second[2].second.numa, std::vector<int64_t>{1});
  EXPECT_TRUE(devices->second[3].second.numa.empty());
  for (const char* text : {"", "gpu=1", "a.com/x", "a.com/x=", "a.com/x=1@", "a.com/x=-1@0",
                           "a.com/x=1@0,", "a.com/x=1 @0", "a.com/x=5000@0", "a.com/x=1@0@1",
                           "a.com/x=99999999999999999999@0", "a.com/x=1.5@0", "a b/x=1"}) {
    EXPECT_FALSE(ParseDevices(text).ok()) << text;
  }
  EXPECT_EQ(ParseDevices("a.com/x").error().message, "--device a.com/x: has no =COUNT");
}

TEST(NodeInput, RefusesDevicesThatTheNodeCannotHave) {
  NodeInput input = *ReadNodeInput(NodeText(""));
  EXPECT_TRUE(AddDevices("a.com/x", ParseDevices("a.com/x=1@1")->second, input).ok());
  EXPECT_FALSE(AddDevices("a.com/x", ParseDevices("a.com/x=1@1")->second, input).ok());
  EXPECT_FALSE(AddDevices("a.com/y", ParseDevices("a.com/y=1@2")->second, input).ok());
}

TEST(NodeInput, ReadsANodeObject) {
  const Result<NodeObject> node = ReadNodeObject(
      R"({"kind":"Node","metadata":{"name":"w","labels":{"a":"b"}},)"
      R"("spec":{"unschedulable":true,"taints":[{"key":"k","effect":"PreferNoSchedule"}]},)"
      R"("status":{"allocatable":{"cpu":"3500m","pods":"9"},"capacity":{"cpu":"4"}}})");
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_EQ(node->name, "w");
  EXPECT_EQ(node->labels.at("a"), "b");
  EXPECT_EQ(node->allocatable.at("cpu").ToString(), "3500m");
  ASSERT_EQ(node->taints.size(), 1U);
  EXPECT_EQ(node->taints[0].key, "node.kubernetes.io/unschedulable");
  for (const char* text :
       {"{", "{}", R"({"status":{}})", R"({"status":{"allocatable":{"cpu":"x"}}})",
        R"({"spec":{"unschedulable":1},"status":{"allocatable":{}}})",
        R"({"spec":{"taints":[1]},"status":{"allocatable":{}}})",
        R"({"metadata":{"labels":{"a":1}},"status":{"allocatable":{}}})"}) {
    EXPECT_FALSE(ReadNodeObject(text).ok()) << text;
  }
}

// A checkpoint in which `id` of a.com/x is allocated on the NUMA node, and these are registered.
checkpoint::DeviceCheckpoint CheckpointWith(const std::string& id, int64_t numa,
                                            const std::vector<std::string>& registered) {
  checkpoint::DeviceCheckpoint checkpoint;
  checkpoint.allocations[{"uid", "app"}]["a.com/x"].devices[numa] = {id};
  checkpoint.registered["a.com/x"] = registered;
  return checkpoint;
}

TEST(NodeInput, TakesTheIdsOfAllocatedDevices) {
  NodeInput input = *ReadNodeInput(NodeText(""));
  ASSERT_TRUE(AddDevices("a.com/x", ParseDevices("a.com/x=1@0,1@1")->second, input).ok());
  ASSERT_TRUE(AddCheckpointDevices(CheckpointWith("real", 1, {"other", "real"}), input).ok());
  const scenario::DeviceList& devices = input.description.devices.at("a.com/x");
  EXPECT_EQ(devices[0].first, "x-0");
  EXPECT_EQ(devices[1].first, "real");
  EXPECT_TRUE(input.unlocated_devices.empty());
  checkpoint::DeviceCheckpoint more = CheckpointWith("real", 1, {});
  more.allocations[{"other", "app"}]["a.com/x"].devices[1] = {"more"};
  EXPECT_FALSE(AddCheckpointDevices(more, input).ok());
}

// A checkpoint registers the healthy devices of plugins that are there.
TEST(NodeInput, TakesNoDeviceForHealthyThatIsNotRegistered) {
  const auto with = [](const std::string& devices, const checkpoint::DeviceCheckpoint& checkpoint) {
    NodeInput input = *ReadNodeInput(NodeText(""));
    EXPECT_TRUE(AddDevices("a.com/x", ParseDevices(devices)->second, input).ok());
    const Result<Done> added = AddCheckpointDevices(checkpoint, input);
    EXPECT_TRUE(added.ok()) << added.error().Text();
    return input;
  };
  const auto registering = [](const std::vector<std::string>& ids) {
    checkpoint::DeviceCheckpoint checkpoint;
    checkpoint.registered["a.com/x"] = ids;
    return checkpoint;
  };
  EXPECT_TRUE(with("a.com/x=2@0", registering({"r", "s"})).unlocated_devices.empty());
  EXPECT_EQ(
      with("a.com/x=3@0", registering({"r", "s"})).unlocated_devices.at("a.com/x"),
      "the kubelet's checkpoint has 2 healthy devices, and 3 are described; which devices are "
      "unhealthy is not known; describe the healthy devices only");
  for (const auto& checkpoint : {registering({}), checkpoint::DeviceCheckpoint{}}) {
    EXPECT_TRUE(with("a.com/x=1@0", checkpoint).unlocated_devices.contains("a.com/x"));
  }
  // One that is allocated and not registered takes the place of no healthy one.
  NodeInput input = with("a.com/x=2@0", CheckpointWith("gone", 0, {"r", "s"}));
  EXPECT_TRUE(input.unlocated_devices.empty());
  const auto healthy_in = [](const NodeInput& node) {
    std::map<std::string, bool> healthy;
    for (const auto& [id, device] : node.description.devices.at("a.com/x")) {
      healthy[id] = device.healthy;
    }
    return healthy;
  };
  EXPECT_EQ(healthy_in(input),
            (std::map<std::string, bool>{{"gone", false}, {"x-0", true}, {"x-1", true}}));
  // Described with it, it is one of these.
  input = with("a.com/x=3@0", CheckpointWith("gone", 0, {"r", "s"}));
  EXPECT_TRUE(input.unlocated_devices.empty());
  EXPECT_EQ(healthy_in(input),
            (std::map<std::string, bool>{{"gone", false}, {"x-1", true}, {"x-2", true}}));
  // Ids of the node itself say which one it is.
  input = *ReadNodeInput(NodeText(R"(,"devices":{"a.com/x":[{"id":"r"},{"id":"s"}]})"));
  ASSERT_TRUE(AddCheckpointDevices(registering({"s"}), input).ok());
  EXPECT_TRUE(input.unlocated_devices.empty());
  EXPECT_EQ(healthy_in(input), (std::map<std::string, bool>{{"r", false}, {"s", true}}));
}

TEST(NodeInput, ReplacesGeneratedIdsThatTheCheckpointHasElsewhere) {
  for (const char* const devices : {"a.com/x=1@0,1@1", "a.com/x=2@0,1@1"}) {
    NodeInput input = *ReadNodeInput(NodeText(""));
    ASSERT_TRUE(AddDevices("a.com/x", ParseDevices(devices)->second, input).ok());
    // The generated x-0 is on NUMA node 0.
    ASSERT_TRUE(AddCheckpointDevices(CheckpointWith("x-0", 1, {}), input).ok());
    std::map<std::string, std::vector<int64_t>> numa_of;
    for (const auto& [id, device] : input.description.devices.at("a.com/x")) {
      EXPECT_TRUE(numa_of.try_emplace(id, device.numa).second) << id;
    }
    EXPECT_EQ(numa_of.at("x-0"), std::vector<int64_t>{1}) << devices;
    EXPECT_EQ(numa_of.at("x-0-free"), std::vector<int64_t>{0}) << devices;
  }
  NodeInput input = *ReadNodeInput(NodeText(""));
  ASSERT_TRUE(AddDevices("a.com/x", ParseDevices("a.com/x=2@0")->second, input).ok());
  EXPECT_FALSE(AddCheckpointDevices(CheckpointWith("x-0", 1, {}), input).ok());
}

TEST(NodeInput, RefusesACheckpointThatPlacesADeviceElsewhere) {
  const std::string devices = R"(,"devices":{"a.com/x":[{"id":"g","numa":[0]},{"id":"h"}]})";
  const auto error_with = [&](const std::string& id, int64_t numa) {
    NodeInput input = *ReadNodeInput(NodeText(devices));
    const Result<Done> added = AddCheckpointDevices(CheckpointWith(id, numa, {}), input);
    return added.ok() ? "" : added.error().Text();
  };
  EXPECT_EQ(error_with("g", 0), "");
  EXPECT_EQ(error_with("h", -1), "");
  EXPECT_EQ(error_with("g", 1),
            "the checkpoint has device g of a.com/x on NUMA node 1, and the description has it on "
            "NUMA node 0; give description and checkpoint of the same node");
  EXPECT_NE(error_with("g", -1), "");
  EXPECT_NE(error_with("h", 0), "");
}

TEST(NodeInput, DoesNotGuessWhereFreeDevicesAre) {
  NodeInput input = *ReadNodeInput(NodeText(""));
  ASSERT_TRUE(AddCheckpointDevices(CheckpointWith("real", 1, {"real"}), input).ok());
  EXPECT_TRUE(input.unlocated_devices.empty());
  NodeInput other = *ReadNodeInput(NodeText(""));
  ASSERT_TRUE(AddCheckpointDevices(CheckpointWith("real", 1, {"free", "real"}), other).ok());
  EXPECT_EQ(other.description.devices.at("a.com/x").size(), 2U);
  EXPECT_TRUE(other.unlocated_devices.contains("a.com/x"));
}

}  // namespace
}  // namespace alignd::placement
