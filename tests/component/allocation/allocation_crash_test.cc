// The power fails at every system call of a sequence of admissions. Afterwards all that the runtime
// runs is still assigned, nothing is assigned twice, and nothing is lost.
#include <gtest/gtest.h>

#include "allocation/allocation_manager.h"
#include "edge/allocation_node.h"
#include "edge/allocation_outcome.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;

// A sequence of admissions and releases, and what the runtime runs.
struct Day {
  explicit Day(AllocationNode& its_world) : world(its_world) {}

  AllocationNode& world;
  std::map<std::string, Allocated> running;  // pod UID -> what was forwarded to the runtime

  bool Create(const Pod& pod) {
    const Outcome outcome = world.Admit(pod);
    const Allocated* allocated = AllocatedOf(outcome);
    if (allocated) running[pod.uid] = *allocated;
    return allocated != nullptr;
  }
  // The runtime removed it first.
  bool Remove(const std::string& uid) {
    running.erase(uid);
    return world.Release(uid).ok();
  }
  // Up to the first failure, where the process dies.
  bool Live() {
    return Create(AppPod("a", 4, {{kGpu, "4"}})) && Create(AppPod("b", 8)) && Remove("a") &&
           Create(AppPod("c", 6, {{kGpu, "6"}, {kNic, "1"}})) && Remove("b");
  }
};

TEST(AllocationCrash, LosesNothingAndAssignsNothingTwiceWheneverThePowerFails) {
  bool whole_day = false;
  for (int index = 0; !whole_day; ++index) {
    for (const bool undo_renames : {false, true}) {
      SCOPED_TRACE(std::to_string(index) + (undo_renames ? ", renames undone" : ""));
      AllocationNode world;
      world.Up();
      world.AnnounceDevices();
      Day day(world);
      world.disk.DieAt(index);
      whole_day = day.Live();
      world.Down();
      world.disk.LosePower(undo_renames);

      const Result<Done> up = world.TryUp();
      ASSERT_TRUE(up.ok()) << up.error().Text();
      world.AnnounceDevices();
      const admission::NodeState restored = world.published();
      ASSERT_TRUE(restored.BrokenInvariants(world.node).empty());
      std::set<std::string> live;
      for (const auto& [uid, allocated] : day.running) {
        live.insert(uid);
        EXPECT_EQ(admission::AssignmentOf(world.node, restored, {uid, "app"}),
                  allocated.assignments.at("app"))
            << uid;
      }
      // All other entries of the files belong to pods that never ran, or do not run any more.
      ASSERT_TRUE(world.ReleaseAllBut(live).ok());
      EXPECT_EQ(world.published().cpu.assignments.size(), live.size());
      const int free_cpus = world.published().cpu.default_set.Count() - 1;  // CPU 0 is reserved
      if (free_cpus > 0) {
        EXPECT_TRUE(AllocatedOf(world.Admit(AppPod("rest", free_cpus))));
      }
      live.insert("rest");
      EXPECT_EQ(world.saved(), Persistent(world.published()));
      for (const std::string& uid : live) ASSERT_TRUE(world.Release(uid).ok());
      EXPECT_EQ(world.published().cpu, admission::NodeState::Initial(world.node).cpu);
      EXPECT_EQ(world.published().memory, admission::NodeState::Initial(world.node).memory);
      EXPECT_TRUE(world.published().devices.allocations.empty());
    }
    ASSERT_LT(index, 1000) << "the sequence never ends";
  }
}

TEST(AllocationCrash, AssignsARetriedContainerWhatTheFilesSayOrSomethingNew) {
  for (int index = 0; index <= 27; ++index) {
    SCOPED_TRACE(index);
    AllocationNode world;
    world.Up();
    world.AnnounceDevices();
    const Pod pod = AppPod("pod", 4, {{kGpu, "2"}});
    world.disk.DieAt(index);
    (void)world.Admit(pod);  // the runtime never hears of it
    world.Down();
    world.disk.LosePower(false);
    world.Up();
    world.AnnounceDevices();
    const Outcome retried = world.Admit(pod);
    ASSERT_TRUE(AllocatedOf(retried)) << TextOf(retried);
    const admission::Assignment& assignment = AllocatedOf(retried)->assignments.at("app");
    EXPECT_EQ(assignment.exclusive.Count(), 4);
    EXPECT_EQ(assignment.memory_nodes.size(), 1u);
    EXPECT_EQ(assignment.devices.at(kGpu).Ids().size(), 2u);
    EXPECT_FALSE(assignment.devices.at(kGpu).response.empty());
    ASSERT_TRUE(world.Release("pod").ok());
    EXPECT_EQ(world.published().cpu, admission::NodeState::Initial(world.node).cpu);
  }
}

}  // namespace
}  // namespace alignd::allocation
