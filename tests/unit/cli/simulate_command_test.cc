// `alignctl simulate` with manifests: what it reads, what it says, and its exit status.
#include "cli/simulate_command.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/machine/node_json.h"
#include "alignd/scenario/simulation.h"
#include "cli/program.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"
#include "edge/fake_tree.h"
#include "edge/run_alignctl.h"

namespace alignd::cli {
namespace {

using testing::FakeTree;
using testing::Printed;

constexpr const char* kPlanConfig =
    "kind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: '0'\n"
    "topologyManagerPolicy: single-numa-node\n";

Machine PlanMachine() { return MakeMachine("socket:2 numa:1 core:20"); }

// A manifest with one container that has these `resources`.
std::string ManifestText(const std::string& name, const std::string& resources) {
  return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name +
         "}\nspec:\n  containers:\n  - {name: app, image: i, resources: " + resources + "}\n";
}

std::string DeploymentText(const std::string& resources) {
  return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 2\n"
         "  template:\n    spec:\n      containers:\n      - {name: app, resources: " +
         resources + "}\n";
}

// Runs `alignctl simulate` on the files of a tree, in whose arguments @ is the tree's directory.
class SimulateCommand : public ::testing::Test {
 protected:
  SimulateCommand() {
    tree_.Write({"config.yaml", kPlanConfig});
    tree_.Write({"node.json", MachineToNodeJson(PlanMachine())});
  }

  void WriteFile(const std::string& name, const std::string& text) { tree_.Write({name, text}); }

  Printed Simulate(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"simulate", "--config", "@config.yaml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    for (std::string& argument : arguments) {
      if (argument.starts_with('@')) argument.replace(0, 1, tree_.root().string() + "/");
    }
    return testing::RunAlignctl({AddSimulateCommand}, arguments);
  }

  // On the node with 40 CPUs.
  Printed OnNode(std::vector<std::string> more) {
    more.insert(more.begin(), {"--node", "@node.json"});
    return Simulate(more);
  }

  FakeTree tree_;
};

TEST_F(SimulateCommand, NamesTheStageThatRefuses) {
  WriteFile("pods.yaml",
            ManifestText("a", "{limits: {nvidia.com/gpu: 0.5}}") + "---\n" +
                ManifestText("b", "{limits: {nvidia.com/gpu: 5}}") + "---\n" +
                ManifestText("c", "{limits: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 3}}") + "---\n" +
                ManifestText("d", "{limits: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 2}}"));
  const Printed printed = OnNode({"--device", "nvidia.com/gpu=2@0,2@1", "@pods.yaml"});
  EXPECT_EQ(printed.status, 1) << printed.err;
  EXPECT_TRUE(printed.out.starts_with(
      "pod default/a: does not fit, refused by validation\n"
      "  spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: \"500m\": must be an "
      "integer\n"
      "pod default/b (BestEffort): does not fit, refused by scheduler\n"
      "  Unschedulable: Insufficient nvidia.com/gpu: 5 requested, 4 of 4 free\n"
      "pod default/c (Guaranteed): does not fit, refused by kubelet\n"
      "  TopologyAffinityError: "))
      << printed.out;
  EXPECT_NE(printed.out.find("pod default/d (Guaranteed): fits\n  app: CPUs 1 (NUMA node 0), "
                             "nvidia.com/gpu gpu-0 (NUMA node 0) gpu-1 (NUMA node 0)\n"),
            std::string::npos)
      << printed.out;
  EXPECT_TRUE(printed.out.ends_with("\n1 of 4 pods fit\n")) << printed.out;
}

TEST_F(SimulateCommand, SucceedsIfAllPodsFit) {
  WriteFile("pod.yaml", ManifestText("a", "{limits: {cpu: 2, memory: 1Gi}}"));
  const Printed printed = OnNode({"@pod.yaml"});
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_EQ(printed.err, "");
}

// A file that was written in part would leave out the pods that run.
TEST_F(SimulateCommand, RefusesAnEmptyFileOfRunningPods) {
  WriteFile("pod.yaml", ManifestText("a", "{limits: {cpu: 2, memory: 1Gi}}"));
  WriteFile("empty.json", "\n");
  WriteFile("none.json", R"({"apiVersion":"v1","kind":"List","items":[]})");
  const Printed empty = OnNode({"--running", "@empty.json", "@pod.yaml"});
  EXPECT_EQ(empty.status, 2);
  EXPECT_TRUE(empty.err.ends_with("empty.json: is empty; write it again, or remove it\n"))
      << empty.err;
  EXPECT_EQ(OnNode({"--running", "@none.json", "@pod.yaml"}).status, 0);
}

TEST_F(SimulateCommand, NamesWhatItSkips) {
  WriteFile("pod.yaml", ManifestText("a", "{limits: {cpu: 2, memory: 1Gi}}"));
  WriteFile("empty.yaml", "# nothing\n");
  WriteFile("ended.yaml", ManifestText("b", "{limits: {cpu: 2}}") + "status: {phase: Succeeded}\n");
  const Printed beside = OnNode({"@pod.yaml", "@empty.yaml"});
  EXPECT_EQ(beside.status, 0) << beside.err;
  EXPECT_NE(beside.out.find("/empty.yaml is empty\n"), std::string::npos) << beside.out;
  const Printed only = OnNode({"@ended.yaml", "@empty.yaml"});
  EXPECT_EQ(only.status, 2);
  EXPECT_EQ(only.err,
            "alignctl: the manifests have no pods: Pod default/b has ended (and 1 more); name "
            "manifests of pods; with `replicas: 0`, add --replicas\n");
}

// They take one value: what follows is a manifest.
TEST_F(SimulateCommand, FlagsOfTheDaemonLeaveTheManifests) {
  WriteFile("pod.yaml", ManifestText("a", "{limits: {cpu: 2, memory: 1Gi}}"));
  for (const auto& [flag, value] :
       {std::pair("--not-devices", "a.com/x,a.com/y"), std::pair("--not-devices", ""),
        std::pair("--shared-pool-handlers", "kata,gvisor"), std::pair("--pod-policies", "off")}) {
    const Printed printed = OnNode({flag, value, "@pod.yaml"});
    EXPECT_EQ(printed.status, 0) << flag << ": " << printed.err;
  }
}

TEST_F(SimulateCommand, SaysWhatCannotBeDecided) {
  WriteFile("pod.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  resourceClaims: [{name: "
            "gpu, resourceClaimName: g}]\n  containers: [{name: app}]\n");
  const Printed printed = OnNode({"@pod.yaml"});
  EXPECT_EQ(printed.status, 1);
  EXPECT_TRUE(printed.out.starts_with(
      "pod default/p (BestEffort): cannot be decided\n  spec.resourceClaims: gpu: "))
      << printed.out;
}

TEST_F(SimulateCommand, EndsWithTwoForBadInput) {
  WriteFile("pod.yaml", ManifestText("a", "{}"));
  WriteFile("none.yaml", "# nothing\n");
  WriteFile("odd.yaml", "apiVersion: v1\nkind: Gang\n");
  WriteFile("broken.yaml", "a: [\n");
  WriteFile("zero.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: w}\nspec: "
            "{replicas: 0, template: {spec: {containers: [{name: a}]}}}\n");
  WriteFile("empty/readme.txt", "");
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {},
           {"@none.yaml"},
           {"@odd.yaml"},
           {"@broken.yaml"},
           {"@zero.yaml"},
           {"@absent.yaml"},
           {"@empty"},
           {"@pod.yaml", "@pod.yaml"},
           {"--device", "gpu=1", "@pod.yaml"},
           {"--device", "a.com/gpu=1@7", "@pod.yaml"},
           {"--device", "a.com/gpu=1@0", "--device", "a.com/gpu=1@1", "@pod.yaml"},
           {"--node", "@node.json", "@pod.yaml"},
           {"--replicas", "0", "@pod.yaml"},
           {"--state-dir", "@empty", "@pod.yaml"},
           {"--running", "@odd.yaml", "@pod.yaml"}}) {
    const Printed printed = OnNode(arguments);
    EXPECT_EQ(printed.status, 2) << (arguments.empty() ? "" : arguments.back()) << printed.out;
    EXPECT_NE(printed.err, "");
  }
  EXPECT_EQ(Simulate({"--node", "@pod.yaml", "@pod.yaml"}).status, 2);
  EXPECT_EQ(Simulate({"--root", "@empty", "@pod.yaml"}).status, 2);
}

TEST_F(SimulateCommand, ReadsDirectoriesAndReplicas) {
  WriteFile("app/b.yaml", DeploymentText("{limits: {cpu: 10, memory: 1Gi}}"));
  WriteFile("app/a.json", R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"web"}})");
  WriteFile("app/notes.txt", "no manifest");
  Printed printed = OnNode({"@app"});
  EXPECT_EQ(printed.status, 0) << printed.out << printed.err;
  EXPECT_TRUE(printed.out.ends_with("skipped: Service web has no pods\n2 of 2 pods fit\n"))
      << printed.out;
  printed = OnNode({"--replicas", "5", "@app"});
  EXPECT_EQ(printed.status, 1);
  EXPECT_TRUE(printed.out.ends_with("\n3 of 5 pods fit\n")) << printed.out;
}

TEST_F(SimulateCommand, ReadsASysfsTree) {
  const std::string cpu = "sys/devices/system/cpu/";
  WriteFile(cpu + "online", "0\n");
  WriteFile(cpu + "cpu0/topology/core_id", "0\n");
  WriteFile(cpu + "cpu0/topology/physical_package_id", "0\n");
  WriteFile("pod.yaml", ManifestText("a", "{requests: {cpu: 2}}"));
  WriteFile("config.yaml", "kind: KubeletConfiguration\n");
  const Printed printed = Simulate({"--root", "@.", "@pod.yaml"});
  EXPECT_EQ(printed.status, 1) << printed.err;
  EXPECT_NE(printed.out.find("Insufficient cpu: 2 requested, 1 of 1 free"), std::string::npos)
      << printed.out;
}

TEST_F(SimulateCommand, TakesTheNodeObject) {
  WriteFile("object.yaml",
            "kind: Node\nmetadata: {name: w}\nspec: {taints: [{key: k, effect: NoSchedule}]}\n"
            "status: {allocatable: {cpu: 4}}\n");
  WriteFile("pod.yaml", ManifestText("a", "{requests: {cpu: 5}}"));
  const Printed printed = OnNode({"--node", "@object.yaml", "@pod.yaml"});
  EXPECT_EQ(printed.status, 1) << printed.err;
  EXPECT_NE(printed.out.find("Insufficient cpu: 5 requested, 4 of 4 free; the node had untolerated "
                             "taint {k: }"),
            std::string::npos)
      << printed.out;
  EXPECT_EQ(Simulate({"--node", "@object.yaml", "@pod.yaml"}).status, 2);
}

TEST_F(SimulateCommand, StartsFromStateFilesAndPodsThatRun) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  auto simulation = scenario::Simulation::Start({PlanMachine(), {}, {}}, config);
  ASSERT_TRUE(simulation.ok());
  simulation->Run(scenario::AdmitPod{AppPod("uid", {{"cpu", "18"}, {"memory", "1Gi"}})});
  WriteFile("state/cpu_manager_state", simulation->CpuManagerState());
  WriteFile("pod.yaml", ManifestText("a", "{limits: {cpu: 19, memory: 1Gi}}"));
  WriteFile("running.yaml", ManifestText("r", "{requests: {cpu: 3}}"));
  Printed printed = OnNode({"--state-dir", "@state", "@pod.yaml"});
  EXPECT_EQ(printed.status, 0) << printed.out << printed.err;
  EXPECT_NE(printed.out.find("note: the state files do not have pods of the shared pool"),
            std::string::npos);
  EXPECT_NE(printed.out.find("CPUs 20-38 (NUMA node 1)"), std::string::npos) << printed.out;
  printed = OnNode({"--state-dir", "@state", "--running", "@running.yaml", "@pod.yaml"});
  EXPECT_EQ(printed.status, 1) << printed.err;
  EXPECT_NE(printed.out.find("Insufficient cpu: 19 requested, 18 of 39 free"), std::string::npos)
      << printed.out;
  // As after a copy that broke off: it is not taken for a node without pods.
  WriteFile("empty/cpu_manager_state", "");
  printed = OnNode({"--state-dir", "@empty", "@pod.yaml"});
  EXPECT_EQ(printed.status, 2) << printed.out;
  EXPECT_NE(printed.err.find("empty/cpu_manager_state: is empty; copy it from the node again"),
            std::string::npos)
      << printed.err;
  printed = OnNode({"--device-checkpoint", "@empty/cpu_manager_state", "@pod.yaml"});
  EXPECT_EQ(printed.status, 2) << printed.out;
  printed = OnNode({"--node", "@empty/cpu_manager_state", "@pod.yaml"});
  EXPECT_EQ(printed.status, 2) << printed.out;
  EXPECT_NE(printed.err.find("empty/cpu_manager_state: is empty; write it again, or remove it"),
            std::string::npos)
      << printed.err;
  // Devices, but no checkpoint: nothing is known of the allocated ones.
  printed = OnNode({"--state-dir", "@state", "--device", "a.com/x=1@0", "@pod.yaml"});
  EXPECT_EQ(printed.status, 2) << printed.out;
}

// The first one has ended that was there before `b`: `b` is on NUMA node 1, which nothing shows.
TEST_F(SimulateCommand, DoesNotGuessWherePodsRun) {
  WriteFile("running.yaml", ManifestText("b", "{limits: {cpu: 8, memory: 1Gi}}") + "---\n" +
                                ManifestText("c", "{limits: {cpu: 8, memory: 1Gi}}"));
  WriteFile("pod.yaml", ManifestText("q", "{limits: {cpu: 13, memory: 1Gi}}"));
  Printed printed = OnNode({"--running", "@running.yaml", "@pod.yaml"});
  EXPECT_EQ(printed.status, 1) << printed.out;
  EXPECT_NE(printed.out.find("no state file has the CPUs, memory and devices of pod default/b"),
            std::string::npos)
      << printed.out;
  WriteFile("pod.yaml", ManifestText("q", "{limits: {cpu: 12, memory: 1Gi}}"));
  printed = OnNode({"--running", "@running.yaml", "@pod.yaml"});
  EXPECT_EQ(printed.status, 0) << printed.out;
  EXPECT_NE(printed.out.find("note: no state file has what pods are assigned that run"),
            std::string::npos)
      << printed.out;
}

TEST_F(SimulateCommand, PrintsJson) {
  WriteFile("pods.yaml", ManifestText("a", "{limits: {cpu: 2, memory: 1Gi}}") + "---\n" +
                             ManifestText("b", "{requests: {cpu: 100}}") + "---\n" +
                             ManifestText("c", "{limit: {cpu: 100}}"));
  const Printed printed = OnNode({"-o", "json", "@pods.yaml"});
  EXPECT_EQ(printed.status, 1) << printed.err;
  const nlohmann::json json = nlohmann::json::parse(printed.out);
  const nlohmann::json& decisions = json.at("decisions");
  ASSERT_EQ(decisions.size(), 3U);
  EXPECT_EQ(decisions[0].at("outcome"), "fits");
  EXPECT_EQ(decisions[0].at("stage"), "");
  EXPECT_EQ(decisions[0].at("assignments")[0].at("exclusive_cpus"), "1-2");
  EXPECT_EQ(decisions[1].at("outcome"), "refused");
  EXPECT_EQ(decisions[1].at("stage"), "scheduler");
  EXPECT_EQ(decisions[1].at("reason"), "Unschedulable");
  EXPECT_EQ(decisions[2].at("stage"), "validation");
  EXPECT_EQ(decisions[2].at("faults").size(), 1U);
  EXPECT_EQ(json.at("scheduler").at("cpu").at("requested"), "2");
  EXPECT_EQ(json.at("scheduler").at("cpu").at("allocatable"), "39");
  EXPECT_NE(OnNode({"-o", "yaml", "@pods.yaml"}).out.find("outcome: \"fits\""), std::string::npos);
  const std::string wide = OnNode({"-o", "wide", "@pods.yaml"}).out;
  EXPECT_NE(wide.find("requested of allocatable: cpu 2 of 39, "), std::string::npos) << wide;
}

}  // namespace
}  // namespace alignd::cli
