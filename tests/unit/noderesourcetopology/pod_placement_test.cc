// What KAI-Scheduler reads from a pod.
#include "alignd/noderesourcetopology/pod_placement.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "alignd/cpumanager/static_policy.h"
#include "core/device_states.h"
#include "core/machine_builder.h"

namespace alignd::noderesourcetopology {
namespace {

using Placements = std::map<std::string, std::string>;

constexpr char kPlacedGpu[] = "nvidia.com/gpu";

// Two NUMA nodes of four CPUs.
admission::Node PlacementNode() {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  Result<admission::Node> node =
      admission::Node::Make(MakeMachine("socket:2 numa:1 core:4"), config);
  EXPECT_TRUE(node.ok()) << node.error().message;
  return *std::move(node);
}

class PodPlacementTest : public ::testing::Test {
 protected:
  void Give(const std::string& uid, const std::string& container, const char* cpus) {
    state_.cpu.assignments[uid][container] = *CpuSet::Parse(cpus);
    state_.cpu.default_set -= *CpuSet::Parse(cpus);
  }
  Placements Get() const { return PodPlacements(node_, state_); }

  const admission::Node node_ = PlacementNode();
  admission::NodeState state_ = admission::NodeState::Initial(node_);
};

TEST_F(PodPlacementTest, WritesTheFormThatTheSchedulerReads) {
  EXPECT_EQ(Get(), Placements());
  Give("a", "app", "2-5");
  Give("a", "sidecar", "6");
  state_.devices.resources[kPlacedGpu] = devicemanager::Registered({{"g0", {0}}, {"g1", {1}}});
  devicemanager::Hold(state_.devices, {"a", "app"}, kPlacedGpu, {"g1"});
  state_.memory.assignments["a"]["app"] = {{{1}, "hugepages-2Mi", 2097152},
                                           {{1}, "memory", 17179869184}};
  EXPECT_EQ(Get(), (Placements{{"a", R"([{"zone":"node-0","amount":{"cpu":"2"}},)"
                                     R"({"zone":"node-1","amount":{"cpu":"3",)"
                                     R"("hugepages-2Mi":"2097152","memory":"17179869184",)"
                                     R"("nvidia.com/gpu":"1"}}])"}}));
}

TEST_F(PodPlacementTest, LeavesOutWhatBelongsToNoSingleZone) {
  state_.devices.resources[kPlacedGpu] =
      devicemanager::Registered({{"both", {0, 1}}, {"nowhere", {}}, {"one", {0}}});
  devicemanager::Hold(state_.devices, {"a", "app"}, kPlacedGpu, {"both", "nowhere"});
  state_.memory.assignments["a"]["app"] = {{{0, 1}, "memory", 1024}};
  state_.memory.assignments["b"]["app"] = {{{0}, "memory", 0}};
  EXPECT_EQ(Get(), Placements());
  devicemanager::Hold(state_.devices, {"c", "app"}, kPlacedGpu, {"one"});
  EXPECT_EQ(Get(), (Placements{{"c", R"([{"zone":"node-0","amount":{"nvidia.com/gpu":"1"}}])"}}));
}

// An init container and the app that reuses its CPUs and devices have them together.
TEST_F(PodPlacementTest, CountsWhatContainersOfAPodReuseOnce) {
  Give("a", "init", "2-3");
  Give("a", "app", "2-4");
  state_.devices.resources[kPlacedGpu] = devicemanager::Registered({{"g0", {0}}});
  devicemanager::Hold(state_.devices, {"a", "init"}, kPlacedGpu, {"g0"});
  devicemanager::Hold(state_.devices, {"a", "app"}, kPlacedGpu, {"g0"});
  EXPECT_EQ(Get().at("a"), R"([{"zone":"node-0","amount":{"cpu":"2","nvidia.com/gpu":"1"}},)"
                           R"({"zone":"node-1","amount":{"cpu":"1"}}])");
}

// The zone does not have them as allocatable either.
TEST_F(PodPlacementTest, DoesNotCountCpusThatAreOffline) {
  Give("a", "app", "2-3");
  cpumanager::SetOffline(*CpuSet::Parse("3"), state_.cpu);
  EXPECT_EQ(Get().at("a"), R"([{"zone":"node-0","amount":{"cpu":"1"}}])");
}

// The blocks of its containers are parts of those of the pod.
TEST_F(PodPlacementTest, CountsMemoryOfAWholePodOnce) {
  state_.memory.pods["a"] = {{{1}, "memory", 4096}};
  state_.memory.assignments["a"]["app"] = {{{1}, "memory", 1024}};
  EXPECT_EQ(Get().at("a"), R"([{"zone":"node-1","amount":{"memory":"4096"}}])");
}

}  // namespace
}  // namespace alignd::noderesourcetopology
