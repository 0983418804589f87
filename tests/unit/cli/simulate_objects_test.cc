// `alignctl simulate` with objects of a cluster, as `kubectl get -o json` prints them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "alignd/machine/node_json.h"
#include "alignd/noderesourcetopology/object.h"
#include "cli/simulate_command.h"
#include "core/machine_builder.h"
#include "edge/fake_tree.h"
#include "edge/run_alignctl.h"

namespace alignd::cli {
namespace {

using testing::Printed;

// Two NUMA nodes of 10 CPUs, CPU 0 reserved, without pods. The policies are in the object.
std::string SimulatedObject(const std::string& name) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  const auto node = admission::Node::Make(MakeMachine("socket:2 numa:1 core:10"), config);
  return noderesourcetopology::ObjectJson(name, *node, admission::NodeState::Initial(*node),
                                          std::vector<noderesourcetopology::PodIdentity>());
}

std::string SimulatedNode(const std::string& name) {
  return R"({"kind":"Node","apiVersion":"v1","metadata":{"name":")" + name +
         R"("},"status":{"allocatable":{"cpu":"19","memory":"20Gi","pods":"110"}}})";
}

std::string KubectlList(const std::vector<std::string>& nodes) {
  std::string items;
  for (const std::string& name : nodes) {
    items += (items.empty() ? "" : ",") + SimulatedNode(name) + "," + SimulatedObject(name);
  }
  return R"({"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":""},"items":[)" + items +
         "]}";
}

class SimulateObjects : public ::testing::Test {
 protected:
  SimulateObjects() {
    tree_.Write({"one.json", KubectlList({"w1"})});
    tree_.Write({"two.json", KubectlList({"w1", "w2"})});
    tree_.Write({"pods.yaml", PodYaml("a", "10") + "---\n" + PodYaml("b", "10")});
    tree_.Write({"config.yaml",
                 "kind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: '0'\n"
                 "topologyManagerPolicy: single-numa-node\n"});
    tree_.Write({"node.json", MachineToNodeJson(MakeMachine("socket:2 numa:1 core:10"))});
  }

  static std::string PodYaml(const std::string& name, const std::string& cpus) {
    return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name +
           "}\nspec:\n  containers:\n  - {name: app, image: i, resources: {limits: {cpu: " + cpus +
           ", memory: 1Gi}}}\n";
  }

  Printed Simulate(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "simulate");
    arguments.emplace_back("@pods.yaml");
    for (std::string& argument : arguments) {
      if (argument.starts_with('@')) argument.replace(0, 1, tree_.root().string() + "/");
    }
    return testing::RunAlignctl({AddSimulateCommand}, arguments);
  }

  testing::FakeTree tree_;
};

TEST_F(SimulateObjects, ShowsNumbersInPlaceOfIds) {
  const Printed printed = Simulate({"--node", "@one.json"});
  EXPECT_EQ(printed.status, 1) << printed.err;
  EXPECT_EQ(printed.out,
            "pod default/a (Guaranteed): fits\n"
            "  app: 10 exclusive CPUs (NUMA node 1)\n"
            "pod default/b (Guaranteed): does not fit, refused by scheduler\n"
            "  Unschedulable: Insufficient cpu: 10 requested, 9 of 19 free\n"
            "1 of 2 pods fit\n");
}

// The kubelet's refusal comes without the free CPUs, whose ids are not known.
TEST_F(SimulateObjects, RefusesAsTheKubelet) {
  tree_.Write({"pods.yaml", PodYaml("a", "11")});
  const Printed printed = Simulate({"--node", "@one.json"});
  EXPECT_EQ(printed.status, 1) << printed.err;
  EXPECT_EQ(printed.out,
            "pod default/a (Guaranteed): does not fit, refused by kubelet\n"
            "  TopologyAffinityError: Resources cannot be allocated with Topology locality\n");
}

TEST_F(SimulateObjects, WritesDataWithoutIds) {
  const Printed printed = Simulate({"--node", "@one.json", "-o", "json"});
  const nlohmann::json json = nlohmann::json::parse(printed.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << printed.out << printed.err;
  EXPECT_EQ(json["numa"], nlohmann::json::array());
  EXPECT_EQ(json["decisions"][0]["assignments"],
            nlohmann::json::parse(R"([{"pod_uid":"default/a","pod":"default/a","container":"app",)"
                                  R"("exclusive_cpu_count":10,"cpu_nodes":[1],"memory_nodes":[],)"
                                  R"("device_counts":{}}])"))
      << json;
  EXPECT_EQ(json["decisions"][1]["assignments"], nlohmann::json::array());
  EXPECT_EQ(json["decisions"][1]["available"], "");
  EXPECT_EQ(json["scheduler"]["cpu"]["requested"], "10");
}

TEST_F(SimulateObjects, PlansWithTheNodeOfThatName) {
  const Printed both = Simulate({"--node", "@two.json"});
  EXPECT_EQ(both.status, 2);
  EXPECT_NE(both.err.find("the objects have 2 nodes; name one with --node-name"), std::string::npos)
      << both.err;
  EXPECT_EQ(Simulate({"--node", "@two.json", "--node-name", "w2"}).status, 1);
  const Printed absent = Simulate({"--node", "@two.json", "--node-name", "w3"});
  EXPECT_EQ(absent.status, 2);
  EXPECT_NE(absent.err.find("there is no Node of that name"), std::string::npos) << absent.err;
}

TEST_F(SimulateObjects, BuildsTheNamedNodeOnly) {
  std::string list = KubectlList({"w1", "w2"});
  const size_t of_w2 = list.rfind("\"zones\"");
  ASSERT_NE(of_w2, std::string::npos);
  list.replace(of_w2, 7, "\"zonez\"");
  tree_.Write({"broken.json", list});
  EXPECT_EQ(Simulate({"--node", "@broken.json", "--node-name", "w1"}).status, 1);
  const Printed broken = Simulate({"--node", "@broken.json", "--node-name", "w2"});
  EXPECT_EQ(broken.status, 2);
  EXPECT_NE(broken.err.find("NodeResourceTopology w2: "), std::string::npos) << broken.err;
}

TEST_F(SimulateObjects, CountsThePodsOfTheNode) {
  tree_.Write({"pod.json",
               R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"r","namespace":"x",)"
               R"("uid":"1"},"spec":{"nodeName":"w1","containers":[{"name":"c","image":"i"}]},)"
               R"("status":{"phase":"Running"}})"});
  const Printed printed = Simulate({"--node", "@one.json", "--node", "@pod.json"});
  EXPECT_EQ(printed.status, 1);
  // The object is from before the pod.
  EXPECT_TRUE(printed.out.starts_with("pod default/a (Guaranteed): cannot be decided\n"))
      << printed.out;
}

TEST_F(SimulateObjects, EndsWithTwoForWrongInput) {
  struct Case {
    std::vector<std::string> arguments;
    std::string fault;
  };
  for (const auto& [arguments, fault] : std::vector<Case>{
           {{"--node", "@one.json", "--node", "@node.json"}, "a description beside objects"},
           {{"--node", "@one.json", "--config", "@config.yaml", "--running", "@pods.yaml"},
            "the pods of the node are those of the objects"},
           {{"--node", "@node.json"}, "the node has no KubeletConfiguration; name one"},
           {{"--node", "@node.json", "--config", "@config.yaml", "--node-name", "w1"},
            "a description of a node has no name"},
           {{"--replicas", "2"},
            "--replicas is permitted only with --config, --node or --from-cluster"},
           {{"--kubeconfig", "@config.yaml"}, "--kubeconfig is permitted only with --from-cluster"},
           {{"--from-cluster", "--kubeconfig", "@config.yaml"}, "kubeconfig"},
           {{"--from-cluster", "--node", "@one.json"},
            "--node cannot be given together with --from-cluster"}}) {
    const Printed printed = Simulate(arguments);
    EXPECT_EQ(printed.status, 2) << fault << printed.out;
    EXPECT_NE(printed.err.find(fault), std::string::npos) << printed.err;
  }
}

}  // namespace
}  // namespace alignd::cli
