// The NodeResourceTopology object: whole objects, written by hand, and what readers look for.
#include "alignd/noderesourcetopology/object.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "alignd/admission/admission.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/noderesourcetopology/zones.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::noderesourcetopology {
namespace {

using nlohmann::json;

constexpr char kGpu[] = "nvidia.com/gpu";
constexpr uint64_t kGi = uint64_t{1} << 30;

// Two NUMA nodes of four CPUs and 8 GiB, of which 1 GiB are 2 MiB pages. CPU 0 and 1 GiB of node 0
// are reserved.
Machine ObjectMachine() {
  const Machine plain = MakeMachine("socket:2 numa:1 core:4");
  std::vector<NumaNode> nodes = plain.numa();
  for (NumaNode& node : nodes) {
    node.memory_bytes = 8 * kGi;
    node.hugepages = {{uint64_t{2} << 20, 512}, {kGi, 0}};
    node.distances = node.id == 0 ? std::vector<int>{10, 21} : std::vector<int>{21, 10};
  }
  return MachineOrDie(Machine::Make(plain.cpu_rows(), nodes), "ObjectMachine");
}

KubeletConfig ObjectConfig(TopologyManagerPolicy policy) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  config.topology_manager_policy = policy;
  config.memory_manager_policy = MemoryManagerPolicy::kStatic;
  config.eviction_hard_memory = "";
  config.system_reserved = Amounts({{"memory", "1Gi"}});
  config.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", "1Gi"}})}};
  return config;
}

admission::Node ObjectNode(const KubeletConfig& config, const Machine& machine = ObjectMachine()) {
  Result<admission::Node> node = admission::Node::Make(machine, config);
  EXPECT_TRUE(node.ok()) << node.error().message;
  return *std::move(node);
}

// With a GPU on each NUMA node, and the pods, which must be admitted.
admission::NodeState StateWithPods(const admission::Node& node, const std::vector<Pod>& pods) {
  admission::NodeState state = admission::NodeState::Initial(node);
  state.devices.resources[kGpu] = devicemanager::Registered({{"gpu0", {0}}, {"gpu1", {1}}});
  for (const Pod& pod : pods) {
    admission::Admission admitted = admission::Admit(node, state, pod, devicemanager::NoPreference);
    EXPECT_TRUE(admitted.admitted()) << pod.uid << ": " << admitted.refusal->message;
    state = std::move(admitted.next);
  }
  return state;
}

json ObjectOf(const admission::Node& node, const admission::NodeState& state) {
  return json::parse(ObjectJson("worker", node, state, std::nullopt));
}

std::string AttributeOf(const json& owner, const std::string& name) {
  for (const json& attribute : owner.value("attributes", json::array())) {
    if (attribute["name"] == name) return attribute["value"];
  }
  return "(none)";
}

TEST(NrtObject, TwoNodesWithAGpuEach) {
  const admission::Node node = ObjectNode(ObjectConfig(TopologyManagerPolicy::kSingleNumaNode));
  const Pod pod =
      AppPod("a", {{"cpu", "2"}, {"memory", "2Gi"}, {"hugepages-2Mi", "512Mi"}, {kGpu, "1"}});
  const std::string text = ObjectJson("worker", node, StateWithPods(node, {pod}),
                                      std::vector<PodIdentity>{{"production", "jaeger-dpgjk"},
                                                               {"production", "nginx-rt684"},
                                                               {"production", "envoy-g9m22"}});
  const json expected = json::parse(R"({
    "apiVersion": "topology.node.k8s.io/v1alpha2",
    "kind": "NodeResourceTopology",
    "metadata": {
      "name": "worker",
      "annotations": {"topology.node.k8s.io/fingerprint": "pfp0v001607b76a0e9d3aeb4"}
    },
    "topologyPolicies": ["SingleNUMANodeContainerLevel"],
    "attributes": [
      {"name": "topologyManagerPolicy", "value": "single-numa-node"},
      {"name": "topologyManagerScope", "value": "container"},
      {"name": "nodeTopologyPodsFingerprint", "value": "pfp0v001607b76a0e9d3aeb4"},
      {"name": "nodeTopologyPodsFingerprintMethod", "value": "all"},
      {"name": "alignd.io/cpuManagerPolicy", "value": "static"},
      {"name": "alignd.io/memoryManagerPolicy", "value": "Static"},
      {"name": "alignd.io/memoryGroups", "value": "[{\"memoryNodes\":[\"node-0\"],\"allocatable\":{\"hugepages-2Mi\":\"1073741824\",\"memory\":\"6442450944\"},\"available\":{\"hugepages-2Mi\":\"536870912\",\"memory\":\"4294967296\"}}]"},
      {"name": "alignd.io/policyOptions", "value": "{}"},
      {"name": "alignd.io/deviceGroups", "value": "[]"}
    ],
    "zones": [
      {
        "name": "node-0",
        "type": "Node",
        "costs": [{"name": "node-0", "value": 10}, {"name": "node-1", "value": 21}],
        "attributes": [{"name": "alignd.io/memoryGroup", "value": "node-0"}],
        "resources": [
          {"name": "cpu", "capacity": "4", "allocatable": "3", "available": "1"},
          {"name": "hugepages-2Mi", "capacity": "1073741824", "allocatable": "1073741824", "available": "536870912"},
          {"name": "memory", "capacity": "8589934592", "allocatable": "6442450944", "available": "4294967296"},
          {"name": "nvidia.com/gpu", "capacity": "1", "allocatable": "1", "available": "0"}
        ]
      },
      {
        "name": "node-1",
        "type": "Node",
        "costs": [{"name": "node-0", "value": 21}, {"name": "node-1", "value": 10}],
        "resources": [
          {"name": "cpu", "capacity": "4", "allocatable": "4", "available": "4"},
          {"name": "hugepages-2Mi", "capacity": "1073741824", "allocatable": "1073741824", "available": "1073741824"},
          {"name": "memory", "capacity": "8589934592", "allocatable": "7516192768", "available": "7516192768"},
          {"name": "nvidia.com/gpu", "capacity": "1", "allocatable": "1", "available": "1"}
        ]
      }
    ]
  })");
  EXPECT_EQ(json::parse(text), expected) << json::diff(expected, json::parse(text)).dump(1);
}

// 13 GiB are allocatable on both nodes; the pod takes 10 of them, more than a node has.
TEST(NrtObject, AMemoryGroupNamesItsNodesAndWhatIsAvailableInIt) {
  const admission::Node node = ObjectNode(ObjectConfig(TopologyManagerPolicy::kBestEffort));
  const admission::NodeState state =
      StateWithPods(node, {AppPod("a", {{"cpu", "6"}, {"memory", "10Gi"}})});
  const json object = ObjectOf(node, state);
  EXPECT_EQ(json::parse(AttributeOf(object, "alignd.io/memoryGroups")), json::parse(R"([{
    "memoryNodes": ["node-0", "node-1"],
    "allocatable": {"hugepages-2Mi": "2147483648", "memory": "13958643712"},
    "available": {"hugepages-2Mi": "2147483648", "memory": "3221225472"}
  }])"));
  for (const json& zone : object["zones"]) {
    EXPECT_EQ(AttributeOf(zone, "alignd.io/memoryGroup"), "node-0,node-1") << zone;
  }
  // After the pod's end, the nodes are in no group.
  admission::NodeState after = state;
  admission::ReleasePod("a", after);
  EXPECT_EQ(AttributeOf(ObjectOf(node, after), "alignd.io/memoryGroups"), "[]");
  EXPECT_EQ(AttributeOf(ObjectOf(node, after)["zones"][1], "alignd.io/memoryGroup"), "(none)");
}

TEST(NrtObject, NamesPolicyAndScopeForEveryReader) {
  struct Case {
    TopologyManagerPolicy policy;
    TopologyManagerScope scope;
    json attributes;  // policy and scope
    json deprecated;
  };
  using Policy = TopologyManagerPolicy;
  using Scope = TopologyManagerScope;
  for (const Case& c : std::vector<Case>{
           {Policy::kNone, Scope::kContainer, {"none", "container"}, json::array({"None"})},
           {Policy::kBestEffort,
            Scope::kContainer,
            {"best-effort", "container"},
            {"BestEffortContainerLevel", "BestEffort"}},
           {Policy::kBestAttainable,
            Scope::kContainer,
            {"best-effort", "container"},
            {"BestEffortContainerLevel", "BestEffort"}},
           {Policy::kRestricted,
            Scope::kPod,
            {"restricted", "pod"},
            {"RestrictedPodLevel", "Restricted"}},
           {Policy::kSingleNumaNode,
            Scope::kPod,
            {"single-numa-node", "pod"},
            json::array({"SingleNUMANodePodLevel"})}}) {
    KubeletConfig config = ObjectConfig(c.policy);
    config.topology_manager_scope = c.scope;
    const admission::Node node = ObjectNode(config);
    const json object = ObjectOf(node, admission::NodeState::Initial(node));
    EXPECT_EQ(AttributeOf(object, kPolicyAttribute), c.attributes[0]);
    EXPECT_EQ(AttributeOf(object, kScopeAttribute), c.attributes[1]);
    EXPECT_EQ(object["topologyPolicies"], c.deprecated);
    // Two NUMA nodes are within the default; without pods there is no fingerprint.
    EXPECT_EQ(AttributeOf(object, "topologyManagerMaxNUMANodes"), "(none)");
    EXPECT_EQ(AttributeOf(object, "nodeTopologyPodsFingerprint"), "(none)");
    EXPECT_FALSE(object["metadata"].contains("annotations"));
  }
}

TEST(NrtObject, SaysHowManyNumaNodesThereAreIfTheyAreMoreThanTheDefault) {
  KubeletConfig config;
  const admission::Node node = ObjectNode(config, MakeMachine("socket:4 numa:4 core:2"));
  const json object = ObjectOf(node, admission::NodeState::Initial(node));
  EXPECT_EQ(AttributeOf(object, "topologyManagerMaxNUMANodes"), "16");
  EXPECT_EQ(object["zones"].size(), 16U);
}

TEST(NrtObject, WithoutManagersEverythingIsAvailable) {
  const admission::Node node = ObjectNode(KubeletConfig{});
  const admission::NodeState state = admission::NodeState::Initial(node);
  const std::vector<Zone> zones = Zones(node, state);
  ASSERT_EQ(zones.size(), 2U);
  EXPECT_EQ(zones[0].resources.at("cpu"), (Amount{4, 4, 4}));
  EXPECT_EQ(zones[0].resources.at("memory"), (Amount{8 * kGi, 7 * kGi, 7 * kGi}));
  EXPECT_EQ(zones[0].resources.at("hugepages-2Mi"), (Amount{kGi, kGi, kGi}));
  EXPECT_FALSE(zones[0].resources.contains("hugepages-1Gi"));
  EXPECT_EQ(AttributeOf(ObjectOf(node, state), "alignd.io/cpuManagerPolicy"), "none");
  EXPECT_EQ(AttributeOf(ObjectOf(node, state), "alignd.io/memoryGroups"), "(none)");
}

TEST(NrtObject, DevicesAreOnTheZonesWhereTheyAre) {
  const admission::Node node = ObjectNode(ObjectConfig(TopologyManagerPolicy::kRestricted));
  admission::NodeState state = admission::NodeState::Initial(node);
  devicemanager::Resource gpus =
      devicemanager::Registered({{"g0", {0}}, {"g1", {0}}, {"both", {0, 1}}, {"elsewhere", {7}}});
  gpus.devices["unhealthy"] = {.healthy = false, .numa = {1}};
  state.devices.resources[kGpu] = gpus;
  state.devices.resources["a.com/nowhere"] = devicemanager::Registered({{"n", {}}});
  devicemanager::Hold(state.devices, {"p", "app"}, kGpu, {"g1"});
  std::vector<Zone> zones = Zones(node, state);
  EXPECT_EQ(zones[0].resources.at(kGpu), (Amount{3, 3, 2}));
  EXPECT_EQ(zones[1].resources.at(kGpu), (Amount{2, 1, 1}));
  for (const Zone& zone : zones) EXPECT_FALSE(zone.resources.contains("a.com/nowhere"));
  // Without its plugin, a resource is not allocatable.
  gpus.registered = false;
  state.devices.resources[kGpu] = gpus;
  EXPECT_EQ(Zones(node, state)[0].resources.at(kGpu), (Amount{3, 0, 0}));
}

// What the zones cannot say of devices that are on several NUMA nodes or on none.
TEST(NrtObject, NamesDevicesThatAreNotOnOneNode) {
  const admission::Node node = ObjectNode(ObjectConfig(TopologyManagerPolicy::kRestricted));
  admission::NodeState state = admission::NodeState::Initial(node);
  state.devices.resources[kGpu] =
      devicemanager::Registered({{"g0", {0}}, {"both", {1, 0}}, {"two", {0, 1}}});
  state.devices.resources["a.com/nowhere"] = devicemanager::Registered({{"n", {}}, {"far", {7}}});
  devicemanager::Hold(state.devices, {"p", "app"}, kGpu, {"both"});
  EXPECT_EQ(json::parse(AttributeOf(ObjectOf(node, state), kDeviceGroupsAttribute)),
            json::parse(R"([
    {"resource": "a.com/nowhere", "zones": [], "capacity": "1", "allocatable": "1",
     "available": "1"},
    {"resource": "a.com/nowhere", "zones": ["node-7"], "capacity": "1", "allocatable": "1",
     "available": "1"},
    {"resource": "nvidia.com/gpu", "zones": ["node-0", "node-1"], "capacity": "2",
     "allocatable": "2", "available": "1"}
  ])"));
}

TEST(NrtObject, HasTheOptionsThatDecisionsDependOn) {
  KubeletConfig config = ObjectConfig(TopologyManagerPolicy::kBestAttainable);
  config.cpu_manager_policy_options["full-pcpus-only"] = "true";
  config.topology_manager_policy_options["prefer-closest-numa-nodes"] = "true";
  config.feature_gates["PodLevelResourceManagers"] = true;
  config.compatibility = Compatibility::k1_20;
  config.shared_pool_handlers = SharedPoolHandlers({"own-*"});
  config.not_devices = {"a.com/licence"};
  config.annotated_extended_resources = false;
  const admission::Node node = ObjectNode(config, MakeMachine("socket:2 numa:1 core:2 thread:2"));
  admission::NodeState state = admission::NodeState::Initial(node);
  EXPECT_EQ(json::parse(AttributeOf(ObjectOf(node, state), kPolicyOptionsAttribute)),
            json::parse(R"({"topologyManagerPolicy": "best-attainable",
                            "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
                            "topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"},
                            "featureGates": {"PodLevelResourceManagers": true},
                            "compatibility": "1.20", "sharedPoolHandlers": ["own-*"],
                            "notDevices": ["a.com/licence"],
                            "annotatedExtendedResources": false})"));
}

// CPU 0 is reserved: its core has one CPU for the shared pool, and is no free core.
TEST(NrtObject, CountsFreeCoresWithFullPcpusOnly) {
  KubeletConfig config = ObjectConfig(TopologyManagerPolicy::kNone);
  config.memory_manager_policy = MemoryManagerPolicy::kNone;
  config.reserved_memory.clear();
  const Machine machine = MakeMachine("socket:2 numa:1 core:2 thread:2");
  const admission::Node without = ObjectNode(config, machine);
  EXPECT_EQ(
      AttributeOf(ObjectOf(without, admission::NodeState::Initial(without)), kCpusPerCoreAttribute),
      "(none)");
  config.cpu_manager_policy_options["full-pcpus-only"] = "true";
  const admission::Node node = ObjectNode(config, machine);
  admission::NodeState state = admission::NodeState::Initial(node);
  const json object = ObjectOf(node, state);
  EXPECT_EQ(AttributeOf(object, kCpusPerCoreAttribute), "2");
  EXPECT_EQ(AttributeOf(object["zones"][0], kFreeCoreCpusAttribute), "2");
  EXPECT_EQ(AttributeOf(object["zones"][1], kFreeCoreCpusAttribute), "4");
  // A core that is assigned in part, as after a change of the options, cannot be counted.
  const CpuSet core = machine.cores().back().cpus;
  state.cpu.assignments["p"]["app"].Add(core.First());
  state.cpu.default_set.Remove(core.First());
  EXPECT_EQ(AttributeOf(ObjectOf(node, state), kCpusPerCoreAttribute), "(none)");
}

// 1500m are backed by two of the three CPUs that are not reserved.
TEST(NrtObject, SaysWhatContainersRequestThatStayOnANumaNode) {
  KubeletConfig config = ObjectConfig(TopologyManagerPolicy::kNone);
  Pod pod = AppPod("a", {{"cpu", "1500m"}});
  pod.stated_qos = QosClass::kBurstable;
  pod.policies.shared_on_one_node = true;
  const admission::Node without = ObjectNode(config);
  const json plain = ObjectOf(without, StateWithPods(without, {pod}));
  EXPECT_EQ(AttributeOf(plain["zones"][0], kSharedRequestsAttribute), "(none)");
  EXPECT_EQ(AttributeOf(plain["zones"][0], kBackingCpusAttribute), "(none)");
  config.pod_policies = {PodPolicy::kSharedNumaNode};
  const admission::Node node = ObjectNode(config);
  admission::NodeState state = StateWithPods(node, {});
  state.cpu.shares[{"a", "app"}] = {.numa_id = 0, .millis = 1500};
  const json object = ObjectOf(node, state);
  EXPECT_EQ(AttributeOf(object["zones"][0], kSharedRequestsAttribute), "1500m");
  EXPECT_EQ(AttributeOf(object["zones"][0], kBackingCpusAttribute), "3");
  EXPECT_EQ(AttributeOf(object["zones"][1], kSharedRequestsAttribute), "0m");
  EXPECT_EQ(AttributeOf(object["zones"][1], kBackingCpusAttribute), "4");
  EXPECT_EQ(AttributeOf(object["zones"][0], kBackingCoreCpusAttribute), "(none)");
  EXPECT_EQ(Zones(node, state)[0].resources.at("cpu").available, 1);
}

// CPU 0 is reserved, and CPU 1 shares its core: it is held back first. With 1500m, so is a core.
TEST(NrtObject, SaysWhichOfTheBackingCpusAreInCoresOfTheirOwn) {
  KubeletConfig config = ObjectConfig(TopologyManagerPolicy::kNone);
  config.memory_manager_policy = MemoryManagerPolicy::kNone;
  config.reserved_memory.clear();
  config.cpu_manager_policy_options["full-pcpus-only"] = "true";
  config.pod_policies = {PodPolicy::kSharedNumaNode};
  const admission::Node node = ObjectNode(config, MakeMachine("socket:2 numa:1 core:2 thread:2"));
  admission::NodeState state = admission::NodeState::Initial(node);
  const auto cpus_of_zone = [&] {
    const json zone = ObjectOf(node, state)["zones"][0];
    return AttributeOf(zone, kBackingCpusAttribute) + " " +
           AttributeOf(zone, kBackingCoreCpusAttribute) + " " +
           AttributeOf(zone, kFreeCoreCpusAttribute);
  };
  EXPECT_EQ(cpus_of_zone(), "3 2 2");
  state.cpu.shares[{"a", "app"}] = {.numa_id = 0, .millis = 1000};
  EXPECT_EQ(cpus_of_zone(), "3 2 2");
  state.cpu.shares[{"a", "app"}] = {.numa_id = 0, .millis = 1500};
  EXPECT_EQ(cpus_of_zone(), "3 2 0");
}

// Of 8 CPUs, one is reserved and two are offline, of which a pod has one: 5 can be allocated, and
// no more.
TEST(NrtObject, OfflineCpusAreNotAllocatable) {
  KubeletConfig config = ObjectConfig(TopologyManagerPolicy::kNone);
  config.memory_manager_policy = MemoryManagerPolicy::kNone;
  const admission::Node node = ObjectNode(config);
  const Pod pod = AppPod("a", {{"cpu", "2"}, {"memory", "1Gi"}});
  admission::NodeState state = StateWithPods(node, {pod});
  const CpuSet* const assigned = state.cpu.Find({"a", "app"});
  ASSERT_NE(assigned, nullptr);
  ASSERT_EQ(assigned->ToString(), "1-2");
  cpumanager::SetOffline(*CpuSet::Parse("2,7"), state.cpu);
  const std::vector<Zone> zones = Zones(node, state);
  EXPECT_EQ(zones[0].resources.at("cpu"), (Amount{4, 2, 1}));
  EXPECT_EQ(zones[1].resources.at("cpu"), (Amount{4, 3, 3}));
  admission::ReleasePod("a", state);
  EXPECT_EQ(Zones(node, state)[0].resources.at("cpu"), (Amount{4, 2, 2}));
  const auto admits = [&](const std::string& cpus) {
    return admission::Admit(node, state, AppPod("b", {{"cpu", cpus}, {"memory", "1Gi"}}),
                            devicemanager::NoPreference)
        .admitted();
  };
  EXPECT_TRUE(admits("5"));
  EXPECT_FALSE(admits("6"));
}

TEST(NrtObject, HasNoCostsIfTheKernelGivesNoDistances) {
  std::vector<NumaNode> nodes = ObjectMachine().numa();
  for (NumaNode& numa : nodes) numa.distances.clear();
  const Machine machine =
      MachineOrDie(Machine::Make(ObjectMachine().cpu_rows(), nodes), "no distances");
  const admission::Node node = ObjectNode(KubeletConfig{}, machine);
  const json object = ObjectOf(node, admission::NodeState::Initial(node));
  EXPECT_FALSE(object["zones"][0].contains("costs"));
}

// Ids with a gap: names of zones are ids, not positions.
TEST(NrtObject, NamesZonesByTheIdsOfTheKernel) {
  std::vector<NumaNode> nodes = ObjectMachine().numa();
  std::vector<Cpu> cpus = ObjectMachine().cpu_rows();
  nodes[1].id = 8;
  for (Cpu& cpu : cpus) cpu.numa = cpu.numa == 1 ? 8 : 0;
  const admission::Node node =
      ObjectNode(KubeletConfig{}, MachineOrDie(Machine::Make(cpus, nodes), "a gap"));
  const json object = ObjectOf(node, admission::NodeState::Initial(node));
  EXPECT_EQ(object["zones"][1]["name"], "node-8");
  EXPECT_EQ(object["zones"][0]["costs"][1], json({{"name", "node-8"}, {"value", 21}}));
}

}  // namespace
}  // namespace alignd::noderesourcetopology
