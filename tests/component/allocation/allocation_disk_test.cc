// What the allocation manager saves, and what it does if the disk fails.
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <string>

#include "allocation/allocation_manager.h"
#include "allocation_fixture.h"
#include "edge/allocation_outcome.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;

class AllocationDisk : public AllocationTest {};

TEST_F(AllocationDisk, AssignsNothingThatItCannotSave) {
  for (const std::map<std::string, std::string>& devices :
       {std::map<std::string, std::string>{}, std::map<std::string, std::string>{{kGpu, "1"}}}) {
    int index = 0;
    for (;; ++index) {
      SCOPED_TRACE(index);
      world.disk.FailAt(index, ENOSPC);
      const Outcome outcome = world.Admit(AppPod("pod", 2, devices));
      if (!world.disk.failed()) {
        EXPECT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
        break;
      }
      ASSERT_TRUE(IsError(outcome, ErrorCode::kIo)) << TextOf(outcome);
      world.disk.Repair();
      ExpectNothingAssigned();  // and the next task repairs the files
    }
    EXPECT_GE(index, 18);  // two or three files, nine calls each
    world.disk.Repair();
    ASSERT_TRUE(world.Release("pod").ok());
  }
}

TEST_F(AllocationDisk, ReleasesInMemoryWhatItCannotReleaseOnDisk) {
  const Pod big = AppPod("big", 15);
  ASSERT_TRUE(AllocatedOf(world.Admit(big)));
  world.disk.DieAt(0);
  const Result<Done> released = world.Release("big");
  ASSERT_FALSE(released.ok());
  EXPECT_EQ(released.error().code, ErrorCode::kIo);
  EXPECT_TRUE(world.published().cpu.assignments.empty());
  EXPECT_EQ(world.saved().cpu.assignments.size(), 1u);
  // The CPUs are not assigned while the file says that they are taken.
  EXPECT_TRUE(IsError(world.Admit(AppPod("next", 2)), ErrorCode::kIo));
  world.disk.Repair();
  ASSERT_TRUE(world.Release("unknown").ok());  // any change saves it
  ExpectNothingAssigned();
}

TEST_F(AllocationDisk, SavesWhichDevicesAreRegistered) {
  EXPECT_EQ(world.saved().devices.resources.size(), 2u);
  world.manager->RemoveResource(kNic);
  world.Settle();
  EXPECT_EQ(world.saved().devices.resources.size(), 1u);
}

TEST_F(AllocationDisk, AsksAgainForAnAnswerThatDidNotReachTheDisk) {
  const Pod pod = AppPod("pod", 2, {{kGpu, "1"}});
  ASSERT_TRUE(AllocatedOf(world.Admit(pod)));
  admission::NodeState state = world.published();
  state.devices.allocations[{"pod", "app"}].at(kGpu).response.clear();
  ASSERT_TRUE(CheckpointStore(world.paths()).Save(world.node, state).ok());
  world.Down();
  world.Up();
  world.AnnounceDevices();
  const Outcome outcome = world.Admit(pod);
  ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
  EXPECT_EQ(AllocatedOf(outcome)->assignments.at("app").devices.at(kGpu).response,
            FakePlugins::AnswerTo(kGpu, {"gpu0"}));
  EXPECT_EQ(world.plugins->allocations(), 1);
}

}  // namespace
}  // namespace alignd::allocation
