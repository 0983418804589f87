#include "allocation/plugin_needs.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <variant>

#include "edge/allocation_node.h"
#include "edge/fake_plugins.h"

namespace alignd::allocation {
namespace {

using testing::kGpu;
using testing::kNic;

class UnknownDevicesTest : public ::testing::Test {
 protected:
  std::set<std::string> Find(const std::map<std::string, std::string>& limits) {
    request_.pod = MakePod("p", {App("app", limits)});
    std::set<std::string> found;
    for (const auto& unknown : FindUnknownDevices(state_, request_, not_devices_)) {
      EXPECT_EQ(unknown.container, "app");
      found.insert(unknown.resource);
    }
    return found;
  }
  std::optional<EarlyAnswer> Answer(const KubeletAllocation::Learned& learned) {
    return AnswerWithoutDevices({{"app", kGpu}}, state_.devices, learned, "app", plugins_,
                                inventory_);
  }
  std::string RefusalText(const KubeletAllocation::Learned& learned) {
    const auto answer = Answer(learned);
    const auto* const outcome = answer ? std::get_if<Outcome>(&*answer) : nullptr;
    const auto* const refusal = outcome != nullptr ? std::get_if<Refusal>(outcome) : nullptr;
    return refusal == nullptr ? "" : refusal->reason + ": " + refusal->message;
  }

  admission::NodeState state_ = admission::NodeState::Initial(testing::MakeNode());
  AdmissionRequest request_ = {.pod = {}, .wanted = "app"};
  std::set<std::string> not_devices_;
  testing::FakePlugins plugins_;
  InventoryQueue inventory_;
};

TEST_F(UnknownDevicesTest, AreExtendedResourcesThatTheContainerWasNotAssigned) {
  EXPECT_EQ(Find({{kGpu, "1"}, {kNic, "2"}}), (std::set<std::string>{kGpu, kNic}));
  EXPECT_EQ(Find({{kGpu, "0"}}), std::set<std::string>());
  not_devices_ = {kNic};
  EXPECT_EQ(Find({{kGpu, "1"}, {kNic, "2"}}), std::set<std::string>{kGpu});
  request_.kubelet_allocated = {{"app", {{kGpu, {"gpu0"}}}}};
  EXPECT_EQ(Find({{kGpu, "1"}}), std::set<std::string>());
  request_.kubelet_allocated.clear();
  state_.devices.allocations[{"p", "app"}][kGpu].devices[0] = {"gpu0"};
  EXPECT_EQ(Find({{kGpu, "1"}}), std::set<std::string>());
  state_.devices.allocations.erase({"p", "app"});
  state_.devices.resources[kGpu] = testing::EightDevices("gpu");
  EXPECT_EQ(Find({{kGpu, "1"}}), std::set<std::string>());
}

// Koordinator counts kubernetes.io/batch-cpu; deviceclass.resource.kubernetes.io/ is a DRA
// driver's.
TEST_F(UnknownDevicesTest, ResourcesThatNoDevicePluginMayServeAreNone) {
  EXPECT_EQ(Find({{"cpu", "1"},
                  {"memory", "1Gi"},
                  {"ephemeral-storage", "1Gi"},
                  {"hugepages-2Mi", "2Mi"},
                  {"kubernetes.io/batch-cpu", "1000"},
                  {"deviceclass.resource.kubernetes.io/gpu", "1"}}),
            std::set<std::string>());
}

TEST_F(UnknownDevicesTest, PluginIsAwaitedThenTheContainerIsRefused) {
  plugins_.Await(kGpu, true);
  const auto waits = Answer(KubeletAllocation::LearnedPod());
  ASSERT_TRUE(waits);
  ASSERT_TRUE(std::holds_alternative<PluginWait>(*waits));
  EXPECT_EQ(std::get<PluginWait>(*waits).resource, kGpu);
  plugins_.Await(kGpu, false);
  const std::string refused = RefusalText(KubeletAllocation::LearnedPod());
  EXPECT_NE(refused.find("cannot allocate unregistered device example.com/gpu for container app"),
            std::string::npos)
      << refused;
  EXPECT_NE(refused.find("--not-devices=example.com/gpu"), std::string::npos) << refused;
}

// It has registered, but its devices are not in the state yet.
TEST_F(UnknownDevicesTest, DevicesOnTheirWayAreAwaited) {
  inventory_.Announce(kGpu, testing::EightDevices("gpu"));
  const auto waits = Answer(KubeletAllocation::LearnedPod());
  ASSERT_TRUE(waits);
  EXPECT_TRUE(std::holds_alternative<PluginWait>(*waits));
}

// A plugin that floods alignd with lists has always just announced devices. A request that waits
// for it goes on all the same, and so does a new one.
TEST_F(UnknownDevicesTest, PluginWhoseDevicesAreKnownIsNotAwaited) {
  inventory_.Announce(kGpu, testing::EightDevices("gpu"));
  state_.devices.resources[kGpu] = testing::EightDevices("gpu");
  EXPECT_FALSE(WaitFor(kGpu, state_.devices, plugins_, inventory_));
  request_.pod = MakePod("p", {App("app", {{kGpu, "1"}})});
  EXPECT_FALSE(AwaitedPlugin(state_, request_, plugins_, inventory_));
  plugins_.Await(kGpu, true);
  EXPECT_TRUE(WaitFor(kGpu, state_.devices, plugins_, inventory_));
  plugins_.Await(kGpu, false);
  state_.devices.resources[kGpu].registered = false;
  EXPECT_TRUE(WaitFor(kGpu, state_.devices, plugins_, inventory_));
}

TEST_F(UnknownDevicesTest, DevicesOfTheKubeletsOwnPluginsAreThere) {
  KubeletAllocation::LearnedPod learned;
  learned.of_own_plugins = {{"app", {{kGpu, {"gpu0"}}}}};
  EXPECT_FALSE(Answer(learned));
  // Ids that the kubelet allocated through alignd are no devices yet.
  learned.allocated = learned.of_own_plugins;
  learned.of_own_plugins = {{"beside", {{kGpu, {"gpu0"}}}}};
  EXPECT_NE(RefusalText(learned), "");
}

TEST_F(UnknownDevicesTest, WithoutTheKubeletsCheckpointNothingIsAssumed) {
  EXPECT_NE(RefusalText(Error{ErrorCode::kNotFound, "no such file"}), "");  // it allocated nothing
  const auto answer = Answer(Error{ErrorCode::kCorrupt, "checkpoint: damaged"});
  ASSERT_TRUE(answer);
  const auto* const outcome = std::get_if<Outcome>(&*answer);
  ASSERT_NE(outcome, nullptr);
  const auto* const error = std::get_if<Error>(outcome);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->code, ErrorCode::kUnavailable);
  EXPECT_NE(error->Text().find("checkpoint: damaged"), std::string::npos);
  EXPECT_NE(error->Text().find("--kubelet-device-plugin-dir"), std::string::npos);
}

}  // namespace
}  // namespace alignd::allocation
