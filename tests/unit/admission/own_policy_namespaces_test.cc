// What the pods of a namespace may choose.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "alignd/admission/admission.h"
#include "alignd/admission/own_policy.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

// Two NUMA nodes with four CPUs each; CPU 0 is reserved.
class OwnPolicyNamespacesTest : public testing::Test {
 protected:
  static KubeletConfig StaticConfig() {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    return config;
  }

  static Node NodeOf(const KubeletConfig& config) {
    Result<Node> node = Node::Make(MakeMachine("socket:2 numa:1 core:4"), config);
    EXPECT_TRUE(node.ok()) << node.error().Text();
    return *std::move(node);
  }

  static Pod Asking(const std::string& uid, NumaTopologyPolicy policy, const std::string& cpus) {
    Pod pod = MakePod(uid, {App("app", {{"cpu", cpus}, {"memory", "64Mi"}})});
    pod.policies.numa_topology = policy;
    return pod;
  }

  static Admission Decide(const Node& node, const Pod& pod) {
    return Admit(node, NodeState::Initial(node), pod, devicemanager::NoPreference);
  }
};

TEST_F(OwnPolicyNamespacesTest, DependsOnTheNamespace) {
  KubeletConfig config = StaticConfig();
  config.namespace_policies = {{{"team-a"}, {PodPolicy::kNumaTopologyPolicy}}};
  const Node only_there = NodeOf(config);
  config.pod_policies = {PodPolicy::kNumaTopologyPolicy};
  config.namespace_policies[0].pod_policies.clear();
  const Node nowhere_else = NodeOf(config);
  const Pod wide = Asking("wide", NumaTopologyPolicy::kSingleNumaNode, "5");
  Pod in_team = wide;
  in_team.name_space = "team-a";
  EXPECT_FALSE(Decide(only_there, in_team).admitted());
  EXPECT_TRUE(Decide(only_there, wide).admitted());
  EXPECT_FALSE(Decide(nowhere_else, wide).admitted());
  EXPECT_TRUE(Decide(nowhere_else, in_team).admitted());
  EXPECT_EQ(DescribePodPolicy(nowhere_else, in_team),
            "annotation scheduling.koordinator.sh/numa-topology-spec is ignored: podPolicies for "
            "namespace team-a does not have numaTopologyPolicy");
}

// The policies of a pod outlive a restart and a change of the lists, each as its namespace has it.
TEST_F(OwnPolicyNamespacesTest, ARunningPodHasTheListOfItsNamespace) {
  KubeletConfig config = StaticConfig();
  config.namespace_policies = {{{"team-a"}, {PodPolicy::kNumaTopologyPolicy}}};
  const Node node = NodeOf(config);
  Pod pod = Asking("p", NumaTopologyPolicy::kRestricted, "2");
  pod.name_space = "team-a";
  const NodeState state = Decide(node, pod).next;
  EXPECT_EQ(OwnPolicy(node, state, "p"), NumaTopologyPolicy::kRestricted);
  NodeState restarted = state;
  restarted.chosen_policies = {};
  PodPolicies asked = pod.policies;
  asked.name_space = "team-a";
  EXPECT_EQ(WithPolicies(node, restarted, {{"p", asked}}), state);
  asked.name_space = "default";
  EXPECT_EQ(WithPolicies(node, restarted, {{"p", asked}}), restarted);
  config.namespace_policies[0].namespaces = {"team-b"};
  EXPECT_FALSE(OwnPolicy(NodeOf(config), state, "p"));
}

}  // namespace
}  // namespace alignd::admission
