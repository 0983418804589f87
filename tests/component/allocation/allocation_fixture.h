// An allocation manager with plugins that have announced their devices.
#pragma once

#include <gtest/gtest.h>

#include "alignd/admission/node_state.h"
#include "edge/allocation_node.h"
#include "edge/allocation_outcome.h"

namespace alignd::allocation {

class AllocationTest : public ::testing::Test {
 protected:
  AllocationTest() {
    world.Up();
    world.AnnounceDevices();
  }

  void ExpectNothingAssigned() {
    world.Settle();
    admission::NodeState empty = admission::NodeState::Initial(world.node);
    empty.devices.resources = {{testing::kGpu, testing::EightDevices("gpu")},
                               {testing::kNic, testing::EightDevices("nic")}};
    EXPECT_EQ(world.published(), empty);
    EXPECT_EQ(world.saved(), testing::Persistent(empty));
  }

  testing::AllocationNode world;
};

}  // namespace alignd::allocation
