#include "allocation/memory_resize.h"

#include <gtest/gtest.h>

#include "core/pod_builder.h"
#include "edge/allocation_node.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;

class MemoryResize : public ::testing::Test {
 protected:
  MemoryResize() : state_(admission::NodeState::Initial(node_)) {
    state_.memory.assignments["pod"]["app"] = {{{0, 1}, "hugepages-2Mi", 1 << 21},
                                               {{0, 1}, "memory", 1 << 30}};
    state_.memory.assignments["pod"]["prepare"] = {{{0}, "memory", 0}};  // reused by `app`
  }

  std::optional<Refusal> To(const std::string& memory, const std::string& wanted = "app") const {
    Pod pod = MakePod("pod", {Init("prepare", {{"cpu", "1"}, {"memory", "1Gi"}}),
                              App("app", {{"cpu", "2"}, {"memory", memory}})});
    return RefuseMemoryResize(node_, state_, pod, wanted);
  }

  const admission::Node node_ = MakeNode();
  admission::NodeState state_;
};

TEST_F(MemoryResize, OtherAmountThanTheAssignedOneIsRefused) {
  for (const char* wanted : {"app", ""}) {
    EXPECT_FALSE(To("1Gi", wanted));
    EXPECT_FALSE(To("1024Mi", wanted));
    for (const char* memory : {"2Gi", "512Mi", "1073741825"}) {
      const std::optional<Refusal> refusal = To(memory, wanted);
      ASSERT_TRUE(refusal) << memory;
      EXPECT_EQ(refusal->reason, "ResizeRefused");
      EXPECT_TRUE(refusal->message.starts_with(
          "container app of pod default/pod is assigned 1024Mi of memory on NUMA nodes 0,1, and "
          "with memoryManagerPolicy Static its amount cannot change while its pod lives: asked "
          "for "))
          << refusal->message;
      EXPECT_FALSE(refusal->remedy.empty());
    }
  }
  EXPECT_FALSE(To("2Gi", "prepare"));  // the memory of init containers is reused
}

TEST_F(MemoryResize, WhatIsNotAssignedIsNotCompared) {
  state_.memory.assignments.erase("pod");
  EXPECT_FALSE(To("2Gi"));
}

// With the feature gate, the limit in CRI contains memory of claims, which other sources do not
// show.
TEST_F(MemoryResize, MemoryOfClaimsIsNone) {
  const auto refused = [&](const admission::Node& node, const std::string& asked,
                           const MemoryInCri& in_cri) {
    const Pod pod = MakePod("pod", {App("app", {{"cpu", "2"}, {"memory", asked}})});
    return RefuseMemoryResize(node, state_, pod, "app", in_cri).has_value();
  };
  constexpr uint64_t kGi = uint64_t{1} << 30;
  const MemoryInCri estimate_of_two{.limit = 2 * kGi, .is_estimate = true};
  EXPECT_TRUE(refused(node_, "2Gi", estimate_of_two));
  EXPECT_TRUE(refused(node_, "512Mi", {.limit = kGi}));
  KubeletConfig config = node_.config;
  config.feature_gates["DRANodeAllocatableResources"] = true;
  admission::Node node = node_;
  node.config = config;
  // The first decision did not count the memory of claims, and CRI alone does.
  EXPECT_FALSE(refused(node, "2Gi", estimate_of_two));
  EXPECT_TRUE(refused(node, "2Gi", {.limit = 3 * kGi}));  // the source says that it requests more
  EXPECT_TRUE(refused(node, "512Mi", {.limit = kGi / 2, .is_estimate = true}));
  // The first decision counted it: the limit is what is assigned.
  EXPECT_FALSE(refused(node, "512Mi", {.limit = kGi}));
  EXPECT_FALSE(refused(node, "512Mi", {}));  // CRI shows the limit later
  EXPECT_TRUE(refused(node, "512Mi", {.limit = kGi - 1}));
  EXPECT_TRUE(refused(node, "512Mi", {.limit = 0}));
}

TEST_F(MemoryResize, AmountOfAPodAsAWholeIsItsOwn) {
  EXPECT_EQ(AssignedMemory(state_, "pod"), std::nullopt);
  state_.memory.pods["pod"] = {{{0}, "memory", uint64_t{4} << 30}};
  EXPECT_EQ(AssignedMemory(state_, "pod"), uint64_t{4} << 30);
  EXPECT_EQ(AssignedMemory(state_, ContainerKey{"pod", "app"}), uint64_t{1} << 30);
  EXPECT_FALSE(To("2Gi"));
}

}  // namespace
}  // namespace alignd::allocation
