// Pods that ask by annotation how their CPUs lie on cores.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/explanation.h"
#include "alignd/admission/why_not.h"
#include "own_cpus_fixture.h"

namespace alignd::admission {
namespace {

TEST_F(OwnCpusTest, FullPcpusIsOnlyWholeCoresOrRefused) {
  NodeState state = empty_;
  EXPECT_EQ(Place(node_, state, PodWith("one", "1")), "1");
  EXPECT_EQ(Place(node_, state, PodWith("two", "1")), "2");
  // Without the policy, 3 would be next.
  EXPECT_EQ(Place(node_, state, Requiring(kFull, "full", "4")), "4-7");
  const Admission odd = Decide(node_, state, Requiring(kFull, "odd", "3"));
  ASSERT_FALSE(odd.admitted());
  EXPECT_EQ(odd.refusal->reason, "SMTAlignmentError");
  EXPECT_EQ(odd.refusal->message,
            "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2");
}

TEST_F(OwnCpusTest, FullPcpusCountsOnlyWholeCores) {
  const NodeState half = HalfTaken(node_);
  const Admission full = Decide(node_, half, Requiring(kFull, "full", "2"));
  ASSERT_FALSE(full.admitted());
  EXPECT_EQ(full.refusal->message,
            "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 0, "
            "requested CPUs = 2, CPUs per core = 2");
  EXPECT_EQ(full.next, half);
  EXPECT_TRUE(Decide(node_, half, Preferring(kFull, "full", "2")).admitted());
  EXPECT_TRUE(FitsWithoutOthers(node_, half, Requiring(kFull, "full", "2")));
}

// NUMA node 0 has whole cores of 2 and 2 CPUs, node 1 of 2 and 1: only the latter make up 3.
TEST_F(OwnCpusTest, FullPcpusFindsTheNumaNodeWhoseCoresAddUp) {
  const Machine machine = WithoutCpus(MakeMachine("socket:2 numa:1 core:3 thread:2"), {6, 7, 11});
  for (const auto policy :
       {TopologyManagerPolicy::kNone, TopologyManagerPolicy::kBestEffort,
        TopologyManagerPolicy::kBestAttainable, TopologyManagerPolicy::kRestricted,
        TopologyManagerPolicy::kSingleNumaNode}) {
    for (const auto scope : {TopologyManagerScope::kContainer, TopologyManagerScope::kPod}) {
      KubeletConfig config = ConfigOf();
      config.topology_manager_policy = policy;
      config.topology_manager_scope = scope;
      const Result<Node> node = Node::Make(machine, config);
      ASSERT_TRUE(node.ok()) << node.error().Text();
      const NodeState empty = NodeState::Initial(*node);
      const Admission admission = Decide(*node, empty, Requiring(kFull, "p", "3"));
      ASSERT_TRUE(admission.admitted()) << ToString(policy) << admission.refusal->message;
      EXPECT_EQ(admission.next.cpu.HeldBy("p").ToString(), "8-10") << ToString(policy);
      // Beside a device of NUMA node 0, there are no such cores.
      Pod beside = Requiring(kFull, "p", "3");
      beside.claimed_devices = {{"gpu", {0}}};
      beside.containers.front().claimed_devices = beside.claimed_devices;
      // best-attainable: the empty node offers nothing better.
      const bool refuses = policy == TopologyManagerPolicy::kRestricted ||
                           policy == TopologyManagerPolicy::kSingleNumaNode;
      EXPECT_EQ(Decide(*node, empty, beside).admitted(), !refuses) << ToString(policy);
    }
  }
}

TEST_F(OwnCpusTest, SpreadByPcpusIsOneCpuOfEachCoreOrRefused) {
  NodeState state = empty_;
  EXPECT_EQ(Place(node_, state, Requiring(kSpread, "eight", "8")), "1-2,4,6,8,10,12,14");
  // The other CPU of seven cores is free.
  EXPECT_EQ(Place(node_, state, Requiring(kSpread, "three", "3")), "3,5,7");
  const Admission nine = Decide(node_, empty_, Requiring(kSpread, "nine", "9"));
  ASSERT_FALSE(nine.admitted());
  EXPECT_EQ(nine.refusal->reason, "SMTAlignmentError");
  EXPECT_EQ(nine.refusal->message,
            "SMT Alignment Error: requested 9 cpus, each on a core of its own, and cores with a "
            "free CPU = 8");
}

TEST_F(OwnCpusTest, PreferredSpreadingUsesAsManyCoresAsThereAreOnTheSameNumaNodes) {
  for (const std::string cpus : {"2", "3", "4", "5", "7", "8", "10", "15"}) {
    const Admission plain = Decide(node_, empty_, PodWith("p", cpus));
    const Admission spread = Decide(node_, empty_, Preferring(kSpread, "p", cpus));
    ASSERT_TRUE(spread.admitted()) << cpus;
    const CpuSet packed = plain.next.cpu.HeldBy("p");
    const CpuSet ours = spread.next.cpu.HeldBy("p");
    for (int numa = 0; numa < 2; ++numa) {
      const CpuSet here = ours & node_.machine.CpusInNuma(numa);
      EXPECT_EQ(here.Count(), packed.CountCommon(node_.machine.CpusInNuma(numa))) << cpus;
      int cores = 0;
      for (const CpuGroup& core : node_.machine.cores()) cores += core.cpus.Intersects(here);
      EXPECT_EQ(cores, std::min(here.Count(), 4)) << cpus;
    }
  }
}

TEST_F(OwnCpusTest, AllContainersOfAPodAreSpreadTogether) {
  const std::map<std::string, std::string> four = {{"cpu", "4"}, {"memory", "64Mi"}};
  Pod pod = MakePod("p", {Init("warm", four), App("a", four), App("b", four)});
  pod.policies.required_bind = kSpread;
  NodeState state = empty_;
  EXPECT_EQ(Place(node_, state, pod), "1-2,4,6,8,10,12,14");
  EXPECT_EQ(*state.cpu.Find({"p", "warm"}), *state.cpu.Find({"p", "a"}));
  pod = MakePod("q", {App("a", four), App("b", {{"cpu", "5"}, {"memory", "64Mi"}})});
  pod.policies.required_bind = kSpread;
  EXPECT_FALSE(Decide(node_, empty_, pod).admitted());
}

// The hints are those of the CPUs that the pod can have.
TEST_F(OwnCpusTest, TheAlignmentKnowsWhatThePodRequires) {
  KubeletConfig config = ConfigOf();
  config.topology_manager_policy = TopologyManagerPolicy::kSingleNumaNode;
  const Node single = NodeOf(config);
  NodeState state = NodeState::Initial(single);
  // NUMA node 0 has two whole cores left.
  ASSERT_EQ(Place(single, state, PodWith("part", "3")), "1-3");
  EXPECT_EQ(Place(single, state, Requiring(kFull, "full", "6")), "8-13");
  EXPECT_EQ(Decide(single, state, Requiring(kSpread, "wide", "5")).refusal->reason,
            "TopologyAffinityError");
  EXPECT_EQ(Place(single, state, Requiring(kSpread, "spread", "2")), "4,6");
}

TEST_F(OwnCpusTest, APodDoesNotWeakenTheOptionsOfTheNode) {
  struct Case {
    std::string option;
    Bind allowed;
    Bind refused;
  };
  for (const Case& c : {Case{"full-pcpus-only", kFull, kSpread},
                        Case{"distribute-cpus-across-cores", kSpread, kFull}}) {
    const Node node = NodeOf(ConfigOf(c.option));
    const NodeState empty = NodeState::Initial(node);
    EXPECT_TRUE(Decide(node, empty, Requiring(c.allowed, "p", "2")).admitted()) << c.option;
    const Admission refused = Decide(node, empty, Requiring(c.refused, "p", "2"));
    ASSERT_FALSE(refused.admitted()) << c.option;
    EXPECT_EQ(refused.refusal->reason, kPodPolicyError);
    EXPECT_EQ(refused.refusal->message,
              "the pod asks for requiredCPUBindPolicy " + std::string(ToString(*c.refused)) +
                  kSpecText + ", and this node assigns CPUs with " + c.option +
                  ". What would help: remove requiredCPUBindPolicy from the annotation: the "
                  "node's option then applies; or run the pod on a node without " +
                  c.option);
    const Pod other = Preferring(c.refused, "p", "2");
    EXPECT_EQ(Decide(node, empty, other).next.cpu, Decide(node, empty, PodWith("p", "2")).next.cpu);
    EXPECT_EQ(DescribePodPolicy(node, other), "preferredCPUBindPolicy " +
                                                  std::string(ToString(*c.refused)) + kSpecText +
                                                  " has no effect: the node has " + c.option);
  }
  const Node full = NodeOf(ConfigOf("full-pcpus-only"));
  EXPECT_FALSE(Decide(full, NodeState::Initial(full), Preferring(kSpread, "p", "3")).admitted());
}

TEST_F(OwnCpusTest, TheOtherOptionsOfTheNodeApplyAsWell) {
  const Node node = NodeOf(ConfigOf("distribute-cpus-across-numa"));
  NodeState state = NodeState::Initial(node);
  // 10 CPUs need both NUMA nodes, which have even shares; whole cores make that 6 and 4.
  for (const auto& [pod, near] :
       std::vector<std::pair<Pod, int>>{{Requiring(kFull, "p", "10"), 6},
                                        {Preferring(kFull, "p", "10"), 6},
                                        {Preferring(kSpread, "p", "10"), 5},
                                        {PodWith("p", "10"), 5}}) {
    const CpuSet cpus = Decide(node, state, pod).next.cpu.HeldBy("p");
    const int first = cpus.CountCommon(node.machine.CpusInNuma(0));
    EXPECT_EQ(std::max(first, 10 - first), near) << DescribePodPolicy(node, pod);
  }
}

TEST_F(OwnCpusTest, WhatHasNoMeaningHereIsRefusedOrExplained) {
  NodeState state = empty_;
  state.devices = devicemanager::StateWith(devicemanager::Registered({{"g0", {1}}}));
  const auto with_gpu = [](Pod pod) {
    for (ResourceList* list :
         {&pod.containers[0].resources.limits, &pod.containers[0].resources.requests}) {
      (*list)[devicemanager::kGpu] = Quantity(1);
    }
    return pod;
  };
  const Pod shared = with_gpu(Requiring(kFull, "p", "1500m"));
  EXPECT_EQ(Decide(node_, state, shared).refusal->fault,
            "the pod asks for requiredCPUBindPolicy FullPCPUs" + std::string(kSpecText) +
                ", and none of its containers gets exclusive CPUs");
  KubeletConfig none = ConfigOf();
  none.cpu_manager_policy = CpuManagerPolicy::kNone;
  EXPECT_EQ(Decide(NodeOf(none), state, with_gpu(Requiring(kFull, "p", "2"))).refusal->fault,
            "the pod asks for requiredCPUBindPolicy FullPCPUs" + std::string(kSpecText) +
                ", and this node assigns no CPUs");
  Pod wish = with_gpu(Avoiding(CpuExclusivePolicy::kPcpuLevel, "p", "1500m"));
  wish.policies.preferred_bind = kSpread;
  EXPECT_TRUE(Decide(node_, state, wish).admitted());
  EXPECT_EQ(DescribePodPolicy(node_, wish),
            "preferredCPUBindPolicy SpreadByPCPUs" + std::string(kSpecText) +
                " has no effect: the pod has no exclusive CPUs; preferredCPUExclusivePolicy "
                "PCPULevel" +
                kSpecText + " has no effect: the pod has no exclusive CPUs");
  // With nothing to align it is admitted.
  const Pod nothing = Requiring(kFull, "p", "1500m");
  EXPECT_TRUE(Decide(node_, state, nothing).admitted());
  EXPECT_EQ(DescribePodPolicy(node_, nothing), "requiredCPUBindPolicy FullPCPUs" +
                                                   std::string(kSpecText) +
                                                   " has no effect: the pod has no exclusive CPUs");
  EXPECT_EQ(DescribePodPolicy(node_, shared),
            "requiredCPUBindPolicy FullPCPUs" + std::string(kSpecText));
  Pod faulty = PodWith("p", "2");
  faulty.policies.spec_fault = "annotation x: is wrong";
  EXPECT_EQ(Decide(node_, state, faulty).refusal->message,
            "annotation x: is wrong. What would help: correct the annotation, for example "
            "{\"requiredCPUBindPolicy\": \"FullPCPUs\"}, or remove it");
}

TEST_F(OwnCpusTest, IsIgnoredUnlessTheOperatorAllowsIt) {
  Pod pod = Avoiding(CpuExclusivePolicy::kPcpuLevel, "p", "3", kFull);
  pod.policies.spec_fault = "annotation x: is wrong";
  KubeletConfig config = ConfigOf();
  config.pod_policies = {PodPolicy::kNumaTopologyPolicy};
  const Node off = NodeOf(config);
  const Admission ignored = Decide(off, NodeState::Initial(off), pod);
  EXPECT_TRUE(ignored.admitted());
  EXPECT_TRUE(ignored.next.chosen_policies.empty());
  EXPECT_EQ(DescribePodPolicy(off, pod),
            "annotation scheduling.koordinator.sh/resource-spec is ignored: podPolicies has "
            "neither cpuBindPolicy nor cpuExclusivePolicy; requiredCPUBindPolicy FullPCPUs" +
                std::string(kSpecText) +
                " is ignored: podPolicies does not have cpuBindPolicy; "
                "preferredCPUExclusivePolicy PCPULevel" +
                kSpecText + " is ignored: podPolicies does not have cpuExclusivePolicy");
  // Each switch is for its own members.
  config.pod_policies = {PodPolicy::kCpuExclusivePolicy};
  pod.policies.spec_fault.clear();
  const Node exclusive = NodeOf(config);
  const NodeState next = Decide(exclusive, NodeState::Initial(exclusive), pod).next;
  EXPECT_EQ(next.chosen_policies.at("p"),
            (PodPolicies{.name_space = "default", .exclusive = CpuExclusivePolicy::kPcpuLevel}));
}

TEST_F(OwnCpusTest, ARefusalSaysWhoseRequirementItIsAndWhatHelps) {
  const NodeState half = HalfTaken(node_);
  const Pod pod = Requiring(kFull, "full", "2");
  const Admission refused = Decide(node_, half, pod);
  const std::string message = Explain(node_, half, pod, *refused.refusal).message;
  for (const std::string part :
       {"app: 2 exclusive CPUs; requiredCPUBindPolicy FullPCPUs of annotation",
        "it fits when other pods end",
        "it would be admitted now without its "
        "requiredCPUBindPolicy"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  const WhyNot why = FindChanges(
      node_, half, pod, {}, [](const std::string& uid) { return uid; }, [] { return true; });
  ASSERT_FALSE(why.changes.empty());
  EXPECT_EQ(why.changes.back().what,
            "write preferredCPUBindPolicy in place of requiredCPUBindPolicy into annotation "
            "scheduling.koordinator.sh/resource-spec: the pod is then admitted without this "
            "alignment with cores");
}

// The option does not count CPUs of ended init containers as free.
TEST_F(OwnCpusTest, FullPcpusAdmitsNothingThatTheOptionOfTheNodeRefuses) {
  const Node node = NodeOf(ConfigOf("full-pcpus-only"));
  const NodeState empty = NodeState::Initial(node);
  for (const char* const cpus : {"10", "14"}) {
    Pod pod = MakePod("p", {Init("warm", {{"cpu", "4"}, {"memory", "64Mi"}}),
                            App("app", {{"cpu", cpus}, {"memory", "64Mi"}})});
    const Admission by_option = Decide(node, empty, pod);
    pod.policies.required_bind = kFull;
    const Admission by_pod = Decide(node, empty, pod);
    EXPECT_EQ(by_option.admitted(), cpus == std::string("10"));
    ASSERT_EQ(by_pod.admitted(), by_option.admitted());
    if (!by_pod.admitted()) {
      EXPECT_EQ(by_pod.refusal->message, by_option.refusal->message);
    }
  }
}

}  // namespace
}  // namespace alignd::admission
