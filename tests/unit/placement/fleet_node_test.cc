// A node of a fleet: what is read, what is refused, and how comparisons change it.
#include "alignd/placement/fleet_node.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "alignd/machine/node_json.h"
#include "alignd/scenario/simulation.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::placement {
namespace {

constexpr const char* kFleetConfig = R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0",)"
                                     R"("topologyManagerPolicy":"single-numa-node"})";

std::string FleetNodeText(const std::string& more) {
  return R"({"name":"w1","node":)" + MachineToNodeJson(MakeMachine("socket:2 numa:1 core:20")) +
         more + "}";
}

Result<PlannedNode> PlannedOf(const std::string& text, const std::string& config = kFleetConfig) {
  Result<FleetNode> node = ReadFleetNode(text, config);
  if (!node.ok()) return node.error();
  const Result<Done> used = UseFiles(*node);
  if (!used.ok()) return used.error();
  return MakePlannedNode(*node);
}

std::string ErrorOf(const std::string& text, const std::string& config = kFleetConfig) {
  const Result<PlannedNode> node = PlannedOf(text, config);
  return node.ok() ? "" : node.error().Text();
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

TEST(FleetNode, HasAllParts) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  auto simulation =
      scenario::Simulation::Start({MakeMachine("socket:2 numa:1 core:20"), {}, {}}, config);
  ASSERT_TRUE(simulation.ok());
  simulation->Run(scenario::AdmitPod{AppPod("uid", {{"cpu", "18"}, {"memory", "1Gi"}})});
  const std::string text = FleetNodeText(
      R"(,"config":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0"},)"
      R"("object":{"kind":"Node","metadata":{"name":"w1"},"status":{"allocatable":)"
      R"({"cpu":"30","memory":"9Gi","pods":"5"}}},)"
      R"("running":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"r"},"spec":{"containers":)"
      R"([{"name":"a","resources":{"requests":{"cpu":"3"}}}]}}],)"
      R"("files":{"cpu_manager_state":)" +
      Quoted(simulation->CpuManagerState()) + "}");
  const Result<PlannedNode> node = PlannedOf(text, "");
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_EQ(node->allocatable().pods, 5);
  EXPECT_EQ(node->requested().total().at("cpu"), Quantity(21));
  EXPECT_EQ(node->state().cpu.HeldBy("uid").Count(), 18);
}

// `kubectl get pods -A` has the pods of all nodes.
TEST(FleetNode, LeavesOutPodsThatAreBoundToOtherNodes) {
  const auto pod = [](const std::string& name, const std::string& node) {
    return R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
           R"("},"spec":{"nodeName":")" + node +
           R"(","containers":[{"name":"a","resources":{"requests":{"cpu":"3"}}}]}})";
  };
  const std::string running =
      R"(,"running":[)" + pod("a", "worker") + "," + pod("b", "w1") + "," + pod("c", "w2") + "]";
  const auto text_with = [&running](const std::string& metadata) {
    return FleetNodeText(R"(,"object":{"kind":"Node","metadata":)" + metadata +
                         R"(,"status":{"allocatable":{"cpu":"30","memory":"9Gi","pods":"5"}}})" +
                         running);
  };
  const Result<PlannedNode> node = PlannedOf(text_with(R"({"name":"w1"})"));
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_EQ(node->requested().total().at("cpu"), Quantity(3));
  EXPECT_EQ(node->notes(), std::vector<std::string>{
                               "of the pods that run, 2 are on other nodes and left out; 1 is "
                               "on node w1"});
  // Without a Node object or its name, the name of the node in the cluster is not known.
  for (const std::string& text : {FleetNodeText(running), text_with("{}")}) {
    const Result<PlannedNode> all = PlannedOf(text);
    ASSERT_TRUE(all.ok()) << all.error().Text();
    EXPECT_EQ(all->requested().total().at("cpu"), Quantity(9));
  }
  // The pods of the node would be left out, all of them.
  EXPECT_EQ(ErrorOf(text_with(R"({"name":"w2"})")),
            "node w1: the Node object is of node w2; give the Node object of node w1, or name the "
            "node as it is");
}

TEST(FleetNode, HasDevices) {
  const Result<PlannedNode> node =
      PlannedOf(FleetNodeText(R"(,"devices":["nvidia.com/gpu=2@0,2@1"])"));
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_EQ(node->allocatable().amounts.at("nvidia.com/gpu"), Quantity(4));
}

TEST(FleetNode, RefusesWhatItCannotBeSureOf) {
  EXPECT_EQ(ErrorOf("{}"), "name: is missing");
  EXPECT_NE(ErrorOf(R"({"name":"w"})").find("node: is missing"), std::string::npos);
  EXPECT_NE(ErrorOf(FleetNodeText(R"(,"device":[])")).find("did you mean \"devices\""),
            std::string::npos);
  EXPECT_NE(ErrorOf(FleetNodeText(R"(,"name":"w2")")).find("name"), std::string::npos);
  EXPECT_EQ(ErrorOf(FleetNodeText(""), ""),
            "node w1 has no KubeletConfiguration; add `config` to the node, or give one "
            "configuration for all nodes (alignctl: --config; libalignd: options.config)");
  EXPECT_NE(ErrorOf(FleetNodeText(R"(,"devices":["gpu=1"])")).find("extended resource"),
            std::string::npos);
  EXPECT_NE(ErrorOf(FleetNodeText(R"(,"files":{"cpu_manager_state":"{}"})")), "");
  EXPECT_EQ(ErrorOf(FleetNodeText(R"(,"files":{"memory_manager_state":"{}"})")),
            "node w1 has state files, but no cpu_manager_state; add it: without it, what "
            "containers are assigned is not known");
  for (const char* const name :
       {"cpu_manager_state", "memory_manager_state", "cpu_shares", "kubelet_internal_checkpoint"}) {
    EXPECT_EQ(ErrorOf(FleetNodeText(R"(,"files":{")" + std::string(name) + R"(":""})")),
              "node w1: files." + std::string(name) +
                  ": is empty; give each file as one text, and leave out those that the node does "
                  "not have");
  }
  EXPECT_NE(ErrorOf(FleetNodeText(R"(,"running":[{"kind":"Gang"}])")).find("running[0]"),
            std::string::npos);
  EXPECT_NE(ErrorOf(FleetNodeText(R"(,"config":{"cpuManagerPolicy":"statik"})")), "");
}

TEST(FleetNode, RefusesNamesThatCannotBeShown) {
  for (const std::string& name : {std::string(), std::string("a\nb"), std::string("a\x1b[31m"),
                                  std::string("a\x7f"), std::string(254, 'a')}) {
    const Result<Done> checked = CheckNodeName(name);
    ASSERT_FALSE(checked.ok()) << name;
    EXPECT_FALSE(checked.error().remedy.empty());
  }
  EXPECT_TRUE(CheckNodeName("w1.example.com").ok());
  EXPECT_FALSE(ReadFleetNode(R"({"name":"","node":{}})", "").ok());
}

TEST(FleetNode, NamesTheStateFileThatCannotBeRead) {
  for (const bool is_memory : {false, true}) {
    FleetNode node = *ReadFleetNode(FleetNodeText(""), kFleetConfig);
    node.files.cpu_manager_state = is_memory ? "" : "x";
    node.files.memory_manager_state = is_memory ? "x" : "";
    const Result<PlannedNode> planned = PlannedNode::Make(node.input, {}, 110, node.files);
    ASSERT_FALSE(planned.ok());
    EXPECT_TRUE(planned.error().message.starts_with(is_memory ? "memory_manager_state: "
                                                              : "cpu_manager_state: "))
        << planned.error().message;
    EXPECT_EQ(planned.error().remedy, "give the file as the node has it");
  }
}

TEST(ConfigChanges, AreReadByKey) {
  const auto changes = ParseConfigChanges("policy=restricted,best-effort");
  ASSERT_TRUE(changes.ok());
  EXPECT_EQ(*changes,
            (std::vector<ConfigChange>{{"policy", "restricted"}, {"policy", "best-effort"}}));
  EXPECT_EQ(ParseConfigChanges("reserved-cpus=0,20").value().size(), 1U);
  EXPECT_EQ(ParseConfigChanges("device=a.com/d=1@0,1@1").value().at(0).value, "a.com/d=1@0,1@1");
  for (const char* text : {"", "policy", "policy=", "colour=red", "policy=a,,b", "scope=pod,"}) {
    const auto bad = ParseConfigChanges(text);
    EXPECT_FALSE(bad.ok() || bad.error().remedy.empty()) << text;
  }
}

TEST(ConfigChanges, ChangeTheConfiguration) {
  const FleetNode before = ReadFleetNode(FleetNodeText(""), kFleetConfig).value();
  const auto changed = [&before](const std::string& text) {
    FleetNode node = before;
    const Result<Done> applied = Apply(ParseConfigChanges(text).value().front(), node);
    EXPECT_TRUE(applied.ok()) << applied.error().Text();
    return MakePlannedNode(node);
  };
  EXPECT_EQ(changed("policy=restricted")->node().config.topology_manager_policy,
            TopologyManagerPolicy::kRestricted);
  EXPECT_EQ(changed("scope=pod")->node().config.topology_manager_scope, TopologyManagerScope::kPod);
  EXPECT_EQ(changed("reserved-cpus=0,20")->allocatable().amounts.at("cpu"), Quantity(38));
  EXPECT_EQ(changed("cpu-policy=none")->node().cpu, std::nullopt);
  EXPECT_EQ(changed("cpu-policy-option=full-pcpus-only=true")
                ->node()
                .config.cpu_manager_policy_options.at("full-pcpus-only"),
            "true");
  EXPECT_EQ(changed("device=a.com/d=1@0,2@1")->allocatable().amounts.at("a.com/d"), Quantity(3));
  FleetNode node = before;
  EXPECT_FALSE(Apply({"policy", "strict"}, node).ok());
  EXPECT_FALSE(Apply({"device", "a.com/d=1@7"}, node).ok());
}

}  // namespace
}  // namespace alignd::placement
