#include "mirror/kubelet_allocated.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

#include "edge/allocation_node.h"
#include "mirror/kubelet_allocated_refusal.h"

namespace alignd::mirror {
namespace {

using admission::Admission;
using admission::NodeState;
using checkpoint::Binding;
using checkpoint::Bindings;
using testing::AppPod;
using testing::kGpu;
using testing::kNic;
using Ids = std::set<std::string>;

NodeState FreeStateOf(const admission::Node& node) {
  NodeState state = NodeState::Initial(node);
  state.devices.resources[kGpu] = testing::EightDevices("gpu");  // four on each NUMA node
  return state;
}

Ids IdsOf(const NodeState& state, const std::string& pod, const std::string& container = "app") {
  const auto* assigned = state.devices.Find({pod, container}, kGpu);
  return assigned == nullptr ? Ids() : assigned->Ids();
}

class KubeletAllocatedTest : public ::testing::Test {
 protected:
  Admission Admit(const Pod& pod, const Ids& ids, BindingMode mode = BindingMode::kPreferred,
                  const std::string& container = "app") const {
    return AdmitKubeletAllocated(node_, state_, pod, {{container, {{kGpu, ids}}}}, bindings_, mode,
                                 {});
  }

  std::optional<Refusal> Refuse(const Pod& pod, const KubeletAllocatedPod& allocated) const {
    return RefuseKubeletAllocated(state_, pod, allocated, bindings_, BindingMode::kPreferred);
  }

  const admission::Node node_ = testing::MakeNode();
  NodeState state_ = FreeStateOf(node_);
  Bindings bindings_;
};

TEST_F(KubeletAllocatedTest, PreferredAssignsTheAllocatedDevicesIfThePolicyAgrees) {
  const Admission admission = Admit(AppPod("p", 3, {{kGpu, "1"}}), {"gpu6"});
  ASSERT_TRUE(admission.admitted());
  EXPECT_EQ(IdsOf(admission.next, "p"), Ids{"gpu6"});
  EXPECT_EQ(admission.next.devices.resources, state_.devices.resources);
}

TEST_F(KubeletAllocatedTest, DeferredIgnoresTheIds) {
  const Admission admission =
      Admit(AppPod("p", 3, {{kGpu, "1"}}), {"gpu6"}, BindingMode::kDeferred);
  ASSERT_TRUE(admission.admitted());
  EXPECT_EQ(IdsOf(admission.next, "p"), Ids{"gpu0"});
}

TEST_F(KubeletAllocatedTest, PreferredAssignsOthersIfThePolicyWouldMisalign) {
  const Admission filled = admission::Admit(node_, state_, AppPod("f", 8), {});
  ASSERT_TRUE(filled.admitted());
  state_ = filled.next;  // all CPUs of NUMA node 1
  const Admission admission = Admit(AppPod("p", 3, {{kGpu, "1"}}), {"gpu6"});
  ASSERT_TRUE(admission.admitted());
  EXPECT_EQ(IdsOf(admission.next, "p"), Ids{"gpu0"});
}

TEST_F(KubeletAllocatedTest, PreferredAssignsOthersIfTheseAreTakenOrUnhealthy) {
  state_.devices.allocations[{"q", "app"}][kGpu].devices[1] = {"gpu6"};
  EXPECT_EQ(IdsOf(Admit(AppPod("p", 3, {{kGpu, "1"}}), {"gpu6"}).next, "p").size(), 1U);
  state_.devices.resources[kGpu].devices["gpu5"].healthy = false;
  const Admission admission = Admit(AppPod("p", 3, {{kGpu, "1"}}), {"gpu5"});
  ASSERT_TRUE(admission.admitted());
  EXPECT_FALSE(IdsOf(admission.next, "p").contains("gpu5"));
  EXPECT_FALSE(IdsOf(admission.next, "p").contains("gpu6"));
}

TEST_F(KubeletAllocatedTest, IdsOfAnEndedContainerMeanItsDevices) {
  state_.devices.allocations[{"p", "init"}][kGpu].devices[1] = {"gpu6", "gpu7"};
  bindings_[{"p", "init"}][kGpu] = {{"gpu0", "gpu6"}, {"gpu1", "gpu7"}};
  const Admission admission = Admit(AppPod("p", 3, {{kGpu, "2"}}), {"gpu0", "gpu1"});
  ASSERT_TRUE(admission.admitted());
  EXPECT_EQ(IdsOf(admission.next, "p"), (Ids{"gpu6", "gpu7"}));
  // Other ids are other devices: the earlier container may be a sidecar.
  const Admission beside = Admit(AppPod("p", 3, {{kGpu, "2"}}), {"gpu2", "gpu3"});
  ASSERT_TRUE(beside.admitted());
  EXPECT_EQ(IdsOf(beside.next, "p"), (Ids{"gpu2", "gpu3"}));
}

// The device of an ended container is chosen by its id, not by the order of the devices.
TEST_F(KubeletAllocatedTest, EachContainerReusesTheDeviceOfItsOwnId) {
  state_.devices.allocations[{"p", "init"}][kGpu].devices[1] = {"gpu6", "gpu7"};
  bindings_[{"p", "init"}][kGpu] = {{"gpu6", "gpu6"}, {"gpu7", "gpu7"}};
  const Admission first =
      Admit(AppPod("p", 1, {{kGpu, "1"}}), {"gpu7"}, BindingMode::kPreferred, "app");
  ASSERT_TRUE(first.admitted());
  EXPECT_EQ(IdsOf(first.next, "p"), Ids{"gpu7"});
}

// --- Mode strict.

TEST_F(KubeletAllocatedTest, StrictAssignsAlsoIfThatMisaligns) {
  const Admission filled = admission::Admit(node_, state_, AppPod("f", 8), {});
  ASSERT_TRUE(filled.admitted());
  state_ = filled.next;  // all CPUs of NUMA node 1
  const Admission admission = Admit(AppPod("p", 3, {{kGpu, "1"}}), {"gpu6"}, BindingMode::kStrict);
  ASSERT_TRUE(admission.admitted());
  EXPECT_EQ(IdsOf(admission.next, "p"), Ids{"gpu6"});
  EXPECT_EQ(admission.next.devices.resources, state_.devices.resources);
  EXPECT_EQ(admission.assignments.at("app").devices.at(kGpu).Ids(), Ids{"gpu6"});
}

TEST_F(KubeletAllocatedTest, StrictAssignsNoOtherDevice) {
  KubeletConfig strict = testing::StaticConfig();
  strict.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  const admission::Node node = testing::MakeNode(strict);
  const Admission filled = admission::Admit(node, state_, AppPod("f", 8), {});
  ASSERT_TRUE(filled.admitted());
  state_ = filled.next;  // all CPUs of NUMA node 1
  const Pod pod = AppPod("p", 3, {{kGpu, "1"}});
  const KubeletAllocatedPod allocated{{"app", {{kGpu, {"gpu6"}}}}};
  const Admission admission =
      AdmitKubeletAllocated(node, state_, pod, allocated, bindings_, BindingMode::kStrict, {});
  ASSERT_FALSE(admission.admitted());
  EXPECT_EQ(admission.refusal->reason, "TopologyAffinityError");
  EXPECT_EQ(ExplainKubeletAllocated(node, state_, pod, allocated, bindings_, BindingMode::kStrict),
            "; in mode strict example.com/gpu is only assigned as the kubelet allocated it: "
            "container app has gpu6 on NUMA node 1. With other devices the pod would fit: delete "
            "the pod, so that the kubelet allocates other devices to the next one");
  EXPECT_EQ(
      ExplainKubeletAllocated(node, state_, pod, allocated, bindings_, BindingMode::kPreferred),
      "");
  // The remedy is not named if other devices would not help.
  const Pod large = AppPod("p", 8, {{kGpu, "1"}});
  const std::string text =
      ExplainKubeletAllocated(node, state_, large, allocated, bindings_, BindingMode::kStrict);
  EXPECT_NE(text.find("gpu6 on NUMA node 1"), std::string::npos);
  EXPECT_EQ(text.find("other devices"), std::string::npos);
}

TEST_F(KubeletAllocatedTest, StrictBesideAResourceThatIsPreferred) {
  state_.devices.resources[kNic] = testing::EightDevices("nic");
  const Admission filled = admission::Admit(node_, state_, AppPod("f", 8), {});
  ASSERT_TRUE(filled.admitted());
  state_ = filled.next;  // all CPUs of NUMA node 1
  const Pod pod = AppPod("p", 3, {{kGpu, "1"}, {kNic, "1"}});
  const KubeletAllocatedPod allocated{{"app", {{kGpu, {"gpu6"}}, {kNic, {"nic1"}}}}};
  // Also when another GPU is tried, the NIC is the allocated one.
  for (const BindingMode mode : {BindingMode::kPreferred, BindingMode::kDeferred}) {
    const Admission admission = AdmitKubeletAllocated(node_, state_, pod, allocated, bindings_,
                                                      {mode, {{kNic, BindingMode::kStrict}}}, {});
    ASSERT_TRUE(admission.admitted());
    EXPECT_EQ(IdsOf(admission.next, "p"), Ids{"gpu0"});
    EXPECT_EQ(admission.next.devices.Find({"p", "app"}, kNic)->Ids(), Ids{"nic1"});
  }
}

TEST_F(KubeletAllocatedTest, StrictAssignsTheDeviceOfAnEndedContainer) {
  state_.devices.allocations[{"p", "init"}][kGpu].devices[1] = {"gpu6", "gpu7"};
  bindings_[{"p", "init"}][kGpu] = {{"gpu0", "gpu6"}, {"gpu1", "gpu7"}};
  const Pod pod = AppPod("p", 3, {{kGpu, "1"}});
  EXPECT_FALSE(RefuseKubeletAllocated(state_, pod, {{"app", {{kGpu, {"gpu1"}}}}}, bindings_,
                                      BindingMode::kStrict));
  const Admission admission = Admit(pod, {"gpu1"}, BindingMode::kStrict);
  ASSERT_TRUE(admission.admitted());
  EXPECT_EQ(IdsOf(admission.next, "p"), Ids{"gpu7"});
}

TEST_F(KubeletAllocatedTest, StrictRefusalNamesTheReason) {
  const Pod pod = AppPod("p", 3, {{kGpu, "1"}});
  const auto refuse = [&](const std::string& id, BindingMode mode) {
    const auto refusal =
        RefuseKubeletAllocated(state_, pod, {{"app", {{kGpu, {id}}}}}, bindings_, mode);
    return refusal ? refusal->message : "";
  };
  state_.devices.allocations[{"q", "main"}][kGpu].devices[1] = {"gpu6"};
  state_.devices.resources[kGpu].devices["gpu5"].healthy = false;
  EXPECT_EQ(refuse("gpu4", BindingMode::kStrict), "");
  EXPECT_EQ(refuse("gpu5", BindingMode::kPreferred), "");
  EXPECT_EQ(refuse("gpu6", BindingMode::kDeferred), "");
  EXPECT_NE(refuse("gpu5", BindingMode::kStrict)
                .find("device gpu5 of example.com/gpu, which is unhealthy; in mode strict "
                      "example.com/gpu is only assigned as the kubelet allocated it"),
            std::string::npos);
  EXPECT_NE(
      refuse("gpu6", BindingMode::kStrict)
          .find("device gpu6 of example.com/gpu, which is assigned to container main of pod q"),
      std::string::npos);
}

// --- Several containers that are decided together.

TEST_F(KubeletAllocatedTest, ContainersThatAreDecidedTogetherGetTheirOwnDevices) {
  const Container init = Init("init", {{"cpu", "1"}, {"memory", "1Gi"}, {kGpu, "2"}});
  Pod pod = AppPod("p", 1, {{kGpu, "1"}});
  Container beside = pod.containers[0];
  beside.name = "beside";
  pod.containers.insert(pod.containers.begin(), init);
  pod.containers.push_back(beside);
  const KubeletAllocatedPod allocated{{"init", {{kGpu, {"gpu5", "gpu7"}}}},
                                      {"app", {{kGpu, {"gpu7"}}}},
                                      {"beside", {{kGpu, {"gpu5"}}}}};
  KubeletConfig by_pod = testing::StaticConfig();
  by_pod.topology_manager_scope = TopologyManagerScope::kPod;
  for (const BindingMode mode : {BindingMode::kPreferred, BindingMode::kStrict}) {
    const Admission admission = AdmitKubeletAllocated(testing::MakeNode(by_pod), state_, pod,
                                                      allocated, bindings_, mode, {});
    ASSERT_TRUE(admission.admitted());
    EXPECT_EQ(IdsOf(admission.next, "p", "init"), (Ids{"gpu5", "gpu7"}));
    EXPECT_EQ(IdsOf(admission.next, "p", "app"), Ids{"gpu7"});
    EXPECT_EQ(IdsOf(admission.next, "p", "beside"), Ids{"gpu5"});
    EXPECT_EQ(admission.assignments.at("app").devices.at(kGpu).devices,
              (devicemanager::DevicesPerNuma{{1, {"gpu7"}}}));
  }
}

TEST_F(KubeletAllocatedTest, UnknownOnesAreRefused) {
  const Pod pod = AppPod("p", 3, {{kGpu, "1"}});
  EXPECT_FALSE(Refuse(pod, {{"app", {{kGpu, {"gpu1"}}}}}));
  const auto odd = Refuse(pod, {{"app", {{kGpu, {"other"}}}}});
  ASSERT_TRUE(odd);
  EXPECT_NE(odd->message.find("device other of example.com/gpu"), std::string::npos);
  const auto none = Refuse(pod, {{"app", {{"example.com/none", {"x"}}}}});
  ASSERT_TRUE(none);
  EXPECT_NE(none->message.find("unregistered device example.com/none"), std::string::npos);
  // An assignment stays, also if the plugin is gone.
  state_.devices.allocations[{"p", "app"}][kGpu].devices[1] = {"gpu6"};
  state_.devices.resources.erase(kGpu);
  EXPECT_FALSE(Refuse(pod, {{"app", {{kGpu, {"gpu6"}}}}}));
}

TEST(Pairing, LeavesWhatIsTheSame) {
  EXPECT_EQ(Pair({"a", "b", "c"}, {"b", "x", "y"}), (Binding{{"a", "x"}, {"b", "b"}, {"c", "y"}}));
  EXPECT_EQ(Pair({"a", "b"}, {"b", "c"}), (Binding{{"a", "c"}, {"b", "b"}}));
  EXPECT_EQ(Pair({"a"}, {"x", "y"}), (Binding{{"a", "x"}}));
}

TEST(BindingsOfAContainer, AreOfJustTheseIds) {
  const Bindings bindings{{{"p", "app"}, {{kGpu, {{"a", "x"}, {"b", "y"}}}}}};
  EXPECT_TRUE(IsBound(bindings, {"p", "app"}, {{kGpu, {"a", "b"}}}));
  EXPECT_TRUE(IsBound(bindings, {"p", "app"}, {}));
  EXPECT_FALSE(IsBound(bindings, {"p", "app"}, {{kGpu, {"a"}}}));
  EXPECT_FALSE(IsBound(bindings, {"p", "app"}, {{kGpu, {"a", "c"}}}));
  EXPECT_FALSE(IsBound(bindings, {"p", "other"}, {{kGpu, {"a", "b"}}}));
}

}  // namespace
}  // namespace alignd::mirror
