#include "allocation/exclusive_needs.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "edge/allocation_node.h"

namespace alignd::allocation {
namespace {

using testing::kGpu;
using testing::kNic;
using Kinds = std::set<std::string>;

class ExclusiveNeedsTest : public ::testing::Test {
 protected:
  ExclusiveNeedsTest() { state_.devices.resources[kGpu] = testing::EightDevices("gpu"); }
  Kinds NeedsOf(const Pod& pod) const { return ExclusiveNeeds(node_, state_, pod); }

  admission::Node node_ = testing::MakeNode();
  admission::NodeState state_ = admission::NodeState::Initial(node_);
};

TEST_F(ExclusiveNeedsTest, AreCpusMemoryAndEachDeviceResource) {
  EXPECT_EQ(NeedsOf(testing::AppPod("a", 2, {{kGpu, "1"}})), (Kinds{"cpu", "memory", kGpu}));
  // Not whole: CPUs of the shared pool, with pinned memory.
  EXPECT_EQ(NeedsOf(AppPod("a", {{"cpu", "1500m"}, {"memory", "1Gi"}})), Kinds{"memory"});
  EXPECT_EQ(NeedsOf(AppPod("a", {{kGpu, "1"}})), Kinds{kGpu});
  EXPECT_EQ(NeedsOf(AppPod("a", {{kGpu, "0"}})), Kinds{});
  EXPECT_EQ(NeedsOf(AppPod("a", {{kNic, "1"}})), Kinds{});  // no plugin serves it
  EXPECT_EQ(NeedsOf(AppPod("a", {})), Kinds{});
}

TEST_F(ExclusiveNeedsTest, HugePagesAreMemory) {
  const Pod pod = AppPod("a", {{"cpu", "500m"}, {"memory", "1Gi"}, {"hugepages-2Mi", "2Mi"}});
  EXPECT_EQ(NeedsOf(pod), Kinds{"memory"});
}

TEST_F(ExclusiveNeedsTest, AreThoseThatThePoliciesAssign) {
  KubeletConfig config;
  config.reserved_system_cpus = "0";
  node_ = testing::MakeNode(config);
  EXPECT_EQ(NeedsOf(testing::AppPod("a", 2, {{kGpu, "1"}})), Kinds{kGpu});
}

TEST_F(ExclusiveNeedsTest, APodInTheSharedPoolOfItsRuntimeHandlerNeedsDevicesOnly) {
  Pod pod = testing::AppPod("a", 2, {{kGpu, "1"}});
  pod.shared_pool_handler = "gvisor";
  EXPECT_EQ(NeedsOf(pod), Kinds{kGpu});
}

TEST_F(ExclusiveNeedsTest, FindsWhatAPodIsAssigned) {
  EXPECT_FALSE(HasAssignment(state_, "a"));
  admission::NodeState with = state_;
  with.cpu.assignments["a"]["app"] = CpuSet{2};
  EXPECT_TRUE(HasAssignment(with, "a"));
  EXPECT_FALSE(HasAssignment(with, "b"));
  with = state_;
  with.memory.assignments["a"]["app"] = {{{0}, "memory", 1}};
  EXPECT_TRUE(HasAssignment(with, "a"));
  with = state_;
  with.devices.allocations[{"a", "app"}][kGpu].devices[0] = {"gpu0"};
  EXPECT_TRUE(HasAssignment(with, "a"));
}

}  // namespace
}  // namespace alignd::allocation
