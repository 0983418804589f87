// What must reach the disk, and what does not fit into the files: with the kubelet's part of the
// allocation under the test's control.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "alignd/admission/admission.h"
#include "allocation/allocation_manager.h"
#include "allocation/state_limits.h"
#include "edge/allocation_node.h"
#include "edge/allocation_outcome.h"
#include "edge/process.h"

namespace alignd::allocation {
namespace {

using namespace alignd::testing;

constexpr char kTaken[] = "example.com/taken";

// In the file, four thirds of it.
std::string TooLongAnswer() { return std::string(kMaxStateBytes / 5 * 4, 'x'); }

class ScriptedKubelet final : public KubeletAllocation {
 public:
  // While this pod is assigned CPUs, others are refused; afterwards they are assigned nothing.
  std::string refuses_beside = {};
  // The kubelet's own plugin assigned a device of kTaken to this pod, with this answer.
  std::string takes_over_pod = {};
  std::string answer = {};
  std::atomic<int> failures = 0;      // of the next calls of SaveBindings
  std::atomic<int> new_failures = 0;  // of the next calls of SaveNewBindings

  int drops() const { return drops_; }  // calls of SaveBindings
  // On the decision thread.
  const std::set<std::string>& unbound() const { return unbound_; }

  admission::Admission Admit(const admission::Node& node, const admission::NodeState& state,
                             const Pod& pod, const KubeletAllocatedPod& /*allocated*/,
                             const devicemanager::PreferredAllocationFn& prefer) const override {
    if (state.cpu.Find({refuses_beside, "app"}) != nullptr) {
      return {UnexpectedAdmissionError("a pod beside it"), std::nullopt, {}, state, {}};
    }
    if (!refuses_beside.empty()) return {std::nullopt, std::nullopt, {}, state, {}};
    return admission::Admit(node, state, pod, prefer);
  }
  bool Prepare(const std::set<std::string>& /*resources*/, std::function<void()> ready) override {
    ready();
    return true;
  }
  Result<Done> Arrive(const std::string& resource, admission::NodeState& state) override {
    if (resource == kTaken) Assign(state);
    return Done{};
  }
  Result<std::optional<admission::NodeState>> TakeOver(const ContainerKey& key,
                                                       const admission::NodeState& state) override {
    std::optional<admission::NodeState> next;
    if (takes_over_pod.empty() || key.pod_uid != takes_over_pod) return next;
    Assign(next.emplace(state));
    return next;
  }
  void DropUnassigned(const admission::NodeState& /*state*/, const std::string& pod_uid) override {
    unbound_.insert(pod_uid);
  }
  Result<Done> SaveNewBindings(const checkpoint::Bindings& /*now*/) override {
    if (new_failures == 0) return Done{};
    --new_failures;
    return Error{ErrorCode::kInternal, "device_bindings would not be read back", "report this"};
  }
  Result<Done> SaveBindings(const checkpoint::Bindings& /*now*/) override {
    ++drops_;
    if (failures == 0) return Done{};
    --failures;
    return Error{ErrorCode::kIo, "device_bindings: no space", "free some"};
  }

 private:
  void Assign(admission::NodeState& state) const {
    devicemanager::DeviceAllocation& allocation =
        state.devices.allocations[{takes_over_pod, "app"}][kTaken];
    allocation.devices[0] = {"device"};
    allocation.response = answer;
  }

  std::atomic<int> drops_ = 0;
  std::set<std::string> unbound_;
};

class WrittenFiles : public ::testing::Test {
 protected:
  WrittenFiles() {
    world_.Up();
    world_.manager = std::make_unique<AllocationManager>(world_.node, world_.saved(), *world_.store,
                                                         *world_.plugins, kubelet_);
    world_.AnnounceDevices();
    // They arrive by a task of their own.
    world_.Settle();
  }
  ~WrittenFiles() override { world_.manager.reset(); }

  void AnnounceTaken(const std::string& device = "device") {
    devicemanager::Resource resource;
    resource.registered = true;
    resource.devices[device] = {true, {0}};
    world_.manager->SetResource(kTaken, resource);
    world_.Settle();
    world_.Settle();
  }
  // What a start finds.
  std::set<std::string> SavedPods() const { return admission::PodsIn(world_.saved()); }

  ScriptedKubelet kubelet_;
  AllocationNode world_;
};

// Nothing of the pod is written, but the other one must not come back after a crash.
TEST_F(WrittenFiles, ReleaseForAPodWithoutAnAssignmentIsSavedBeforeItsAnswer) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("old", 4))));
  EXPECT_EQ(SavedPods(), std::set<std::string>{"old"});
  kubelet_.refuses_beside = "old";
  const Outcome outcome = world_.Admit(AppPod("next", 2), {"old"});
  ASSERT_TRUE(AllocatedOf(outcome)) << TextOf(outcome);
  EXPECT_EQ(admission::PodsIn(world_.published()), std::set<std::string>{});
  EXPECT_EQ(SavedPods(), std::set<std::string>{});
}

TEST_F(WrittenFiles, BindingsThatCouldNotBeDroppedAreDroppedByTheNextSave) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("pod", 4))));
  world_.Settle();
  kubelet_.failures = 2;
  EXPECT_TRUE(world_.Release("pod").ok());
  const int drops = kubelet_.drops();
  world_.Settle();  // saves, without a change; fails once more
  EXPECT_EQ(kubelet_.drops(), drops + 1);
  world_.Settle();
  EXPECT_EQ(kubelet_.drops(), drops + 2);
  world_.Settle();  // there is nothing to write
  EXPECT_EQ(kubelet_.drops(), drops + 2);
}

// No file is uncertain then, but the release must not wait for the next pod.
TEST_F(WrittenFiles, ReleaseWhoseWriteWasRefusedBeforeTheDiskIsRepeatedByTheListing) {
  ASSERT_TRUE(AllocatedOf(world_.Admit(AppPod("pod", 4))));
  world_.Settle();
  kubelet_.new_failures = 2;
  EXPECT_FALSE(world_.Release("pod").ok());
  EXPECT_FALSE(world_.store->IsUncertain());
  EXPECT_EQ(SavedPods(), std::set<std::string>{"pod"});
  world_.manager->SaveUnsaved();  // fails once more
  world_.manager->SaveUnsaved();
  // The text alone: another store would remove the temporary file of the write.
  const std::filesystem::path file = world_.tree.root() / "cpu_manager_state";
  EXPECT_TRUE(testing::WaitUntil(
      [&] { return testing::ReadText(file).find("\"pod\"") == std::string::npos; }));
  world_.Settle();
  EXPECT_EQ(SavedPods(), std::set<std::string>{});
}

TEST_F(WrittenFiles, DevicesOfTheKubeletsPluginThatDoNotFitAreNotOfferedAndBlockNothing) {
  kubelet_.takes_over_pod = "kubelets";
  kubelet_.answer = TooLongAnswer();
  AnnounceTaken();
  EXPECT_TRUE(world_.published().devices.resources.at(kTaken).devices.empty());
  EXPECT_EQ(world_.published().devices.Find({"kubelets", "app"}, kTaken), nullptr);
  EXPECT_TRUE(kubelet_.unbound().contains("kubelets"));
  AnnounceTaken("another");  // a change offers them no more than the first list
  EXPECT_TRUE(world_.published().devices.resources.at(kTaken).devices.empty());
  const Outcome none = world_.Admit(AppPod("taken", 1, {{kTaken, "1"}}));
  EXPECT_TRUE(std::holds_alternative<Refusal>(none)) << TextOf(none);
  const Outcome other = world_.Admit(AppPod("other", 2, {{kGpu, "8"}}));
  ASSERT_TRUE(AllocatedOf(other)) << TextOf(other);
  EXPECT_EQ(SavedPods(), std::set<std::string>{"other"});
}

// The plugin registered before the kubelet's checkpoint had the container.
TEST_F(WrittenFiles, ContainerWhoseDevicesDoNotFitIsRefusedAndBlocksNothing) {
  kubelet_.takes_over_pod = "kubelets";
  kubelet_.answer = "short";
  AnnounceTaken();
  EXPECT_FALSE(world_.published().devices.resources.at(kTaken).devices.empty());
  ASSERT_TRUE(world_.Release("kubelets").ok());
  kubelet_.answer = TooLongAnswer();
  std::promise<Outcome> answer;
  world_.manager->Admit({.pod = AppPod("kubelets", 1, {{kTaken, "1"}}), .wanted = "app"},
                        [&](Outcome outcome) { answer.set_value(std::move(outcome)); });
  const Outcome refused = answer.get_future().get();
  ASSERT_TRUE(IsError(refused, ErrorCode::kInvalidArgument)) << TextOf(refused);
  EXPECT_NE(TextOf(refused).find("more than the 16777216 that alignd reads after a restart"),
            std::string::npos)
      << TextOf(refused);
  EXPECT_TRUE(kubelet_.unbound().contains("kubelets"));
  const Outcome other = world_.Admit(AppPod("other", 2, {{kGpu, "8"}}));
  ASSERT_TRUE(AllocatedOf(other)) << TextOf(other);
  EXPECT_EQ(SavedPods(), std::set<std::string>{"other"});
}

}  // namespace
}  // namespace alignd::allocation
