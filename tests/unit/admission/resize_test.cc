#include "alignd/admission/resize.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

using topologymanager::TopologyHint;

constexpr char kResizeGpu[] = "a.com/gpu";

// A node whose pods are admitted and then resized. CPU 0 is reserved.
class ResizeTest : public testing::Test {
 protected:
  ResizeTest() {
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
  }

  // Two NUMA nodes with four single-threaded cores each: CPUs 0-3 and 4-7.
  void Start(const char* machine = "socket:2 numa:1 core:4") {
    Result<Node> made = Node::Make(MakeMachine(machine), config);
    ASSERT_TRUE(made.ok()) << made.error().message;
    node = *std::move(made);
    state = NodeState::Initial(*node);
  }

  void StartWithPolicy(TopologyManagerPolicy policy) {
    config.topology_manager_policy = policy;
    Start();
  }

  void Add(const Pod& pod) {
    Admission admission = Admit(*node, state, pod, devicemanager::NoPreference);
    ASSERT_TRUE(admission.admitted()) << admission.refusal->message;
    state = std::move(admission.next);
  }

  void AddApp(const std::string& uid, const std::string& cpus,
              std::map<std::string, std::string> amounts = {{"memory", "64Mi"}}) {
    amounts["cpu"] = cpus;
    Add(MakePod(uid, {App("app", amounts)}));
  }

  // Resizes container app of the pod: its CPUs, or the message of the refusal.
  std::string ResizeTo(const std::string& uid, int64_t count, const char* container = "app") {
    const ContainerKey key{uid, container};
    const NodeState before = state;
    ResizeDecision decision = Resize(*node, state, key, count, {.devices = claimed});
    EXPECT_EQ(decision.next.BrokenInvariants(*node), std::vector<std::string>{});
    if (decision.admitted()) {
      const CpuSet* const now = decision.next.cpu.Find(key);
      EXPECT_EQ(decision.after, now == nullptr ? CpuSet() : *now);
      state = std::move(decision.next);
      return decision.after.ToString();
    }
    EXPECT_EQ(decision.refusal->reason, "ResizeRefused");
    EXPECT_TRUE(decision.next == before);
    EXPECT_EQ(decision.after, decision.before);
    return decision.refusal->message;
  }

  std::string AffinityOf(const std::string& uid) const {
    const TopologyHint& hint = state.affinities.at({uid, "app"});
    return (hint.affinity ? hint.affinity->ToString() : "any") + (hint.preferred ? "!" : "");
  }

  KubeletConfig config;
  std::optional<Node> node;
  NodeState state;
  std::vector<ClaimedDevice> claimed;  // of the pod that is resized
};

TEST_F(ResizeTest, GrowsShrinksAndSaysWhatChanged) {
  Start();
  AddApp("p", "2");
  const ResizeDecision decision = Resize(*node, state, {"p", "app"}, 3);
  ASSERT_TRUE(decision.admitted());
  EXPECT_EQ(decision.before.ToString(), "1-2");
  EXPECT_EQ(decision.after.ToString(), "1-3");
  EXPECT_EQ(decision.next.cpu.default_set.ToString(), "0,4-7");
  EXPECT_EQ(decision.next.cpu.OriginalOf({"p", "app"}).ToString(), "1-2");
  EXPECT_EQ(ResizeTo("p", 5), "1-5");
  EXPECT_EQ(ResizeTo("p", 4), "1-4");
  EXPECT_EQ(ResizeTo("p", 2), "1-2");
  EXPECT_EQ(state.cpu.default_set.ToString(), "0,3-7");
}

TEST_F(ResizeTest, TheSameNumberChangesNothing) {
  Start();
  AddApp("p", "2");
  const ResizeDecision decision = Resize(*node, state, {"p", "app"}, 2);
  EXPECT_TRUE(decision.admitted());
  EXPECT_EQ(decision.before, decision.after);
  EXPECT_TRUE(decision.next == state);
}

TEST_F(ResizeTest, ARefusalHasFaultAndRemedy) {
  Start();
  AddApp("p", "2");
  const Refusal refusal = *Resize(*node, state, {"p", "app"}, 1).refusal;
  EXPECT_EQ(refusal.reason, "ResizeRefused");
  EXPECT_EQ(refusal.fault,
            "has 2 exclusive CPUs (1-2), and keeps while its pod lives those that it was created "
            "with: asked for 1 exclusive CPU");
  EXPECT_EQ(refusal.remedy,
            "let the container ask for 2 exclusive CPUs or more, or delete the pod and create it "
            "with 1 exclusive CPU");
  EXPECT_EQ(refusal.message,
            "container app of pod p has 2 exclusive CPUs (1-2), and keeps while its pod lives "
            "those that it was created with: asked for 1 exclusive CPU. Nothing was changed. Let "
            "the container ask for 2 exclusive CPUs or more, or delete the pod and create it with "
            "1 exclusive CPU");
}

TEST_F(ResizeTest, NeverBelowTheOriginalCpus) {
  Start();
  AddApp("p", "2");
  ResizeTo("p", 4);
  EXPECT_EQ(ResizeTo("p", 1),
            "container app of pod p has 4 exclusive CPUs (1-4; 1-2 since it was created), and "
            "keeps while its pod lives those that it was created with: asked for 1 exclusive CPU. "
            "Nothing was changed. Let the container ask for 2 exclusive CPUs or more, or delete "
            "the pod and create it with 1 exclusive CPU");
}

TEST_F(ResizeTest, ToSharedCpusAndBack) {
  Start();
  AddApp("p", "2");
  AddApp("q", "1");
  ResizeTo("p", 4);
  const ContainerKey key{"p", "app"};
  EXPECT_EQ(ResizeTo("p", 0), "");
  EXPECT_EQ(state.cpu.Find(key), nullptr);
  EXPECT_TRUE(state.cpu.WasShared(key));
  EXPECT_EQ(state.cpu.default_set.ToString(), "0-2,4-7");
  EXPECT_TRUE(PodsIn(state).contains("p"));
  // It is no container of the pool that waits for the CPUs that it was created with.
  AddApp("r", "2");
  EXPECT_EQ(ResizeTo("p", 3), "4-6");
  EXPECT_TRUE(state.cpu.WasShared(key));
  // It was not created with these CPUs.
  EXPECT_EQ(ResizeTo("p", 1), "4");
  ReleasePod("p", state);
  EXPECT_TRUE(state.cpu.originals.empty());
}

TEST_F(ResizeTest, FirstCpusAreBesideMemoryAndDevices) {
  config.memory_manager_policy = MemoryManagerPolicy::kStatic;
  config.reserved_memory = {{0, Amounts({{"memory", "100Mi"}})}};
  StartWithPolicy(TopologyManagerPolicy::kRestricted);
  state.devices.resources[kResizeGpu] = devicemanager::Registered({{"gpu0", {1}}});
  AddApp("p", "500m", {{"memory", "64Mi"}, {kResizeGpu, "1"}});
  EXPECT_EQ(ResizeTo("p", 2), "4-5");
  ReleasePod("p", state);
  AddApp("p", "500m", {{"memory", "64Mi"}, {kResizeGpu, "1"}});
  AddApp("q", "3", {{"memory", "64Mi"}});  // of node 0
  Add(MakePod("r", {App("app", {{"cpu", "3"}, {"memory", "64Mi"}})}));
  const std::string refused = ResizeTo("p", 2);
  EXPECT_TRUE(refused.starts_with("container app of pod p runs in the shared pool, and "))
      << refused;
  EXPECT_NE(refused.find("asked for 2 exclusive CPUs"), std::string::npos) << refused;
}

TEST_F(ResizeTest, FirstCpusBesideClaimedDevicesOfUnknownContainers) {
  StartWithPolicy(TopologyManagerPolicy::kRestricted);
  AddApp("p", "500m");
  claimed = {{.name = "g0", .numa = {1}}};
  EXPECT_EQ(ResizeTo("p", 2), "4-5");
  ResizeTo("p", 0);
  claimed = {{.name = "g0", .numa = {1}}, {.name = "g1", .numa = {0}}};
  EXPECT_NE(ResizeTo("p", 2).find("does not allow the resulting NUMA nodes"), std::string::npos);
}

TEST_F(ResizeTest, NotWithoutACpuPolicy) {
  config = {};
  Start();
  EXPECT_EQ(ResizeTo("p", 2),
            "container app of pod p has no exclusive CPUs, because cpuManagerPolicy is none: asked "
            "for 2 exclusive CPUs. Nothing was changed. Set cpuManagerPolicy to static, and then "
            "delete the pod and create it with the CPUs that it needs");
}

TEST_F(ResizeTest, NotAPartOfAPod) {
  Start();
  AddApp("p", "2");
  state.cpu.pods["p"] = Cpus("1-2");
  EXPECT_EQ(ResizeTo("p", 3),
            "container app of pod p has CPUs of its pod, which is assigned CPUs 1-2 as a whole: "
            "asked for 3 exclusive CPUs. Nothing was changed. Delete the pod and create it with "
            "the CPUs that it needs");
}

TEST_F(ResizeTest, TooFewFreeCpus) {
  Start();
  AddApp("p", "2");
  AddApp("q", "4");
  EXPECT_EQ(ResizeTo("p", 4),
            "container app of pod p has 2 exclusive CPUs (1-2), and too few other CPUs are free "
            "(not enough cpus available to satisfy request: requested=2, available=1): asked for "
            "4 exclusive CPUs. Free: NUMA node 0: 1 of 4 CPUs (3); NUMA node 1: 0 of 4 CPUs. "
            "Nothing was changed. Let the container ask for 3 exclusive CPUs, end other pods with "
            "exclusive CPUs, or delete the pod and create it with 4 exclusive CPUs");
  EXPECT_TRUE(ResizeTo("p", INT64_MAX)
                  .ends_with("Let the container ask for 3 exclusive CPUs, or use a larger node: "
                             "this one has 7 exclusive CPUs in all"));
  ResizeTo("p", 3);
  EXPECT_TRUE(ResizeTo("p", 8).ends_with(
      ". Nothing was changed. Use a larger node: this one has 7 exclusive CPUs in all"));
  // Its pod has the other CPUs.
  ReleasePod("p", state);
  Add(MakePod("p", {App("app", {{"cpu", "1"}, {"memory", "64Mi"}}),
                    App("side", {{"cpu", "2"}, {"memory", "64Mi"}})}));
  EXPECT_TRUE(ResizeTo("p", 6).ends_with(
      ". Nothing was changed. Delete the pod and create it with 6 exclusive CPUs"));
}

TEST_F(ResizeTest, OnlyWholeCores) {
  config.cpu_manager_policy_options["full-pcpus-only"] = "true";
  config.reserved_system_cpus = "0-1";
  Start("socket:2 numa:1 core:2 thread:2");
  AddApp("p", "2");
  EXPECT_EQ(ResizeTo("p", 3),
            "container app of pod p has 2 exclusive CPUs (2-3), and full-pcpus-only allows only "
            "whole cores (SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2): "
            "asked for 3 exclusive CPUs. Free: NUMA node 0: 0 of 4 CPUs; NUMA node 1: 4 of 4 CPUs "
            "(4-7). Nothing was changed. Let the container ask for a multiple of 2 exclusive CPUs");
  EXPECT_EQ(ResizeTo("p", 6), "2-7");
  EXPECT_EQ(ResizeTo("p", 5),
            "container app of pod p has 6 exclusive CPUs (2-7; 2-3 since it was created), and "
            "full-pcpus-only allows only whole cores (SMT Alignment Error: requested 5 cpus not "
            "multiple cpus per core = 2): asked for 5 exclusive CPUs. Nothing was changed. Let the "
            "container ask for a multiple of 2 exclusive CPUs");
  EXPECT_EQ(ResizeTo("p", 4), "2-5");
  // CPU 7 is a single one.
  state.cpu.default_set.Remove(6);
  state.cpu.assignments["old"]["app"] = Cpus("6");
  EXPECT_EQ(ResizeTo("p", 6),
            "container app of pod p has 4 exclusive CPUs (2-5; 2-3 since it was created), and "
            "full-pcpus-only allows only whole cores (SMT Alignment Error: not enough free "
            "physical CPUs: available physical CPUs = 4, requested CPUs = 6, CPUs per core = 2): "
            "asked for 6 exclusive CPUs. Free: NUMA node 0: 0 of 4 CPUs; NUMA node 1: 1 of 4 CPUs "
            "(7). Nothing was changed. End other pods with exclusive CPUs, or delete the pod and "
            "create it with 6 exclusive CPUs");
}

// From before full-pcpus-only was configured.
TEST_F(ResizeTest, PartsOfCoresStayAsTheyAre) {
  config.cpu_manager_policy_options["full-pcpus-only"] = "true";
  config.reserved_system_cpus = "0-1";
  Start("socket:2 numa:1 core:2 thread:2");
  state.cpu.default_set = Cpus("0-1,5,7");
  state.cpu.assignments["p"]["app"] = Cpus("2,4,6");
  state.cpu.originals["p"]["app"] = Cpus("2");
  state.cpu.assignments["q"]["app"] = Cpus("3");
  EXPECT_EQ(ResizeTo("p", 2),
            "container app of pod p has 3 exclusive CPUs (2,4,6; 2 since it was created), and "
            "full-pcpus-only allows only whole cores (it has parts of cores, and cannot have CPUs "
            "3 of these cores): asked for 2 exclusive CPUs. Nothing was changed. Delete the pod "
            "and create it with the CPUs that it needs");
  const std::string six = ResizeTo("p", 6);
  EXPECT_TRUE(
      six.ends_with("(5,7). Nothing was changed. End other pods with exclusive CPUs, or "
                    "delete the pod and create it with 6 exclusive CPUs"))
      << six;
  // Four CPUs would leave one of the three cores in parts.
  const std::string four = ResizeTo("p", 4);
  EXPECT_TRUE(
      four.ends_with("(5,7). Nothing was changed. Delete the pod and create it with 4 "
                     "exclusive CPUs"))
      << four;
  ReleasePod("q", state);
  EXPECT_EQ(ResizeTo("p", 6), "2-7");
}

TEST_F(ResizeTest, RestrictedAllowsFurtherNodesIfOneIsTooSmall) {
  StartWithPolicy(TopologyManagerPolicy::kRestricted);
  AddApp("p", "2");
  AddApp("q", "1");  // 3
  EXPECT_EQ(AffinityOf("p"), "{0}!");
  EXPECT_EQ(ResizeTo("p", 4),
            "container app of pod p has 2 exclusive CPUs (1-2), and topologyManagerPolicy "
            "restricted does not allow the resulting NUMA nodes (Resources cannot be allocated "
            "with Topology "
            "locality): asked for 4 exclusive CPUs. It has CPUs on NUMA node 0. Free: NUMA node 0: "
            "0 of 4 CPUs; NUMA node 1: 4 of 4 CPUs (4-7). Nothing was changed. Delete the pod and "
            "create it with 4 exclusive CPUs; with topologyManagerPolicy best-effort, the resize "
            "is done now, without this alignment");
  EXPECT_TRUE(ResizeTo("p", 3).find("Nothing was changed. End other pods with exclusive CPUs, or "
                                    "delete the pod") != std::string::npos);
  // No NUMA node has five CPUs.
  EXPECT_EQ(ResizeTo("p", 5), "1-2,4-6");
  EXPECT_EQ(AffinityOf("p"), "{0,1}!");
  // Fewer CPUs are never refused for the policy's sake, though one node is enough for three.
  EXPECT_EQ(ResizeTo("p", 3), "1-2,4");
  ReleasePod("q", state);
  EXPECT_TRUE(ResizeTo("p", 4).find("It has CPUs on NUMA nodes 0,1.") != std::string::npos);
}

TEST_F(ResizeTest, NamesTheNumberThatFitsOnItsNodes) {
  StartWithPolicy(TopologyManagerPolicy::kSingleNumaNode);
  AddApp("p", "1");
  EXPECT_TRUE(ResizeTo("p", 5).find("Nothing was changed. Let the container ask for 3 exclusive "
                                    "CPUs, or delete the pod and create it with 5") !=
              std::string::npos);
  EXPECT_EQ(ResizeTo("p", 3), "1-3");
  EXPECT_EQ(AffinityOf("p"), "{0}!");
}

TEST_F(ResizeTest, BestEffortExtendsTheAffinity) {
  StartWithPolicy(TopologyManagerPolicy::kBestEffort);
  AddApp("p", "2");
  EXPECT_EQ(ResizeTo("p", 3), "1-3");
  EXPECT_EQ(AffinityOf("p"), "{0}!");
  EXPECT_EQ(ResizeTo("p", 4), "1-4");
  EXPECT_EQ(AffinityOf("p"), "{0,1}");
  EXPECT_EQ(ResizeTo("p", 3), "1-3");
}

TEST_F(ResizeTest, WithoutATopologyPolicyNoAffinityIsStored) {
  StartWithPolicy(TopologyManagerPolicy::kNone);
  AddApp("p", "2");
  EXPECT_EQ(ResizeTo("p", 5), "1-5");
  EXPECT_TRUE(state.affinities.empty());
}

TEST_F(ResizeTest, AgreesWithTheMemoryThatItHas) {
  config.memory_manager_policy = MemoryManagerPolicy::kStatic;
  config.eviction_hard_memory = "";
  config.system_reserved = Amounts({{"memory", "1Gi"}});
  config.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", "1Gi"}})}};
  StartWithPolicy(TopologyManagerPolicy::kRestricted);
  AddApp("p", "2", {{"memory", "1Gi"}});
  // Without memory, restricted would allow both NUMA nodes for five CPUs.
  EXPECT_TRUE(ResizeTo("p", 5).find(
                  "It has CPUs on NUMA node 0, memory on NUMA node 0. Free: NUMA node 0: "
                  "1 of 4 CPUs (3); NUMA node 1: 4 of 4 CPUs (4-7). Nothing was changed. "
                  "Let the container ask for 3 exclusive CPUs, or delete") != std::string::npos);
  EXPECT_EQ(ResizeTo("p", 3), "1-3");
  // Memory on both nodes.
  ReleasePod("p", state);
  AddApp("wide", "5", {{"memory", "100Gi"}});
  EXPECT_EQ(ResizeTo("wide", 6), "1-2,4-7");
}

TEST_F(ResizeTest, AgreesWithTheDevicesThatItHas) {
  StartWithPolicy(TopologyManagerPolicy::kRestricted);
  state.devices.resources[kResizeGpu] = devicemanager::Registered({{"g0", {0}}, {"g1", {1}}});
  AddApp("p", "2", {{"memory", "64Mi"}, {kResizeGpu, "1"}});
  EXPECT_TRUE(
      ResizeTo("p", 5).find("It has CPUs on NUMA node 0, a.com/gpu on NUMA node 0. Free: ") !=
      std::string::npos);
  EXPECT_EQ(ResizeTo("p", 3), "1-3");
  ReleasePod("p", state);
  // Both devices: both nodes are preferred for them.
  AddApp("two", "5", {{"memory", "64Mi"}, {kResizeGpu, "2"}});
  EXPECT_EQ(ResizeTo("two", 6), "1-2,4-7");
}

// Where it has devices, a container finds its further CPUs.
TEST_F(ResizeTest, GrowsTowardsItsDevices) {
  Start("socket:4 numa:1 core:2");
  state.devices.resources[kResizeGpu] = devicemanager::Registered({{"g0", {0}}, {"g3", {3}}});
  AddApp("p", "1", {{"memory", "64Mi"}, {kResizeGpu, "2"}});
  EXPECT_EQ(state.cpu.Find({"p", "app"})->ToString(), "1");
  EXPECT_EQ(ResizeTo("p", 2), "1,6");
}

TEST_F(ResizeTest, WithScopePodThePodIsAligned) {
  config.topology_manager_scope = TopologyManagerScope::kPod;
  StartWithPolicy(TopologyManagerPolicy::kRestricted);
  const Pod pod = MakePod("p", {App("app", {{"cpu", "2"}, {"memory", "64Mi"}}),
                                App("side", {{"cpu", "1"}, {"memory", "64Mi"}})});
  Add(pod);  // 1-2 and 3
  EXPECT_EQ(ResizeTo("p", 2, "side"),
            "container side of pod p has 1 exclusive CPU (3), and topologyManagerPolicy restricted "
            "does not allow the resulting NUMA nodes (Resources cannot be allocated with Topology "
            "locality): "
            "asked for 2 exclusive CPUs. The pod has CPUs on NUMA node 0. Free: NUMA node 0: 0 of "
            "4 CPUs; NUMA node 1: 4 of 4 CPUs (4-7). Nothing was changed. Delete the pod and "
            "create it with 2 exclusive CPUs; with topologyManagerPolicy best-effort, the resize "
            "is done now, without this alignment");
  // Five CPUs of the pod need two NUMA nodes.
  EXPECT_EQ(ResizeTo("p", 3, "side"), "3-5");
  EXPECT_EQ(state.affinities.at({"p", "side"}),
            (TopologyHint{.affinity = NumaMask::FromBits(3), .preferred = true}));
  // Alone, each container would be refused.
  EXPECT_EQ(ResizeTo("p", 4), "1-2,6-7");
}

TEST_F(ResizeTest, IsQuickOnTheLargestMachines) {
  for (const TopologyManagerScope scope :
       {TopologyManagerScope::kContainer, TopologyManagerScope::kPod}) {
    config.topology_manager_scope = scope;
    config.cpu_manager_policy_options["full-pcpus-only"] = "true";
    config.reserved_system_cpus = "0-1";
    Start("socket:64 numa:1 core:8 thread:2");
    AddApp("p", "2");
    EXPECT_EQ(ResizeTo("p", 14), "2-15");
    EXPECT_EQ(ResizeTo("p", 1022), "2-1023");
    EXPECT_TRUE(ResizeTo("p", 1024).ends_with("this one has 1022 exclusive CPUs in all"));
    EXPECT_EQ(ResizeTo("p", 30), "2-31");
    EXPECT_EQ(ResizeTo("p", 2), "2-3");
  }
}

// The container is on node 1. Of several devices it is not known which are its own.
TEST_F(ResizeTest, GrowsBesideTheClaimedDevicesOfItsPod) {
  struct Case {
    std::vector<std::vector<int64_t>> places;
    bool may_leave;
  };
  const std::vector<Case> cases = {{{}, true},
                                   {{{}}, true},
                                   {{{1}}, false},
                                   {{{1}, {1}}, false},
                                   {{{0}}, false},
                                   {{{0}, {1}}, false},
                                   {{{0, 1}}, false},
                                   {{{0, 1}, {0, 1}, {}}, false},
                                   {{{0, 1}, {1}}, false}};
  for (const auto policy : {TopologyManagerPolicy::kBestEffort, TopologyManagerPolicy::kRestricted,
                            TopologyManagerPolicy::kSingleNumaNode}) {
    for (const Case& one : cases) {
      StartWithPolicy(policy);
      Container app = App("app", {{"cpu", "2"}, {"memory", "64Mi"}});
      app.claimed_devices = {{"example.com/n/first", {1}}};
      Add(MakePod("p", {app}));
      claimed.clear();
      for (const std::vector<int64_t>& place : one.places) claimed.push_back({"d", place});
      EXPECT_EQ(ResizeTo("p", 4), "4-7");
      const std::string wide = ResizeTo("p", 5);
      const bool is_done = policy == TopologyManagerPolicy::kBestEffort ||
                           (policy == TopologyManagerPolicy::kRestricted && one.may_leave);
      EXPECT_EQ(wide == "1,4-7", is_done) << wide << " " << ::testing::PrintToString(one.places);
      if (is_done || claimed.empty()) continue;
      EXPECT_NE(wide.find("Claimed devices of the pod: d on "), std::string::npos) << wide;
    }
  }
}

// The container is on node 1. If it is known which devices are its own, those of other containers
// do not matter.
TEST_F(ResizeTest, GrowsBesideItsOwnClaimedDevices) {
  StartWithPolicy(TopologyManagerPolicy::kRestricted);
  Container app = App("app", {{"cpu", "2"}, {"memory", "64Mi"}});
  app.claimed_devices = {{"first", {1}}};
  Add(MakePod("p", {app}));
  Pod pod = MakePod("p", {});
  pod.claimed_devices = {{"first", {1}}, {"second", {0}}};
  const auto grow = [&](const ResizeClaims& claims) {
    return Resize(*node, state, {"p", "app"}, 5, claims);
  };
  EXPECT_FALSE(grow(ClaimsOf(pod, "app")).admitted()) << "perhaps its device is on node 1";
  Container own;
  own.name = "app";
  pod.containers = {own};
  const ResizeDecision free = grow(ClaimsOf(pod, "app"));
  ASSERT_TRUE(free.admitted()) << free.refusal->message;
  EXPECT_EQ(free.after.ToString(), "1,4-7");
  pod.containers[0].claimed_devices = {{"first", {1}}};
  const ResizeDecision bound = grow(ClaimsOf(pod, "app"));
  ASSERT_FALSE(bound.admitted());
  EXPECT_NE(bound.refusal->message.find("Claimed devices of the container: first on NUMA node 1"),
            std::string::npos)
      << bound.refusal->message;
  EXPECT_FALSE(grow(ClaimsOf(pod, "other")).admitted()) << "not known of that one";
}

}  // namespace
}  // namespace alignd::admission
