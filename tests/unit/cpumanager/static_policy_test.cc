#include "alignd/cpumanager/static_policy.h"

#include <gtest/gtest.h>

#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::cpumanager {
namespace {

using topologymanager::TopologyHint;

constexpr const char* kTwoSmallSockets = "socket:2 numa:1 core:2 thread:2";  // CPUs 0-3 and 4-7
constexpr TopologyHint kAnywhere{};

const std::map<std::string, std::string>& RequestOf(int cpus) {
  static std::map<std::string, std::string> amounts;
  amounts = {{"cpu", std::to_string(cpus)}, {"memory", "1Gi"}};
  return amounts;
}

StaticPolicy PolicyWith(const char* reserved, PolicyOptions options = {}) {
  return {.options = options, .reserved = Cpus(reserved)};
}

// A node with one policy, and the assignments of its containers.
struct Node {
  Machine machine;
  StaticPolicy policy;
  CpuState state = InitialState(machine, policy);

  // "" for a container without exclusive CPUs, or the message of the refusal.
  std::string Allocate(const Pod& pod, size_t container, TopologyHint affinity = kAnywhere) {
    const Container& asked = pod.containers.at(container);
    const std::optional<Refusal> refusal =
        cpumanager::Allocate(machine, policy, pod, asked, affinity, state);
    if (refusal) return refusal->message;
    EXPECT_EQ(BrokenInvariants(machine, policy, state), std::vector<std::string>{});
    const CpuSet* cpus = state.Find({pod.uid, asked.name});
    return cpus == nullptr ? "" : cpus->ToString();
  }
};

Pod PodOf(const std::string& uid, int cpus) { return MakePod(uid, {App("app", RequestOf(cpus))}); }

KubeletConfig StaticConfig() {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  return config;
}

TEST(MakeStaticPolicy, TakesTheListedCpus) {
  KubeletConfig config = StaticConfig();
  config.reserved_system_cpus = "5,1";
  config.kube_reserved = Amounts({{"cpu", "3"}});
  const Result<StaticPolicy> policy = MakeStaticPolicy(MakeMachine(kTwoSmallSockets), config);
  ASSERT_TRUE(policy.ok()) << policy.error().message;
  EXPECT_EQ(policy->reserved.ToString(), "1,5");
}

TEST(MakeStaticPolicy, RoundsUpAndPacksANumber) {
  KubeletConfig config = StaticConfig();
  config.kube_reserved = Amounts({{"cpu", "1100m"}});
  config.system_reserved = Amounts({{"cpu", "200m"}});
  const Machine machine = MakeMachine("socket:1 numa:1 core:4 thread:2 smt=interleaved");
  const Result<StaticPolicy> policy = MakeStaticPolicy(machine, config);
  ASSERT_TRUE(policy.ok()) << policy.error().message;
  EXPECT_EQ(policy->reserved.ToString(), "0,4");
}

TEST(MakeStaticPolicy, RefusesWithTheKubeletsTexts) {
  const Machine machine = MakeMachine(kTwoSmallSockets);
  KubeletConfig config = StaticConfig();
  EXPECT_EQ(MakeStaticPolicy(machine, config).error().message,
            "[cpumanager] unable to determine reserved CPU resources for static policy");
  config.kube_reserved = Amounts({{"cpu", "9"}});
  EXPECT_EQ(MakeStaticPolicy(machine, config).error().message,
            "new static policy error: [cpumanager] unable to reserve the required amount of CPUs "
            "(size of  did not equal 9)");
  config.kube_reserved = Amounts({{"cpu", "3G"}});
  EXPECT_EQ(MakeStaticPolicy(machine, config).error().message,
            "new static policy error: [cpumanager] unable to reserve the required amount of CPUs "
            "(size of  did not equal 3000000000)");
  config.reserved_system_cpus = "7-8";
  EXPECT_EQ(MakeStaticPolicy(machine, config).error().message,
            "reserved-cpus: 7-8 is not a subset of online-cpus: 0-7");
}

TEST(InitialState, OmitsStrictlyReservedCpus) {
  const Machine machine = MakeMachine(kTwoSmallSockets);
  EXPECT_EQ(InitialState(machine, PolicyWith("0")).default_set.ToString(), "0-7");
  const StaticPolicy strict = PolicyWith("0", {.strict_cpu_reservation = true});
  EXPECT_EQ(InitialState(machine, strict).default_set.ToString(), "1-7");
}

TEST(Allocate, FollowsTheAffinityAndSpillsOver) {
  Node node{MakeMachine(kTwoSmallSockets), PolicyWith("0")};
  EXPECT_EQ(node.Allocate(PodOf("a", 2), 0, {.affinity = NumaMask::Of(1)}), "4-5");
  EXPECT_EQ(node.Allocate(PodOf("b", 3), 0, {.affinity = NumaMask::Of(1)}), "1,6-7");
  EXPECT_EQ(node.state.default_set.ToString(), "0,2-3");
}

TEST(Allocate, WidensTheAffinityToItsSocket) {
  Node node{MakeMachine("socket:2 numa:2 core:2"), PolicyWith("0", {.align_by_socket = true})};
  EXPECT_EQ(node.Allocate(PodOf("a", 4), 0, {.affinity = NumaMask::Of(3)}), "4-7");
}

TEST(Allocate, KeepsOthersInTheSharedPool) {
  Node node{MakeMachine(kTwoSmallSockets), PolicyWith("0")};
  const Pod fraction = MakePod("a", {App("app", {{"cpu", "1500m"}, {"memory", "1Gi"}})});
  EXPECT_EQ(node.Allocate(fraction, 0), "");
  EXPECT_EQ(node.state, InitialState(node.machine, node.policy));
}

TEST(Allocate, RefusesWhatDoesNotFit) {
  Node node{MakeMachine(kTwoSmallSockets), PolicyWith("0")};
  EXPECT_EQ(node.Allocate(PodOf("a", 8), 0),
            "Allocate failed due to not enough cpus available to satisfy request: requested=8, "
            "available=7, which is unexpected");
}

// The request is printed as it is; what the affinity provides is subtracted.
TEST(Allocate, RefusesMoreCpusThanAnIntCanCount) {
  struct Case {
    const char* cpus;
    std::string requested;
  };
  const Case cases[] = {{"2147483647", "2147483643"},
                        {"2147483648", "2147483644"},
                        {"9223372036854776", "9223372036854772"},
                        {"1e30", "9223372036854775803"}};
  for (const Case& c : cases) {
    Node node{MakeMachine(kTwoSmallSockets), PolicyWith("0")};
    const Pod pod = MakePod("a", {App("app", {{"cpu", c.cpus}, {"memory", "1Gi"}})});
    EXPECT_EQ(node.Allocate(pod, 0, {.affinity = NumaMask::Of(1)}),
              "Allocate failed due to not enough cpus available to satisfy request: requested=" +
                  c.requested + ", available=3, which is unexpected");
    EXPECT_EQ(node.state, InitialState(node.machine, node.policy));
    node.policy.options.full_pcpus_only = true;
    EXPECT_NE(node.Allocate(pod, 0).find("SMT Alignment Error"), std::string::npos) << c.cpus;
  }
}

TEST(Allocate, GivesWholeCoresOrNothing) {
  Node node{MakeMachine(kTwoSmallSockets), PolicyWith("0", {.full_pcpus_only = true})};
  EXPECT_EQ(node.Allocate(PodOf("a", 3), 0),
            "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2");
  EXPECT_EQ(node.Allocate(PodOf("a", 4), 0), "4-7");
  EXPECT_EQ(node.Allocate(PodOf("b", 4), 0),
            "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 2, "
            "requested CPUs = 4, CPUs per core = 2");
}

// The kubelet refuses it: the rest of the node has no four free CPUs.
TEST(Allocate, KeepsTheCpusOfAContainerOnAFullNode) {
  Node node{MakeMachine(kTwoSmallSockets), PolicyWith("0", {.full_pcpus_only = true})};
  EXPECT_EQ(node.Allocate(PodOf("a", 4), 0), "4-7");
  EXPECT_EQ(node.Allocate(PodOf("a", 4), 0), "4-7");
}

TEST(Allocate, LendsInitCpusToLaterContainersOfThePod) {
  Node node{MakeMachine(kTwoSmallSockets), PolicyWith("0")};
  const Pod pod = MakePod(
      "p", {Init("init", RequestOf(3)), Sidecar("proxy", RequestOf(1)), App("app", RequestOf(2))});
  EXPECT_EQ(node.Allocate(pod, 0), "1-3");
  EXPECT_EQ(node.Allocate(pod, 1), "1");
  EXPECT_EQ(node.state.reusable.at("p").ToString(), "2-3");
  EXPECT_EQ(node.Allocate(pod, 2), "2-3");
  EXPECT_TRUE(node.state.reusable.empty());
  EXPECT_EQ(node.state.default_set.ToString(), "0,4-7");
}

TEST(Allocate, ForgetsTheReuseOfOtherPods) {
  Node node{MakeMachine(kTwoSmallSockets), PolicyWith("0")};
  node.Allocate(MakePod("p", {Init("init", RequestOf(3))}), 0);
  EXPECT_EQ(node.Allocate(PodOf("q", 4), 0), "4-7");
  EXPECT_TRUE(node.state.reusable.empty());
}

TEST(Release, KeepsWhatASiblingHolds) {
  Node node{MakeMachine(kTwoSmallSockets), PolicyWith("0")};
  const Pod pod = MakePod("p", {Init("init", RequestOf(3)), App("app", RequestOf(1))});
  EXPECT_EQ(node.Allocate(pod, 0), "1-3");
  EXPECT_EQ(node.Allocate(pod, 1), "1");
  ReleaseContainer({"p", "init"}, node.state);
  EXPECT_EQ(node.state.default_set.ToString(), "0,2-7");
  EXPECT_EQ(BrokenInvariants(node.machine, node.policy, node.state), std::vector<std::string>{});
  ReleaseContainer({"p", "app"}, node.state);
  EXPECT_EQ(node.state, InitialState(node.machine, node.policy));
}

TEST(Release, OfAPodReleasesAllItsCpus) {
  Node node{MakeMachine(kTwoSmallSockets), PolicyWith("0")};
  const Pod pod = MakePod("p", {Init("init", RequestOf(3)), App("app", RequestOf(1))});
  node.Allocate(pod, 0);
  node.Allocate(pod, 1);
  ReleasePod("p", node.state);
  EXPECT_EQ(node.state, InitialState(node.machine, node.policy));
  ReleasePod("unknown", node.state);
  ReleaseContainer({"p", "app"}, node.state);
  EXPECT_EQ(node.state, InitialState(node.machine, node.policy));
}

}  // namespace
}  // namespace alignd::cpumanager
