// A pod only fits if the API server, the scheduler and the kubelet all accept it.
#include "alignd/placement/planned_node.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/shares_checkpoint.h"
#include "alignd/scenario/simulation.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::placement {
namespace {

KubeletConfig PlanConfig() {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  return config;
}

// 40 CPUs on two NUMA nodes with 64 GiB each.
NodeInput PlanInput() {
  return {{MakeMachine("socket:2 numa:1 core:20"), {}, {}}, std::nullopt, {}, {}, {}};
}

NodeInput WithGpus(const std::string& devices) {
  NodeInput input = PlanInput();
  auto parsed = ParseDevices(devices);
  EXPECT_TRUE(parsed.ok()) << parsed.error().Text();
  const Result<Done> added = AddDevices(parsed->first, std::move(parsed->second), input);
  EXPECT_TRUE(added.ok()) << added.error().Text();
  return input;
}

PlannedNode MakePlanned(NodeInput input, const KubeletConfig& config = PlanConfig(),
                        int64_t pods = 110, const NodeFiles& files = {}) {
  Result<PlannedNode> node = PlannedNode::Make(std::move(input), config, pods, files);
  EXPECT_TRUE(node.ok()) << node.error().Text();
  return *std::move(node);
}

PlannedPod Plain(Pod pod) {
  PlannedPod planned;
  planned.pod = std::move(pod);
  return planned;
}

PlannedPod Requesting(const std::string& name, const std::map<std::string, std::string>& amounts) {
  return Plain(AppPod(name, amounts));
}

// As a Burstable pod: in the shared pool.
PlannedPod Shared(const std::string& name, const std::string& cpu) {
  Pod pod = AppPod(name, {{"cpu", cpu}});
  pod.containers[0].resources.limits.clear();
  return Plain(std::move(pod));
}

// "fits", or "STAGE: MESSAGE".
std::string TextOf(const Verdict& verdict) {
  if (verdict.outcome == Outcome::kFits) return "fits";
  return std::string(ToString(verdict.outcome)) + " by " + std::string(ToString(verdict.stage)) +
         ": " + verdict.refusal->message;
}

TEST(PlannedNode, RefusesAGpuPodOnANodeWithoutGpus) {
  PlannedNode node = MakePlanned(PlanInput());
  EXPECT_EQ(TextOf(node.Place(Requesting("p", {{"cpu", "1"}, {"nvidia.com/gpu", "1"}}))),
            "refused by scheduler: Insufficient nvidia.com/gpu: 1 requested, 0 of 0 free");
}

TEST(PlannedNode, RefusesMoreThanTheNodeHas) {
  PlannedNode node = MakePlanned(PlanInput());
  EXPECT_EQ(TextOf(node.Place(Requesting("cpus", {{"cpu", "100"}, {"memory", "1Gi"}}))),
            "refused by scheduler: Insufficient cpu: 100 requested, 39 of 39 free");
  EXPECT_EQ(TextOf(node.Place(Shared("shared", "60500m"))),
            "refused by scheduler: Insufficient cpu: 60500m requested, 39 of 39 free");
  EXPECT_EQ(TextOf(node.Place(Requesting("memory", {{"memory", "1000Gi"}}))),
            "refused by scheduler: Insufficient memory: 1000Gi requested, 130972Mi of 130972Mi "
            "free");
  EXPECT_EQ(TextOf(node.Place(Requesting("pages", {{"cpu", "1"}, {"hugepages-1Gi", "1Gi"}}))),
            "refused by scheduler: Insufficient hugepages-1Gi: 1Gi requested, 0 of 0 free");
  EXPECT_EQ(node.requested().pods(), 0);
}

TEST(PlannedNode, AddsUpWhatPodsRequest) {
  PlannedNode node = MakePlanned(PlanInput());
  EXPECT_EQ(TextOf(node.Place(Shared("a", "20500m"))), "fits");
  EXPECT_EQ(TextOf(node.Place(Shared("b", "18501m"))),
            "refused by scheduler: Insufficient cpu: 18501m requested, 18500m of 39 free");
  EXPECT_EQ(TextOf(node.Place(Shared("c", "18500m"))), "fits");
  EXPECT_EQ(TextOf(node.Place(Plain(AppPod("best-effort", {})))), "fits");
}

TEST(PlannedNode, CountsOverhead) {
  PlannedNode node = MakePlanned(PlanInput());
  PlannedPod pod = Shared("p", "30");
  pod.overhead = Amounts({{"cpu", "10"}});
  EXPECT_EQ(TextOf(node.Place(pod)),
            "refused by scheduler: Insufficient cpu: 40 requested, 39 of 39 free");
  pod.overhead = Amounts({{"cpu", "9"}});
  EXPECT_EQ(TextOf(node.Place(pod)), "fits");
}

TEST(PlannedNode, CountsInitContainersAndSidecars) {
  PlannedNode node = MakePlanned(PlanInput());
  const auto pod = [](const std::string& sidecar) {
    PlannedPod planned =
        Plain(MakePod("p", {Sidecar("log", {{"cpu", sidecar}}), Init("warm", {{"cpu", "20500m"}}),
                            App("app", {{"cpu", "500m"}})}));
    for (Container& container : planned.pod.containers) container.resources.limits.clear();
    return planned;
  };
  EXPECT_EQ(TextOf(node.Place(pod("18501m"))),
            "refused by scheduler: Insufficient cpu: 39001m requested, 39 of 39 free");
  EXPECT_EQ(TextOf(node.Place(pod("18500m"))), "fits");
}

TEST(PlannedNode, CountsPodLevelRequests) {
  PlannedNode node = MakePlanned(PlanInput());
  PlannedPod pod = Shared("p", "1");
  pod.pod.pod_level = Resources{Amounts({{"cpu", "40"}}), {}};
  EXPECT_EQ(TextOf(node.Place(pod)),
            "refused by scheduler: Insufficient cpu: 40 requested, 39 of 39 free");
}

TEST(PlannedNode, LimitsTheNumberOfPods) {
  PlannedNode node = MakePlanned(PlanInput(), PlanConfig(), 1);
  EXPECT_EQ(TextOf(node.Place(Plain(AppPod("a", {})))), "fits");
  EXPECT_EQ(TextOf(node.Place(Plain(AppPod("b", {})))),
            "refused by scheduler: Too many pods: 1 requested, 0 of 1 free");
}

TEST(PlannedNode, AsksTheStagesInOrder) {
  PlannedNode node = MakePlanned(WithGpus("nvidia.com/gpu=1@0,1@1"));
  PlannedPod pod = Requesting("p", {{"cpu", "100"}, {"nvidia.com/gpu", "2"}});
  pod.undecided = {"claims"};
  pod.faults = {"spec.x: unknown field"};
  EXPECT_EQ(TextOf(node.Place(pod)), "refused by validation: spec.x: unknown field");
  pod.faults.clear();
  EXPECT_EQ(TextOf(node.Place(pod)),
            "refused by scheduler: Insufficient cpu: 100 requested, 39 of 39 free");
  pod.pod.containers[0].resources.requests["cpu"] = Quantity(2);
  EXPECT_EQ(TextOf(node.Place(pod)), "undecided by scheduler: claims");
  pod.undecided.clear();
  const Verdict verdict = node.Place(pod);
  EXPECT_EQ(verdict.outcome, Outcome::kRefused);
  EXPECT_EQ(verdict.stage, Stage::kKubelet);
  EXPECT_EQ(verdict.refusal->reason, "TopologyAffinityError");
  EXPECT_EQ(node.requested().pods(), 0);
  EXPECT_EQ(TextOf(node.Place(Requesting("q", {{"cpu", "2"}, {"nvidia.com/gpu", "1"}}))), "fits");
}

TEST(PlannedNode, DoesNotDecideAboutUnknownAmounts) {
  PlannedNode node = MakePlanned(PlanInput());
  EXPECT_EQ(TextOf(node.Place(Requesting("p", {{"ephemeral-storage", "1Gi"}}))),
            "undecided by scheduler: ephemeral-storage: the description of the node does not have "
            "it; add the Node object with --node");
}

TEST(PlannedNode, HoldsGatedPods) {
  PlannedNode node = MakePlanned(PlanInput());
  PlannedPod pod = Shared("p", "1");
  pod.gates = {"example.com/quota"};
  EXPECT_EQ(node.Place(pod).refusal->reason, "SchedulingGated");
}

NodeObject PlanObject() {
  NodeObject object;
  object.name = "worker";
  object.labels = {{"zone", "a"}};
  object.capacity = Amounts({{"cpu", "40"}});
  object.allocatable = Amounts({{"cpu", "20"},
                                {"memory", "64Gi"},
                                {"ephemeral-storage", "10Gi"},
                                {"pods", "2"},
                                {"nvidia.com/gpu", "2"}});
  return object;
}

TEST(PlannedNode, TakesAllocatableFromTheNodeObject) {
  NodeInput input = PlanInput();
  input.object = PlanObject();
  PlannedNode node = MakePlanned(input);
  EXPECT_EQ(TextOf(node.Place(Shared("a", "21"))),
            "refused by scheduler: Insufficient cpu: 21 requested, 20 of 20 free");
  EXPECT_EQ(TextOf(node.Place(Requesting("b", {{"ephemeral-storage", "1Gi"}}))), "fits");
  EXPECT_EQ(TextOf(node.Place(Requesting("c", {{"nvidia.com/gpu", "1"}}))),
            "undecided by scheduler: nvidia.com/gpu: Node worker has 2, and their NUMA nodes are "
            "not known; add --device nvidia.com/gpu=2@NUMA, or --not-devices nvidia.com/gpu if no "
            "device plugin serves it");
  EXPECT_EQ(TextOf(node.Place(Requesting("d", {{"nvidia.com/gpu", "3"}}))),
            "refused by scheduler: Insufficient nvidia.com/gpu: 3 requested, 2 of 2 free");
  input.object->capacity = Amounts({{"cpu", "41"}});
  EXPECT_FALSE(PlannedNode::Make(input, PlanConfig(), 110, {}).ok());
}

// 40 CPUs and 128 GiB; what a kubelet reports as memory may differ a little.
TEST(PlannedNode, RefusesTheNodeObjectOfAnotherMachine) {
  const auto error_with = [](const char* list, const std::string& name, const std::string& amount) {
    NodeInput input = PlanInput();
    input.object = PlanObject();
    NodeObject& object = *input.object;
    const ResourceList amounts = Amounts({{name, amount}});
    ResourceList& changed = std::string(list) == "capacity" ? object.capacity : object.allocatable;
    changed[name] = amounts.at(name);
    const Result<PlannedNode> node = PlannedNode::Make(input, PlanConfig(), 110, {});
    return node.ok() ? std::string() : node.error().message;
  };
  EXPECT_EQ(error_with("capacity", "memory", "128Gi"), "");
  EXPECT_EQ(error_with("capacity", "memory", "125Gi"), "");
  EXPECT_EQ(error_with("capacity", "memory", "256Gi"),
            "Node worker has a memory capacity of 256Gi, and the machine has 128Gi of memory");
  EXPECT_NE(error_with("capacity", "memory", "64Gi"), "");
  EXPECT_EQ(error_with("capacity", "memory", "32Gi"),
            "Node worker has 64Gi of memory allocatable, and a capacity of 32Gi");
  EXPECT_EQ(error_with("allocatable", "memory", "192Gi"),
            "Node worker has 192Gi of memory allocatable, and the machine has 128Gi of memory");
  EXPECT_EQ(error_with("allocatable", "cpu", "200"),
            "Node worker has 200 CPUs allocatable, and the machine has 40");
  EXPECT_EQ(error_with("allocatable", "hugepages-1Gi", "0"), "");
  EXPECT_EQ(error_with("allocatable", "hugepages-1Gi", "8Gi"),
            "Node worker has 8Gi of hugepages-1Gi allocatable, and the machine has 0 bytes");
}

// As of a tree without meminfo.
TEST(PlannedNode, ComparesNoMemoryThatTheDescriptionDoesNotHave) {
  NodeInput input = {{*Machine::Make({{0, 0, 0, 0, 0}, {1, 1, 0, 0, 0}}, {NumaNode{}}), {}, {}},
                     PlanObject(),
                     {},
                     {},
                     {}};
  input.object->capacity = Amounts({{"cpu", "2"}, {"memory", "64Gi"}, {"hugepages-1Gi", "4Gi"}});
  input.object->allocatable =
      Amounts({{"cpu", "1"}, {"memory", "60Gi"}, {"hugepages-1Gi", "4Gi"}, {"pods", "110"}});
  KubeletConfig config = PlanConfig();
  config.eviction_hard_memory.clear();
  const Result<PlannedNode> node = PlannedNode::Make(input, config, 110, {});
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_EQ(TextOf(node->Ask(Shared("p", "1"))), "fits");
}

// The number of devices that a Node object has.
TEST(PlannedNode, ComparesTheDevicesOfTheNodeObject) {
  const PlannedPod pod =
      Requesting("p", {{"cpu", "1"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "1"}});
  NodeInput input = WithGpus("nvidia.com/gpu=1@0,1@1");
  input.object = PlanObject();
  input.object->capacity = Amounts({{"cpu", "40"}, {"nvidia.com/gpu", "2"}});
  EXPECT_EQ(TextOf(MakePlanned(input).Place(pod)), "fits");
  input.object->allocatable["nvidia.com/gpu"] = Quantity(1);
  EXPECT_EQ(TextOf(MakePlanned(input).Place(pod)),
            "undecided by scheduler: nvidia.com/gpu: Node worker has 1 of them allocatable, and 2 "
            "healthy devices are described; which devices are unhealthy is not known; describe the "
            "healthy devices only");
  input.object->capacity["nvidia.com/gpu"] = Quantity(1);
  EXPECT_FALSE(PlannedNode::Make(input, PlanConfig(), 110, {}).ok());
  input.object->capacity["nvidia.com/gpu"] = Quantity(4);
  input.object->allocatable["nvidia.com/gpu"] = Quantity(3);
  const Result<PlannedNode> more = PlannedNode::Make(input, PlanConfig(), 110, {});
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().message,
            "nvidia.com/gpu: Node worker has 3 of them allocatable, and 2 healthy devices are "
            "described");
}

TEST(PlannedNode, DoesNotDecideAfterAPodThatCannotBeDecided) {
  PlannedNode node = MakePlanned(PlanInput());
  PlannedPod claims = Shared("claims", "1");
  claims.undecided = {"claims"};
  EXPECT_EQ(TextOf(node.Place(Shared("before", "1"))), "fits");
  EXPECT_EQ(node.Place(claims).outcome, Outcome::kUndecided);
  EXPECT_EQ(TextOf(node.Place(Shared("after", "1"))),
            "undecided by scheduler: pod default/claims before it cannot be decided, and what that "
            "pod takes is not known; plan this pod without that one");
  EXPECT_EQ(node.Place(Shared("large", "39")).outcome, Outcome::kRefused);
  EXPECT_EQ(node.requested().pods(), 1);
}

TEST(PlannedNode, ConsidersTaintsAndTheNodeSelector) {
  NodeInput input = PlanInput();
  input.object = PlanObject();
  input.object->taints = {{"gpu", "yes", "NoSchedule"}};
  PlannedNode node = MakePlanned(input);
  PlannedPod pod = Shared("p", "1");
  pod.node_selector = {{"zone", "b"}};
  pod.not_considered = {"spec.affinity", "spec.nodeSelector"};
  EXPECT_EQ(TextOf(node.Place(pod)),
            "refused by scheduler: the node does not have the label zone=b of spec.nodeSelector; "
            "the node had untolerated taint {gpu: yes}");
  EXPECT_EQ(node.NotConsidered(pod), std::vector<std::string>{"spec.affinity"});
  pod.node_selector = {{"zone", "a"}};
  for (const Toleration& wrong : std::vector<Toleration>{{"gpu", "", "no", ""},
                                                         {"gpu", "", "yes", "NoExecute"},
                                                         {"", "", "yes", ""},
                                                         {"gpu", "Lt", "yes", ""}}) {
    pod.tolerations = {wrong};
    EXPECT_EQ(node.Place(pod).outcome, Outcome::kRefused) << wrong.key << wrong.op << wrong.value;
  }
  pod.tolerations = {{"gpu", "Equal", "yes", "NoSchedule"}};
  EXPECT_EQ(TextOf(node.Ask(pod)), "fits");
  pod.tolerations = {{"", "Exists", "", ""}};
  EXPECT_EQ(TextOf(node.Place(pod)), "fits");
}

// The node with these pods, as files.
NodeFiles FilesWith(const NodeInput& input, const std::vector<Pod>& pods) {
  auto simulation = scenario::Simulation::Start(input.description, PlanConfig());
  for (const Pod& pod : pods) {
    EXPECT_TRUE(simulation->Run(scenario::AdmitPod{pod}).admission->admitted()) << pod.uid;
  }
  return {simulation->CpuManagerState(), simulation->MemoryManagerState(),
          checkpoint::FormatDeviceCheckpoint(simulation->state().devices)};
}

// What the node's alignd has as --shared-pool-handlers.
TEST(PlannedNode, KeepsPodsOfItsHandlersInTheSharedPool) {
  const auto exclusive = [](const std::string& handler, const KubeletConfig& config) {
    PlannedNode node = MakePlanned(PlanInput(), config);
    PlannedPod pod = Requesting("a", {{"cpu", "2"}, {"memory", "1Gi"}});
    pod.runtime_handler = handler;
    const Verdict asked = node.Ask(pod);
    const Verdict placed = node.Place(pod);
    EXPECT_EQ(asked.admission->assignments, placed.admission->assignments);
    return placed.admission->assignments.at("app").exclusive.Count();
  };
  KubeletConfig config = PlanConfig();
  EXPECT_EQ(exclusive("kata-qemu", config), 0);
  EXPECT_EQ(exclusive("runc", config), 2);
  config.shared_pool_handlers = SharedPoolHandlers({"own"});
  EXPECT_EQ(exclusive("kata-qemu", config), 2);
  EXPECT_EQ(exclusive("own", config), 0);
}

// Koordinator's scheduler goes by them.
TEST(PlannedNode, NotesLabelsOfTheNodeThatSaySomethingElse) {
  const auto notes = [](std::map<std::string, std::string> labels, const KubeletConfig& config) {
    NodeInput input = PlanInput();
    NodeObject object;
    object.name = "w";
    object.labels = std::move(labels);
    input.object = object;
    return MakePlanned(std::move(input), config).notes();
  };
  KubeletConfig config = PlanConfig();  // single-numa-node
  config.numa_allocate_strategy = NumaAllocateStrategy::kFullestNode;
  config.cpu_manager_policy_options = {{"full-pcpus-only", "true"}};
  const std::string domain = "node.koordinator.sh/";
  EXPECT_TRUE(notes({{domain + "numa-topology-policy", "SingleNUMANode"},
                     {domain + "numa-allocate-strategy", "MostAllocated"},
                     {domain + "cpu-bind-policy", "FullPCPUsOnly"},
                     {"zone", "a"}},
                    config)
                  .empty());
  EXPECT_EQ(notes({{domain + "numa-topology-policy", "Restricted"},
                   {domain + "numa-allocate-strategy", "LeastAllocated"},
                   {domain + "cpu-bind-policy", "SpreadByPCPUs"}},
                  config)
                .size(),
            3U);
  EXPECT_EQ(notes({{domain + "numa-topology-policy", "Restricted"}}, config),
            std::vector<std::string>{
                "Koordinator's scheduler goes by label node.koordinator.sh/numa-topology-policy="
                "Restricted of the node, and alignd by topologyManagerPolicy single-numa-node: "
                "the two can decide differently"});
  config.numa_allocate_strategy = NumaAllocateStrategy::kNone;
  config.cpu_manager_policy_options.clear();
  EXPECT_EQ(notes({{domain + "numa-allocate-strategy", "MostAllocated"},
                   {domain + "cpu-bind-policy", "None"}},
                  config)
                .size(),
            1U);
}

TEST(PlannedNode, StartsWithThePodsOfStateFiles) {
  const NodeInput input = WithGpus("nvidia.com/gpu=2@0,2@1");
  const Pod running =
      AppPod("running", {{"cpu", "18"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "2"}});
  PlannedNode node = MakePlanned(input, PlanConfig(), 110, FilesWith(input, {running}));
  EXPECT_EQ(node.requested().total().at("cpu"), Quantity(18));
  EXPECT_EQ(node.requested().total().at("nvidia.com/gpu"), Quantity(2));
  EXPECT_EQ(TextOf(node.Place(Shared("shared", "22"))),
            "refused by scheduler: Insufficient cpu: 22 requested, 21 of 39 free");
  EXPECT_EQ(
      node.Place(Requesting("three", {{"cpu", "1"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "3"}}))
          .stage,
      Stage::kScheduler);
  const Verdict two =
      node.Place(Requesting("two", {{"cpu", "2"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "2"}}));
  ASSERT_EQ(TextOf(two), "fits");
  EXPECT_EQ(two.admission->assignments.at("app").devices.at("nvidia.com/gpu").Ids(),
            (std::set<std::string>{"gpu-2", "gpu-3"}));
  // The pod of the files itself: nothing changes.
  EXPECT_EQ(TextOf(node.Place(Plain(running))), "fits");
  EXPECT_EQ(node.requested().total().at("cpu"), Quantity(20));
}

TEST(PlannedNode, CountsPodsThatRun) {
  PlannedNode node = MakePlanned(PlanInput());
  ASSERT_TRUE(node.AddRunning(Shared("a", "30500m")).ok());
  EXPECT_EQ(TextOf(node.Place(Shared("b", "9"))),
            "refused by scheduler: Insufficient cpu: 9 requested, 8500m of 39 free");
}

// 19 and 20 CPUs can be assigned. Both pods that run can be on one NUMA node, or one on each.
TEST(PlannedNode, LeavesOpenWhatDependsOnWhereRunningPodsAre) {
  const auto beside_two = [](const KubeletConfig& config) {
    PlannedNode node = MakePlanned(PlanInput(), config);
    for (const char* const name : {"a", "b"}) {
      EXPECT_TRUE(node.AddRunning(Requesting(name, {{"cpu", "8"}, {"memory", "1Gi"}})).ok());
    }
    return node;
  };
  const auto asking = [](int cpus) {
    return Requesting("x", {{"cpu", std::to_string(cpus)}, {"memory", "1Gi"}});
  };
  for (const TopologyManagerPolicy policy :
       {TopologyManagerPolicy::kSingleNumaNode, TopologyManagerPolicy::kRestricted}) {
    KubeletConfig config = PlanConfig();
    config.topology_manager_policy = policy;
    PlannedNode node = beside_two(config);
    ASSERT_EQ(node.notes().size(), 1U);
    EXPECT_TRUE(node.notes()[0].starts_with("no state file has what pods are assigned that run"));
    EXPECT_EQ(TextOf(node.Ask(asking(12))), "fits");
    EXPECT_EQ(TextOf(node.Ask(Shared("x", "20"))), "fits");
    EXPECT_EQ(TextOf(node.Ask(asking(13))),
              "undecided by kubelet: no state file has the CPUs, memory and devices of pod "
              "default/a, and whether this pod fits depends on the NUMA nodes that they are on; "
              "add the state files of the node (--state-dir)");
    EXPECT_EQ(node.Ask(asking(20)).outcome, Outcome::kUndecided);
    // No NUMA node has them, and with restricted they are on both in any case.
    EXPECT_EQ(node.Ask(asking(21)).outcome,
              policy == TopologyManagerPolicy::kRestricted ? Outcome::kFits : Outcome::kRefused);
    EXPECT_EQ(node.Ask(asking(24)).stage, Stage::kScheduler);
    // A pod that fits in any case can be on either NUMA node, too.
    ASSERT_EQ(TextOf(node.Place(asking(3))), "fits");
    PlannedPod next = asking(12);
    next.pod.uid = next.pod.name = "y";
    EXPECT_EQ(node.Ask(next).outcome, Outcome::kUndecided);
    // An undecided pod can have taken what the next one needs.
    ASSERT_EQ(node.Place(next).outcome, Outcome::kUndecided);
    next = asking(1);
    next.pod.uid = next.pod.name = "z";
    EXPECT_EQ(node.Ask(next).outcome, Outcome::kUndecided);
  }
  for (const TopologyManagerPolicy policy :
       {TopologyManagerPolicy::kNone, TopologyManagerPolicy::kBestEffort}) {
    KubeletConfig config = PlanConfig();
    config.topology_manager_policy = policy;
    EXPECT_EQ(TextOf(beside_two(config).Ask(asking(20))), "fits");
  }
}

TEST(PlannedNode, KnowsWhatIsLeftWhereverAPodIs) {
  PlannedNode node = MakePlanned(WithGpus("nvidia.com/gpu=4@0,4@1"));
  const auto asking = [](const std::string& name, const std::string& gpus) {
    return Requesting(name, {{"cpu", "2"}, {"memory", "1Gi"}, {"nvidia.com/gpu", gpus}});
  };
  ASSERT_TRUE(node.AddRunning(asking("a", "4")).ok());
  // The GPUs of the other NUMA node are free.
  EXPECT_EQ(TextOf(node.Place(asking("b", "4"))), "fits");
  EXPECT_EQ(node.Ask(asking("c", "1")).stage, Stage::kScheduler);
  // Two pods with three GPUs can be on two NUMA nodes only.
  node = MakePlanned(WithGpus("nvidia.com/gpu=4@0,4@1"));
  for (const char* const name : {"a", "b"}) ASSERT_TRUE(node.AddRunning(asking(name, "3")).ok());
  EXPECT_EQ(TextOf(node.Ask(asking("c", "1"))), "fits");
  EXPECT_EQ(node.Ask(asking("c", "2")).outcome, Outcome::kRefused);
  // One NUMA node is no question, and neither are devices on none.
  NodeInput one = {{MakeMachine("socket:1 numa:1 core:20"), {}, {}}, std::nullopt, {}, {}, {}};
  node = MakePlanned(one);
  ASSERT_TRUE(node.AddRunning(Requesting("a", {{"cpu", "8"}, {"memory", "1Gi"}})).ok());
  EXPECT_EQ(TextOf(node.Ask(Requesting("b", {{"cpu", "11"}, {"memory", "1Gi"}}))), "fits");
  ASSERT_EQ(node.notes().size(), 1U) << "the CPUs that are shown are a guess there, too";
}

// Which CPUs a running pod has matters on one NUMA node as well, whether they seem free or not.
TEST(PlannedNode, LeavesOpenWhatDependsOnTheNumbersOfCpus) {
  for (const char* const machine : {"socket:1 numa:1 core:20", "socket:2 numa:1 core:20"}) {
    KubeletConfig config = PlanConfig();
    config.topology_manager_policy = TopologyManagerPolicy::kNone;
    config.pod_policies = {PodPolicy::kCpuBindPolicy};
    NodeInput input = {{MakeMachine(machine), {}, {}}, std::nullopt, {}, {}, {}};
    PlannedNode node = MakePlanned(std::move(input), config);
    PlannedPod bound = Requesting("x", {{"cpu", "2"}, {"memory", "1Gi"}});
    bound.pod.policies.required_bind = CpuBindPolicy::kFullPcpus;
    EXPECT_EQ(TextOf(node.Ask(bound)), "fits") << machine;
    ASSERT_TRUE(node.AddRunning(Requesting("a", {{"cpu", "2"}, {"memory", "1Gi"}})).ok());
    EXPECT_EQ(TextOf(node.Ask(bound)),
              "undecided by kubelet: no state file has the CPUs, memory and devices of pod "
              "default/a, and whether this pod fits depends on which CPUs they are; add the state "
              "files of the node (--state-dir)")
        << machine;
    EXPECT_EQ(TextOf(node.Ask(Requesting("y", {{"cpu", "2"}, {"memory", "1Gi"}}))), "fits");
    EXPECT_EQ(node.notes().size(), 1U);
  }
}

// 7 and 8 CPUs are there: they run as {d, a} and {b, c}, and in the order of the list `d` finds no
// NUMA node.
TEST(PlannedNode, LeavesOpenWhatARunningPodHasThatTheOrderRefuses) {
  NodeInput input = {{MakeMachine("socket:2 numa:1 core:8"), {}, {}}, std::nullopt, {}, {}, {}};
  PlannedNode node = MakePlanned(std::move(input));
  const auto asking = [](const std::string& name, const std::string& cpus) {
    return Requesting(name, {{"cpu", cpus}, {"memory", "1Gi"}});
  };
  for (const auto& [name, cpus] :
       {std::pair("a", "2"), std::pair("b", "3"), std::pair("c", "5"), std::pair("d", "4")}) {
    const Result<Done> added = node.AddRunning(asking(name, cpus));
    ASSERT_TRUE(added.ok()) << added.error().Text();
  }
  EXPECT_EQ(node.requested().pods(), 4);
  ASSERT_EQ(node.notes().size(), 2U);
  EXPECT_TRUE(node.notes()[1].starts_with("pod default/d, which runs: it does not fit"))
      << node.notes()[1];
  EXPECT_EQ(node.Ask(asking("x", "1")).outcome, Outcome::kUndecided);
  EXPECT_EQ(node.Ask(asking("x", "2")).stage, Stage::kScheduler);
  EXPECT_EQ(TextOf(node.Ask(Shared("y", "1"))), "fits");
}

TEST(PlannedNode, LeavesOpenWhatAPodHasThatIsResized) {
  PlannedNode node = MakePlanned(PlanInput());
  PlannedPod shared = Shared("a", "5");
  shared.is_resizing = true;
  ASSERT_TRUE(node.AddRunning(shared).ok());
  EXPECT_EQ(TextOf(node.Ask(Requesting("x", {{"cpu", "4"}, {"memory", "1Gi"}}))), "fits");
  PlannedPod waiting = Shared("w", "30");
  waiting.is_pending = true;
  ASSERT_TRUE(node.AddRunning(waiting).ok());
  EXPECT_EQ(node.requested().pods(), 1);
  PlannedPod resized = Requesting("b", {{"cpu", "5"}, {"memory", "1Gi"}});
  resized.is_resizing = true;
  ASSERT_TRUE(node.AddRunning(resized).ok());
  EXPECT_EQ(node.Ask(Requesting("x", {{"cpu", "4"}, {"memory", "1Gi"}})).outcome,
            Outcome::kUndecided);
  EXPECT_EQ(TextOf(node.Ask(Shared("y", "30"))),
            "refused by scheduler: Insufficient cpu: 30 requested, 29 of 39 free");
  EXPECT_EQ(TextOf(node.Ask(Shared("y", "29"))), "fits") << "it needs no CPUs of its own";
  // A state file has what it is assigned.
  const NodeInput input = PlanInput();
  node = MakePlanned(input, PlanConfig(), 110,
                     FilesWith(input, {AppPod("b", {{"cpu", "5"}, {"memory", "1Gi"}})}));
  ASSERT_TRUE(node.AddRunning(resized).ok());
  EXPECT_EQ(TextOf(node.Ask(Requesting("x", {{"cpu", "20"}, {"memory", "1Gi"}}))), "fits");
}

// The description says that containers have CPUs, and a state file which ones.
TEST(PlannedNode, LeavesOpenWhatContainersHadWhenTheNodeWasDescribed) {
  NodeInput input = WithGpus("nvidia.com/gpu=2@0,2@1");
  input.owned = {{"default/a", {"cpu", "nvidia.com/gpu"}}};
  const PlannedPod cpus = Requesting("x", {{"cpu", "1"}, {"memory", "1Gi"}});
  PlannedPod gpu = Requesting("y", {{"nvidia.com/gpu", "1"}});
  PlannedNode node = MakePlanned(input);
  EXPECT_EQ(TextOf(node.Ask(cpus)),
            "undecided by scheduler: cpu: containers had some when the description of the node was "
            "made, and no state file has which; add the state files (--state-dir)");
  EXPECT_EQ(node.Ask(gpu).outcome, Outcome::kUndecided);
  EXPECT_EQ(TextOf(node.Ask(Shared("z", "1"))), "fits");
  ASSERT_EQ(node.notes().size(), 1U);
  EXPECT_TRUE(node.notes()[0].starts_with("containers had CPUs or devices when"));
  // The pod is among those that run.
  ASSERT_TRUE(
      node.AddRunning(Requesting("a", {{"cpu", "2"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "1"}}))
          .ok());
  EXPECT_EQ(TextOf(node.Ask(cpus)), "fits");
  EXPECT_EQ(TextOf(node.Ask(gpu)), "fits");
  ASSERT_EQ(node.notes().size(), 1U);
  EXPECT_TRUE(node.notes()[0].starts_with("no state file has what pods are assigned that run"));
  input.owned = {{"default/a", {"nvidia.com/gpu"}}};
  EXPECT_EQ(TextOf(MakePlanned(input).Ask(cpus)), "fits");
  input.owned = {{"default/a", {"cpu"}}, {"default/b", {"nvidia.com/gpu"}}};
  node = MakePlanned(input, PlanConfig(), 110, FilesWith(input, {}));
  EXPECT_EQ(TextOf(node.Ask(cpus)), "fits");
  EXPECT_EQ(TextOf(node.Ask(gpu)), "fits");
}

// State files do not have the NUMA nodes whose CPUs they share: `a` and `b` can be on one, with
// which `c` fits.
TEST(PlannedNode, LeavesOpenWhereRunningPodsShareCpus) {
  KubeletConfig config = PlanConfig();
  config.topology_manager_policy = TopologyManagerPolicy::kNone;
  config.pod_policies = {PodPolicy::kSharedNumaNode};
  cpumanager::CpuState cpus;
  cpus.default_set = *CpuSet::Parse("0-39");
  NodeFiles files;
  files.cpu_manager_state =
      checkpoint::FormatCpuCheckpoint("static", cpus, checkpoint::StateForm::kPlain);
  PlannedNode node = MakePlanned(PlanInput(), config, 110, files);
  for (const auto& [name, cpu] :
       {std::pair("a", "10"), std::pair("b", "9"), std::pair("c", "20")}) {
    PlannedPod pod = Shared(name, cpu);
    pod.pod.policies.shared_on_one_node = true;
    const Result<Done> added = node.AddRunning(pod);
    EXPECT_TRUE(added.ok()) << added.error().Text();
  }
  EXPECT_EQ(node.requested().pods(), 3);
  EXPECT_EQ(TextOf(node.Place(Plain(AppPod("best-effort", {})))), "fits");
  PlannedNode other = MakePlanned(PlanInput(), config, 110, files);
  PlannedPod pod = Shared("a", "10");
  pod.pod.policies.shared_on_one_node = true;
  ASSERT_TRUE(other.AddRunning(pod).ok());
  EXPECT_EQ(TextOf(other.Place(Requesting("x", {{"cpu", "4"}, {"memory", "1Gi"}})))
                .find("undecided by scheduler: podPolicies or namespacePolicies of the node has "
                      "sharedNUMANode or shared-cpus, and no state file says"),
            0U);
}

// PlanInput has 20 CPUs on each NUMA node.
TEST(PlannedNode, HasWhatTheFileOfSharesSays) {
  KubeletConfig config = PlanConfig();
  config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  config.pod_policies = {PodPolicy::kSharedNumaNode};
  cpumanager::CpuState cpus;
  cpus.default_set = *CpuSet::Parse("0-39");
  cpus.shares[{"a", "app"}] = {.numa_id = 0, .millis = 4500};
  cpus.shares[{"b", "app"}] = {.numa_id = 1, .millis = 4500};
  NodeFiles files;
  files.cpu_manager_state =
      checkpoint::FormatCpuCheckpoint("static", cpus, checkpoint::StateForm::kPlain);
  files.cpu_shares = checkpoint::FormatSharesCheckpoint(cpus.shares);
  const PlannedNode node = MakePlanned(PlanInput(), config, 110, files);
  EXPECT_EQ(node.state().cpu.shares, cpus.shares);
  EXPECT_EQ(*Find(node.requested().by_pod().at("a"), "cpu"), Quantity::Parse("4500m").value());
  const auto fits = [&](const std::string& amount) {
    return TextOf(node.Ask(Requesting("x", {{"cpu", amount}, {"memory", "1Gi"}}))) == "fits";
  };
  EXPECT_TRUE(fits("15"));
  EXPECT_FALSE(fits("16"));
  PlannedPod pod = Shared("c", "15500m");
  pod.pod.policies.shared_on_one_node = true;
  EXPECT_EQ(TextOf(node.Ask(pod)), "fits");
  pod = Shared("c", "15501m");
  pod.pod.policies.shared_on_one_node = true;
  EXPECT_EQ(node.Ask(pod).outcome, Outcome::kRefused);
  // Saved beside another cpu_manager_state.
  files.cpu_shares = checkpoint::FormatSharesCheckpoint(
      cpus.shares, {checkpoint::CpuFileChecksum(files.cpu_manager_state)});
  EXPECT_EQ(MakePlanned(PlanInput(), config, 110, files).state().cpu.shares, cpus.shares);
  files.cpu_shares =
      checkpoint::FormatSharesCheckpoint(cpus.shares, {checkpoint::CpuFileChecksum("other")});
  const PlannedNode outdated = MakePlanned(PlanInput(), config, 110, files);
  EXPECT_TRUE(outdated.state().cpu.shares.empty());
  EXPECT_EQ(outdated.Ask(pod).outcome, Outcome::kUndecided);
  EXPECT_NE(TextOf(outdated.Ask(pod)).find("is of another cpu_manager_state"), std::string::npos)
      << TextOf(outdated.Ask(pod));
  // Without a container of that kind, the file says so.
  files.cpu_shares = checkpoint::FormatSharesCheckpoint({});
  const PlannedNode none = MakePlanned(PlanInput(), config, 110, files);
  EXPECT_EQ(TextOf(none.Ask(pod)), "fits");
}

// No NUMA node is chosen for a pod that runs and that the file does not have: it can be on either,
// or on both.
TEST(PlannedNode, LeavesOpenWhereARunningPodIsThatTheFileOfSharesDoesNotHave) {
  KubeletConfig config = PlanConfig();
  config.pod_policies = {PodPolicy::kSharedNumaNode};
  cpumanager::CpuState cpus;
  cpus.default_set = *CpuSet::Parse("0-39");
  cpus.shares[{"default/known", "app"}] = {.numa_id = 1, .millis = 4500};
  const auto sharing = [](const std::string& name) {
    PlannedPod pod = Shared(name, "4500m");
    pod.pod.uid = "default/" + name;
    pod.pod.policies.shared_on_one_node = true;
    return pod;
  };
  NodeFiles files;
  files.cpu_manager_state =
      checkpoint::FormatCpuCheckpoint("static", cpus, checkpoint::StateForm::kPlain);
  files.cpu_shares = checkpoint::FormatSharesCheckpoint(cpus.shares);
  PlannedNode node = MakePlanned(PlanInput(), config, 110, files);
  ASSERT_TRUE(node.AddRunning(sharing("known")).ok());
  const PlannedPod exclusive = Requesting("x", {{"cpu", "4"}, {"memory", "1Gi"}});
  EXPECT_EQ(TextOf(node.Ask(exclusive)), "fits");
  const cpumanager::CpuState before = node.state().cpu;
  ASSERT_TRUE(node.AddRunning(sharing("other")).ok());
  EXPECT_EQ(node.state().cpu, before);
  EXPECT_EQ(node.requested().pods(), 2);
  PlannedNode with_pending = MakePlanned(PlanInput(), config, 110, files);
  PlannedPod pending = sharing("other");
  pending.is_pending = true;
  pending.node_name = "n";
  ASSERT_TRUE(with_pending.AddRunning(pending).ok());
  EXPECT_TRUE(with_pending.state().cpu.shares.contains({"default/other", "app"}))
      << "as one that comes";
  EXPECT_EQ(TextOf(with_pending.Ask(exclusive)), "fits");
  for (const PlannedPod& pod : {exclusive, sharing("next")}) {
    EXPECT_EQ(node.Ask(pod).outcome, Outcome::kUndecided);
    EXPECT_NE(TextOf(node.Ask(pod)).find("cpu_shares does not have container app of pod "),
              std::string::npos)
        << TextOf(node.Ask(pod));
  }
  EXPECT_EQ(TextOf(node.Ask(Shared("plain", "1"))), "fits");
}

// A pod of a sandboxed runtime never has a share, so that none is missing.
TEST(PlannedNode, MissesNoShareOfARunningPodOfASandboxedRuntime) {
  KubeletConfig config = PlanConfig();
  NamespacePolicies defaults;
  defaults.namespaces = {"default"};
  defaults.defaults.shared_on_one_node = true;
  config.namespace_policies = {defaults};
  cpumanager::CpuState cpus;
  cpus.default_set = *CpuSet::Parse("0-39");
  NodeFiles files;
  files.cpu_manager_state =
      checkpoint::FormatCpuCheckpoint("static", cpus, checkpoint::StateForm::kPlain);
  files.cpu_shares = checkpoint::FormatSharesCheckpoint({});
  const auto outcome_beside = [&](const std::string& handler) {
    PlannedNode node = MakePlanned(PlanInput(), config, 110, files);
    PlannedPod running = Shared("a", "4500m");
    running.runtime_handler = handler;
    EXPECT_TRUE(node.AddRunning(running).ok());
    return node.Ask(Requesting("x", {{"cpu", "4"}, {"memory", "1Gi"}})).outcome;
  };
  EXPECT_EQ(outcome_beside("kata-qemu"), Outcome::kFits);
  EXPECT_EQ(outcome_beside("runc"), Outcome::kUndecided);
}

// It runs since before the node followed its label: the node goes on running it.
TEST(PlannedNode, TakesARunningPodThatLacksTheCpusOfItsLabelAsItRuns) {
  KubeletConfig config = PlanConfig();
  config.pod_policies = {PodPolicy::kQosClass};
  PlannedPod labelled = Shared("a", "4500m");
  ReadSharingLabel(kQosClassLabel, "LSR", labelled.pod.policies.sharing);
  PlannedNode node = MakePlanned(PlanInput(), config);
  const Result<Done> added = node.AddRunning(labelled);
  ASSERT_TRUE(added.ok()) << added.error().Text();
  EXPECT_EQ(*Find(node.requested().by_pod().at("a"), "cpu"), Quantity::Parse("4500m").value());
  EXPECT_EQ(TextOf(node.Ask(Requesting("x", {{"cpu", "20"}, {"memory", "1Gi"}}))), "fits");
  // A new one is refused.
  labelled.pod.uid = labelled.pod.name = "b";
  EXPECT_EQ(node.Ask(labelled).outcome, Outcome::kRefused);
}

TEST(PlannedNode, RefusesAFileOfSharesThatDoesNotFit) {
  KubeletConfig config = PlanConfig();
  config.pod_policies = {PodPolicy::kSharedNumaNode};
  cpumanager::CpuState cpus;
  cpus.default_set = *CpuSet::Parse("0-39");
  cpus.shares[{"a", "app"}] = {.numa_id = 1, .millis = 20'001};
  NodeFiles files;
  files.cpu_manager_state =
      checkpoint::FormatCpuCheckpoint("static", cpus, checkpoint::StateForm::kPlain);
  files.cpu_shares = checkpoint::FormatSharesCheckpoint(cpus.shares);
  const auto error = [&] {
    const Result<PlannedNode> made = PlannedNode::Make(PlanInput(), config, 110, files);
    return made.ok() ? std::string("none") : made.error().message;
  };
  EXPECT_EQ(error(),
            "cpu_shares: what containers request that stay on NUMA node 1 is not left there by "
            "cpu_manager_state");
  files.cpu_shares = R"({"entries":{},"checksum":1})";
  EXPECT_EQ(error().find("cpu_shares: checkpoint is corrupted"), 0U) << error();
}

TEST(PlannedNode, KnowsPodsByTheirNames) {
  PlannedNode node = MakePlanned(PlanInput());
  PlannedPod pod = Shared("a", "1");
  pod.pod.uid = "from-the-cluster";
  ASSERT_TRUE(node.AddRunning(pod).ok());
  EXPECT_EQ(TextOf(node.Place(Shared("a", "1"))),
            "refused by validation: the node has a pod named default/a");
  pod.has_unknown_overhead = true;
  EXPECT_FALSE(node.AddRunning(pod).ok());
  // Also without the UID of the API server, as the running one.
  const PlannedPod placed = Shared("b", "1");
  ASSERT_TRUE(node.AddRunning(placed).ok());
  EXPECT_EQ(TextOf(node.Place(placed)),
            "refused by validation: the node has a pod named default/b");
}

TEST(PlannedNode, RefusesPodsOfOtherSystemsAndNodes) {
  NodeInput input = PlanInput();
  input.object = PlanObject();
  input.object->name = "w";
  PlannedNode node = MakePlanned(input);
  PlannedPod pod = Shared("a", "1");
  pod.os = "windows";
  EXPECT_EQ(TextOf(node.Ask(pod)),
            "refused by kubelet: Failed to admit pod as the OS field doesn't match node OS");
  pod.os = "linux";
  pod.os_label = "windows";
  EXPECT_EQ(TextOf(node.Ask(pod)),
            "refused by kubelet: Failed to admit pod as the `kubernetes.io/os` label doesn't match "
            "node label");
  pod.os_label = "linux";
  pod.node_name = "v";
  EXPECT_EQ(TextOf(node.Ask(pod)),
            "refused by scheduler: the pod is bound to node v (spec.nodeName)");
  pod.node_name = "w";
  EXPECT_EQ(node.Ask(pod).outcome, Outcome::kFits);
}

TEST(PlannedNode, RefusesAPodWhoseContainersCannotStart) {
  KubeletConfig config = PlanConfig();
  config.topology_manager_scope = TopologyManagerScope::kPod;
  config.feature_gates = {{"PodLevelResourceManagers", true}};
  PlannedNode node = MakePlanned(WithGpus("nvidia.com/gpu=1@0,1@1"), config);
  PlannedPod pod = Requesting("p", {{"cpu", "2"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "1"}});
  pod.pod.pod_level = Resources{Amounts({{"cpu", "4"}, {"memory", "2Gi"}}),
                                Amounts({{"cpu", "4"}, {"memory", "2Gi"}})};
  const Verdict verdict = node.Place(pod);
  ASSERT_EQ(TextOf(verdict), "fits");
  EXPECT_EQ(verdict.admission->assignments.at("app").devices.size(), 1U);
}

}  // namespace
}  // namespace alignd::placement
