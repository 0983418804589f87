// Pods of which a scheduler has decided where they run (annotation resource-status).
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/own_policy.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

constexpr char kStatusText[] = " of annotation scheduling.koordinator.sh/resource-status";

// Two NUMA nodes of four cores with two CPUs each (0 and 1, 2 and 3, ...); CPU 0 is reserved.
class OwnStatusTest : public testing::Test {
 protected:
  static KubeletConfig ConfigOf(TopologyManagerPolicy policy = TopologyManagerPolicy::kNone) {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.topology_manager_policy = policy;
    config.pod_policies = {PodPolicy::kResourceStatus};
    return config;
  }

  static KubeletConfig WithMemory(KubeletConfig config) {
    config.memory_manager_policy = MemoryManagerPolicy::kStatic;
    config.eviction_hard_memory = "";
    config.system_reserved = Amounts({{"memory", "512Mi"}});
    config.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", "512Mi"}})}};
    return config;
  }

  static Node NodeOf(const KubeletConfig& config) {
    Result<Node> node =
        Node::Make(MakeMachine("socket:2 numa:1 core:4 thread:2 memory-gib=4"), config);
    EXPECT_TRUE(node.ok()) << node.error().Text();
    return *std::move(node);
  }

  static Pod Decided(const std::string& status, const std::string& cpus,
                     const std::string& memory = "64Mi") {
    Pod pod = MakePod("p", {App("app", {{"cpu", cpus}, {"memory", memory}})});
    ReadPodPolicies(kResourceStatusAnnotation, status, pod.policies);
    EXPECT_EQ(pod.policies.status_fault, "");
    return pod;
  }

  static Admission Decide(const Node& node, const NodeState& state, const Pod& pod) {
    return Admit(node, state, pod, devicemanager::NoPreference);
  }

  // The CPUs of the pod, or why it is refused.
  static std::string CpusOf(const Node& node, const NodeState& state, const Pod& pod) {
    const Admission admission = Decide(node, state, pod);
    if (!admission.admitted()) {
      EXPECT_EQ(admission.next.cpu, state.cpu);
      const Refusal& refusal = *admission.refusal;
      return refusal.reason == kPodPolicyError ? refusal.fault : refusal.reason;
    }
    EXPECT_TRUE(admission.next.BrokenInvariants(node).empty());
    return admission.next.cpu.HeldBy(pod.uid).ToString();
  }

  const Node node_ = NodeOf(ConfigOf());
  const NodeState empty_ = NodeState::Initial(node_);
};

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

TEST_F(OwnStatusTest, NumaNodesAndTheirCpusAreFollowed) {
  const auto on = [](const std::string& nodes) {
    return R"({"numaNodeResources":[)" + nodes + "]}";
  };
  EXPECT_EQ(CpusOf(node_, empty_, Decided(on(R"({"node":1,"resources":{"cpu":"2"}})"), "2")),
            "8-9");
  EXPECT_EQ(CpusOf(node_, empty_,
                   Decided(on(R"({"node":0,"resources":{"cpu":"1"}},)"
                              R"({"node":1,"resources":{"cpu":"3"}})"),
                           "4")),
            "1,8-10");
  // Without numbers of CPUs: anywhere on these nodes.
  EXPECT_EQ(CpusOf(node_, empty_, Decided(on(R"({"node":1})"), "3")), "8-10");
  EXPECT_EQ(CpusOf(node_, empty_, Decided(on(R"({"node":1})"), "9")), "UnexpectedAdmissionError");
  for (const auto policy :
       {TopologyManagerPolicy::kBestEffort, TopologyManagerPolicy::kSingleNumaNode}) {
    const Node node = NodeOf(ConfigOf(policy));
    EXPECT_EQ(CpusOf(node, NodeState::Initial(node),
                     Decided(on(R"({"node":1,"resources":{"cpu":"2","memory":"64Mi"}})"), "2")),
              "8-9");
  }
}

TEST_F(OwnStatusTest, MemoryComesFromTheDecidedNumaNodes) {
  for (const auto policy : {TopologyManagerPolicy::kNone, TopologyManagerPolicy::kBestEffort,
                            TopologyManagerPolicy::kRestricted}) {
    const Node node = NodeOf(WithMemory(ConfigOf(policy)));
    const NodeState empty = NodeState::Initial(node);
    const std::string status =
        R"({"numaNodeResources":[{"node":1,"resources":{"cpu":"2","memory":"1Gi"}}]})";
    const Admission on_one = Decide(node, empty, Decided(status, "2", "1Gi"));
    ASSERT_TRUE(on_one.admitted()) << on_one.refusal->message;
    EXPECT_EQ(on_one.assignments.at("app").memory_nodes, std::vector<int>{1});
    EXPECT_EQ(on_one.assignments.at("app").exclusive.ToString(), "8-9");
    // 5 GiB need both NUMA nodes.
    EXPECT_FALSE(Decide(node, empty, Decided(status, "2", "5Gi")).admitted());
  }
  const Node node = NodeOf(WithMemory(ConfigOf()));
  const std::string status = R"({"cpuset":"8-9","numaNodeResources":[{"node":1}]})";
  EXPECT_EQ(CpusOf(node, NodeState::Initial(node), Decided(status, "2", "5Gi")),
            std::string("the scheduler decided on other NUMA nodes by numaNodeResources") +
                kStatusText +
                ", and these have too little memory free for container app: it would have memory "
                "of NUMA node 0");
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
