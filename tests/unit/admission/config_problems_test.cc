#include "alignd/admission/config_problems.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "core/machine_builder.h"

namespace alignd::admission {
namespace {

constexpr const char* kTwoSockets = "socket:2 numa:1 core:4 memory-gib=1";  // 8 CPUs

KubeletConfig StaticConfig() {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  return config;
}

// "field=value: message; remedy" of each, after a check that Node::Make has the first.
std::vector<std::string> Found(const KubeletConfig& config) {
  const Machine machine = MakeMachine(kTwoSockets);
  std::vector<std::string> found;
  const std::vector<ConfigProblem> problems = FindProblems(machine, config);
  for (const ConfigProblem& problem : problems) {
    found.push_back(problem.field + "=" + problem.value + ": " + problem.error.Text());
  }
  const Result<Node> node = Node::Make(machine, config);
  EXPECT_EQ(node.ok(), problems.empty());
  if (!node.ok() && !problems.empty()) {
    EXPECT_EQ(node.error(), problems.front().error);
  }
  return found;
}

TEST(ConfigProblems, AreNoneOfAGoodConfiguration) {
  EXPECT_TRUE(Found(KubeletConfig()).empty());
  EXPECT_TRUE(Found(StaticConfig()).empty());
}

TEST(ConfigProblems, OfAnOptionNameItsNearest) {
  KubeletConfig config = StaticConfig();
  config.cpu_manager_policy_options = {{"full-pcpu-only", "true"}};
  EXPECT_EQ(Found(config),
            (std::vector<std::string>{
                "cpuManagerPolicyOptions.full-pcpu-only=true: new static policy error: unknown CPU "
                "Manager Policy option: \"full-pcpu-only\"; did you mean full-pcpus-only?"}));
}

TEST(ConfigProblems, OfReservedCpusSayWhatToDo) {
  KubeletConfig config = StaticConfig();
  config.reserved_system_cpus = "";
  std::vector<std::string> found = Found(config);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(
      found[0].starts_with("reservedSystemCPUs=: [cpumanager] unable to determine reserved "
                           "CPU resources for static policy; "))
      << found[0];
  EXPECT_NE(found[0].find("set reservedSystemCPUs"), std::string::npos) << found[0];

  config.reserved_system_cpus = "0,64-67";
  EXPECT_EQ(Found(config), (std::vector<std::string>{
                               "reservedSystemCPUs=0,64-67: reserved-cpus: 0,64-67 is not a subset "
                               "of online-cpus: 0-7; remove 64-67, which is not online, from the "
                               "list"}));

  config.reserved_system_cpus = "";
  config.kube_reserved = {{"cpu", *Quantity::Parse("9")}};
  found = Found(config);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].starts_with("kubeReserved.cpu + systemReserved.cpu=9 + 0: ")) << found[0];
}

// Each manager has its own.
TEST(ConfigProblems, OfAllManagersAreFound) {
  KubeletConfig config = StaticConfig();
  config.reserved_system_cpus = "9";
  config.cpu_manager_policy_options = {{"full-pcpus-only", "yes"}, {"pin", "true"}};
  config.topology_manager_policy = TopologyManagerPolicy::kRestricted;
  config.topology_manager_policy_options = {{"max-allowable-numa-nodes", "2"},
                                            {"prefer-closest-numa-node", "true"}};
  config.memory_manager_policy = MemoryManagerPolicy::kStatic;
  config.reserved_memory = {{.numa_node = 5, .limits = {{"memory", *Quantity::Parse("100Mi")}}}};
  std::vector<std::string> fields;
  for (const ConfigProblem& problem : FindProblems(MakeMachine(kTwoSockets), config)) {
    fields.push_back(problem.field);
    EXPECT_FALSE(problem.error.remedy.empty()) << problem.error.message;
  }
  EXPECT_EQ(fields,
            (std::vector<std::string>{"reservedSystemCPUs",
                                      "topologyManagerPolicyOptions.max-allowable-numa-nodes",
                                      "topologyManagerPolicyOptions.prefer-closest-numa-node",
                                      "cpuManagerPolicyOptions.full-pcpus-only",
                                      "cpuManagerPolicyOptions.pin", "reservedMemory"}));
  Found(config);
}

TEST(ConfigProblems, OptionsNeedTheStaticPolicy) {
  KubeletConfig config;
  config.cpu_manager_policy_options = {{"full-pcpus-only", "true"}};
  EXPECT_EQ(Found(config),
            (std::vector<std::string>{
                "cpuManagerPolicyOptions=map[full-pcpus-only:true]: new none policy error: None "
                "policy: received unsupported options=map[full-pcpus-only:true]; remove "
                "cpuManagerPolicyOptions or set cpuManagerPolicy to \"static\""}));
}

}  // namespace
}  // namespace alignd::admission
