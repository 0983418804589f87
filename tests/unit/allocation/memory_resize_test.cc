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

TEST_F(MemoryResize, AmountOfAPodAsAWholeIsItsOwn) {
  EXPECT_EQ(AssignedMemory(state_, "pod"), std::nullopt);
  state_.memory.pods["pod"] = {{{0}, "memory", uint64_t{4} << 30}};
  EXPECT_EQ(AssignedMemory(state_, "pod"), uint64_t{4} << 30);
  EXPECT_EQ(AssignedMemory(state_, ContainerKey{"pod", "app"}), uint64_t{1} << 30);
  EXPECT_FALSE(To("2Gi"));
}

}  // namespace
}  // namespace alignd::allocation
