// The advice in a refusal, and what would let a pod fit.
#include "alignd/admission/explanation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "alignd/admission/admission.h"
#include "alignd/admission/why_not.h"
#include "alignd/cpumanager/static_policy.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

constexpr char kCard[] = "a.com/card";
constexpr char kPort[] = "b.com/port";

// Four single-threaded cores on each NUMA node; CPU 0 is reserved.
Node AdviceNode(TopologyManagerPolicy policy, const std::string& machine,
                MemoryManagerPolicy memory = MemoryManagerPolicy::kNone) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  config.topology_manager_policy = policy;
  config.memory_manager_policy = memory;
  if (memory == MemoryManagerPolicy::kStatic) {
    config.reserved_memory = {{0, {{"memory", *Quantity::Parse("100Mi")}}}};
  }
  Result<Node> node = Node::Make(MakeMachine(machine), config);
  EXPECT_TRUE(node.ok()) << node.error().message;
  return *std::move(node);
}

Pod Wanting(const std::string& uid, const std::string& cpus, ResourceList more = {}) {
  Pod pod = MakePod(uid, {App("app", {{"cpu", cpus}, {"memory", "64Mi"}})});
  for (const auto& [name, amount] : more) {
    pod.containers[0].resources.limits.emplace(name, amount);
    pod.containers[0].resources.requests.emplace(name, amount);
  }
  return pod;
}

ResourceList OneAmount(const std::string& name, const std::string& amount) {
  return {{name, *Quantity::Parse(amount)}};
}

std::string Refusing(const Node& node, const NodeState& state, const Pod& pod) {
  const Admission admission = Admit(node, state, pod, devicemanager::NoPreference);
  EXPECT_FALSE(admission.admitted());
  return admission.admitted() ? "" : Explain(node, state, pod, *admission.refusal).message;
}

bool Mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(AdviceTest, FitsWithoutOthersKeepsThePodsOwnPart) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:2 numa:1 core:4");
  NodeState state = NodeState::Initial(node);
  for (const char* const uid : {"part", "other"}) {
    state = Admit(node, state, Wanting(uid, "2"), devicemanager::NoPreference).next;
  }
  EXPECT_TRUE(FitsWithoutOthers(node, state, Wanting("new", "4")));
  EXPECT_FALSE(FitsWithoutOthers(node, state, Wanting("new", "5")));  // of one NUMA node
  Pod next = Wanting("part", "4");
  next.containers[0].name = "second";
  EXPECT_TRUE(FitsWithoutOthers(node, state, next));
  next.containers[0].resources = Wanting("part", "5").containers[0].resources;
  EXPECT_FALSE(FitsWithoutOthers(node, state, next));
}

TEST(AdviceTest, CpusThatAreUsedUpAreNoMatterOfLocality) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:1 numa:1 core:4");
  const Admission first =
      Admit(node, NodeState::Initial(node), Wanting("a", "2"), devicemanager::NoPreference);
  ASSERT_TRUE(first.admitted());
  const std::string text = Refusing(node, first.next, Wanting("b", "2"));
  // The kubelet's text stays: other programs look for it.
  EXPECT_TRUE(text.starts_with(
      "Resources cannot be allocated with Topology locality. Cause: 2 exclusive CPUs are "
      "requested, and the node has 1 free of 4; the alignment is not the cause. Requested: "))
      << text;
  EXPECT_TRUE(Mentions(text, "What would help: it fits when other pods end")) << text;
  EXPECT_TRUE(Mentions(text, "Free: NUMA node 0: 1 of 4 CPUs")) << text;  // the same count
  EXPECT_FALSE(Mentions(text, "best-effort")) << text;
}

TEST(AdviceTest, ARefusalBecauseOfTheLocalityNamesNoOtherCause) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:2 numa:1 core:4");
  const std::string text = Refusing(node, NodeState::Initial(node), Wanting("a", "5"));
  EXPECT_FALSE(Mentions(text, "Cause:")) << text;
}

// "Reduce its requests" would be the half of it.
TEST(AdviceTest, PartsOfCoresAreRequestedAsWholeOnes) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.cpu_manager_policy_options["full-pcpus-only"] = "true";
  config.reserved_system_cpus = "0,1";
  const Result<Node> node = Node::Make(MakeMachine("socket:1 numa:1 core:4 thread:2"), config);
  ASSERT_TRUE(node.ok()) << node.error().message;
  const NodeState empty = NodeState::Initial(*node);
  const auto help = [&](const char* count) {
    const std::string text = Refusing(*node, empty, Wanting("a", count));
    return text.substr(std::min(text.size(), text.find("even on the empty node: ")));
  };
  constexpr char kWholeCores[] = ": only whole cores of 2 CPUs are assigned";
  EXPECT_EQ(
      help("3"),
      std::string("even on the empty node: request 2 or 4 CPUs for container app") + kWholeCores);
  EXPECT_EQ(help("1"),
            std::string("even on the empty node: request 2 CPUs for container app") + kWholeCores);
  // One more than there are: only the smaller number fits.
  EXPECT_EQ(help("7"),
            std::string("even on the empty node: request 6 CPUs for container app") + kWholeCores);
  EXPECT_EQ(help("9"), "even on the empty node: reduce its requests");
}

NodeState WithCardAndPort(const Node& node) {
  NodeState state = NodeState::Initial(node);
  state.devices.resources[kCard] = {.registered = true,
                                    .devices = {{"c0", {true, {0}}}, {"c1", {true, {1}}}}};
  state.devices.resources[kPort] = {.registered = true, .devices = {{"p0", {true, {1}}}}};
  return state;
}

TEST(AdviceTest, DevicesOnDifferentNumaNodesAreNotAskedForLess) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:2 numa:1 core:4");
  NodeState state = WithCardAndPort(node);
  state.devices.resources[kCard].devices.erase("c1");
  ResourceList both = OneAmount(kCard, "1");
  both.merge(OneAmount(kPort, "1"));
  const std::string text = Refusing(node, state, Wanting("a", "1", both));
  EXPECT_TRUE(
      Mentions(text,
               "What would help: its devices are on different NUMA nodes (a.com/card: 1 on NUMA "
               "node 0; b.com/port: 1 on NUMA node 1), and topologyManagerPolicy "
               "single-numa-node does not admit them together, whatever the pod requests of "
               "them: use best-attainable or best-effort, or devices on one NUMA node"))
      << text;
  EXPECT_FALSE(Mentions(text, "reduce its requests")) << text;
}

TEST(AdviceTest, TooManyDevicesForOneNumaNodeAreSaidToBeSpread) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:2 numa:1 core:4");
  const std::string text =
      Refusing(node, WithCardAndPort(node), Wanting("a", "1", OneAmount(kCard, "2")));
  EXPECT_TRUE(Mentions(text, "does not admit so many of them together: request fewer devices"))
      << text;
  // Too many CPUs for the node are not blamed on the devices.
  const std::string cpus =
      Refusing(node, WithCardAndPort(node), Wanting("a", "6", OneAmount(kCard, "1")));
  EXPECT_TRUE(Mentions(cpus, "it does not fit even on the empty node: reduce its requests"))
      << cpus;
}

TEST(AdviceTest, AMissingPluginIsNamedEvenIfTheStateFileHasEnoughDevices) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:2 numa:1 core:4");
  NodeState state = WithCardAndPort(node);
  state.devices.resources[kCard].registered = false;
  const std::string known = Refusing(node, state, Wanting("a", "6", OneAmount(kCard, "1")));
  EXPECT_TRUE(Mentions(known, "What would help: the device plugin of a.com/card is not registered"))
      << known;
  const Admission full =
      Admit(node, NodeState::Initial(node), Wanting("a", "3"), devicemanager::NoPreference);
  ASSERT_TRUE(full.admitted());
  const Admission fuller = Admit(node, full.next, Wanting("b", "4"), devicemanager::NoPreference);
  ASSERT_TRUE(fuller.admitted());
  // --not-devices may name it.
  const std::string unknown = Refusing(node, fuller.next, Wanting("c", "1", OneAmount(kCard, "1")));
  EXPECT_TRUE(unknown.ends_with("release their resources")) << unknown;
}

TEST(AdviceTest, HealthyDevicesAreComparedWithWhatAllContainersNeed) {
  const Node node = AdviceNode(TopologyManagerPolicy::kBestEffort, "socket:2 numa:1 core:4");
  NodeState state = WithCardAndPort(node);
  state.devices.resources[kCard].devices["c1"].healthy = false;
  const auto container = [](const std::string& name) {
    return App(name, {{"cpu", "1"}, {"memory", "64Mi"}, {kCard, "1"}});
  };
  const std::string text =
      Refusing(node, state, MakePod("a", {container("one"), container("two")}));
  EXPECT_TRUE(Mentions(text, "What would help: 1 of 2 a.com/card are unhealthy")) << text;
}

TEST(AdviceTest, TooMuchMemoryIsNotBlamedOnTheDevices) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:2 numa:1 core:4",
                               MemoryManagerPolicy::kStatic);
  const NodeState state = WithCardAndPort(node);
  const uint64_t of_node = AvailableByNode(node, state)[1].memory.at("memory").total;
  Pod pod = Wanting("a", "1", OneAmount(kCard, "1"));
  for (ResourceList* list :
       {&pod.containers[0].resources.requests, &pod.containers[0].resources.limits}) {
    (*list)["memory"] = *Quantity::Parse(std::to_string(of_node + 4096));
  }
  const std::string text = Refusing(node, state, pod);
  EXPECT_TRUE(Mentions(text,
                       "What would help: it does not fit even on the empty node: request less "
                       "memory or fewer huge pages"))
      << text;
}

TEST(AdviceTest, NoPartOfAByteCanBeAssigned) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:2 numa:1 core:4",
                               MemoryManagerPolicy::kStatic);
  const NodeState state = NodeState::Initial(node);
  const Pod pod = MakePod("a", {App("app", {{"cpu", "1"}, {"memory", "500m"}})});
  const std::string text = Refusing(node, state, pod);
  EXPECT_TRUE(Mentions(text, "request a whole number of bytes of memory")) << text;
}

TEST(AdviceTest, HugePagesThatTheNodeDoesNotHaveAreAmongWhatIsFree) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:1 numa:1 core:4",
                               MemoryManagerPolicy::kStatic);
  const Pod pod = Wanting("a", "1", OneAmount("hugepages-2Mi", "4Mi"));
  const NodeState state = NodeState::Initial(node);
  EXPECT_TRUE(Mentions(Refusing(node, state, pod), ", 0 of 0 hugepages-2Mi, "));
  EXPECT_FALSE(Mentions(DescribeAvailable(AvailableByNode(node, state)), "hugepages"));
}

// A pod of this much memory and one CPU.
Pod WantingMemory(const std::string& uid, const std::string& memory) {
  return MakePod(uid, {App("app", {{"cpu", "1"}, {"memory", memory}})});
}

// Each NUMA node has 10Gi, of which a pod has 6Gi.
struct ShortOfMemory {
  Node node = AdviceNode(TopologyManagerPolicy::kBestEffort, "socket:2 numa:1 core:4 memory-gib=10",
                         MemoryManagerPolicy::kStatic);
  NodeState state = NodeState::Initial(node);

  ShortOfMemory() {
    for (const char* const uid : {"a", "b"}) {
      state = Admit(node, state, WantingMemory(uid, "6Gi"), devicemanager::NoPreference).next;
    }
  }
};

TEST(AdviceTest, MemoryThatNoNumaNodeHasIsTheCauseWithWhatEachHas) {
  const ShortOfMemory test;
  const std::string text = Refusing(test.node, test.state, WantingMemory("c", "6Gi"));
  EXPECT_TRUE(Mentions(text,
                       "[memorymanager] failed to find NUMA nodes to extend the current topology "
                       "hint, which is unexpected. Cause: 6144Mi of memory are requested, and no "
                       "NUMA node has as much free (3996Mi of 10140Mi on NUMA node 0, 4096Mi of "
                       "10240Mi on NUMA node 1). Requested: "))
      << text;
  EXPECT_TRUE(Mentions(text, ", 3996Mi of 10140Mi memory; NUMA node 1: ")) << text;
}

TEST(AdviceTest, MemoryThatTheNodeDoesNotHaveIsTheCause) {
  const ShortOfMemory test;
  const std::string text = Refusing(test.node, test.state, WantingMemory("c", "9000Mi"));
  EXPECT_TRUE(Mentions(text,
                       ". Cause: 9000Mi of memory are requested, and the node has 8092Mi free of "
                       "20380Mi (3996Mi of 10140Mi on NUMA node 0, 4096Mi of 10240Mi on NUMA node "
                       "1). Requested: "))
      << text;
}

TEST(AdviceTest, UnhealthyDevicesOfANumaNodeAreNotFreeButStayInTheTotal) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:2 numa:1 core:4");
  NodeState state = WithCardAndPort(node);
  state.devices.resources[kCard].devices["c1"].healthy = false;
  const auto nodes = AvailableByNode(node, state);
  EXPECT_EQ(nodes[0].devices.at(kCard), (Availability{.free = 1, .total = 1}));
  EXPECT_EQ(nodes[1].devices.at(kCard), (Availability{.free = 0, .total = 0, .unhealthy = 1}));
  EXPECT_EQ(DescribeAvailable({nodes[1]}),
            "NUMA node 1: 4 of 4 CPUs (4-7), 0 of 1 a.com/card, 1 of 1 b.com/port");
}

using Names = std::set<std::string>;

TEST(LackingResourcesTest, AreThoseOfWhichOtherPodsHaveTooMuch) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:2 numa:1 core:4");
  NodeState state = WithCardAndPort(node);
  state.devices.resources[kCard].devices["c0"].healthy = false;
  const auto admit = [&](const Pod& pod) {
    const Admission admission = Admit(node, state, pod, devicemanager::NoPreference);
    ASSERT_TRUE(admission.admitted()) << pod.uid;
    state = admission.next;
  };
  admit(Wanting("card", "1", OneAmount(kCard, "1")));
  // Its CPUs are free.
  EXPECT_EQ(LackingResources(node, state, Wanting("new", "3", OneAmount(kCard, "1"))),
            Names{kCard});
  // Of the NUMA node of the card, three are.
  EXPECT_EQ(LackingResources(node, state, Wanting("new", "4", OneAmount(kCard, "1"))),
            (Names{"cpu", kCard}));
  EXPECT_EQ(LackingResources(node, state, Wanting("new", "4", OneAmount(kPort, "1"))),
            Names{"cpu"});
}

// CPUs are free on one NUMA node, and cards on the other one: either would do.
TEST(LackingResourcesTest, AreAllIfNoSingleOneIsTheReason) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:2 numa:1 core:4");
  NodeState state = WithCardAndPort(node);
  state.cpu.assignments["cpus"]["app"] = CpuSet{1, 2, 3};
  state.cpu.default_set = state.cpu.default_set - CpuSet{1, 2, 3};
  state.devices.allocations[{"card", "app"}][kCard].devices[1] = {"c1"};
  const Pod pod = Wanting("new", "2", OneAmount(kCard, "1"));
  EXPECT_FALSE(Admit(node, state, pod, devicemanager::NoPreference).admitted());
  EXPECT_EQ(LackingResources(node, state, pod), (Names{"cpu", kCard}));
}

TEST(LackingResourcesTest, AreTheTypesOfMemory) {
  const ShortOfMemory test;
  EXPECT_EQ(LackingResources(test.node, test.state, WantingMemory("c", "6Gi")), Names{"memory"});
}

WhyNot ChangesFor(const Node& node, const NodeState& state, const Pod& pod) {
  return FindChanges(
      node, state, pod, /*unknown=*/{}, [](const std::string& uid) { return "ns/" + uid; },
      [] { return true; });
}

TEST(WhyNotTest, NamesTheSmallestChangeFirst) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:2 numa:1 core:4");
  NodeState state = NodeState::Initial(node);
  for (const auto& [uid, cpus] : {std::pair{"one", "1"}, {"two", "2"}, {"four", "3"}}) {
    const Admission admission = Admit(node, state, Wanting(uid, cpus), devicemanager::NoPreference);
    ASSERT_TRUE(admission.admitted()) << uid;
    state = admission.next;
  }
  EXPECT_FALSE(ChangesFor(node, state, Wanting("fits", "1")).refusal.has_value());
  const WhyNot why = ChangesFor(node, state, Wanting("late", "2"));
  ASSERT_TRUE(why.refusal.has_value());
  EXPECT_TRUE(why.is_complete);
  ASSERT_EQ(why.changes.size(), 3U);
  EXPECT_EQ(why.changes[0].what, "request 1 instead of 2 CPUs for container app");
  EXPECT_EQ(why.changes[0].kind, ChangeKind::kReduceRequest);
  EXPECT_EQ(why.changes[1].what, "end pod ns/two (CPUs 2-3)");
  EXPECT_EQ(why.changes[2].what, "end pod ns/four (CPUs 4-6)");
}

TEST(WhyNotTest, NamesTheMemoryOfPods) {
  const ShortOfMemory test;
  const WhyNot why = ChangesFor(test.node, test.state, WantingMemory("late", "6Gi"));
  ASSERT_EQ(why.changes.size(), 3U);
  EXPECT_EQ(why.changes[0].what, "request 4096Mi instead of 6Gi memory for container app");
  EXPECT_EQ(why.changes[1].what, "end pod ns/a (CPUs 1, 6144Mi of memory)");
  EXPECT_EQ(why.changes[2].what, "end pod ns/b (CPUs 4, 6144Mi of memory)");
}

TEST(WhyNotTest, NamesTheHugePagesThatFit) {
  const Node node =
      AdviceNode(TopologyManagerPolicy::kSingleNumaNode,
                 "socket:2 numa:1 core:4 memory-gib=10 pages-2mib=8", MemoryManagerPolicy::kStatic);
  Pod pod = WantingMemory("late", "1Gi");
  Resources& resources = pod.containers[0].resources;
  resources.requests["hugepages-2Mi"] = resources.limits["hugepages-2Mi"] =
      *Quantity::Parse("30Mi");
  const WhyNot why = ChangesFor(node, NodeState::Initial(node), pod);
  ASSERT_FALSE(why.changes.empty());
  EXPECT_EQ(why.changes[0].what, "request 16Mi instead of 30Mi hugepages-2Mi for container app");
}

TEST(AdviceTest, HugePagesThatTheMachineDoesNotHaveAreNotToBeFewer) {
  const Node node =
      AdviceNode(TopologyManagerPolicy::kBestEffort, "socket:2 numa:1 core:4 memory-gib=10",
                 MemoryManagerPolicy::kStatic);
  Pod pod = WantingMemory("late", "1Gi");
  Resources& resources = pod.containers[0].resources;
  resources.requests["hugepages-2Mi"] = resources.limits["hugepages-2Mi"] =
      *Quantity::Parse("64Mi");
  const std::string text = Refusing(node, NodeState::Initial(node), pod);
  EXPECT_TRUE(Mentions(text, "the machine has no hugepages-2Mi: reserve some, or request none"))
      << text;
  EXPECT_FALSE(Mentions(text, "fewer huge pages")) << text;
}

TEST(AdviceTest, CpusThatAreOfflineAreToBeSetOnline) {
  const Node node = AdviceNode(TopologyManagerPolicy::kBestEffort, "socket:2 numa:1 core:4");
  NodeState state = NodeState::Initial(node);
  cpumanager::SetOffline({4, 5, 6}, state.cpu);
  EXPECT_TRUE(Mentions(Refusing(node, state, Wanting("late", "7")),
                       "it does not fit even on the empty node while CPUs 4-6 are offline: set "
                       "them online, or reduce its requests"));
  EXPECT_TRUE(Mentions(Refusing(node, state, Wanting("wide", "8")),
                       "it does not fit even on the empty node: reduce its requests"));
}

// Both are true of it: the node has too few, and the policy never admits as many.
TEST(AdviceTest, AShortageOfAPodThatIsNeverAlignedDoesNotExcludeTheAlignment) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:2 numa:1 core:4");
  const NodeState state =
      Admit(node, NodeState::Initial(node), Wanting("a", "3"), devicemanager::NoPreference).next;
  const std::string text = Refusing(node, state, Wanting("wide", "5"));
  EXPECT_TRUE(Mentions(text, "5 exclusive CPUs are requested, and the node has 4 free")) << text;
  EXPECT_TRUE(Mentions(text, "never admits a pod of this shape")) << text;
  EXPECT_FALSE(Mentions(text, "the alignment is not the cause")) << text;
}

TEST(WhyNotTest, AWeakerPolicyComesLast) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:2 numa:1 core:4");
  const WhyNot why = ChangesFor(node, NodeState::Initial(node), Wanting("wide", "5"));
  ASSERT_EQ(why.changes.size(), 2U);
  EXPECT_EQ(why.changes[0].what, "request 4 instead of 5 CPUs for container app");
  EXPECT_EQ(why.changes[1].kind, ChangeKind::kChangePolicy);
}

TEST(WhyNotTest, SeveralPodsThatMustEndAreASmallestSet) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:1 numa:1 core:4");
  NodeState state = NodeState::Initial(node);
  for (const char* const uid : {"a", "b", "c"}) {
    state = Admit(node, state, Wanting(uid, "1"), devicemanager::NoPreference).next;
  }
  const WhyNot why = ChangesFor(node, state, Wanting("late", "2"));
  ASSERT_FALSE(why.changes.empty());
  EXPECT_EQ(why.changes.back().what, "end these pods: ns/a (CPUs 1); ns/b (CPUs 2)");
  const WhyNot ended = FindChanges(
      node, state, Wanting("late", "2"), /*unknown=*/{}, [](const std::string& uid) { return uid; },
      [] { return false; });
  EXPECT_FALSE(ended.is_complete);
  EXPECT_TRUE(ended.changes.empty());
}

TEST(WhyNotTest, ASearchThatEndsNamesNoSetOfWhichAPodCouldStay) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:1 numa:1 core:4");
  NodeState state = NodeState::Initial(node);
  for (const char* const uid : {"a", "b", "c"}) {
    state = Admit(node, state, Wanting(uid, "1"), devicemanager::NoPreference).next;
  }
  bool has_ended = true;
  for (int allowed = 0; has_ended && allowed < 100; ++allowed) {
    int asked = 0;
    const WhyNot why = FindChanges(
        node, state, Wanting("late", "2"), /*unknown=*/{},
        [](const std::string& uid) { return uid; }, [&] { return asked++ < allowed; });
    has_ended = !why.is_complete;
    for (const Change& change : why.changes) {
      if (change.kind != ChangeKind::kEndPods) continue;
      EXPECT_EQ(change.what, "end these pods: a (CPUs 1); b (CPUs 2)") << allowed;
    }
  }
  EXPECT_FALSE(has_ended);
}

TEST(WhyNotTest, TheLargestSmallerRequestIsFoundFarBelowTheRequest) {
  const Node node = AdviceNode(TopologyManagerPolicy::kNone, "socket:1 numa:1 core:101");
  const WhyNot why = ChangesFor(node, NodeState::Initial(node), Wanting("wide", "250"));
  ASSERT_FALSE(why.changes.empty());
  EXPECT_EQ(why.changes[0].what, "request 100 instead of 250 CPUs for container app");
}

TEST(WhyNotTest, WithAnUnknownResourceItNeverFits) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:2 numa:1 core:4");
  const NodeState state = NodeState::Initial(node);
  const Pod pod = Wanting("late", "1", OneAmount(kCard, "1"));
  const WhyNot why = FindChanges(
      node, state, pod, {kCard}, [](const std::string& uid) { return uid; }, [] { return true; });
  ASSERT_TRUE(why.refusal.has_value());
  EXPECT_EQ(why.refusal->reason, "UnexpectedAdmissionError");
  ASSERT_EQ(why.changes.size(), 1U);
  EXPECT_EQ(why.changes[0].kind, ChangeKind::kRepairDevices);
  EXPECT_EQ(why.changes[0].what,
            "start the device plugin of a.com/card, or, if none serves it, start alignd with "
            "--not-devices=a.com/card");
  EXPECT_FALSE(ChangesFor(node, state, pod).refusal.has_value());  // --not-devices names it
}

TEST(WhyNotTest, AMissingPluginComesAlone) {
  const Node node = AdviceNode(TopologyManagerPolicy::kSingleNumaNode, "socket:2 numa:1 core:4");
  NodeState state = WithCardAndPort(node);
  state.devices.resources[kCard] = {};  // not registered
  const WhyNot why = ChangesFor(node, state, Wanting("late", "2", OneAmount(kCard, "1")));
  ASSERT_EQ(why.changes.size(), 1U);
  EXPECT_EQ(why.changes[0].kind, ChangeKind::kRepairDevices);
  EXPECT_EQ(why.changes[0].what,
            "the device plugin of a.com/card is not registered: check its pod");
}

}  // namespace
}  // namespace alignd::admission
