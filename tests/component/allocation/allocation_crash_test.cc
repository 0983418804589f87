// The power goes at every system call of a node's day: what the runtime was told of is still there
// afterwards, nothing is given out twice, and nothing is lost.
#include <gtest/gtest.h>

#include "allocation/allocation_manager.h"
#include "edge/allocation_node.h"
#include "edge/allocation_outcome.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;

// A node's day, and what the runtime has been told so far.
struct Day {
  explicit Day(AllocationNode& its_world) : world(its_world) {}

  AllocationNode& world;
  std::map<std::string, Allocated> running;  // pod UID -> what was forwarded to the runtime

  bool Create(const Pod& pod) {
    const Outcome outcome = world.Admit(pod);
    const Allocated* granted = AllocatedOf(outcome);
    if (granted) running[pod.uid] = *granted;
    return granted != nullptr;
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

TEST(AllocationCrash, LosesNothingAndGivesNothingOutTwiceWheneverThePowerGoes) {
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
      for (const auto& [uid, granted] : day.running) {
        live.insert(uid);
        EXPECT_EQ(admission::AssignmentOf(world.node, restored, {uid, "app"}),
                  granted.assignments.at("app"))
            << uid;
      }
      // Whatever else is on the disk belongs to a pod that never ran, or no longer does.
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
    ASSERT_LT(index, 1000) << "the day never ends";
  }
}

TEST(AllocationCrash, GivesARetriedContainerWhatTheDiskSaysOrSomethingNew) {
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
    const admission::Assignment& grant = AllocatedOf(retried)->assignments.at("app");
    EXPECT_EQ(grant.exclusive.Count(), 4);
    EXPECT_EQ(grant.memory_nodes.size(), 1u);
    EXPECT_EQ(grant.devices.at(kGpu).Ids().size(), 2u);
    EXPECT_FALSE(grant.devices.at(kGpu).response.empty());
    ASSERT_TRUE(world.Release("pod").ok());
    EXPECT_EQ(world.published().cpu, admission::NodeState::Initial(world.node).cpu);
  }
}

}  // namespace
}  // namespace alignd::allocation
