#include "alignd/config/kubelet_config.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/config/config_problem.h"
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

TEST(KubeletConfig, ReadsTheDefaultsOfNamespaces) {
  const KubeletConfig config = ParsedConfig(R"({
      "namespacePolicies": [
        {"namespaces": ["all"], "podPolicies": [], "defaults": {
          "numaTopologyPolicy": "Restricted", "singleNUMANodeExclusive": "Required",
          "requiredCPUBindPolicy": "Default", "preferredCPUBindPolicy": "SpreadByPCPUs",
          "preferredCPUExclusivePolicy": "PCPULevel", "prefer-shared-cpus": "true",
          "shared-cpus": "single-numa-node"}},
        {"namespaces": ["none"], "podPolicies": ["qosClass"], "defaults": {
          "numaTopologyPolicy": "", "preferredCPUExclusivePolicy": "None",
          "prefer-shared-cpus": false, "shared-cpus": ""}},
        {"namespaces": ["batch"], "podPolicies": [], "defaults": {"prefer-shared-cpus": true}}]})");
  const PlacementPolicies all{.numa_topology = NumaTopologyPolicy::kRestricted,
                              .keeps_numa_apart = true,
                              .required_bind = CpuBindPolicy::kFullPcpus,
                              .preferred_bind = CpuBindPolicy::kSpreadByPcpus,
                              .exclusive = CpuExclusivePolicy::kPcpuLevel,
                              .prefers_shared_cpus = true,
                              .shared_on_one_node = true};
  EXPECT_EQ(DefaultPoliciesFor(config, "all"), all);
  EXPECT_EQ(DefaultPoliciesFor(config, "none"), PlacementPolicies());
  EXPECT_EQ(DefaultPoliciesFor(config, "other"), PlacementPolicies());
  EXPECT_EQ(DefaultPoliciesFor(config, "batch"), PlacementPolicies{.prefers_shared_cpus = true});
  EXPECT_EQ(PodPoliciesAnywhere(config),
            (std::set<PodPolicy>{PodPolicy::kNumaTopologyPolicy, PodPolicy::kCpuBindPolicy,
                                 PodPolicy::kCpuExclusivePolicy, PodPolicy::kQosClass,
                                 PodPolicy::kPreferSharedCpus, PodPolicy::kSharedNumaNode}));
}

TEST(KubeletConfig, ReadsWhetherAnnotationsMayAskForDevices) {
  EXPECT_TRUE(ParsedConfig("{}").annotated_extended_resources);
  EXPECT_FALSE(
      ParsedConfig(R"({"annotatedExtendedResources": false})").annotated_extended_resources);
  const auto parsed = ParseKubeletConfig(R"({"annotatedExtendedResources": "no"})");
  ASSERT_FALSE(parsed.ok());
  EXPECT_TRUE(parsed.error().message.starts_with("annotatedExtendedResources"))
      << parsed.error().Text();
}

TEST(KubeletConfig, ReadsTheHandlersOfTheSharedPool) {
  using Names = std::set<std::string>;
  EXPECT_TRUE(ParsedConfig("{}").not_devices.empty());
  EXPECT_EQ(ParsedConfig(R"({"notDevices": ["a.com/b", "a.com/b"]})").not_devices,
            Names{"a.com/b"});
  for (const char* const wrong : {R"("a.com/b")", "[1]", R"([""])", R"(["cpu"])"}) {
    const auto parsed = ParseKubeletConfig(std::string(R"({"notDevices": )") + wrong + "}");
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_TRUE(parsed.error().message.starts_with("notDevices")) << parsed.error().Text();
  }
  EXPECT_EQ(ParsedConfig("{}").shared_pool_handlers.names(), DefaultSharedPoolHandlers());
  EXPECT_EQ(
      ParsedConfig(R"({"sharedPoolHandlers": ["a", "b-*", "a"]})").shared_pool_handlers.names(),
      (Names{"a", "b-*"}));
  EXPECT_EQ(ParsedConfig(R"({"sharedPoolHandlers": []})").shared_pool_handlers.names(), Names());
  for (const std::string wrong : {R"(["*-b"])", R"([""])", R"([1])", R"("a")"}) {
    const auto parsed = ParseKubeletConfig(R"({"sharedPoolHandlers": )" + wrong + "}");
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_TRUE(parsed.error().message.starts_with("sharedPoolHandlers")) << parsed.error().Text();
  }
}

TEST(KubeletConfig, PodsThatMayNotChooseKeepTheirDefaults) {
  KubeletConfig config = ParsedConfig(R"({
      "podPolicies": ["qosClass"],
      "namespacePolicies": [
        {"namespaces": ["team-x"], "podPolicies": ["qosClass"]},
        {"namespaces": ["team-*"], "podPolicies": ["qosClass"],
         "defaults": {"prefer-shared-cpus": true}}]})");
  KubeletConfig without = config;
  without.namespace_policies[1].defaults = {};
  LetNoPodsChoose(config);
  EXPECT_TRUE(config.pod_policies.empty());
  EXPECT_TRUE(PodPoliciesFor(config, "team-a").empty());
  EXPECT_TRUE(DefaultPoliciesFor(config, "team-a").prefers_shared_cpus);
  EXPECT_FALSE(DefaultPoliciesFor(config, "team-x").prefers_shared_cpus);
  LetNoPodsChoose(without);
  EXPECT_EQ(without, KubeletConfig());
}

// Alone it would be refused at the start; beside another policy it stays.
TEST(KubeletConfig, PodsThatMayNotChooseATopologyPolicyAreNotKeptApart) {
  KubeletConfig config;
  config.namespace_policies = {
      {{"ml"}, {PodPolicy::kNumaTopologyPolicy}, {.keeps_numa_apart = true}}};
  KubeletConfig of_node = config;
  of_node.topology_manager_policy = TopologyManagerPolicy::kRestricted;
  KubeletConfig of_defaults = config;
  of_defaults.namespace_policies[0].defaults.numa_topology = NumaTopologyPolicy::kRestricted;
  KubeletConfig wrong = config;
  wrong.namespace_policies[0].pod_policies.clear();
  for (KubeletConfig* const one : {&config, &of_node, &of_defaults, &wrong}) LetNoPodsChoose(*one);
  EXPECT_EQ(DefaultPoliciesFor(config, "ml"), PlacementPolicies());
  EXPECT_TRUE(DefaultPoliciesFor(of_node, "ml").keeps_numa_apart);
  EXPECT_TRUE(DefaultPoliciesFor(of_defaults, "ml").keeps_numa_apart);
  EXPECT_TRUE(DefaultPoliciesFor(wrong, "ml").keeps_numa_apart);
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
      ParsedConfig(
          R"({"maxPods": 250, "featureGates": {"MemoryQoS": true}, "clusterDNS": ["10.0.0.10"],
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
           Case{R"({"featureGates": {"PodLevelResources": false}})", false, false},
           Case{R"({"featureGates": {"AllBeta": false, "PodLevelResources": true,
                                     "PodLevelResourceManagers": true}})",
                true, true},
           Case{R"({"featureGates": {"AllAlpha": true, "AllBeta": false}})", false, false},
           Case{R"({"featureGates": {"PodLevelResourceManagers": null}})", false, false},
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

// Source: k8s.io/component-base/featuregate, the check of dependencies.
TEST(KubeletConfig, GatesThatContradictEachOtherAreRefused) {
  constexpr char kRefused[] =
      "PodLevelResourceManagers is enabled, but depends on features that are disabled: "
      "[PodLevelResources]";
  struct Case {
    const char* gates;
    const char* release;
    bool is_refused;
  };
  for (const auto& [gates, release, is_refused] : {
           Case{R"("PodLevelResources": false, "PodLevelResourceManagers": true)", "1.37", true},
           Case{R"("PodLevelResources": false, "PodLevelResourceManagers": true)", "1.36", true},
           Case{R"("PodLevelResources": false, "PodLevelResourceManagers": true)", "1.20", false},
           Case{R"("PodLevelResources": false, "PodLevelResourceManagers": false)", "1.37", false},
           Case{R"("PodLevelResources": false)", "1.37", false},
           Case{R"("PodLevelResources": false, "AllBeta": true)", "1.37", true},
           Case{R"("PodLevelResources": false, "AllBeta": true)", "1.36", false},
           Case{R"("PodLevelResources": false, "AllAlpha": true)", "1.36", true},
           Case{R"("AllBeta": false, "PodLevelResourceManagers": true)", "1.37", true},
       }) {
    const std::string json =
        std::string(R"({"featureGates": {)") + gates + R"(}, "compatibility": ")" + release + "\"}";
    const Result<KubeletConfig> config = ParseKubeletConfig(json);
    ASSERT_EQ(config.ok(), !is_refused) << json;
    EXPECT_EQ(config.ok() ? kRefused : config.error().message, kRefused) << json;
  }
}

TEST(KubeletConfig, MisspeltGatesThatAligndFollowsAreErrors) {
  for (const auto& [gate, meant] :
       std::map<std::string, std::string>{{"PodLevelResourceManager", "PodLevelResourceManagers"},
                                          {"podLevelResourceManagers", "PodLevelResourceManagers"},
                                          {"PodLevelResourcesManagers", "PodLevelResourceManagers"},
                                          {"PodLevelResource", "PodLevelResources"},
                                          {"allBeta", "AllBeta"},
                                          {"AllAlhpa", "AllAlpha"}}) {
    const auto config = ParseKubeletConfig(R"({"featureGates": {")" + gate + R"(": true}})");
    ASSERT_FALSE(config.ok()) << gate;
    EXPECT_EQ(config.error().message, "featureGates." + gate + ": is no feature gate");
    EXPECT_EQ(config.error().remedy, "did you mean " + meant + "?");
  }
}

TEST(KubeletConfig, UnknownGatesAreAWarningWithTheNearestName) {
  const KubeletConfig known = ParsedConfig(
      R"({"featureGates": {"MemoryQoS": true, "InPlacePodLevelResourcesVerticalScaling": true,
                           "PodLevelResourceManagers": true}})");
  EXPECT_EQ(UnknownFeatureGates(known), std::nullopt);
  // Of libraries of the kubelet, of 1.36 only, of 1.37, and removed ones.
  for (const std::string gate :
       {"PodsAPI", "PLEGOnDemandRelist", "DRAListTypeAttributes", "LoggingStableOptions",
        "WatchListClient", "NativeHistograms", "SystemdWatchdog", "APIResponseCompression",
        "WorkloadAwarePreemption", "PodLevelCheckpointRestore", "CPUManager",
        "WatchFromStorageWithoutResourceVersion", "CustomCPUCFSQuotaPeriod"}) {
    const KubeletConfig one = ParsedConfig(R"({"featureGates": {")" + gate + R"(": true}})");
    EXPECT_EQ(UnknownFeatureGates(one), std::nullopt) << gate;
  }
  // The name in the kubelet's source; a kubelet refuses it.
  const KubeletConfig constant = ParsedConfig(R"({"featureGates": {"CPUCFSQuotaPeriod": true}})");
  EXPECT_TRUE(UnknownFeatureGates(constant).has_value());
  const KubeletConfig config =
      ParsedConfig(R"({"featureGates": {"MemoryQos2": true, "NoSuchThingAtAll": false}})");
  EXPECT_EQ(config.unknown_feature_gates,
            (std::map<std::string, bool>{{"MemoryQos2", true}, {"NoSuchThingAtAll", false}}));
  EXPECT_TRUE(config.feature_gates.empty());
  const std::optional<Error> warning = UnknownFeatureGates(config);
  ASSERT_TRUE(warning.has_value());
  EXPECT_EQ(warning->message,
            "feature gates that alignd does not know have no effect: MemoryQos2 (did you mean "
            "MemoryQoS?), NoSuchThingAtAll");
  KubeletConfig unnamed;
  unnamed.unknown_feature_gates[""] = true;
  EXPECT_EQ(UnknownFeatureGates(unnamed)->message,
            "feature gates that alignd does not know have no effect: \"\"");
  KubeletConfig many;
  for (int i = 0; i < 14; ++i) many.unknown_feature_gates["Gate" + std::to_string(100 + i)] = true;
  EXPECT_TRUE(UnknownFeatureGates(many)->message.ends_with("Gate111 and 2 more"));
  // As a kubelet, which decodes the map into booleans.
  EXPECT_FALSE(ParseKubeletConfig(R"({"featureGates": {"MemoryQoS": "true"}})").ok());
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
       "numaAllocateStrategy: \"most\" is not \"MostAllocated\", \"LeastAllocated\" or "
       "\"DistributeEvenly\"; did you mean MostAllocated?"},
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
       "namespacePolicies[0].namespace: is not known; known are namespaces, podPolicies, defaults"},
      {R"({"namespacePolicies":[{"namespaces":["a"],"podPolicies":[],"defaults":["x"]}]})",
       "namespacePolicies[0].defaults: array is not an object"},
      {R"({"namespacePolicies":[{"namespaces":["a"],"podPolicies":[],)"
       R"("defaults":{"numaTopology":"BestEffort"}}]})",
       "namespacePolicies[0].defaults.numaTopology: is not known; known are numaTopologyPolicy, "
       "singleNUMANodeExclusive, requiredCPUBindPolicy, preferredCPUBindPolicy, "
       "preferredCPUExclusivePolicy, prefer-shared-cpus, shared-cpus; did you mean "
       "numaTopologyPolicy?"},
      {R"({"namespacePolicies":[{"namespaces":["a"],"podPolicies":[],)"
       R"("defaults":{"numaTopologyPolicy":"single-numa-node"}}]})",
       "namespacePolicies[0].defaults.numaTopologyPolicy: \"single-numa-node\" is not "
       "\"BestEffort\", \"Restricted\", \"SingleNUMANode\" or \"\""},
      {R"({"namespacePolicies":[{"namespaces":["a"],"podPolicies":[],)"
       R"("defaults":{"requiredCPUBindPolicy":"ConstrainedBurst"}}]})",
       "namespacePolicies[0].defaults.requiredCPUBindPolicy: \"ConstrainedBurst\" is not "
       "\"FullPCPUs\", \"SpreadByPCPUs\", \"Default\" or \"\": \"ConstrainedBurst\" is not "
       "supported, as Koordinator's scheduler does not follow it; shared CPUs of one NUMA node are "
       "asked for with annotation alignd.io/shared-cpus"},
      {R"({"namespacePolicies":[{"namespaces":["a"],"podPolicies":[],)"
       R"("defaults":{"prefer-shared-cpus":1}}]})",
       "namespacePolicies[0].defaults.prefer-shared-cpus: 1 is not \"true\" or \"false\""},
      {R"({"namespacePolicies":[{"namespaces":["a"],"podPolicies":[],)"
       R"("defaults":{"shared-cpus":"true"}}]})",
       "namespacePolicies[0].defaults.shared-cpus: \"true\" is not \"single-numa-node\" or "
       "\"\""},
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
