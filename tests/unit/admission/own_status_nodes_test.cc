// Pods of which a scheduler has decided the NUMA nodes (numaNodeResources).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "own_status_fixture.h"

namespace alignd::admission {
namespace {

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

TEST_F(OwnStatusTest, CpusAndMemoryCanBeDecidedOnDifferentNumaNodes) {
  const std::string status = R"({"numaNodeResources":[{"node":0,"resources":{"cpu":"2"}},)"
                             R"({"node":1,"resources":{"memory":"64Mi"}}]})";
  for (const bool is_complete : {true, false}) {
    Pod pod = Decided(status, "2");
    pod.is_complete = is_complete;
    for (const auto policy : {TopologyManagerPolicy::kNone, TopologyManagerPolicy::kBestEffort}) {
      const Node node = NodeOf(WithMemory(ConfigOf(policy)));
      const Admission admission = Decide(node, NodeState::Initial(node), pod);
      ASSERT_TRUE(admission.admitted()) << admission.refusal->message;
      EXPECT_EQ(admission.assignments.at("app").memory_nodes, std::vector<int>{1});
      EXPECT_EQ(admission.assignments.at("app").exclusive.ToString(), "2-3");
    }
    const Node restricted = NodeOf(WithMemory(ConfigOf(TopologyManagerPolicy::kRestricted)));
    EXPECT_EQ(CpusOf(restricted, NodeState::Initial(restricted), pod), "TopologyAffinityError");
  }
  // What the CPUs' NUMA node has too little of does not come from the other one.
  const std::string small = R"({"numaNodeResources":[{"node":1,"resources":{"cpu":"2"}},)"
                            R"({"node":0,"resources":{"memory":"1Gi","cpu":"0"}}]})";
  Pod nine = Decided(small, "9");
  nine.is_complete = false;
  EXPECT_EQ(CpusOf(node_, empty_, nine), "UnexpectedAdmissionError");
}

TEST_F(OwnStatusTest, DecidedNumbersOfCpusAreKeptOrRefused) {
  const auto counts = [](const std::string& zero, const std::string& one) {
    return R"({"numaNodeResources":[{"node":0,"resources":{"cpu":")" + zero +
           R"("}},{"node":1,"resources":{"cpu":")" + one + R"("}}]})";
  };
  const auto not_whole = [](const std::string& count) {
    return "the scheduler decided " + count + " CPUs of NUMA node 0" + kStatusText +
           ", and they cannot be chosen: SMT Alignment Error: requested " + count +
           " cpus not multiple cpus per core = 2";
  };
  for (const bool is_option : {true, false}) {
    KubeletConfig config = ConfigOf();
    config.pod_policies.insert(PodPolicy::kCpuBindPolicy);
    if (is_option) config.cpu_manager_policy_options["full-pcpus-only"] = "true";
    const Node node = NodeOf(config);
    const auto cpus_of = [&](const std::string& status, const std::string& cpus) {
      Pod pod = Decided(status, cpus);
      if (!is_option) pod.policies.required_bind = CpuBindPolicy::kFullPcpus;
      return CpusOf(node, NodeState::Initial(node), pod);
    };
    EXPECT_EQ(cpus_of(counts("3", "1"), "4"), not_whole("3"));
    EXPECT_EQ(cpus_of(counts("1", "1"), "2"), not_whole("1"));
    EXPECT_EQ(cpus_of(counts("2", "2"), "4"), "2-3,8-9");
    EXPECT_EQ(cpus_of(counts("4", "0"), "4"), "2-5");
  }
}

TEST_F(OwnStatusTest, NumbersOfCpusAreNotFollowedContainerByContainer) {
  const auto one_of = [](const std::string& cpus, const std::string& status) {
    Pod pod = Decided(status, cpus);
    pod.is_complete = false;
    return pod;
  };
  const std::string two = R"({"numaNodeResources":[{"node":0,"resources":{"cpu":"2"}},)"
                          R"({"node":1,"resources":{"cpu":"2"}}]})";
  EXPECT_EQ(CpusOf(node_, empty_, one_of("2", two)),
            std::string("the scheduler decided how many CPUs each of several NUMA nodes gives, by "
                        "numaNodeResources") +
                kStatusText + ", and the containers of the pod become known one by one");
  // One NUMA node gives all of them.
  const std::string one = R"({"numaNodeResources":[{"node":1,"resources":{"cpu":"4"}},)"
                          R"({"node":0,"resources":{"memory":"64Mi"}}]})";
  for (const char* const cpus : {"2", "4", "6"}) {
    EXPECT_TRUE(Decide(node_, empty_, one_of(cpus, one)).next.cpu.HeldBy("p").Intersects({8}));
  }
  EXPECT_EQ(CpusOf(node_, empty_, one_of("9", one)), "UnexpectedAdmissionError");
}

}  // namespace
}  // namespace alignd::admission
