// CPUs and memory beside devices that DRA has allocated.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/explanation.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

using devicemanager::NoPreference;

// Two NUMA nodes with four single-threaded cores each; CPU 0 is reserved.
Node NodeClaiming(TopologyManagerPolicy policy,
                  TopologyManagerScope scope = TopologyManagerScope::kContainer) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  config.topology_manager_policy = policy;
  config.topology_manager_scope = scope;
  Result<Node> node = Node::Make(MakeMachine("socket:2 numa:1 core:4 thread:1"), config);
  EXPECT_TRUE(node.ok()) << node.error().message;
  return *std::move(node);
}

Container Claiming(const std::string& name, const std::string& cpus, std::vector<int64_t> numa) {
  Container container = App(name, {{"cpu", cpus}, {"memory", "64Mi"}});
  container.claimed_devices = {{"example.com/" + name, std::move(numa)}};
  return container;
}

Admission AdmitOn(const Node& node, const Pod& pod) {
  return Admit(node, NodeState::Initial(node), pod, NoPreference);
}

class ClaimedDevicesOfEachPolicy : public ::testing::TestWithParam<TopologyManagerPolicy> {};
INSTANTIATE_TEST_SUITE_P(Policies, ClaimedDevicesOfEachPolicy,
                         ::testing::Values(TopologyManagerPolicy::kBestEffort,
                                           TopologyManagerPolicy::kRestricted,
                                           TopologyManagerPolicy::kSingleNumaNode));

TEST_P(ClaimedDevicesOfEachPolicy, CpusAreOnTheNodeOfTheDevice) {
  for (const auto scope : {TopologyManagerScope::kContainer, TopologyManagerScope::kPod}) {
    const Node node = NodeClaiming(GetParam(), scope);
    for (const auto& [numa, cpus] : {std::pair<int64_t, const char*>{1, "4-5"}, {0, "1-2"}}) {
      Pod pod = MakePod("p", {Claiming("a", "2", {numa})});
      if (scope == TopologyManagerScope::kPod) {
        pod.claimed_devices = std::exchange(pod.containers[0].claimed_devices, {});
      }
      const Admission admission = AdmitOn(node, pod);
      ASSERT_TRUE(admission.admitted()) << admission.refusal->message;
      EXPECT_EQ(admission.assignments.at("a").exclusive.ToString(), cpus);
    }
  }
}

TEST_P(ClaimedDevicesOfEachPolicy, DeviceWithoutKnownPlaceChangesNothing) {
  const Node node = NodeClaiming(GetParam());
  const Pod plain = MakePod("p", {App("a", {{"cpu", "2"}, {"memory", "64Mi"}})});
  const Admission without = AdmitOn(node, plain);
  const Admission with = AdmitOn(node, MakePod("p", {Claiming("a", "2", {})}));
  EXPECT_TRUE(with.assignments == without.assignments);
  EXPECT_TRUE(with.decisions == without.decisions);
}

TEST_P(ClaimedDevicesOfEachPolicy, ContainersAlignEachWithItsOwn) {
  const Node node = NodeClaiming(GetParam());
  const Admission admission =
      AdmitOn(node, MakePod("p", {Claiming("a", "2", {1}), Claiming("b", "2", {0})}));
  ASSERT_TRUE(admission.admitted());
  EXPECT_EQ(admission.assignments.at("a").exclusive.ToString(), "4-5");
  EXPECT_EQ(admission.assignments.at("b").exclusive.ToString(), "1-2");
}

// As with a device of a plugin: the hints of five CPUs, which need both nodes, are not those of the
// device.
TEST(ClaimedDevices, MoreCpusThanTheirNodeHasAreAdmittedByBestEffortOnly) {
  const Pod pod = MakePod("p", {Claiming("a", "5", {1})});
  const Admission spread = AdmitOn(NodeClaiming(TopologyManagerPolicy::kBestEffort), pod);
  ASSERT_TRUE(spread.admitted());
  EXPECT_EQ(spread.assignments.at("a").exclusive.ToString(), "1,4-7");
  for (const auto policy :
       {TopologyManagerPolicy::kRestricted, TopologyManagerPolicy::kSingleNumaNode}) {
    const Node node = NodeClaiming(policy);
    const Admission admission = AdmitOn(node, pod);
    ASSERT_FALSE(admission.admitted());
    EXPECT_EQ(admission.refusal->reason, "TopologyAffinityError");
    const std::string text =
        Explain(node, NodeState::Initial(node), pod, *admission.refusal).message;
    EXPECT_NE(text.find("claimed: example.com/a on NUMA node 1"), std::string::npos) << text;
  }
}

// The four CPUs of node 1 would be enough for the pod, but not beside the device of node 0.
TEST(ClaimedDevices, RefusalSaysThatTheirPlaceIsTheCause) {
  const Node node = NodeClaiming(TopologyManagerPolicy::kSingleNumaNode);
  const Pod pod = MakePod("p", {Claiming("a", "4", {0})});
  const Admission admission = AdmitOn(node, pod);
  ASSERT_FALSE(admission.admitted());
  const std::string text = Explain(node, NodeState::Initial(node), pod, *admission.refusal).message;
  EXPECT_NE(text.find("its claimed devices are where the rest of its request does not fit beside "
                      "them (example.com/a on NUMA node 0)"),
            std::string::npos)
      << text;
}

// Two CPUs fit on one node.
TEST(ClaimedDevices, OnTwoNodesTheyAreAdmittedByBestEffortOnly) {
  Container container = Claiming("a", "2", {0});
  container.claimed_devices.push_back({"example.com/other", {1}});
  const Pod pod = MakePod("p", {container});
  EXPECT_FALSE(AdmitOn(NodeClaiming(TopologyManagerPolicy::kSingleNumaNode), pod).admitted());
  EXPECT_FALSE(AdmitOn(NodeClaiming(TopologyManagerPolicy::kRestricted), pod).admitted());
  EXPECT_TRUE(AdmitOn(NodeClaiming(TopologyManagerPolicy::kBestEffort), pod).admitted());
}

TEST(ClaimedDevices, InScopePodTheyAreThePods) {
  const Node node =
      NodeClaiming(TopologyManagerPolicy::kSingleNumaNode, TopologyManagerScope::kPod);
  Pod pod = MakePod("p", {App("a", {{"cpu", "1"}, {"memory", "64Mi"}}),
                          App("b", {{"cpu", "2"}, {"memory", "64Mi"}})});
  pod.claimed_devices = {{"example.com/a", {1}}};
  const Admission together = AdmitOn(node, pod);
  ASSERT_TRUE(together.admitted());
  EXPECT_EQ(together.assignments.at("a").exclusive.ToString(), "4");
  EXPECT_EQ(together.assignments.at("b").exclusive.ToString(), "5-6");
  pod.claimed_devices.push_back({"example.com/b", {0}});
  const Admission apart = AdmitOn(node, pod);
  ASSERT_FALSE(apart.admitted());
  const std::string text = Explain(node, NodeState::Initial(node), pod, *apart.refusal).message;
  EXPECT_NE(text.find("; claimed: example.com/a on NUMA node 1, example.com/b on NUMA node 0"),
            std::string::npos)
      << text;
}

// A monitor of all devices, or a container of a Burstable pod.
TEST(ClaimedDevices, RefuseNoContainerThatHasNothingToAlign) {
  const Node node = NodeClaiming(TopologyManagerPolicy::kSingleNumaNode);
  Container container = App("a", {{"cpu", "500m"}, {"memory", "64Mi"}});
  container.claimed_devices = {{"example.com/a", {0}}, {"example.com/b", {1}}};
  EXPECT_TRUE(AdmitOn(node, MakePod("p", {container})).admitted());
  container.resources = {};
  EXPECT_TRUE(AdmitOn(node, MakePod("p", {container})).admitted());
}

TEST(ClaimedDevices, NodeWithoutCpusIsNoPlaceForAnything) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  const Result<Node> node =
      Node::Make(MakeMachine("socket:2 numa:1 core:4 thread:1 cpuless=1"), config);
  ASSERT_TRUE(node.ok()) << node.error().message;
  ASSERT_EQ(node->machine.numa_count(), 3);
  EXPECT_TRUE(AdmitOn(*node, MakePod("p", {Claiming("a", "2", {2})})).admitted());
}

TEST(ClaimedDevices, AreHintsBesideThoseOfTheKubeletsManagers) {
  const Node node = NodeClaiming(TopologyManagerPolicy::kRestricted);
  const Admission admission = AdmitOn(node, MakePod("p", {Claiming("a", "2", {1})}));
  ASSERT_EQ(admission.decisions.size(), 1U);
  const auto& hints = admission.decisions[0].hints;
  ASSERT_TRUE(hints.contains("claimed devices"));
  const topologymanager::HintList shown = hints.at("claimed devices")->Shown();
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_EQ(*shown[0].affinity, NumaMask::Of(1));
  EXPECT_TRUE(shown[0].preferred);
}

}  // namespace
}  // namespace alignd::admission
