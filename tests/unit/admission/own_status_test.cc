// Pods of which a scheduler has decided where they run (annotation resource-status).
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "own_status_fixture.h"

namespace alignd::admission {
namespace {

TEST_F(OwnStatusTest, ThePodGetsTheCpusThatTheSchedulerDecided) {
  EXPECT_EQ(CpusOf(node_, empty_, Decided(R"({"cpuset":"5,9"})", "2")), "5,9");
  const std::map<std::string, std::string> two = {{"cpu", "2"}, {"memory", "64Mi"}};
  Pod pod = MakePod(
      "p", {Init("warm", {{"cpu", "3"}, {"memory", "64Mi"}}), App("a", two), App("b", two)});
  pod.policies.cpuset = CpuSet{4, 5, 10, 11};
  EXPECT_EQ(CpusOf(node_, empty_, pod), "4-5,10-11");
  for (const auto policy : {TopologyManagerPolicy::kBestEffort, TopologyManagerPolicy::kRestricted,
                            TopologyManagerPolicy::kSingleNumaNode}) {
    const Node node = NodeOf(ConfigOf(policy));
    const NodeState empty = NodeState::Initial(node);
    EXPECT_EQ(CpusOf(node, empty, Decided(R"({"cpuset":"12-13"})", "2")), "12-13");
    // The node's policy applies as well.
    EXPECT_EQ(CpusOf(node, empty, Decided(R"({"cpuset":"7-8"})", "2")),
              policy == TopologyManagerPolicy::kBestEffort ? "7-8" : "TopologyAffinityError");
  }
}

// What the empty node could offer does not depend on the annotation: NUMA node 1 has 8 CPUs.
TEST_F(OwnStatusTest, ADecisionDoesNotWeakenBestAttainable) {
  for (const auto scope : {TopologyManagerScope::kContainer, TopologyManagerScope::kPod}) {
    KubeletConfig config = ConfigOf(TopologyManagerPolicy::kBestAttainable);
    config.topology_manager_scope = scope;
    const Node node = NodeOf(config);
    const NodeState empty = NodeState::Initial(node);
    for (
        const char* const across :
        {R"({"cpuset":"1,3,5,9,11,13"})", R"({"numaNodeResources":[{"node":0},{"node":1}]})",
         R"({"numaNodeResources":[{"resources":{"cpu":"3"}},{"node":1,"resources":{"cpu":"3"}}]})"}) {
      EXPECT_EQ(CpusOf(node, empty, Decided(across, "6")), "TopologyAffinityError") << across;
    }
    EXPECT_EQ(CpusOf(node, empty, Decided(R"({"cpuset":"8-13"})", "6")), "8-13");
    // 9 CPUs are on no NUMA node.
    EXPECT_EQ(CpusOf(node, empty, Decided(R"({"cpuset":"1-5,8-11"})", "9")), "1-5,8-11");
  }
}

TEST_F(OwnStatusTest, ADecisionThatCannotBeFollowedIsRefusedWithBothSides) {
  NodeState state = empty_;
  state =
      Decide(node_, state, MakePod("other", {App("app", {{"cpu", "2"}, {"memory", "64Mi"}})})).next;
  ASSERT_EQ(state.cpu.HeldBy("other").ToString(), "2-3");
  cpumanager::SetOffline({15}, state.cpu);
  const auto decided = [](const std::string& cpus) {
    return "the scheduler decided cpuset " + cpus + kStatusText + ", and ";
  };
  struct Case {
    std::string status;
    std::string cpus;
    std::string fault;
  };
  for (const Case& c : {
           Case{R"({"cpuset":"4-6"})", "2",
                decided("4-6") + "the pod requests 2 exclusive CPUs, not 3"},
           Case{R"({"cpuset":"4"})", "2",
                decided("4") + "the pod requests 2 exclusive CPUs, not 1"},
           Case{R"({"cpuset":"4,99"})", "2", decided("4,99") + "this node has no CPUs 99"},
           Case{R"({"cpuset":"0-1"})", "2", decided("0-1") + "CPUs 0 are reserved"},
           Case{R"({"cpuset":"14-15"})", "2", decided("14-15") + "CPUs 15 are offline"},
           Case{R"({"cpuset":"3-4"})", "2",
                decided("3-4") + "CPUs 3 are not free: pods with them are other"},
           Case{R"({"cpuset":"4-5","numaNodeResources":[{"node":1}]})", "2",
                decided("4-5") +
                    "CPUs 4-5 are on other NUMA nodes than those of its numaNodeResources"},
           Case{R"({"numaNodeResources":[{"node":7}]})", "2",
                std::string("the scheduler decided NUMA node 7") + kStatusText +
                    ", and this node has no such NUMA node"},
           Case{R"({"numaNodeResources":[{"node":0,"resources":{"cpu":"6"}}]})", "6",
                std::string("the scheduler decided 6 CPUs of NUMA node 0") + kStatusText +
                    ", and it has 5 that the pod can be assigned"},
           Case{R"({"numaNodeResources":[{"node":0,"resources":{"nvidia.com/gpu":"1"}}]})", "2",
                std::string("the scheduler decided nvidia.com/gpu of NUMA node 0") + kStatusText +
                    ", and only cpu, memory and huge pages can be decided"},
       }) {
    EXPECT_EQ(CpusOf(node_, state, Decided(c.status, c.cpus)), c.fault);
  }
  const Pod waiting = Decided(R"({"cpuset":"3-4"})", "2");
  EXPECT_TRUE(FitsWithoutOthers(node_, state, waiting));
  EXPECT_FALSE(FitsWithoutOthers(node_, state, Decided(R"({"cpuset":"0-1"})", "2")));
}

// What takes CPUs for a time is another matter than a decision that this node can never follow.
TEST_F(OwnStatusTest, TheRemedyForCpusThatAreNotFreeIsToWait) {
  NodeState state = empty_;
  const auto decide = [&](const std::string& cpuset, const std::string& cpus) {
    return *Decide(node_, state, Decided(R"({"cpuset":")" + cpuset + R"("})", cpus)).refusal;
  };
  const std::string again =
      "let the scheduler decide again: create the pod anew, or remove the annotation";
  for (int cpu = 2; cpu < 9; ++cpu) {
    state.cpu.default_set -= CpuSet{cpu};
    state.cpu.assignments["other-" + std::to_string(cpu)]["app"] = CpuSet{cpu};
  }
  const Refusal taken = decide("2-8", "7");
  EXPECT_EQ(taken.fault, std::string("the scheduler decided cpuset 2-8") + kStatusText +
                             ", and CPUs 2-8 are not free: pods with them are other-2, other-3, "
                             "other-4, other-5, other-6 and 2 more");
  EXPECT_EQ(taken.remedy, "wait until these pods end, or " + again);
  EXPECT_EQ(decide("0-1", "2").remedy, again);
}

TEST_F(OwnStatusTest, DecidedCpusAreLawfulUnderTheOptionsOfTheNode) {
  KubeletConfig config = ConfigOf();
  config.cpu_manager_policy_options["full-pcpus-only"] = "true";
  const Node node = NodeOf(config);
  const NodeState empty = NodeState::Initial(node);
  EXPECT_EQ(CpusOf(node, empty, Decided(R"({"cpuset":"4-5"})", "2")), "4-5");
  EXPECT_EQ(CpusOf(node, empty, Decided(R"({"cpuset":"3-4"})", "2")), "SMTAlignmentError");
}

TEST_F(OwnStatusTest, APodKeepsWhatItHasWhateverItsAnnotationSaysLater) {
  const Pod before = Decided(R"({"cpuset":"4-5"})", "2");
  const NodeState state = Decide(node_, empty_, before).next;
  for (const std::string status :
       {R"({"cpuset":"6-7"})", R"({"cpuset":"0-1"})", R"({"cpuset":"4-5"})", "{}"}) {
    EXPECT_EQ(CpusOf(node_, state, Decided(status, "2")), "4-5") << status;
  }
}

// All of a pod that is decided again, after its annotation has changed.
TEST_F(OwnStatusTest, ADecisionThatComesLaterChangesNothing) {
  for (const auto policy : {TopologyManagerPolicy::kNone, TopologyManagerPolicy::kBestEffort,
                            TopologyManagerPolicy::kRestricted}) {
    const Node node = NodeOf(WithMemory(ConfigOf(policy)));
    const NodeState empty = NodeState::Initial(node);
    for (const std::string cpus : {"2", "500m"}) {
      const Admission before = Decide(node, empty, Decided("{}", cpus, "1Gi"));
      ASSERT_TRUE(before.admitted());
      for (const char* const status : {R"({"numaNodeResources":[{"node":1}]})", R"({"cpuset":"8"})",
                                       R"({"numaNodeResources":[{"node":99}]})"}) {
        const Admission again = Decide(node, before.next, Decided(status, cpus, "1Gi"));
        ASSERT_TRUE(again.admitted()) << cpus << status << again.refusal->message;
        EXPECT_EQ(again.next, before.next) << cpus << status;
      }
    }
  }
}

TEST_F(OwnStatusTest, WhatOneContainerHasAlreadyCounts) {
  const std::map<std::string, std::string> two = {{"cpu", "2"}, {"memory", "64Mi"}};
  NodeState state = empty_;
  state.cpu.default_set -= CpuSet{6, 7};
  state.cpu.assignments["p"]["a"] = CpuSet{6, 7};
  const auto decided = [&](const std::string& status) {
    Pod pod = MakePod("p", {App("a", two), App("b", two)});
    ReadPodPolicies(kResourceStatusAnnotation, status, pod.policies);
    EXPECT_EQ(pod.policies.status_fault, "");
    return pod;
  };
  EXPECT_EQ(CpusOf(node_, state, decided(R"({"cpuset":"2-5"})")),
            std::string("the scheduler decided cpuset 2-5") + kStatusText +
                ", and containers of the pod have CPUs 6-7");
  EXPECT_EQ(CpusOf(node_, state, decided(R"({"cpuset":"6-7,12-13"})")), "6-7,12-13");
  EXPECT_EQ(CpusOf(node_, state, decided(R"({"numaNodeResources":[{"node":1}]})")),
            std::string("the scheduler decided on NUMA nodes by numaNodeResources") + kStatusText +
                ", and containers of the pod have CPUs 6-7 of others");
  const auto counts = [](const std::string& zero, const std::string& one) {
    return R"({"numaNodeResources":[{"node":0,"resources":{"cpu":")" + zero +
           R"("}},{"node":1,"resources":{"cpu":")" + one + R"("}}]})";
  };
  EXPECT_EQ(CpusOf(node_, state, decided(counts("2", "2"))), "6-9");
  EXPECT_EQ(CpusOf(node_, state, decided(counts("3", "1"))), "1,6-8");
  EXPECT_EQ(CpusOf(node_, state, decided(counts("1", "3"))),
            std::string("the scheduler decided 1 CPU of NUMA node 0") + kStatusText +
                ", and containers of the pod have CPUs 6-7");
}

// Without the Pods API, containers are decided one by one.
TEST_F(OwnStatusTest, ContainersThatComeOneByOneShareTheCpus) {
  NodeState state = empty_;
  for (const std::string name : {"a", "b"}) {
    Pod pod = MakePod("p", {App(name, {{"cpu", "2"}, {"memory", "64Mi"}})});
    pod.is_complete = false;
    pod.policies.cpuset = CpuSet{4, 5, 6, 7};
    const Admission admission = Decide(node_, state, pod);
    ASSERT_TRUE(admission.admitted());
    state = admission.next;
  }
  EXPECT_EQ(state.cpu.HeldBy("p").ToString(), "4-7");
  Pod third = MakePod("p", {App("c", {{"cpu", "1"}, {"memory", "64Mi"}})});
  third.is_complete = false;
  third.policies.cpuset = CpuSet{4, 5, 6, 7};
  EXPECT_FALSE(Decide(node_, state, third).admitted());
}

// Other containers of such a pod can have exclusive CPUs.
TEST_F(OwnStatusTest, ADecisionIsCheckedAlsoForAContainerWithoutExclusiveCpus) {
  const Node node = NodeOf(WithMemory(ConfigOf()));
  const NodeState empty = NodeState::Initial(node);
  const auto fault_of = [&](const std::string& status) {
    Pod pod = Decided(status, "500m");
    pod.is_complete = false;
    return CpusOf(node, empty, pod);
  };
  EXPECT_EQ(fault_of(R"({"cpuset":"900"})"), std::string("the scheduler decided cpuset 900") +
                                                 kStatusText + ", and this node has no CPUs 900");
  EXPECT_EQ(fault_of(R"({"numaNodeResources":[{"resources":{"nvidia.com/gpu":"1"}}]})"),
            std::string("the scheduler decided nvidia.com/gpu of NUMA node 0") + kStatusText +
                ", and only cpu, memory and huge pages can be decided");
  EXPECT_EQ(fault_of(R"({"numaNodeResources":[{"node":99}]})"),
            std::string("the scheduler decided NUMA node 99") + kStatusText +
                ", and this node has no such NUMA node");
  EXPECT_EQ(fault_of(R"({"cpuset":"8-9"})"), "");
}

TEST_F(OwnStatusTest, AMessageNamesOnlySomeOfThousandsOfCpus) {
  std::string list = "1000";
  for (int cpu = 1002; cpu < 6000; cpu += 2) list += "," + std::to_string(cpu);
  const Pod pod = Decided(R"({"cpuset":")" + list + R"("})", "2");
  EXPECT_LT(CpusOf(node_, empty_, pod).size(), 600u);
  EXPECT_LT(DescribePodPolicy(node_, pod).size(), 300u);
}

TEST_F(OwnStatusTest, WhatHasNoMeaningHereIsRefusedOrExplained) {
  KubeletConfig config = ConfigOf();
  config.pod_policies = {PodPolicy::kCpuBindPolicy};
  const Node off = NodeOf(config);
  const Pod pod = Decided(R"({"cpuset":"0"})", "2");
  EXPECT_EQ(CpusOf(off, NodeState::Initial(off), pod), "2-3");
  EXPECT_EQ(DescribePodPolicy(off, pod),
            "annotation scheduling.koordinator.sh/resource-status is ignored: podPolicies does not "
            "have resourceStatus");
  EXPECT_EQ(DescribePodPolicy(node_, Decided(R"({"cpuset":"4-5","numaNodeResources":[{}]})", "2")),
            std::string("cpuset 4-5") + kStatusText + "; NUMA nodes 0" + kStatusText);
  const Node memory = NodeOf(WithMemory(ConfigOf()));
  EXPECT_EQ(CpusOf(memory, NodeState::Initial(memory), Decided(R"({"cpuset":"4"})", "500m")),
            "a scheduler decided where the pod runs, by annotation "
            "scheduling.koordinator.sh/resource-status, and none of its containers gets exclusive "
            "CPUs");
  Pod faulty = Decided("{}", "2");
  faulty.policies.status_fault = "annotation x: is wrong";
  EXPECT_EQ(CpusOf(node_, empty_, faulty), "annotation x: is wrong");
}

}  // namespace
}  // namespace alignd::admission
