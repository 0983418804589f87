#include "allocation/inventory_queue.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "edge/allocation_node.h"

namespace alignd::allocation {
namespace {

using testing::EightDevices;
using testing::kGpu;
using testing::kNic;

devicemanager::Resource Unregistered() {
  devicemanager::Resource resource = EightDevices("gpu");
  resource.registered = false;
  return resource;
}

TEST(InventoryQueue, ReportsTheFirstAnnouncementAndKeepsTheNewest) {
  InventoryQueue queue;
  EXPECT_TRUE(queue.Announce(kGpu, Unregistered()));
  EXPECT_FALSE(queue.Announce(kNic, std::nullopt));
  EXPECT_FALSE(queue.Announce(kGpu, std::nullopt));
  const InventoryQueue::Taken taken = queue.Take();
  EXPECT_EQ(taken.changes, (InventoryChanges{{kGpu, std::nullopt}, {kNic, std::nullopt}}));
  EXPECT_TRUE(taken.arriving.empty());
  EXPECT_TRUE(queue.Take().changes.empty());
  EXPECT_TRUE(queue.Announce(kGpu, Unregistered()));
}

TEST(InventoryQueue, DevicesAreArrivingFromTheirAnnouncementUntilTheyAreTaken) {
  InventoryQueue queue;
  EXPECT_FALSE(queue.IsArriving(kGpu));
  queue.Announce(kGpu, Unregistered());
  EXPECT_FALSE(queue.IsArriving(kGpu));
  queue.Announce(kGpu, EightDevices("gpu"));
  EXPECT_TRUE(queue.IsArriving(kGpu));
  queue.Take();
  EXPECT_TRUE(queue.IsArriving(kGpu));
  queue.TakeArrived({kGpu});
  EXPECT_FALSE(queue.IsArriving(kGpu));
  queue.Announce(kGpu, std::nullopt);
  EXPECT_FALSE(queue.IsArriving(kGpu));
}

TEST(InventoryQueue, KeepsAnArrivingResourceWithItsNewestAnnouncement) {
  InventoryQueue queue;
  queue.Announce(kGpu, EightDevices("gpu"));
  const InventoryQueue::Taken first = queue.Take();
  EXPECT_TRUE(first.changes.empty());
  EXPECT_EQ(first.arriving, std::set<std::string>{kGpu});
  EXPECT_TRUE(queue.IsArriving(kGpu));
  queue.Announce(kGpu, Unregistered());
  const InventoryQueue::Taken second = queue.Take();
  EXPECT_TRUE(second.changes.empty());
  EXPECT_TRUE(second.arriving.empty());
  EXPECT_EQ(queue.TakeArrived({kGpu}), (InventoryChanges{{kGpu, Unregistered()}}));
  EXPECT_FALSE(queue.IsArriving(kGpu));
  EXPECT_TRUE(queue.TakeArrived({kGpu}).empty());
  // It is known from now on.
  queue.Announce(kGpu, EightDevices("gpu"));
  EXPECT_EQ(queue.Take().changes.size(), 1U);
}

TEST(InventoryQueue, ResourceArrivesAgainAfterItsRemoval) {
  InventoryQueue queue;
  queue.Announce(kGpu, EightDevices("gpu"));
  queue.Take();
  queue.TakeArrived({kGpu});
  queue.Announce(kGpu, std::nullopt);
  EXPECT_EQ(queue.Take().changes, (InventoryChanges{{kGpu, std::nullopt}}));
  queue.Announce(kGpu, EightDevices("gpu"));
  EXPECT_EQ(queue.Take().arriving, std::set<std::string>{kGpu});
}

}  // namespace
}  // namespace alignd::allocation
