// `alignctl fit`: which nodes it reads, what it says, and its exit status.
#include "cli/fit_command.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "alignd/machine/node_json.h"
#include "alignd/noderesourcetopology/object.h"
#include "alignd/scenario/simulation.h"
#include "cli/simulate_command.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"
#include "edge/fake_tree.h"
#include "edge/machine_tree.h"
#include "edge/run_alignctl.h"

namespace alignd::cli {
namespace {

using testing::FakeTree;
using testing::Printed;

constexpr const char* kFleetConfig =
    "kind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: '0'\n"
    "topologyManagerPolicy: single-numa-node\n";

std::string PodText(const std::string& name, const std::string& limits) {
  return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name +
         "}\nspec:\n  containers:\n  - {name: app, image: i, resources: {limits: " + limits +
         "}}\n";
}

std::string NodeText(const std::string& machine) { return MachineToNodeJson(MakeMachine(machine)); }

// A NodeResourceTopology of the node before its first pod, as alignd writes it.
std::string ObjectText(const std::string& name, const std::string& machine) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  const auto node = admission::Node::Make(MakeMachine(machine), config);
  return noderesourcetopology::ObjectJson(name, *node, admission::NodeState::Initial(*node),
                                          std::nullopt);
}

std::string NodeObjectText(const std::string& name, const std::string& cpus) {
  return R"({"kind":"Node","apiVersion":"v1","metadata":{"name":")" + name +
         R"("},"status":{"allocatable":{"cpu":")" + cpus + R"(","memory":"20Gi","pods":"110"}}})";
}

// Runs `alignctl fit` on the files of a tree, in whose arguments @ is the tree's directory.
class FitCommand : public ::testing::Test {
 protected:
  FitCommand() {
    Put("config.yaml", kFleetConfig);
    Put("pod.yaml", PodText("p", "{cpu: 20, memory: 1Gi}"));
    Put("nodes/large.json", NodeText("socket:2 numa:1 core:20"));
    Put("nodes/small.json", NodeText("socket:2 numa:1 core:10"));
    Put("nodes/split.json", NodeText("socket:2 numa:1 core:11"));
  }

  void Put(const std::string& name, const std::string& text) { tree_.Write({name, text}); }

  Printed Run(std::vector<std::string> arguments) {
    for (std::string& argument : arguments) {
      if (argument.starts_with('@')) argument.replace(0, 1, tree_.root().string() + "/");
    }
    return testing::RunAlignctl({AddFitCommand, AddSimulateCommand}, arguments);
  }

  Printed FitOn(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"fit", "-f", "@pod.yaml", "--config", "@config.yaml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }

  FakeTree tree_;
};

TEST_F(FitCommand, FindsTheNodeForTwentyCpus) {
  const Printed printed = FitOn({"--nodes", "@nodes"});
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_TRUE(printed.out.starts_with(
      "Pod default/p: 1 of 3 nodes can take it\n"
      "  SCORE  NODE\n"
      "  49     large\n"
      "  1 node (small): refused by scheduler: Unschedulable: Insufficient cpu\n"
      "    small: Insufficient cpu: 20 requested, 19 of 19 free\n"
      "  1 node (split): refused by kubelet: TopologyAffinityError: Resources cannot be allocated "
      "with Topology locality\n"
      "    split:\n"
      "      requested: app: 20 exclusive CPUs\n"
      "      free:\n"
      "        NUMA node 0: 10 of 11 CPUs (1-10)\n"))
      << printed.out;
  EXPECT_TRUE(
      printed.out.ends_with("  placed on large\n"
                            "    app: CPUs 20-39 (NUMA node 1)\n"
                            "3 nodes, score LeastAllocated: 1 of 1 admitted, 0 refused\n"))
      << printed.out;
}

// Texts of objects are no lines of the answer.
// In place of the configuration for all nodes, and of those that nodes have of their own.
TEST_F(FitCommand, AnswersAsNodesWithTheFlagsOfTheirDaemon) {
  const std::string spec =
      "\nspec:\n  runtimeClassName: vm\n  containers:\n  - {name: app, image: i, ";
  Put("vm.yaml",
      "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: vm}\nhandler: own\n---\n"
      "apiVersion: v1\nkind: Pod\nmetadata: {name: p}" +
          spec + "resources: {limits: {cpu: 20, memory: 1Gi}}}\n");
  Put("labelled.yaml",
      "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {koordinator.sh/qosClass: LSE}}\n"
      "spec:\n  containers:\n  - {name: app, image: i, resources: {limits: {cpu: 500m, memory: "
      "1Gi}}}\n");
  Put("own/w/node.json", NodeText("socket:2 numa:1 core:11"));
  Put("own/w/config.yaml", kFleetConfig);
  Put("fleet.json", R"({"name":"f","node":)" + NodeText("socket:2 numa:1 core:11") +
                        R"(,"config":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0",)"
                        R"("topologyManagerPolicy":"single-numa-node"}})");
  for (const std::vector<std::string>& nodes : std::vector<std::vector<std::string>>{
           {"--nodes", "@nodes/split.json", "--config", "@config.yaml"},
           {"--nodes", "@own"},
           {"--nodes", "@fleet.json"}}) {
    const auto status = [&](const std::string& pod, std::vector<std::string> flags) {
      flags.insert(flags.begin(), {"fit", "-f", pod});
      flags.insert(flags.end(), nodes.begin(), nodes.end());
      return Run(flags).status;
    };
    EXPECT_EQ(status("@vm.yaml", {}), 1) << nodes[1];
    EXPECT_EQ(status("@vm.yaml", {"--shared-pool-handlers", "kata,own"}), 0) << nodes[1];
    EXPECT_EQ(status("@labelled.yaml", {}), 0) << nodes[1];
    EXPECT_EQ(status("@labelled.yaml", {"--pod-policies", "qosClass"}), 1) << nodes[1];
    EXPECT_NE(status("@labelled.yaml", {"--pod-policies", "qos"}), 0) << nodes[1];
  }
  const std::vector<std::string> simulate = {"simulate", "--node", "@nodes/split.json", "--config",
                                             "@config.yaml"};
  for (const auto& [pod, flag, value] :
       {std::tuple("@vm.yaml", "--shared-pool-handlers", "own"),
        std::tuple("@labelled.yaml", "--pod-policies", "qosClass")}) {
    std::vector<std::string> arguments = simulate;
    arguments.emplace_back(pod);
    const int without = Run(arguments).status;
    arguments.insert(arguments.end(), {flag, value});
    EXPECT_NE(Run(arguments).status, without) << pod;
  }
}

// Without a KubeletConfiguration, they would change nothing.
TEST_F(FitCommand, RefusesFlagsOfNodesWithoutAConfiguration) {
  Put("objects.json",
      ObjectText("large", "socket:2 numa:1 core:20") + "\n" + NodeObjectText("large", "39"));
  const std::string why =
      "--pod-policies, --shared-pool-handlers, --not-devices, --annotated-extended-resources: "
      "they replace fields of a KubeletConfiguration, and none is given; they do not change what "
      "alignd has written into NodeResourceTopology "
      "objects; add --config, or remove the flags";
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"fit", "-f", "@pod.yaml", "--from-cluster", "--pod-policies", "off"},
           {"fit", "-f", "@pod.yaml", "--nodes", "@objects.json", "--pod-policies", "off"},
           {"simulate", "@pod.yaml", "--from-cluster", "--shared-pool-handlers", "own"}}) {
    const Printed printed = Run(command);
    EXPECT_EQ(printed.status, 2);
    EXPECT_NE(printed.err.find(why), std::string::npos) << printed.err;
  }
}

// Such a setting admits nothing because it does not exist, not because pods do not fit.
TEST_F(FitCommand, SaysThatNoNodeCanHaveASetting) {
  const Printed printed = FitOn({"--nodes", "@nodes", "--compare", "reserved-cpus=99"});
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_NE(printed.out.find("\nreserved-cpus=99: no node can have this setting\n"
                             "  1 node left out (small): reserved-cpus: 99 is not a subset"),
            std::string::npos)
      << printed.out;
  EXPECT_EQ(printed.out.find("there is no node"), std::string::npos) << printed.out;
}

TEST_F(FitCommand, EscapesLineEnds) {
  const std::string forged = "\nPod default/p: 1 of 1 nodes can take it\n";
  Put("objects.json",
      R"({"kind":"List","apiVersion":"v1","items":[)" + NodeObjectText("w2", "8") +
          R"(,{"kind":"Pod","apiVersion":"v9\nPod default/p: 1 of 1 nodes can take it\n",)"
          R"("metadata":{"namespace":"default","name":"x\nPod default/p: fits\n","uid":"u"},)"
          R"("spec":{"nodeName":"w2"}}]})");
  const Printed fitted = FitOn({"--nodes", "@nodes/large.json", "--nodes", "@objects.json"});
  EXPECT_EQ(fitted.status, 2) << fitted.err;
  EXPECT_NE(fitted.out.find("1 node cannot be used (w2): Pod default/x\\nPod"), std::string::npos)
      << fitted.out;
  EXPECT_EQ(fitted.out.find(forged), std::string::npos) << fitted.out;
  Put("pod.yaml",
      "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  \"bad\\nPod default/p: "
      "fits\\n\": 1\n  containers:\n  - {name: app, image: i}\n");
  const Printed simulated =
      Run({"simulate", "--node", "@nodes/large.json", "--config", "@config.yaml", "@pod.yaml"});
  EXPECT_EQ(simulated.status, 1) << simulated.err;
  EXPECT_NE(simulated.out.find("bad\\nPod default/p: fits"), std::string::npos) << simulated.out;
  EXPECT_EQ(simulated.out.find("\nPod default/p: fits"), std::string::npos) << simulated.out;
}

TEST_F(FitCommand, RefusesAPodOfADescribedNodeAlsoIfItCannotBeRead) {
  Put("bad.json", R"({"kind":"Pod","apiVersion":"v9","metadata":{"name":"p","namespace":"default",)"
                  R"("uid":"u"},"spec":{"nodeName":"large"}})");
  const Printed printed = FitOn({"--nodes", "@nodes/large.json", "--nodes", "@bad.json"});
  EXPECT_EQ(printed.status, 2) << printed.out;
  EXPECT_NE(printed.err.find("there are pods of node large"), std::string::npos) << printed.err;
}

TEST_F(FitCommand, EndsWithOneIfAPodFitsNowhere) {
  const Printed printed = FitOn({"--nodes", "@nodes/small.json", "--nodes", "@nodes/split.json"});
  EXPECT_EQ(printed.status, 1) << printed.err;
  EXPECT_TRUE(printed.out.starts_with("Pod default/p: 0 of 2 nodes can take it\n")) << printed.out;
}

TEST_F(FitCommand, PlacesReplicas) {
  Put("pod.yaml", PodText("p", "{cpu: 9, memory: 1Gi}"));
  Printed printed = FitOn({"--nodes", "@nodes", "--replicas", "9"});
  EXPECT_EQ(printed.status, 1) << printed.err;
  EXPECT_NE(
      printed.out.find("Pod default/p: 8 of 9 pods placed; at first, 3 of 3 nodes can take one\n"),
      std::string::npos)
      << printed.out;
  EXPECT_NE(printed.out.find("  one more fits on no node:\n"), std::string::npos) << printed.out;
  printed = FitOn({"--nodes", "@nodes", "--replicas", "max"});
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_NE(printed.out.find("Pod default/p: 8 pods fit; at first, 3 of 3 nodes can take one\n"),
            std::string::npos)
      << printed.out;
  EXPECT_NE(printed.out.find("large (4)"), std::string::npos) << printed.out;
}

TEST_F(FitCommand, ComparesPolicies) {
  const Printed printed = FitOn({"--nodes", "@nodes", "--compare", "policy=restricted,best-effort",
                                 "--compare", "reserved-cpus=0,20"});
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_NE(printed.out.find("policy=restricted: 1 of 1 admitted, 0 refused\n"
                             "policy=best-effort: 1 of 1 admitted, 0 refused\n"
                             "reserved-cpus=0,20: 0 of 1 admitted, 1 refused\n"
                             "  1 pod (Pod default/p): "),
            std::string::npos)
      << printed.out;
  EXPECT_NE(printed.out.find("1 node left out (small): "), std::string::npos) << printed.out;
}

TEST_F(FitCommand, WritesDataAndAllNodes) {
  Put("pod.yaml", PodText("p", "{cpu: 2, memory: 1Gi}"));
  const Printed printed = FitOn({"--nodes", "@nodes", "-o", "json", "--score", "MostAllocated"});
  EXPECT_EQ(printed.status, 0) << printed.err;
  const nlohmann::json json = nlohmann::json::parse(printed.out, nullptr, false);
  ASSERT_TRUE(json.is_object()) << printed.out;
  EXPECT_EQ(json["score"], "MostAllocated");
  EXPECT_EQ(json["workloads"][0]["fitting"].size(), 3U);
  EXPECT_EQ(json["workloads"][0]["fitting"][0]["node"], "small");
  EXPECT_TRUE(FitOn({"--nodes", "@nodes", "-o", "yaml"}).out.starts_with("score: "));
}

TEST_F(FitCommand, ReadsADirectoryForEachNode) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  auto simulation =
      scenario::Simulation::Start({MakeMachine("socket:2 numa:1 core:20"), {}, {}}, config);
  ASSERT_TRUE(simulation.ok());
  simulation->Run(scenario::AdmitPod{AppPod("uid", {{"cpu", "15"}, {"memory", "1Gi"}})});
  Put("fleet/w1/node.json", NodeText("socket:2 numa:1 core:20"));
  Put("fleet/w1/config.yaml", std::string(kFleetConfig) + "maxPods: 5\n");
  Put("fleet/w1/cpu_manager_state", simulation->CpuManagerState());
  Put("fleet/w1/pods.yaml", PodText("r", "{cpu: 5, memory: 1Gi}"));
  Put("fleet/w2/node.json", NodeText("socket:2 numa:1 core:20"));
  Put("fleet/w2/object.yaml",
      "kind: Node\nmetadata: {name: w2}\nspec: {taints: [{key: k, effect: NoSchedule}]}\n"
      "status: {allocatable: {cpu: 39, memory: 99Gi, pods: 9}}\n");
  Put("fleet/.hidden/readme", "");
  Put("fleet/w3.json", NodeText("socket:2 numa:1 core:20"));
  const Printed printed = FitOn({"--nodes", "@fleet"});
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_NE(printed.out.find("1 of 3 nodes can take it\n  SCORE  NODE\n  49     w3\n"),
            std::string::npos)
      << printed.out;
  EXPECT_NE(printed.out.find("w1: Insufficient cpu: 20 requested, 19 of 39 free"),
            std::string::npos)
      << printed.out;
  EXPECT_NE(printed.out.find("untolerated taint {k: }"), std::string::npos) << printed.out;
}

TEST_F(FitCommand, ReadsNodesWithAllPartsOneALine) {
  const std::string node = NodeText("socket:2 numa:1 core:20");
  Put("nodes.json", R"({"name":"a","node":)" + node + "}\n" + R"({"name":"b","node":)" + node +
                        R"(,"devices":["a.com/d=1@0"]})" + "\n");
  Put("pod.yaml", PodText("p", "{cpu: 1, memory: 1Gi, a.com/d: 1}"));
  const Printed printed = FitOn({"--nodes", "@nodes.json"});
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_NE(printed.out.find("placed on b\n"), std::string::npos) << printed.out;
  EXPECT_NE(FitOn({"--nodes", "@nodes.json", "--device", "a.com/e=1@0"}).out.find("placed on b"),
            std::string::npos);
}

// As kubectl prints them, in one list or in several files, and as a directory of a node.
TEST_F(FitCommand, ReadsObjectsOfACluster) {
  const std::string large = ObjectText("large", "socket:2 numa:1 core:20");
  const std::string small = ObjectText("small", "socket:2 numa:1 core:10");
  Put("list.json", R"({"kind":"List","apiVersion":"v1","items":[)" + large + "," + small + "," +
                       NodeObjectText("large", "39") + "," + NodeObjectText("small", "19") + "," +
                       NodeObjectText("unknown", "99") + "]}");
  Put("objects/a.json", large);
  Put("objects/b.json", small);
  Put("objects/c.json", NodeObjectText("large", "39") + "\n" + NodeObjectText("small", "19"));
  Put("objects/d.json", NodeObjectText("unknown", "99"));
  Put("tree/large/nrt.json", large);
  Put("tree/large/node.json", NodeObjectText("large", "39"));
  for (const std::string nodes : {"@list.json", "@objects"}) {
    const Printed printed = Run({"fit", "-f", "@pod.yaml", "--nodes", nodes});
    EXPECT_EQ(printed.status, 0) << printed.err;
    EXPECT_TRUE(
        printed.out.starts_with("Pod default/p: 1 of 3 nodes can take it\n"
                                "  SCORE  NODE\n"
                                "  49     large\n"))
        << printed.out;
    EXPECT_NE(printed.out.find("    app: 20 exclusive CPUs (NUMA node 1)\n"), std::string::npos)
        << printed.out;
    EXPECT_NE(printed.out.find("(unknown): cannot be decided: Undecided: the node has no "
                               "NodeResourceTopology object; "),
              std::string::npos)
        << printed.out;
  }
  const Printed printed = Run({"fit", "-f", "@pod.yaml", "--nodes", "@tree", "-o", "json",
                               "--compare", "policy=restricted"});
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_NE(printed.out.find(R"("assignments":{"app":{"exclusive_cpu_count":20,"memory_nodes":[],)"
                             R"("device_counts":{},"cpu_nodes":[1]}})"),
            std::string::npos)
      << printed.out;
  const Printed other =
      Run({"fit", "-f", "@pod.yaml", "--nodes", "@tree", "--compare", "reserved-cpus=0,1"});
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.err.find("known from a NodeResourceTopology object"), std::string::npos)
      << other.err;
}

TEST_F(FitCommand, EndsWithTwoForBadInput) {
  Put("nrt.yaml",
      "apiVersion: topology.node.k8s.io/v1alpha2\nkind: NodeResourceTopology\n"
      "metadata: {name: w}\n");
  Put("object.yaml", "kind: Node\nstatus: {allocatable: {cpu: 1}}\n");
  Put("bound.yaml",
      "apiVersion: v1\nkind: Pod\nmetadata: {name: r}\nspec: {nodeName: large, "
      "containers: [{name: app}]}\n");
  Put("both/w/nrt.json", ObjectText("w", "core:2"));
  Put("both/w/node.json", NodeText("core:2"));
  Put("two.json", NodeText("core:2") + "\n" + NodeText("core:4") + "\n");
  Put("none/readme", "");
  Put("blank/w.json", "\n");
  Put("running/w1/node.json", NodeText("core:2"));
  Put("running/w1/pods.yaml", "# none\n");
  Put("partly/w1/node.json", NodeText("core:2"));
  Put("partly/w1/cpu_manager_state", "");
  Put("torn/w1/node.json", NodeText("core:2"));
  Put("torn/w1/device-plugins/kubelet_internal_checkpoint", "");
  Put("misplaced/w1.json", NodeText("core:2"));
  Put("misplaced/config.yaml", kFleetConfig);
  const std::string deep =
      "{\"a\":" + std::string(300'000, '[') + std::string(300'000, ']') + "}\n";
  Put("deep.json", deep);
  Put("deeper.json", "{}\n" + deep);
  Put("lonely/w1/config.yaml", kFleetConfig);
  Put("double/w1/a.json", NodeText("core:2"));
  Put("double/w1/b.json", NodeText("core:2"));
  struct Case {
    std::vector<std::string> arguments;
    std::string error;
  };
  for (const Case& c : std::vector<Case>{
           {{}, "--nodes"},
           {{"--nodes", "@nrt.yaml"}, "NodeResourceTopology w: zones: there is none"},
           {{"--nodes", "@object.yaml"}, "Node: metadata: name: is empty"},
           {{"--nodes", "@bound.yaml"}, "there are pods of node large, and no Node of that name"},
           {{"--nodes", "@bound.yaml", "--nodes", "@nodes"}, "there are pods of node large"},
           {{"--nodes", "@both"}, "has a description and a NodeResourceTopology object"},
           {{"--nodes", "@two.json"}, "has several descriptions"},
           {{"--nodes", "@none"}, "has no node"},
           {{"--nodes", "@blank"}, "blank/w.json: is empty"},
           {{"--nodes", "@running"}, "running/w1/pods.yaml: is empty"},
           {{"--nodes", "@partly"}, "partly/w1/cpu_manager_state: is empty; copy it"},
           {{"--nodes", "@torn"}, "device-plugins/kubelet_internal_checkpoint: is empty; copy it"},
           {{"--nodes", "@misplaced"}, "config.yaml: a KubeletConfiguration is no description"},
           {{"--nodes", "@deep.json"}, "deep.json: has more than 100 levels"},
           {{"--nodes", "@deeper.json"}, "deeper.json: has more than 100 levels"},
           {{"--nodes", "-", "-f", "-"}, "-f - and --nodes -: both are standard input"},
           {{"--nodes", "-", "--nodes", "-"}, "--nodes -: standard input is named twice"},
           {{"--nodes", "@lonely"}, "no description of the node"},
           {{"--nodes", "@double"}, "a second description of the node"},
           {{"--nodes", "@absent"}, "absent"},
           {{"--nodes", "@nodes", "--nodes", "@nodes"}, "two nodes are named large"},
           {{"--nodes", "@nodes", "--replicas", "0"}, "--replicas 0: is not a number"},
           {{"--nodes", "@nodes", "--replicas", "many"}, "--replicas many: is not a number"},
           {{"--nodes", "@nodes", "--compare", "colour=red"}, "the keys are policy, scope"},
           {{"--nodes", "@nodes", "--compare", "policy="}, "policy=: has no value"},
           {{"--nodes", "@nodes", "--compare", "policy=strict"}, "comparison policy=strict"},
           {{"--nodes", "@nodes", "--device", "gpu=1"}, "extended resource"},
           {{"--nodes", "@nodes", "--score", "Best"}, "--score"}}) {
    const Printed printed = FitOn(c.arguments);
    EXPECT_EQ(printed.status, 2) << c.error << printed.out;
    EXPECT_NE(printed.err.find(c.error), std::string::npos) << printed.err;
  }
  const Printed printed = Run({"fit", "-f", "@pod.yaml", "--nodes", "@nodes"});
  EXPECT_EQ(printed.status, 2);
  EXPECT_NE(printed.err.find("node large has no KubeletConfiguration"), std::string::npos)
      << printed.err;
}

TEST_F(FitCommand, ShowsUndecidedPodsForThemselves) {
  Put("pod.yaml", PodText("p", "{cpu: 2, memory: 1Gi, ephemeral-storage: 1Gi}"));
  Put("nodes/d.yaml", R"({"name":"d","node":)" + NodeText("socket:1 numa:2 core:4") +
                          R"(,"object":{"kind":"Node","status":{"allocatable":)"
                          R"({"cpu":"7","memory":"7Gi","ephemeral-storage":"2Gi","pods":"9"}}}})");
  const std::vector<std::string> undecided = {"--nodes", "@nodes/large.json", "--nodes",
                                              "@nodes/small.json"};
  Printed printed = FitOn(undecided);
  EXPECT_EQ(printed.status, 1) << printed.err;
  EXPECT_NE(printed.out.find("Pod default/p: 0 of 2 nodes can take it\n"
                             "  2 nodes (large, small): cannot be decided: Undecided: "
                             "ephemeral-storage: "),
            std::string::npos)
      << printed.out;
  EXPECT_TRUE(printed.out.ends_with(": 0 of 1 admitted, 0 refused, 1 undecided\n")) << printed.out;
  std::vector<std::string> more = undecided;
  more.insert(more.end(), {"--replicas", "max"});
  printed = FitOn(more);
  EXPECT_EQ(printed.status, 1) << printed.err;
  EXPECT_NE(printed.out.find("at least 0 pods fit"), std::string::npos) << printed.out;
  more.insert(more.end(), {"--nodes", "@nodes/d.yaml"});
  printed = FitOn(more);
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_NE(printed.out.find("Pod default/p: at least 2 pods fit; at first, 1 of 3 nodes"),
            std::string::npos)
      << printed.out;
  EXPECT_NE(printed.out.find("  one more cannot be decided:\n"), std::string::npos) << printed.out;
}

// A copy of /sys of each node.
TEST_F(FitCommand, ReadsSysfsTrees) {
  const Machine machine = MakeMachine("socket:2 numa:1 core:20");
  testing::WriteMachine(machine, "fleet/w1", tree_);
  testing::WriteMachine(machine, "fleet/w2", tree_);
  Put("fleet/w2/pods.json",
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"r"},"spec":{"containers":[)"
      R"({"name":"a","resources":{"requests":{"cpu":"30"}}}]}})");
  Put("fleet/small.json", NodeText("socket:2 numa:1 core:10"));
  Printed printed = FitOn({"--nodes", "@fleet"});
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_NE(printed.out.find("1 of 3 nodes can take it\n  SCORE  NODE\n"), std::string::npos)
      << printed.out;
  EXPECT_NE(printed.out.find(" w1\n"), std::string::npos) << printed.out;
  EXPECT_NE(printed.out.find("2 nodes (small, w2): refused by scheduler"), std::string::npos)
      << printed.out;
  printed = FitOn({"--nodes", "@fleet/w1/"});
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_NE(printed.out.find("placed on w1\n"), std::string::npos) << printed.out;
  Put("fleet/w1/node.json", NodeText("socket:2 numa:1 core:20"));
  printed = FitOn({"--nodes", "@fleet"});
  EXPECT_EQ(printed.status, 2);
  EXPECT_NE(printed.err.find("a second description of the node"), std::string::npos) << printed.err;
  Put("empty/w1/sys/devices/system/node/possible", "0\n");
  printed = FitOn({"--nodes", "@empty"});
  EXPECT_EQ(printed.status, 2);
  EXPECT_NE(printed.err.find("empty/w1/sys/devices/system/cpu"), std::string::npos) << printed.err;
  EXPECT_NE(printed.err.find("copy /sys/devices/system of the node to "), std::string::npos)
      << printed.err;
  EXPECT_EQ(printed.err.find("--root"), std::string::npos) << printed.err;
}

// Of a directory, they are errors: a FIFO can be without a writer for ever.
TEST_F(FitCommand, DoesNotWaitForPipesInDirectories) {
  Put("fleet/a.json", NodeText("core:4"));
  const auto path = [this](const std::string& name) { return (tree_.root() / name).string(); };
  for (const char* name : {"fleet/b.json", "fleet/w/b.json", "pods/p.yaml"}) {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    ASSERT_EQ(mkfifo(path(name).c_str(), 0600), 0);
    const bool is_pod = std::string(name) == "pods/p.yaml";
    const Printed printed =
        is_pod ? Run({"fit", "-f", "@pods", "--nodes", "@nodes", "--config", "@config.yaml"})
               : FitOn({"--nodes", "@fleet"});
    EXPECT_EQ(printed.status, 2);
    EXPECT_NE(printed.err.find(std::string(name) + ": not a regular file"), std::string::npos)
        << printed.err;
    EXPECT_NE(printed.err.find("remove the FIFO"), std::string::npos) << printed.err;
    std::filesystem::remove(path(name));
  }
}

// A wrong number of replicas is not no pod.
TEST_F(FitCommand, RefusesAWrongNumberOfReplicas) {
  Put("web.yaml",
      "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: -1\n"
      "  template: {spec: {containers: [{name: a}]}}\n");
  const Printed printed = Run({"fit", "-f", "@pod.yaml", "-f", "@web.yaml", "--nodes", "@nodes",
                               "--config", "@config.yaml"});
  EXPECT_EQ(printed.status, 1) << printed.err;
  EXPECT_NE(printed.out.find("Invalid: spec.replicas: -1 is not a whole number"), std::string::npos)
      << printed.out;
  EXPECT_TRUE(printed.out.ends_with("1 of 2 admitted, 1 refused\n")) << printed.out;
}

// One of the objects cannot be used: the others are answered, and the exit status says so.
TEST_F(FitCommand, AnswersBesideANodeThatCannotBeUsed) {
  Put("nrt.yaml",
      "apiVersion: topology.node.k8s.io/v1alpha2\nkind: NodeResourceTopology\n"
      "metadata: {name: w}\n");
  Put("w.yaml", NodeObjectText("w", "39"));
  const Printed printed =
      FitOn({"--nodes", "@nodes", "--nodes", "@nrt.yaml", "--nodes", "@w.yaml"});
  EXPECT_EQ(printed.status, 2) << printed.err;
  EXPECT_TRUE(printed.out.starts_with("Pod default/p: 1 of 4 nodes can take it\n")) << printed.out;
  EXPECT_NE(printed.out.find("  1 node (w): cannot be decided: Undecided: NodeResourceTopology: "
                             "zones: there is none; "),
            std::string::npos)
      << printed.out;
  EXPECT_NE(printed.out.find("\n1 node cannot be used (w): NodeResourceTopology: zones: there is "
                             "none; "),
            std::string::npos)
      << printed.out;
  const Printed data =
      FitOn({"--nodes", "@nodes", "--nodes", "@nrt.yaml", "--nodes", "@w.yaml", "-o", "json"});
  const auto parsed = nlohmann::json::parse(data.out, nullptr, false);
  EXPECT_EQ(data.status, 2);
  EXPECT_EQ(parsed["unusable"][0]["node"], "w") << data.out;
  EXPECT_EQ(parsed["unusable"][0]["reason"], "NodeResourceTopology w: zones: there is none");
  EXPECT_NE(parsed["unusable"][0]["remedy"], "");
}

// The same pod on the same node gets the same CPUs.
TEST_F(FitCommand, AgreesWithSimulate) {
  const Printed simulated = Run({"simulate", "--node", "@nodes/large.json", "--config",
                                 "@config.yaml", "-o", "json", "@pod.yaml"});
  const Printed fitted = FitOn({"--nodes", "@nodes/large.json", "-o", "json"});
  const auto one = nlohmann::json::parse(simulated.out, nullptr, false);
  const auto other = nlohmann::json::parse(fitted.out, nullptr, false);
  EXPECT_EQ(one["decisions"][0]["outcome"], "fits");
  EXPECT_EQ(one["decisions"][0]["assignments"][0]["exclusive_cpus"],
            other["workloads"][0]["assignments"]["app"]["exclusive_cpus"]);
}

}  // namespace
}  // namespace alignd::cli
