// The allocation manager with its files: devices that the kubelet allocated, plugins that are
// awaited, and plugins that flood.
#include "mirror/mirrored_devices.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "allocation/allocation_manager.h"
#include "daemon/conflicting_managers.h"
#include "edge/allocation_node.h"
#include "mirror/binding_table.h"
#include "sync/task_queue.h"

namespace alignd::mirror {
namespace {

using allocation::Allocated;
using allocation::Outcome;
using checkpoint::Binding;
using testing::AppPod;
using testing::kGpu;
using testing::kNic;
using Ids = std::set<std::string>;

// A node whose bindings are saved.
class MirroredDevicesTest : public ::testing::Test {
 protected:
  MirroredDevicesTest() { Up(); }
  ~MirroredDevicesTest() override { world_.Down(); }

  std::filesystem::path BindingFile() const { return world_.tree.root() / "device_bindings"; }

  void Up() {
    world_.Up();
    world_.manager.reset();
    devices_.reset();
    auto bindings = BindingTable::Load(BindingFile(), world_.disk);
    ASSERT_TRUE(bindings.ok()) << bindings.error().Text();
    bindings_ = *std::move(bindings);
    const admission::NodeState saved = world_.saved();
    ASSERT_TRUE(bindings_->RetainAssigned(saved).ok());
    auto boot = allocation::BootRecord::Load(world_.tree.root() / "boot_id", boot_id_, world_.disk);
    ASSERT_TRUE(boot.ok()) << boot.error().Text();
    boot_ = *std::move(boot);
    devices_ = std::make_unique<MirroredDevices>(std::nullopt, world_.node.topology.scope(),
                                                 *bindings_, KubeletCheckpoint(), io_);
    world_.manager = std::make_unique<allocation::AllocationManager>(
        world_.node, saved, *world_.store, *world_.plugins, *devices_, boot_.get());
    if (announces_) world_.AnnounceDevices();
  }
  void Restart() {
    world_.Down();
    Up();
  }

  Outcome Admit(const Pod& pod, KubeletAllocatedPod allocated, const std::string& wanted = "") {
    std::promise<Outcome> answer;
    world_.manager->Admit(
        {.pod = pod, .source = "test", .wanted = wanted, .kubelet_allocated = std::move(allocated)},
        [&answer](Outcome outcome) { answer.set_value(std::move(outcome)); });
    return answer.get_future().get();
  }

  // The newest decision about the pod.
  allocation::PodDecision Noted(const std::string& uid) const {
    const auto newest = world_.manager->decisions().Newest(uid, 1);
    return newest.empty() ? allocation::PodDecision() : *newest.front();
  }

  Ids Assigned(const std::string& uid) const {
    const admission::NodeState state = world_.published();
    const auto* assigned = state.devices.Find({uid, "app"}, kGpu);
    return assigned == nullptr ? Ids() : assigned->Ids();
  }
  Binding Bound(const std::string& uid) const {
    const auto bindings = world_.manager->bindings();
    const auto assigned = bindings->find({uid, "app"});
    return assigned == bindings->end() ? Binding() : assigned->second.at(kGpu);
  }

  TaskQueue io_{"io"};
  testing::AllocationNode world_;
  std::unique_ptr<BindingTable> bindings_;
  std::unique_ptr<MirroredDevices> devices_;
  std::string boot_id_ = "first";
  bool announces_ = true;  // plugins have registered after Up
  std::unique_ptr<allocation::BootRecord> boot_;
};

TEST_F(MirroredDevicesTest, BindingIsSavedWithTheAssignmentAndDroppedWithThePod) {
  ASSERT_TRUE(std::holds_alternative<Allocated>(
      Admit(AppPod("p", 3, {{kGpu, "1"}}), {{"app", {{kGpu, {"gpu6"}}}}})));
  EXPECT_EQ(Assigned("p"), Ids{"gpu6"});
  EXPECT_EQ(Bound("p"), (Binding{{"gpu6", "gpu6"}}));
  Restart();
  EXPECT_EQ(Bound("p"), (Binding{{"gpu6", "gpu6"}}));
  const int asked = world_.plugins->allocations();
  ASSERT_TRUE(std::holds_alternative<Allocated>(
      Admit(AppPod("p", 3, {{kGpu, "1"}}), {{"app", {{kGpu, {"gpu6"}}}}})));
  EXPECT_EQ(world_.plugins->allocations(), asked);
  ASSERT_TRUE(world_.Release("p").ok());
  EXPECT_EQ(Bound("p"), Binding());
}

TEST_F(MirroredDevicesTest, PodThatWasDecidedAsAWholeIsBoundWhenItsContainerIsCreated) {
  ASSERT_TRUE(std::holds_alternative<Allocated>(Admit(AppPod("p", 3, {{kGpu, "1"}}), {})));
  ASSERT_EQ(Assigned("p"), Ids{"gpu0"});
  ASSERT_TRUE(std::holds_alternative<Allocated>(
      Admit(AppPod("p", 3, {{kGpu, "1"}}), {{"app", {{kGpu, {"gpu6"}}}}})));
  EXPECT_EQ(Assigned("p"), Ids{"gpu0"});
  EXPECT_EQ(Bound("p"), (Binding{{"gpu6", "gpu0"}}));
  EXPECT_EQ(world_.plugins->allocations(), 1);
}

TEST_F(MirroredDevicesTest, NothingIsBoundWithoutAnAssignment) {
  world_.plugins->Fail(kGpu, Error{ErrorCode::kUnavailable, "example.com/gpu: dead"});
  const Outcome outcome = Admit(AppPod("p", 3, {{kGpu, "1"}}), {{"app", {{kGpu, {"gpu6"}}}}});
  ASSERT_TRUE(std::holds_alternative<Refusal>(outcome));
  EXPECT_NE(std::get<Refusal>(outcome).message.find("example.com/gpu: dead"), std::string::npos);
  EXPECT_EQ(Bound("p"), Binding());
}

TEST_F(MirroredDevicesTest, OnlyContainersOfAnAwaitedPluginWait) {
  world_.plugins->Await(kGpu, true);
  const Outcome waits = Admit(AppPod("p", 3, {{kGpu, "1"}}), {});
  ASSERT_TRUE(std::holds_alternative<Error>(waits));
  EXPECT_EQ(std::get<Error>(waits), (Error{ErrorCode::kUnavailable, "example.com/gpu: awaited"}));
  EXPECT_EQ(Noted("p").error, std::get<Error>(waits));
  EXPECT_TRUE(std::holds_alternative<Allocated>(Admit(AppPod("q", 3, {{kNic, "1"}}), {})));
  EXPECT_TRUE(std::holds_alternative<Allocated>(Admit(AppPod("r", 3), {})));
  world_.plugins->Await(kGpu, false);
  EXPECT_TRUE(std::holds_alternative<Allocated>(Admit(AppPod("p", 3, {{kGpu, "1"}}), {})));
  // An assignment stays, also if the plugin is awaited.
  world_.plugins->Await(kGpu, true);
  EXPECT_TRUE(std::holds_alternative<Allocated>(Admit(AppPod("p", 3, {{kGpu, "1"}}), {})));
}

// A device may not exist before its plugin has prepared it. A restart of alignd changes nothing.
TEST_F(MirroredDevicesTest, AfterARebootContainersWaitForThePluginsOfTheirDevices) {
  const Pod pod = AppPod("p", 1, {{kGpu, "1"}});
  ASSERT_TRUE(std::holds_alternative<Allocated>(Admit(pod, {})));
  const Ids assigned = Assigned("p");
  announces_ = false;
  Restart();
  EXPECT_TRUE(std::holds_alternative<Allocated>(Admit(pod, {}, "app")));  // the same boot
  boot_id_ = "second";
  for (int start = 0; start < 2; ++start) {  // until the plugin registers, also after a restart
    Restart();
    world_.plugins->Await(kGpu, true);
    const Outcome waits = Admit(pod, {}, "app");
    ASSERT_TRUE(std::holds_alternative<Error>(waits));
    EXPECT_EQ(std::get<Error>(waits).code, ErrorCode::kUnavailable);
    EXPECT_EQ(Noted("p").error, std::get<Error>(waits));
    EXPECT_EQ(Noted("p").source, "test");
    EXPECT_TRUE(std::holds_alternative<Allocated>(Admit(AppPod("q", 1), {}, "app")));
    world_.plugins->Await(kGpu, false);  // for long enough
    const Outcome refused = Admit(pod, {}, "app");
    ASSERT_TRUE(std::holds_alternative<Refusal>(refused));
    EXPECT_NE(
        std::get<Refusal>(refused).message.find("has not registered since the machine booted"),
        std::string::npos);
    // The decision log has it once, also after several tries.
    ASSERT_TRUE(std::holds_alternative<Refusal>(Admit(pod, {}, "app")));
    EXPECT_EQ(Noted("p").refusal, std::get<Refusal>(refused));
    EXPECT_EQ(Noted("p").times, 2U);
    EXPECT_EQ(Noted("p").source, "test");
  }
  world_.AnnounceDevices();
  ASSERT_TRUE(std::holds_alternative<Allocated>(Admit(pod, {}, "app")));
  EXPECT_FALSE(Noted("p").assignments.empty());
  EXPECT_EQ(Assigned("p"), assigned);
  Restart();
  EXPECT_TRUE(std::holds_alternative<Allocated>(Admit(pod, {}, "app")));
}

TEST_F(MirroredDevicesTest, FirstStartAndAnUnknownBootAreNoReboot) {
  const Pod pod = AppPod("p", 1, {{kGpu, "1"}});
  ASSERT_TRUE(std::holds_alternative<Allocated>(Admit(pod, {})));
  announces_ = false;
  std::filesystem::remove(world_.tree.root() / "boot_id");
  Restart();
  EXPECT_TRUE(std::holds_alternative<Allocated>(Admit(pod, {}, "app")));
  boot_id_ = "";
  Restart();
  EXPECT_TRUE(std::holds_alternative<Allocated>(Admit(pod, {}, "app")));
}

TEST_F(MirroredDevicesTest, FloodOfDeviceListsIsTakenAsOneChange) {
  constexpr int kLists = 2000;
  std::promise<void> first_seen;
  std::promise<void> go_on;
  std::shared_future<void> may_go_on = go_on.get_future().share();
  int changes = 0;  // of the decision thread
  world_.manager->OnChange([&](const std::shared_ptr<const allocation::Snapshot>&) {
    if (++changes > 1) return;
    first_seen.set_value();
    may_go_on.wait();
  });
  devicemanager::Resource resource = testing::EightDevices("gpu");
  resource.devices["gpu0"].healthy = false;
  world_.manager->SetResource(kGpu, resource);
  first_seen.get_future().wait();
  for (int list = 0; list < kLists; ++list) {
    resource.devices["gpu" + std::to_string(list % 8)].healthy = list % 3 == 0;
    world_.manager->SetResource(kGpu, resource);
  }
  go_on.set_value();
  world_.Settle();
  EXPECT_EQ(world_.published().devices.resources.at(kGpu), resource);
  EXPECT_EQ(changes, 2);
}

// As after each listing. The file of the bindings is the last one of a write.
TEST_F(MirroredDevicesTest, BindingsThatCouldNotBeWrittenAreWrittenWithoutAnotherChange) {
  const auto on_disk = [this] { return *(*BindingTable::Load(BindingFile()))->snapshot(); };
  bool was_left = false;
  for (int index = 0; !was_left; ++index) {
    ASSERT_TRUE(std::holds_alternative<Allocated>(
        Admit(AppPod("p", 3, {{kGpu, "1"}}), {{"app", {{kGpu, {"gpu6"}}}}})));
    world_.Settle();
    EXPECT_EQ(on_disk().size(), 1U);
    world_.disk.FailAt(index);
    const bool is_released = world_.Release("p").ok();
    ASSERT_TRUE(world_.disk.failed());
    was_left = is_released && !on_disk().empty();
    daemon::SaveUncertainFiles(*world_.store, *bindings_, *world_.manager);
    world_.Settle();
    EXPECT_FALSE(bindings_->IsUncertain());
    EXPECT_TRUE(on_disk().empty());
    EXPECT_TRUE(admission::PodsIn(world_.saved()).empty());
  }
}

// The queue of the reader outlives the manager, as in the daemon.
TEST(MirroredDevicesEnd, AnswersCallersThatWaitForTheKubeletsCheckpoint) {
  KubeletConfig by_pod = testing::StaticConfig();
  by_pod.topology_manager_scope = TopologyManagerScope::kPod;
  testing::AllocationNode world(testing::MakeNode(by_pod));
  world.Up();
  world.manager.reset();
  auto bindings = BindingTable::Load(world.tree.root() / "device_bindings");
  ASSERT_TRUE(bindings.ok()) << bindings.error().Text();
  std::promise<void> reads;
  std::promise<void> go_on;
  int readings = 0;  // of the io thread
  const auto read = [&]() -> Result<checkpoint::DeviceCheckpoint> {
    if (++readings == 1) return checkpoint::DeviceCheckpoint();  // for the plugin
    reads.set_value();
    go_on.get_future().wait();
    return checkpoint::DeviceCheckpoint();
  };
  TaskQueue io("io");
  auto devices = std::make_unique<MirroredDevices>(
      BindingMode::kPreferred, TopologyManagerScope::kPod, **bindings,
      KubeletCheckpoint{read, [](const std::string&) { return false; }}, io);
  world.manager = std::make_unique<allocation::AllocationManager>(
      world.node, world.saved(), *world.store, *world.plugins, *devices);
  std::promise<void> arrived;
  world.manager->OnChange([&](const auto&) { arrived.set_value(); });
  world.manager->SetResource(kGpu, testing::EightDevices("gpu"));
  arrived.get_future().wait();

  const std::map<std::string, std::string> amounts{{"cpu", "1"}, {"memory", "1Gi"}, {kGpu, "1"}};
  std::promise<Outcome> answer;
  world.manager->Admit({.pod = MakePod("p", {App("app", amounts), App("b", amounts)}),
                        .wanted = "app",
                        .kubelet_allocated = {{"app", {{kGpu, {"gpu1"}}}}}},
                       [&](Outcome outcome) { answer.set_value(std::move(outcome)); });
  reads.get_future().wait();
  world.manager.reset();
  const Outcome outcome = answer.get_future().get();
  ASSERT_TRUE(std::holds_alternative<Error>(outcome));
  EXPECT_EQ(std::get<Error>(outcome).code, ErrorCode::kUnavailable);
  devices.reset();
  go_on.set_value();
  io.Stop();
  EXPECT_EQ(readings, 2);
}

}  // namespace
}  // namespace alignd::mirror
