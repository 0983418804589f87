#include "alignd/config/kubelet_config.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "alignd/config/feature_gates.h"

namespace alignd {
namespace {

KubeletConfig ParsedConfig(std::string_view json) {
  const Result<KubeletConfig> config = ParseKubeletConfig(json);
  EXPECT_TRUE(config.ok()) << config.error().Text();
  return config.ok() ? *config : KubeletConfig();
}

Quantity Amount(std::string_view text) { return Quantity::Parse(text).value(); }

TEST(KubeletConfig, EmptyMeansDefaults) {
  EXPECT_EQ(ParsedConfig("{}"), KubeletConfig());
  EXPECT_EQ(ParsedConfig(R"({"apiVersion":"kubelet.config.k8s.io/v1beta1",
                       "kind":"KubeletConfiguration"})"),
            KubeletConfig());
  EXPECT_EQ(ParsedConfig(R"({"cpuManagerPolicy":"","topologyManagerPolicy":null,
                       "cpuManagerReconcilePeriod":"0s","memoryManagerPolicy":"",
                       "reservedSystemCPUs":"","reservedMemory":null,"evictionHard":null})"),
            KubeletConfig());
}

TEST(KubeletConfig, ReadsEveryHonouredField) {
  KubeletConfig expected;
  expected.cpu_manager_policy = CpuManagerPolicy::kStatic;
  expected.cpu_manager_policy_options = {{"full-pcpus-only", "true"}};
  expected.cpu_manager_reconcile_period_ms = 5'000;
  expected.reserved_system_cpus = "0,8-9";
  expected.kube_reserved = {{"cpu", Amount("500m")}, {"memory", Amount("64Mi")}};
  expected.system_reserved = {{"ephemeral-storage", Amount("1Gi")}, {"pid", Amount("1k")}};
  expected.eviction_hard_memory = "5%";
  expected.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  expected.topology_manager_scope = TopologyManagerScope::kPod;
  expected.topology_manager_policy_options = {{"prefer-closest-numa-nodes", "true"}};
  expected.memory_manager_policy = MemoryManagerPolicy::kStatic;
  expected.reserved_memory = {{0, {{"memory", Amount("100Mi")}}},
                              {3, {{"memory", Amount("1Gi")}, {"hugepages-2Mi", Amount("2Mi")}}}};
  expected.compatibility = Compatibility::k1_20;
  expected.numa_allocate_strategy = NumaAllocateStrategy::kFullestNode;
  expected.namespace_policies = {{{"team-a", "batch-*"}, {PodPolicy::kCpuBindPolicy}},
                                 {{"team-*"}, {}}};
  expected.pod_policies = {PodPolicy::kNumaTopologyPolicy};
  EXPECT_EQ(ParsedConfig(R"({
      "cpuManagerPolicy": "static",
      "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
      "cpuManagerReconcilePeriod": "5s",
      "reservedSystemCPUs": "0,8-9",
      "kubeReserved": {"cpu": "500m", "memory": "64Mi"},
      "systemReserved": {"ephemeral-storage": "1Gi", "pid": "1000"},
      "evictionHard": {"memory.available": "5%", "nodefs.available": "10%"},
      "topologyManagerPolicy": "single-numa-node",
      "topologyManagerScope": "pod",
      "topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"},
      "memoryManagerPolicy": "Static",
      "reservedMemory": [
        {"numaNode": 0, "limits": {"memory": "100Mi"}},
        {"numaNode": 3, "limits": {"memory": "1Gi", "hugepages-2Mi": "2Mi"}}],
      "compatibility": "1.20",
      "numaAllocateStrategy": "MostAllocated",
      "podPolicies": ["numaTopologyPolicy"],
      "namespacePolicies": [
        {"namespaces": ["team-a", "batch-*"], "podPolicies": ["cpuBindPolicy"]},
        {"namespaces": ["team-*"], "podPolicies": []}]})"),
            expected);
}

TEST(KubeletConfig, TheFirstEntryThatHasTheNamespaceCounts) {
  const KubeletConfig config = ParsedConfig(R"({
      "podPolicies": ["numaTopologyPolicy"],
      "namespacePolicies": [
        {"namespaces": ["team-a", "batch-*"], "podPolicies": ["cpuBindPolicy"]},
        {"namespaces": ["team-*"], "podPolicies": []}]})");
  const std::set<PodPolicy> all = {PodPolicy::kNumaTopologyPolicy};
  const std::set<PodPolicy> bind = {PodPolicy::kCpuBindPolicy};
  for (const auto& [name_space, policies] :
       std::map<std::string, std::set<PodPolicy>>{{"team-a", bind},
                                                  {"batch-", bind},
                                                  {"batch-1", bind},
                                                  {"batch", all},
                                                  {"team-b", {}},
                                                  {"team-ab", {}},
                                                  {"default", all},
                                                  {"", all}}) {
    EXPECT_EQ(PodPoliciesFor(config, name_space), policies) << name_space;
  }
  EXPECT_EQ(NameOfPodPolicies(config, "default"), "podPolicies");
  EXPECT_EQ(NameOfPodPolicies(config, "team-b"), "podPolicies for namespace team-b");
  EXPECT_EQ(PodPoliciesAnywhere(config),
            (std::set{PodPolicy::kNumaTopologyPolicy, PodPolicy::kCpuBindPolicy}));
}

TEST(KubeletConfig, LeavesOtherRealFieldsAlone) {
  EXPECT_EQ(
      ParsedConfig(R"({"maxPods": 250, "featureGates": {"X": true}, "clusterDNS": ["10.0.0.10"],
                       "authentication": {"anonymous": {"enabled": false}}, "port": "odd"})"),
      KubeletConfig());
}

TEST(KubeletConfig, GateOfPodLevelResourceManagers) {
  struct Case {
    const char* json;
    bool in_1_36;
    bool in_1_37;
  };
  for (const auto& [json, in_1_36, in_1_37] : {
           Case{R"({})", false, false},
           Case{R"({"featureGates": {"PodLevelResourceManagers": true}})", true, true},
           Case{R"({"featureGates": {"PodLevelResourceManagers": false}})", false, false},
           Case{R"({"featureGates": {"AllAlpha": true}})", true, false},
           Case{R"({"featureGates": {"AllBeta": true}})", false, true},
           Case{R"({"featureGates": {"AllBeta": true, "PodLevelResourceManagers": false}})", false,
                false},
           Case{R"({"featureGates": {"AllAlpha": false, "PodLevelResourceManagers": true}})", true,
                true},
           Case{R"({"featureGates": {"PodLevelResources": false,
                                     "PodLevelResourceManagers": true}})",
                false, false},
           Case{R"({"featureGates": {"AllAlpha": true, "AllBeta": false}})", false, false},
       }) {
    KubeletConfig config = ParsedConfig(json);
    config.compatibility = Compatibility::k1_36;
    EXPECT_EQ(PodLevelResourceManagersOn(config), in_1_36) << json;
    config.compatibility = Compatibility::k1_37;
    EXPECT_EQ(PodLevelResourceManagersOn(config), in_1_37) << json;
    config.compatibility = Compatibility::k1_20;
    EXPECT_FALSE(PodLevelResourceManagersOn(config)) << json;
  }
  const auto wrong =
      ParseKubeletConfig(R"({"featureGates": {"PodLevelResourceManagers": "true"}})");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("featureGates.PodLevelResourceManagers"), std::string::npos)
      << wrong.error().message;
}

TEST(KubeletConfig, PodPoliciesOfTheFlag) {
  const auto off = ParsePodPolicies("off");
  ASSERT_TRUE(off.ok());
  EXPECT_TRUE(off->empty());
  EXPECT_EQ(ToText(*off), "off");
  const auto one = ParsePodPolicies("numaTopologyPolicy");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(*one, std::set<PodPolicy>{PodPolicy::kNumaTopologyPolicy});
  EXPECT_EQ(ToText(*one), "numaTopologyPolicy");
  const std::string names =
      "numaTopologyPolicy,cpuBindPolicy,cpuExclusivePolicy,resourceStatus,sharedNUMANode";
  const auto all = ParsePodPolicies(names);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->size(), 5U);
  EXPECT_EQ(ToText(*all), names);
  for (const char* const wrong : {"", "on", "numaTopologyPolicy,", "off,numaTopologyPolicy"}) {
    const auto parsed = ParsePodPolicies(wrong);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_NE(parsed.error().remedy.find("off: pods choose none"), std::string::npos) << wrong;
  }
}

TEST(KubeletConfig, EvictionHardReplacesTheDefaultUnlessMerged) {
  EXPECT_EQ(ParsedConfig(R"({"evictionHard":{}})").eviction_hard_memory, "");
  EXPECT_EQ(ParsedConfig(R"({"evictionHard":{"nodefs.available":"5%"}})").eviction_hard_memory, "");
  EXPECT_EQ(ParsedConfig(R"({"evictionHard":{"memory.available":"200Mi"}})").eviction_hard_memory,
            "200Mi");
  EXPECT_EQ(ParsedConfig(R"({"evictionHard":{},"mergeDefaultEvictionSettings":true})")
                .eviction_hard_memory,
            "100Mi");
  EXPECT_EQ(ParsedConfig(R"({"evictionHard":{},"mergeDefaultEvictionSettings":false})")
                .eviction_hard_memory,
            "");
}

TEST(KubeletConfig, ReadsGoDurations) {
  const std::vector<std::pair<std::string, int64_t>> cases = {
      {"10s", 10'000},
      {"1m", 60'000},
      {"1h1m1s", 3'661'000},
      {"1.5s", 1'500},
      {".5s", 500},
      {"300ms", 300},
      {"1500us", 1},
      {"0", 10'000},
      {"1000000ns", 1},
      {"+2s", 2'000},
      {"1500\u00b5s", 1},
      {"2.s", 2'000},
      {"0.0000000000000000000000000000001s", 10'000},
      {"2562047h", 9'223'369'200'000}};
  for (const auto& [text, millis] : cases) {
    EXPECT_EQ(ParsedConfig(R"({"cpuManagerReconcilePeriod":")" + text + "\"}")
                  .cpu_manager_reconcile_period_ms,
              millis)
        << text;
  }
}

struct BadConfig {
  std::string json;
  std::string text;  // message and remedy
};

void ExpectRefused(const std::vector<BadConfig>& cases) {
  for (const BadConfig& test : cases) {
    const Result<KubeletConfig> config = ParseKubeletConfig(test.json);
    ASSERT_FALSE(config.ok()) << test.json;
    EXPECT_EQ(config.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(config.error().Text(), test.text) << test.json;
  }
}

TEST(KubeletConfig, RefusesWrongValues) {
  ExpectRefused({
      {"[]", "array is not an object"},
      {R"({"apiVersion":"v1"})", "apiVersion: \"v1\" is not \"kubelet.config.k8s.io/v1beta1\""},
      {R"({"kind":"Pod"})", "kind: \"Pod\" is not \"KubeletConfiguration\""},
      {R"({"cpuManagerPolicy":"dynamic"})",
       "cpuManagerPolicy: \"dynamic\" is not \"none\" or \"static\""},
      {R"({"cpuManagerPolicy":"None"})",
       "cpuManagerPolicy: \"None\" is not \"none\" or \"static\"; did you mean none?"},
      {R"({"cpuManagerPolicy":1})", "cpuManagerPolicy: 1 is not a string"},
      {R"({"cpuManagerPolicyOptions":{"full-pcpus-only":true}})",
       "cpuManagerPolicyOptions.full-pcpus-only: true is not a string; put the value in quotes"},
      {R"({"cpuManagerPolicyOptions":[]})", "cpuManagerPolicyOptions: array is not an object"},
      {R"({"topologyManagerPolicy":"best"})",
       "topologyManagerPolicy: \"best\" is not \"none\", \"best-effort\", \"best-attainable\", "
       "\"restricted\" or \"single-numa-node\""},
      {R"({"topologyManagerPolicy":"single-numa"})",
       "topologyManagerPolicy: \"single-numa\" is not \"none\", \"best-effort\", "
       "\"best-attainable\", \"restricted\" or \"single-numa-node\"; did you mean "
       "single-numa-node?"},
      {R"({"topologyManagerScope":"node"})",
       "topologyManagerScope: \"node\" is not \"container\" or \"pod\""},
      {R"({"memoryManagerPolicy":"static"})",
       "memoryManagerPolicy: \"static\" is not \"None\" or \"Static\"; did you mean Static?"},
      {R"({"podPolicies":["numaTopologyPolicies"]})",
       "podPolicies[0]: \"numaTopologyPolicies\" is no policy that pods can choose; did you mean "
       "numaTopologyPolicy?"},
      {R"({"numaAllocateStrategy":"most"})",
       "numaAllocateStrategy: \"most\" is not \"MostAllocated\" or \"LeastAllocated\"; did you "
       "mean MostAllocated?"},
      {R"({"numaAllocateStrategy":"DistributeEvenly"})",
       "numaAllocateStrategy: \"DistributeEvenly\" is not \"MostAllocated\" or \"LeastAllocated\"; "
       "set distribute-cpus-across-numa in cpuManagerPolicyOptions"},
      {R"({"podPolicies":"off"})", "podPolicies: \"off\" is not a list"},
      {R"({"namespacePolicies":{"a":[]}})", "namespacePolicies: object is not a list"},
      {R"({"namespacePolicies":[{"namespaces":["a"],"podPolicies":["numa"]}]})",
       "namespacePolicies[0].podPolicies[0]: \"numa\" is no policy that pods can choose; did you "
       "mean numaTopologyPolicy?"},
      {R"({"namespacePolicies":[{"namespaces":["a"]}]})",
       "namespacePolicies[0].podPolicies: is missing"},
      {R"({"namespacePolicies":[{"podPolicies":[]}]})",
       "namespacePolicies[0].namespaces: is missing"},
      {R"({"namespacePolicies":[{"namespaces":[],"podPolicies":[]}]})",
       "namespacePolicies[0].namespaces: is empty"},
      {R"({"namespacePolicies":[{"namespace":"a","podPolicies":[]}]})",
       "namespacePolicies[0].namespace: is not known; known are namespaces, podPolicies"},
      {R"({"namespacePolicies":[{"namespaces":["Team"],"podPolicies":[]}]})",
       "namespacePolicies[0].namespaces[0]: \"Team\" is not a namespace, such as \"team-a\", or "
       "the "
       "beginning of several, such as \"team-*\""},
      {R"({"namespacePolicies":[{"namespaces":["*"],"podPolicies":[]}]})",
       "namespacePolicies[0].namespaces[0]: \"*\" is not a namespace, such as \"team-a\", or the "
       "beginning of several, such as \"team-*\""},
      {R"({"namespacePolicies":[{"namespaces":["a","a"],"podPolicies":[]}]})",
       "namespacePolicies[0].namespaces[1]: has no effect: "
       "namespacePolicies[0].namespaces[0], \"a\", comes first; remove one of them, or write the "
       "entry with \"a\" first"},
      {R"({"namespacePolicies":[{"namespaces":["b-*"],"podPolicies":[]},)"
       R"({"namespaces":["b-1*"],"podPolicies":[]}]})",
       "namespacePolicies[1].namespaces[0]: has no effect: "
       "namespacePolicies[0].namespaces[0], \"b-*\", comes first; remove one of them, or write the "
       "entry with \"b-1*\" first"},
      {R"({"compatibility":"1.28"})",
       "compatibility: \"1.28\" is not \"1.20\", \"1.36\" or \"1.37\""},
      {R"({"reservedSystemCPUs":"0-"})",
       "reservedSystemCPUs: \"0-\" is not a CPU list: \"0-\" is neither a CPU number up to 65535 "
       "nor an ascending range of them"},
      {R"({"reservedSystemCPUs":"0","kubeReservedCgroup":"/kube"})",
       "reservedSystemCPUs: \"0\" cannot be used together with kubeReservedCgroup"},
      {R"({"reservedSystemCPUs":"0","systemReservedCgroup":"/system"})",
       "reservedSystemCPUs: \"0\" cannot be used together with systemReservedCgroup"},
  });
  for (const char* const period : {"10", "\"10\"", "\"s\"", "\"-1s\"", "\"1ns\"", "\"1s \"",
                                   "\"9999999h\"", "\"1..5s\"", "\"\"", "\"-\""}) {
    ExpectRefused({{R"({"cpuManagerReconcilePeriod":)" + std::string(period) + "}",
                    "cpuManagerReconcilePeriod: " + std::string(period) +
                        " is not a duration of at least 1ms, such as \"10s\""}});
  }
}

TEST(KubeletConfig, RefusesWrongReservations) {
  ExpectRefused({
      {R"({"kubeReserved":{"hugepages-2Mi":"2Mi"}})",
       "kubeReserved: cannot reserve \"hugepages-2Mi\" resource; allowed are cpu, memory, "
       "ephemeral-storage and pid"},
      {R"({"systemReserved":{"cpu":1}})",
       "systemReserved.cpu: 1 is not a string; put the value in quotes"},
      {R"({"systemReserved":{"cpu":"-1"}})",
       "systemReserved.cpu: \"-1\" is not a quantity of at least 0"},
      {R"({"kubeReserved":{"cpu":"one"}})",
       "kubeReserved.cpu: \"one\": not a quantity: expected a number and a suffix such as m, k, Mi "
       "or e3"},
      {R"({"evictionHard":{"memory":"1Gi"}})",
       "evictionHard: unsupported eviction signal \"memory\""},
      {R"({"evictionHard":{"memory.available":"101%"}})",
       "evictionHard.memory.available: \"101%\": must be a percentage from 0% to 100%"},
      {R"({"evictionHard":{"memory.available":""}})",
       "evictionHard.memory.available: \"\" is not a quantity or a percentage"},
      {R"({"evictionHard":{"memory.available":"0"}})",
       "evictionHard.memory.available: \"0\": must be positive"},
      {R"({"mergeDefaultEvictionSettings":"yes"})",
       "mergeDefaultEvictionSettings: \"yes\" is not true or false"},
  });
}

TEST(KubeletConfig, RefusesWrongReservedMemory) {
  ExpectRefused({
      {R"({"reservedMemory":{}})", "reservedMemory: object is not a list"},
      {R"({"reservedMemory":[{"numaNode":"0"}]})",
       "reservedMemory[0].numaNode: \"0\" is not a whole number from 0 to 2147483647"},
      {R"({"reservedMemory":[{"numaNode":-1}]})",
       "reservedMemory[0].numaNode: -1 is not a whole number from 0 to 2147483647"},
      {R"({"reservedMemory":[{"numaNode":0,"limits":{"cpu":"1"}}]})",
       "reservedMemory[0]: the limit type \"cpu\" for NUMA node 0 is not supported; allowed are "
       "memory and hugepages-<size>"},
      {R"({"reservedMemory":[{"numaNode":1,"limits":{"memory":"0"}}]})",
       "reservedMemory[0]: reserved memory may not be zero for NUMA node 1 and resource "
       "\"memory\""},
      {R"({"reservedMemory":[{"numaNode":1,"limits":{"memory":"1.5"}}]})",
       "reservedMemory[0]: reserved memory must be whole bytes for NUMA node 1 and resource "
       "\"memory\""},
      {R"({"reservedMemory":[{"limits":{"memory":"-1"}}]})",
       "reservedMemory[0].limits.memory: \"-1\" is not a quantity of at least 0"},
      {R"({"reservedMemory":[{"numaNode":1,"limits":{"memory":"1Gi"}},
                             {"numaNode":1,"limits":{"memory":"2Gi"}}]})",
       "reservedMemory[1]: the reserved memory has a duplicate value for NUMA node 1 and resource "
       "\"memory\""},
  });
}

TEST(KubeletConfig, RefusesMisspeltFieldsAndNamesTheNearest) {
  ExpectRefused({
      {R"({"cpuManagerPolcy":"static"})",
       "cpuManagerPolcy: KubeletConfiguration has no such field; did you mean cpuManagerPolicy?"},
      {R"({"CPUManagerPolicy":"static"})",
       "CPUManagerPolicy: KubeletConfiguration has no such field; did you mean cpuManagerPolicy?"},
      {R"({"topologymanagerscope":"pod"})",
       "topologymanagerscope: KubeletConfiguration has no such field; did you mean "
       "topologyManagerScope?"},
      {R"({"xyzzy":1})", "xyzzy: KubeletConfiguration has no such field"},
  });
  EXPECT_FALSE(ParseKubeletConfig("{\"" + std::string(1'000'000, 'a') + "\":1}").ok());
}

TEST(DraNodeAllocatableResources, IsOffUnlessItsGateOrAllAlphaTurnsItOn) {
  const std::vector<std::pair<std::string, bool>> cases = {
      {"{}", false},
      {R"({"featureGates": {"AllBeta": true}})", false},
      {R"({"featureGates": {"AllAlpha": true}})", true},
      {R"({"featureGates": {"DRANodeAllocatableResources": true}})", true},
      {R"({"featureGates": {"AllAlpha": true, "DRANodeAllocatableResources": false}})", false}};
  for (const auto& [json, on] : cases) {
    Result<KubeletConfig> config = ParseKubeletConfig(json);
    ASSERT_TRUE(config.ok()) << json;
    EXPECT_EQ(DraNodeAllocatableResourcesOn(*config), on) << json;
    config->compatibility = Compatibility::k1_20;
    EXPECT_FALSE(DraNodeAllocatableResourcesOn(*config)) << json;
  }
}

}  // namespace
}  // namespace alignd
