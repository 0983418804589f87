// Devices that the kubelet counted, plugins that are awaited, and plugins that flood: through the
// allocation manager with its files.
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "allocation/allocation_manager.h"
#include "allocation/binding_table.h"
#include "edge/allocation_node.h"

namespace alignd::allocation {
namespace {

using checkpoint::Binding;
using testing::AppPod;
using testing::kGpu;
using testing::kNic;
using Ids = std::set<std::string>;

// A node whose bindings are kept.
class CountedPods : public ::testing::Test {
 protected:
  CountedPods() { Up(); }
  ~CountedPods() override { world_.Down(); }

  std::filesystem::path BindingFile() const { return world_.tree.root() / "device_bindings"; }

  void Up() {
    world_.Up();
    world_.manager.reset();
    auto bindings = BindingTable::Load(BindingFile(), world_.disk);
    ASSERT_TRUE(bindings.ok()) << bindings.error().Text();
    bindings_ = *std::move(bindings);
    const admission::NodeState saved = world_.saved();
    ASSERT_TRUE(bindings_->RetainHeld(saved).ok());
    auto boot = BootRecord::Load(world_.tree.root() / "boot_id", boot_id_, world_.disk);
    ASSERT_TRUE(boot.ok()) << boot.error().Text();
    boot_ = *std::move(boot);
    world_.manager = std::make_unique<AllocationManager>(
        world_.node, saved, *world_.store, *world_.plugins, bindings_.get(), std::nullopt,
        KubeletDevices(), boot_.get());
    if (announces_) world_.AnnounceDevices();
  }
  void Restart() {
    world_.Down();
    Up();
  }

  Outcome Admit(const Pod& pod, KubeletAllocatedPod counted, const std::string& wanted = "") {
    std::promise<Outcome> answer;
    world_.manager->Admit(
        pod, [&answer](Outcome outcome) { answer.set_value(std::move(outcome)); }, "test", wanted,
        std::move(counted));
    return answer.get_future().get();
  }

  // The last that is said of the pod to who asks why.
  PodDecision Noted(const std::string& uid) const {
    const auto newest = world_.manager->decisions().Newest(uid, 1);
    return newest.empty() ? PodDecision() : *newest.front();
  }

  Ids Held(const std::string& uid) const {
    const admission::NodeState state = world_.published();
    const auto* held = state.devices.Find({uid, "app"}, kGpu);
    return held == nullptr ? Ids() : held->Ids();
  }
  Binding Bound(const std::string& uid) const {
    const auto bindings = world_.manager->bindings();
    const auto held = bindings->find({uid, "app"});
    return held == bindings->end() ? Binding() : held->second.at(kGpu);
  }

  testing::AllocationNode world_;
  std::unique_ptr<BindingTable> bindings_;
  std::string boot_id_ = "first";
  bool announces_ = true;  // plugins are there when we come up
  std::unique_ptr<BootRecord> boot_;
};

TEST_F(CountedPods, BindingIsKeptWithTheGrantAndGoesWithThePod) {
  ASSERT_TRUE(std::holds_alternative<Allocated>(
      Admit(AppPod("p", 3, {{kGpu, "1"}}), {{"app", {{kGpu, {"gpu6"}}}}})));
  EXPECT_EQ(Held("p"), Ids{"gpu6"});
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

TEST_F(CountedPods, PodThatWasDecidedAsAWholeIsBoundWhenItsContainerIsCounted) {
  ASSERT_TRUE(std::holds_alternative<Allocated>(Admit(AppPod("p", 3, {{kGpu, "1"}}), {})));
  ASSERT_EQ(Held("p"), Ids{"gpu0"});
  ASSERT_TRUE(std::holds_alternative<Allocated>(
      Admit(AppPod("p", 3, {{kGpu, "1"}}), {{"app", {{kGpu, {"gpu6"}}}}})));
  EXPECT_EQ(Held("p"), Ids{"gpu0"});
  EXPECT_EQ(Bound("p"), (Binding{{"gpu6", "gpu0"}}));
  EXPECT_EQ(world_.plugins->allocations(), 1);
}

TEST_F(CountedPods, NothingIsBoundThatWasNotGranted) {
  world_.plugins->Fail(kGpu, Error{ErrorCode::kUnavailable, "example.com/gpu: dead"});
  const Outcome outcome = Admit(AppPod("p", 3, {{kGpu, "1"}}), {{"app", {{kGpu, {"gpu6"}}}}});
  ASSERT_TRUE(std::holds_alternative<Refusal>(outcome));
  EXPECT_NE(std::get<Refusal>(outcome).message.find("example.com/gpu: dead"), std::string::npos);
  EXPECT_EQ(Bound("p"), Binding());
}

TEST_F(CountedPods, ContainerWaitsForAnAwaitedPluginAndNobodyElseDoes) {
  world_.plugins->Await(kGpu, true);
  const Outcome waits = Admit(AppPod("p", 3, {{kGpu, "1"}}), {});
  ASSERT_TRUE(std::holds_alternative<Error>(waits));
  EXPECT_EQ(std::get<Error>(waits), (Error{ErrorCode::kUnavailable, "example.com/gpu: awaited"}));
  EXPECT_EQ(Noted("p").error, std::get<Error>(waits));
  EXPECT_TRUE(std::holds_alternative<Allocated>(Admit(AppPod("q", 3, {{kNic, "1"}}), {})));
  EXPECT_TRUE(std::holds_alternative<Allocated>(Admit(AppPod("r", 3), {})));
  world_.plugins->Await(kGpu, false);
  EXPECT_TRUE(std::holds_alternative<Allocated>(Admit(AppPod("p", 3, {{kGpu, "1"}}), {})));
  // What it holds it has, whatever is awaited.
  world_.plugins->Await(kGpu, true);
  EXPECT_TRUE(std::holds_alternative<Allocated>(Admit(AppPod("p", 3, {{kGpu, "1"}}), {})));
}

// What a plugin prepares may not be there before it. Our own restart changes nothing about that.
TEST_F(CountedPods, AfterARebootContainersWaitForThePluginsOfWhatTheyHold) {
  const Pod pod = AppPod("p", 1, {{kGpu, "1"}});
  ASSERT_TRUE(std::holds_alternative<Allocated>(Admit(pod, {})));
  const Ids held = Held("p");
  announces_ = false;
  Restart();
  EXPECT_TRUE(std::holds_alternative<Allocated>(Admit(pod, {}, "app")));  // the same boot
  boot_id_ = "second";
  for (int life = 0; life < 2; ++life) {  // until the plugin comes, also in another life of ours
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
    EXPECT_NE(std::get<Refusal>(refused).message.find("has not come since the machine booted"),
              std::string::npos);
    // Whoever asks why later on finds it: once, however often it was tried.
    ASSERT_TRUE(std::holds_alternative<Refusal>(Admit(pod, {}, "app")));
    EXPECT_EQ(Noted("p").refusal, std::get<Refusal>(refused));
    EXPECT_EQ(Noted("p").times, 2U);
    EXPECT_EQ(Noted("p").source, "test");
  }
  world_.AnnounceDevices();
  ASSERT_TRUE(std::holds_alternative<Allocated>(Admit(pod, {}, "app")));
  EXPECT_FALSE(Noted("p").assignments.empty());
  EXPECT_EQ(Held("p"), held);
  Restart();
  EXPECT_TRUE(std::holds_alternative<Allocated>(Admit(pod, {}, "app")));
}

TEST_F(CountedPods, FirstStartAndAnUnknownBootAreNoReboot) {
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

TEST_F(CountedPods, FloodOfDeviceListsIsTakenOverAtOnce) {
  constexpr int kLists = 2000;
  std::promise<void> first_seen;
  std::promise<void> go_on;
  std::shared_future<void> may_go_on = go_on.get_future().share();
  int changes = 0;  // of the decision thread
  world_.manager->OnChange([&](const std::shared_ptr<const Snapshot>&) {
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

}  // namespace
}  // namespace alignd::allocation
