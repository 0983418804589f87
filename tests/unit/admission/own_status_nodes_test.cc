// Pods of which a scheduler has decided the NUMA nodes (numaNodeResources).
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "alignd/admission/pod_level.h"
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

constexpr TopologyManagerPolicy kStrictPolicies[] = {TopologyManagerPolicy::kBestAttainable,
                                                     TopologyManagerPolicy::kRestricted,
                                                     TopologyManagerPolicy::kSingleNumaNode};

// The configurations in which a strict policy decides, as 1.20 merges and as 1.37 does.
std::vector<KubeletConfig> StrictConfigs(const KubeletConfig& base) {
  std::vector<KubeletConfig> configs;
  for (const auto policy : kStrictPolicies) {
    for (const auto scope : {TopologyManagerScope::kContainer, TopologyManagerScope::kPod}) {
      for (const auto compatibility : {Compatibility::k1_20, KubeletConfig().compatibility}) {
        KubeletConfig& config = configs.emplace_back(base);
        config.topology_manager_policy = policy;
        config.topology_manager_scope = scope;
        config.compatibility = compatibility;
      }
    }
  }
  return configs;
}

// Also where the merge cannot see that the places differ: with 1.20, hints need not be equal, and a
// NUMA node without CPUs is in no hint of the CPUs.
TEST_F(OwnStatusTest, ADecisionDoesNotWeakenTheAlignmentOfCpusAndMemory) {
  const std::string cpus = R"({"numaNodeResources":[{"node":0,"resources":{"cpu":"2"}},)";
  for (const std::string memory : {R"({"node":1,"resources":{"memory":"64Mi"}}]})",
                                   R"({"node":2,"resources":{"memory":"64Mi"}}]})"}) {
    const Pod one = Decided(cpus + memory, "2");
    Pod several = MakePod("p", {Init("warm", {{"cpu", "1"}, {"memory", "64Mi"}}),
                                App("shared", {{"cpu", "500m"}, {"memory", "64Mi"}}),
                                App("app", {{"cpu", "2"}, {"memory", "64Mi"}})});
    several.policies = one.policies;
    for (const Pod& pod : {one, several}) {
      for (const KubeletConfig& config : StrictConfigs(WithMemory(ConfigOf()))) {
        const Node node = NodeOf(config, "cpuless=1");
        EXPECT_EQ(CpusOf(node, NodeState::Initial(node), pod), "TopologyAffinityError")
            << ToString(config.topology_manager_policy) << memory;
      }
      // These admit every alignment.
      for (const auto policy : {TopologyManagerPolicy::kNone, TopologyManagerPolicy::kBestEffort}) {
        const Node node = NodeOf(WithMemory(ConfigOf(policy)), "cpuless=1");
        const Admission admission = Decide(node, NodeState::Initial(node), pod);
        ASSERT_TRUE(admission.admitted()) << admission.refusal->message;
        EXPECT_EQ(admission.assignments.at("app").memory_nodes,
                  std::vector<int>{memory.find(":2,") != std::string::npos ? 2 : 1});
      }
    }
  }
}

TEST_F(OwnStatusTest, MemoryOfAPodAsAWholeComesFromTheDecidedNumaNodes) {
  KubeletConfig config = WithMemory(ConfigOf(TopologyManagerPolicy::kBestEffort));
  config.topology_manager_scope = TopologyManagerScope::kPod;
  config.feature_gates["PodLevelResourceManagers"] = true;
  Pod pod = Decided(R"({"numaNodeResources":[{"node":0,"resources":{"cpu":"3"}},)"
                    R"({"node":1,"resources":{"memory":"2Gi"}}]})",
                    "2", "1Gi");
  const ResourceList whole = Amounts({{"cpu", "3"}, {"memory", "2Gi"}});
  pod.pod_level = Resources{.requests = whole, .limits = whole};
  pod.containers.push_back(App("log", {}));
  const Node node = NodeOf(config);
  ASSERT_EQ(PodLevelManagersOf(node, pod), PodLevelManagers::kPod);
  const Admission admission = Decide(node, NodeState::Initial(node), pod);
  ASSERT_TRUE(admission.admitted()) << admission.refusal->message;
  for (const char* const name : {"app", "log"}) {
    EXPECT_EQ(admission.assignments.at(name).memory_nodes, std::vector<int>{1}) << name;
  }
  EXPECT_TRUE(CpuSet({1, 2, 3, 4, 5, 6, 7}).Contains(admission.next.cpu.HeldBy("p")));
  // The node's policy applies to it like to every other.
  for (const KubeletConfig& strict : StrictConfigs(config)) {
    const Node of_strict = NodeOf(strict);
    // Kubelet 1.20 knows no such pods.
    if (PodLevelManagersOf(of_strict, pod) == PodLevelManagers::kOff) continue;
    EXPECT_EQ(CpusOf(of_strict, NodeState::Initial(of_strict), pod), "TopologyAffinityError");
  }
}

// The scheduler has counted fewer CPUs on these NUMA nodes than the pod would take there.
TEST_F(OwnStatusTest, FewerCpusThanThePodRequestsAreRefused) {
  const std::string three = R"({"numaNodeResources":[{"node":0,"resources":{"cpu":"2"}},)"
                            R"({"node":1,"resources":{"cpu":1}}]})";
  EXPECT_EQ(CpusOf(node_, empty_, Decided(three, "4")),
            std::string("the scheduler decided 3 CPUs by numaNodeResources") + kStatusText +
                ", and the pod requests 4 exclusive CPUs");
  EXPECT_EQ(CpusOf(node_, empty_, Decided(three, "3")), "2-3,8");
  EXPECT_EQ(
      CpusOf(node_, empty_,
             Decided(R"({"numaNodeResources":[{"node":1,"resources":{"cpu":"3500m"}}]})", "4")),
      std::string("the scheduler decided 3500m CPUs by numaNodeResources") + kStatusText +
          ", and the pod requests 4 exclusive CPUs");
  // Containers of the shared pool are counted, and CPUs can be amplified.
  EXPECT_EQ(
      CpusOf(node_, empty_,
             Decided(R"({"numaNodeResources":[{"node":1,"resources":{"cpu":"4500m"}}]})", "4")),
      "8-11");
}

// The node decides nothing about such a pod.
TEST_F(OwnStatusTest, ADecisionForAPodOfTheSharedPoolHasNoEffect) {
  const std::string no_effect = " has no effect: the pod has no exclusive CPUs";
  const Pod pod =
      Decided(R"({"cpuset":"4","numaNodeResources":[{"node":0,"resources":{"cpu":"1"}}]})", "500m");
  EXPECT_TRUE(Decide(node_, empty_, pod).admitted());
  EXPECT_EQ(DescribePodPolicy(node_, pod), std::string("cpuset 4") + kStatusText + no_effect +
                                               "; NUMA nodes 0" + kStatusText + no_effect);
}

// Its NUMA nodes do not add to those of claimed devices, which are elsewhere.
TEST_F(OwnStatusTest, ADecisionDoesNotWeakenTheAlignmentWithClaimedDevices) {
  for (const KubeletConfig& config : StrictConfigs(ConfigOf())) {
    const Node node = NodeOf(config);
    const NodeState empty = NodeState::Initial(node);
    Pod pod = Decided(R"({"numaNodeResources":[{"node":0,"resources":{"cpu":"2"}}]})", "2");
    const auto claim = [&](int64_t numa) {
      pod.claimed_devices = {{"gpu", {numa}}};
      pod.containers.front().claimed_devices = pod.claimed_devices;
    };
    claim(1);
    EXPECT_EQ(CpusOf(node, empty, pod), "TopologyAffinityError");
    claim(0);
    EXPECT_EQ(CpusOf(node, empty, pod), "2-3");
  }
}

TEST_F(OwnStatusTest, DecidedNumbersOfCpusAreKeptOrRefused) {
  const auto counts = [](const std::string& zero, const std::string& one) {
    return R"({"numaNodeResources":[{"node":0,"resources":{"cpu":")" + zero +
           R"("}},{"node":1,"resources":{"cpu":")" + one + R"("}}]})";
  };
  const auto not_whole = [](const std::string& count) {
    return "the scheduler decided " + count + (count == "1" ? " CPU" : " CPUs") +
           " of NUMA node 0" + kStatusText +
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
