// The allocation manager with its threads: while pods wait, devices come and go, and the
// configuration changes.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "allocation_queue_fixture.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;
using std::chrono::milliseconds;

class QueueInventory : public AllocationQueueTest {
 protected:
  // As after a change of the configuration. Without `queue`, the manager's own goes on.
  void UpAgain(admission::Node node, std::optional<WaitQueue> queue = {}) {
    if (!queue) queue = *world_.manager->WaitingPods();
    queue->InventoryChanged();
    world_.Down();
    world_.waiting = std::move(queue);
    world_.node = std::move(node);
    world_.Up();
  }
};

TEST_F(QueueInventory, APodWhoseInventoryShrinksForGoodLeaves) {
  world_.AnnounceDevices();
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 1, {{kGpu, "1"}}))));
  std::future<Outcome> head = CreateWaiting(AppPod("head", 1, {{kGpu, "8"}}));
  std::future<Outcome> later = CreateWaiting(AppPod("later", 1, {{kGpu, "2"}}));
  devicemanager::Resource fewer = EightDevices("gpu");
  fewer.devices.erase("gpu7");
  world_.manager->SetResource(kGpu, fewer);
  const Outcome outcome = head.get();
  EXPECT_TRUE(std::holds_alternative<Refusal>(outcome)) << TextOf(outcome);
  EXPECT_TRUE(IsAdmitted(std::move(later)));
  EXPECT_EQ(Ended(WaitEnd::kCannotFit), 1U);
}

TEST_F(QueueInventory, AWaitingPodGoesOnWhenTheInventoryGrows) {
  world_.manager->SetResource(kGpu, [] {
    devicemanager::Resource one;
    one.registered = true;
    one.devices["gpu0"] = {true, {0}};
    return one;
  }());
  world_.Settle();
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 1, {{kGpu, "1"}}))));
  std::future<Outcome> later = CreateWaiting(AppPod("b", 1, {{kGpu, "1"}}));
  world_.manager->SetResource(kGpu, EightDevices("gpu"));
  EXPECT_TRUE(IsAdmitted(std::move(later)));
}

TEST_F(QueueInventory, APluginThatFailsEndsTheWait) {
  world_.AnnounceDevices();
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  std::future<Outcome> head = CreateWaiting(AppPod("head", 8, {{kGpu, "1"}}));
  std::future<Outcome> later = CreateWaiting(AppPod("later", 2));
  world_.plugins->Fail(kGpu, Error{ErrorCode::kInternal, "broken", "restart it"});
  ASSERT_TRUE(world_.Release("a").ok());
  EXPECT_TRUE(Says(head.get(), "UnexpectedAdmissionError"));
  EXPECT_TRUE(IsAdmitted(std::move(later)));
  EXPECT_EQ(Ended(WaitEnd::kOtherReason), 1U);
}

TEST_F(QueueInventory, APodReservesNothingWhileItsPluginIsAway) {
  world_.AnnounceDevices();
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 1, {{kGpu, "8"}}))));
  std::future<Outcome> head = CreateWaiting(AppPod("head", 2, {{kGpu, "1"}}));
  std::future<Outcome> later = CreateWaiting(AppPod("later", 2));
  world_.plugins->Await(kGpu, true);
  devicemanager::Resource unhealthy = EightDevices("gpu");
  for (auto& [id, device] : unhealthy.devices) device.healthy = false;
  world_.manager->SetResource(kGpu, unhealthy);
  EXPECT_TRUE(IsAdmitted(std::move(later)));
  EXPECT_FALSE(IsAnswered(head));
  EXPECT_EQ(PositionOf("head"), 1U);
  // It comes back.
  world_.plugins->Await(kGpu, false);
  world_.manager->SetResource(kGpu, EightDevices("gpu"));
  world_.Settle();
  EXPECT_TRUE(Says(Create(AppPod("last", 2), milliseconds(0)).get(), "WaitsForEarlierPods"));
  ASSERT_TRUE(world_.Release("a").ok());
  EXPECT_TRUE(IsAdmitted(std::move(head)));
}

TEST_F(QueueInventory, APodWithoutACallReservesNothingOnceItsPluginHasGone) {
  world_.AnnounceDevices();
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 1, {{kGpu, "8"}}))));
  ASSERT_TRUE(Says(Create(AppPod("head", 2, {{kGpu, "1"}}), milliseconds(0)).get(), "position 1"));
  std::future<Outcome> later = CreateWaiting(AppPod("later", 2));
  world_.manager->RemoveResource(kGpu);
  EXPECT_TRUE(IsAdmitted(std::move(later)));
}

TEST_F(QueueInventory, APodWithoutACallLeavesWhenTheInventoryShrinksForGood) {
  world_.AnnounceDevices();
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 1, {{kGpu, "1"}}))));
  ASSERT_TRUE(Says(Create(AppPod("head", 2, {{kGpu, "8"}}), milliseconds(0)).get(), "position 1"));
  std::future<Outcome> later = CreateWaiting(AppPod("later", 2));
  devicemanager::Resource fewer = EightDevices("gpu");
  fewer.devices.erase("gpu7");
  world_.manager->SetResource(kGpu, fewer);
  EXPECT_TRUE(IsAdmitted(std::move(later)));
  EXPECT_EQ(PositionOf("head"), 0U);
  EXPECT_EQ(Ended(WaitEnd::kCannotFit), 1U);
}

TEST_F(QueueInventory, APlaceThatNeverFitsUnderTheNextConfigurationIsDropped) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 6))));
  ASSERT_TRUE(Says(Create(AppPod("head", 10), milliseconds(0)).get(), "position 1"));
  ASSERT_TRUE(Says(Create(AppPod("fits", 8), milliseconds(0)).get(), "position 2"));
  KubeletConfig config = StaticConfig();
  config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  UpAgain(MakeNode(config));
  EXPECT_TRUE(WaitUntil([&] { return PositionOf("head") == 0; }));  // without a call
  EXPECT_EQ(PositionOf("fits"), 1U);
  EXPECT_EQ(Ended(WaitEnd::kCannotFit), 1U);
  ASSERT_TRUE(world_.Release("a").ok());
  EXPECT_TRUE(IsAdmitted(Create(AppPod("fits", 8))));
}

TEST_F(QueueInventory, APlaceNeedsWhatTheNextConfigurationSays) {
  world_.AnnounceDevices();
  ASSERT_TRUE(AllocatedOf(world_.Admit(alignd::AppPod("a", {{kGpu, "8"}}))));
  ASSERT_TRUE(Says(Create(AppPod("head", 2, {{kGpu, "1"}}), milliseconds(0)).get(), "position 1"));
  KubeletConfig config = StaticConfig();
  config.cpu_manager_policy = CpuManagerPolicy::kNone;
  config.memory_manager_policy = MemoryManagerPolicy::kNone;
  config.reserved_memory.clear();
  config.topology_manager_policy = TopologyManagerPolicy::kNone;
  AllocationNode next(MakeNode(config));
  next.waiting = *world_.manager->WaitingPods();
  next.Up();
  const auto waiting = next.manager->WaitingPods();
  ASSERT_EQ(waiting->PositionOf("head"), 1U);
  EXPECT_EQ(waiting->Find("head")->pod.needs, std::set<std::string>{kGpu});
}

TEST_F(QueueInventory, APodThatIsAdmittedDuringTheChangeHasNoPlaceAfterIt) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("a", 10))));
  std::future<Outcome> head = CreateWaiting(AppPod("head", 8));
  std::future<Outcome> later = CreateWaiting(AppPod("later", 9));
  const WaitQueue before = *world_.manager->WaitingPods();
  ASSERT_TRUE(world_.Release("a").ok());
  EXPECT_TRUE(IsAdmitted(std::move(head)));
  UpAgain(MakeNode(), before);
  EXPECT_EQ(PositionOf("head"), 0U);
  EXPECT_EQ(PositionOf("later"), 1U);
}

}  // namespace
}  // namespace alignd::allocation
