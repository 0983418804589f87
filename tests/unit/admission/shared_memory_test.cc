// The memory of containers of the shared pool that stay on one NUMA node: it is assigned there, and
// accounted beside the memory of all other pods.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/adoption.h"
#include "alignd/admission/assignment_mark.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/pod_level.h"
#include "alignd/admission/resize.h"
#include "alignd/admission/transition.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "alignd/memorymanager/static_policy.h"
#include "alignd/noderesourcetopology/zones.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

using Policy = TopologyManagerPolicy;

constexpr uint64_t kGibibyte = uint64_t{1} << 30;

// Two NUMA nodes with four CPUs and 64Gi each; CPU 0 and 1Gi of NUMA node 0 are reserved.
class SharedMemory : public testing::Test {
 protected:
  static KubeletConfig ConfigOf(Policy policy = Policy::kNone) {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.topology_manager_policy = policy;
    config.pod_policies = {PodPolicy::kSharedNumaNode};
    config.memory_manager_policy = MemoryManagerPolicy::kStatic;
    config.eviction_hard_memory = "";
    config.system_reserved = Amounts({{"memory", "1Gi"}});
    config.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", "1Gi"}})}};
    return config;
  }

  static Node NodeOf(const KubeletConfig& config) {
    Result<Node> node = Node::Make(MakeMachine("socket:2 numa:1 core:4 memory-gib=64"), config);
    EXPECT_TRUE(node.ok()) << node.error().Text();
    return *std::move(node);
  }

  static Container SharedApp(const std::string& name, const std::string& cpu,
                             const std::string& memory, ContainerKind kind = ContainerKind::kApp) {
    Container container = MakeContainer(kind, name, {});
    container.resources.requests = Amounts({{"cpu", cpu}});
    if (!memory.empty()) container.resources.requests["memory"] = Quantity::Parse(memory).value();
    return container;
  }

  static Pod PodOf(const std::string& uid, std::vector<Container> containers) {
    Pod pod = MakePod(uid, std::move(containers));
    pod.policies.shared_on_one_node = true;
    return pod;
  }

  // Burstable.
  static Pod Sharing(const std::string& uid, const std::string& cpu, const std::string& memory) {
    return PodOf(uid, {SharedApp("app", cpu, memory)});
  }

  static Pod Exclusive(const std::string& uid, const std::string& memory) {
    return MakePod(uid, {App("app", {{"cpu", "1"}, {"memory", memory}})});
  }

  Admission Decide(const Node& node, const Pod& pod) const {
    return Admit(node, state_, pod, devicemanager::NoPreference);
  }

  // Admits the pod: where its container `app` runs and has its memory, or the refusal.
  std::string Place(const Node& node, const Pod& pod) {
    Admission admission = Decide(node, pod);
    if (!admission.admitted()) return admission.refusal->reason;
    state_ = std::move(admission.next);
    EXPECT_TRUE(state_.BrokenInvariants(node).empty());
    return PlaceOf(node, {pod.uid, "app"});
  }

  std::string PlaceOf(const Node& node, const ContainerKey& key) const {
    const Assignment now = AssignmentOf(node, state_, key);
    std::string text = now.cpuset.ToString() + " memory";
    for (const int id : now.memory_nodes) text += " " + std::to_string(id);
    return text;
  }

  uint64_t FreeOn(int numa_id) const {
    return state_.memory.machine.at(numa_id).tables.at("memory").free / kGibibyte;
  }

  std::string MessageOf(const Node& node, const Pod& pod) const {
    const Admission admission = Decide(node, pod);
    if (admission.admitted()) return "admitted";
    return Explain(node, state_, pod, *admission.refusal).message;
  }

  const Node none_ = NodeOf(ConfigOf());
  NodeState state_ = NodeState::Initial(none_);
};

TEST_F(SharedMemory, IsOnTheNumaNodeOfTheContainer) {
  EXPECT_EQ(Place(none_, Sharing("a", "500m", "20Gi")), "4-7 memory 1");
  EXPECT_EQ(FreeOn(1), 44U);
  const auto zones = noderesourcetopology::Zones(none_, state_);
  EXPECT_EQ(zones.at(1).resources.at("memory").available, 44 * kGibibyte);
  ReleasePod("a", state_);
  EXPECT_EQ(FreeOn(1), 64U);
}

TEST_F(SharedMemory, DecidesAboutTheNumaNode) {
  ASSERT_EQ(Place(none_, Sharing("big", "100m", "50Gi")), "4-7 memory 1");
  EXPECT_EQ(Place(none_, Sharing("a", "500m", "20Gi")), "0-3 memory 0");
  EXPECT_EQ(Place(none_, Sharing("b", "500m", "14Gi")), "4-7 memory 1");
}

// Each topology policy gives the same, also to a pod as a whole.
TEST_F(SharedMemory, AlignsUnderEachTopologyPolicy) {
  for (const Policy policy : {Policy::kBestEffort, Policy::kRestricted, Policy::kSingleNumaNode,
                              Policy::kBestAttainable}) {
    for (const TopologyManagerScope scope :
         {TopologyManagerScope::kContainer, TopologyManagerScope::kPod}) {
      KubeletConfig config = ConfigOf(policy);
      config.topology_manager_scope = scope;
      const Node node = NodeOf(config);
      state_ = NodeState::Initial(node);
      ASSERT_EQ(Place(node, Sharing("big", "100m", "50Gi")), "0-3 memory 0");
      EXPECT_EQ(Place(node, Sharing("a", "500m", "20Gi")), "4-7 memory 1");
      EXPECT_FALSE(Decide(node, Sharing("c", "100m", "45Gi")).admitted());
    }
  }
}

// The kubelet's memory manager never promises more than there is: neither does alignd.
TEST_F(SharedMemory, IsNotPromisedToOtherPods) {
  const Node node = NodeOf(ConfigOf(Policy::kSingleNumaNode));
  ASSERT_EQ(Place(node, Sharing("a", "500m", "40Gi")), "0-3 memory 0");
  EXPECT_EQ(Place(node, Exclusive("x", "24Gi")), "4 memory 1");
  EXPECT_EQ(Decide(node, Exclusive("y", "41Gi")).refusal->reason, "UnexpectedAdmissionError");
  EXPECT_EQ(Place(node, Exclusive("y", "40Gi")), "5 memory 1");
  EXPECT_FALSE(Decide(node, Sharing("b", "100m", "24Gi")).admitted());
  EXPECT_EQ(Place(node, Sharing("b", "100m", "23Gi")), "0-3 memory 0");
}

TEST_F(SharedMemory, IsNotInAGroup) {
  ASSERT_EQ(Place(none_, MakePod("wide", {App("app", {{"cpu", "1"}, {"memory", "100Gi"}})})),
            "1 memory 0 1");
  EXPECT_EQ(Decide(none_, Sharing("a", "500m", "1Gi")).refusal->reason, "UnexpectedAdmissionError");
  const std::string message = MessageOf(none_, Sharing("a", "500m", "1Gi"));
  EXPECT_NE(message.find("no NUMA node has enough shared CPUs and enough memory that is in no "
                         "group for container app, which is to stay on one"),
            std::string::npos)
      << message;
  EXPECT_TRUE(FitsWithoutOthers(none_, state_, Sharing("a", "500m", "1Gi")));
  // And no group is made of its NUMA node.
  ReleasePod("wide", state_);
  ASSERT_EQ(Place(none_, Sharing("a", "500m", "1Gi")), "4-7 memory 1");
  EXPECT_FALSE(Decide(none_, Exclusive("wide", "100Gi")).admitted());
}

TEST_F(SharedMemory, OfMoreThanOneNumaNodeIsRefused) {
  for (const Policy policy : {Policy::kNone, Policy::kBestEffort, Policy::kRestricted,
                              Policy::kSingleNumaNode, Policy::kBestAttainable}) {
    const Node node = NodeOf(ConfigOf(policy));
    EXPECT_FALSE(Decide(node, Sharing("a", "500m", "65Gi")).admitted());
    EXPECT_FALSE(FitsWithoutOthers(node, state_, Sharing("a", "500m", "65Gi")));
    // Guaranteed: without the annotation, its memory would be on both.
    Pod pod = PodOf("g", {App("app", {{"cpu", "500m"}, {"memory", "65Gi"}})});
    EXPECT_FALSE(Decide(node, pod).admitted());
  }
  const std::string message = MessageOf(none_, Sharing("a", "500m", "65Gi"));
  EXPECT_NE(message.find("request less memory"), std::string::npos) << message;
}

TEST_F(SharedMemory, OfGuaranteedPodsIsWithTheirSharedCpus) {
  ASSERT_EQ(Place(none_, Sharing("big", "100m", "50Gi")), "4-7 memory 1");
  ASSERT_EQ(Place(none_, Sharing("cpu", "2500m", "")), "4-7 memory");
  const Pod pod = PodOf("g", {App("app", {{"cpu", "1500m"}, {"memory", "2Gi"}})});
  EXPECT_EQ(Place(none_, pod), "0-3 memory 0");
}

TEST_F(SharedMemory, WithoutARequestIsNotAssigned) {
  EXPECT_EQ(Place(none_, Sharing("a", "500m", "")), "4-7 memory");
  EXPECT_EQ(Place(none_, PodOf("b", {App("app", {})})), "4-7 memory");
  EXPECT_EQ(Place(none_, Sharing("c", "500m", "0")), "4-7 memory");
  EXPECT_TRUE(state_.memory.assignments.empty());
}

TEST_F(SharedMemory, IsNotAssignedWithPolicyNone) {
  KubeletConfig config = ConfigOf();
  config.memory_manager_policy = MemoryManagerPolicy::kNone;
  config.reserved_memory.clear();
  const Node node = NodeOf(config);
  state_ = NodeState::Initial(node);
  EXPECT_EQ(Place(node, Sharing("a", "500m", "20Gi")), "4-7 memory");
}

TEST_F(SharedMemory, IsNotAssignedToPodsThatDoNotAsk) {
  Pod pod = Sharing("a", "500m", "20Gi");
  pod.policies = {};
  EXPECT_FALSE(RequestsMemory(none_, pod, pod.containers[0]));
  EXPECT_EQ(Place(none_, pod), "0-7 memory");
  EXPECT_TRUE(state_.memory.assignments.empty());
}

TEST_F(SharedMemory, IsKeptWhenTheContainerIsCreatedAgain) {
  ASSERT_EQ(Place(none_, Sharing("a", "500m", "20Gi")), "4-7 memory 1");
  const NodeState before = state_;
  EXPECT_EQ(Place(none_, Sharing("a", "500m", "20Gi")), "4-7 memory 1");
  EXPECT_EQ(state_, before);
}

TEST_F(SharedMemory, OfAnotherAmountIsOnTheSameNumaNode) {
  ASSERT_EQ(Place(none_, Sharing("a", "500m", "20Gi")), "4-7 memory 1");
  ASSERT_EQ(Place(none_, PodOf("b", {SharedApp("app", "3", "30Gi")})), "4-7 memory 1");
  const auto renew = [&](const char* memory) {
    const Pod pod = OnThisNode(none_, Sharing("a", "500m", memory));
    RenewedShare renewed = RenewShare(none_, state_, pod, pod.containers[0], false);
    EXPECT_TRUE(renewed.next.BrokenInvariants(none_).empty());
    state_ = std::move(renewed.next);
    return renewed.lacks;
  };
  EXPECT_EQ(renew("34Gi"), "");
  EXPECT_EQ(FreeOn(1), 0U);
  EXPECT_EQ(renew("35Gi"), "too little free memory of type memory");
  EXPECT_EQ(renew("500m"), "no place for a memory request that is not a whole number of bytes");
  EXPECT_EQ(FreeOn(1), 0U) << "it keeps what it had";
  EXPECT_EQ(renew("1Gi"), "");
  EXPECT_EQ(FreeOn(1), 33U);
  EXPECT_EQ(renew(""), "");
  EXPECT_EQ(PlaceOf(none_, {"a", "app"}), "4-7 memory");
}

// Another container of its pod is decided, with the first one's memory from before it asked.
TEST_F(SharedMemory, OfBeforeDoesNotRefuseOtherContainersOfThePod) {
  ASSERT_EQ(Place(none_, Sharing("a", "500m", "20Gi")), "4-7 memory 1");
  state_.cpu.shares[{"a", "app"}].numa_id = 0;
  const Pod pod = PodOf("a", {SharedApp("app", "500m", "20Gi"), SharedApp("log", "500m", "1Gi")});
  const Admission both = Decide(none_, pod);
  EXPECT_TRUE(both.admitted()) << both.refusal->message;
}

// The container has run since before memory was assigned.
TEST_F(SharedMemory, ComesToTheNumaNodeThatTheContainerHas) {
  state_.cpu.shares[{"a", "app"}] = {.numa_id = 0, .millis = 500, .kind = ContainerKind::kApp};
  EXPECT_EQ(Place(none_, Sharing("a", "500m", "20Gi")), "0-3 memory 0");
  ReleasePod("a", state_);
  ASSERT_EQ(Place(none_, Sharing("cpu", "3500m", "")), "4-7 memory");
  ASSERT_EQ(Place(none_, Sharing("big", "1", "60Gi")), "0-3 memory 0");
  state_.cpu.shares[{"a", "app"}] = {.numa_id = 0, .millis = 500, .kind = ContainerKind::kApp};
  const Admission late = Decide(none_, Sharing("a", "500m", "20Gi"));
  ASSERT_FALSE(late.admitted());
  EXPECT_EQ(late.refused_at->by, RefusedBy::kMemory);
}

TEST_F(SharedMemory, OfInitContainersIsReused) {
  const Pod pod = PodOf(
      "a", {SharedApp("load", "1", "40Gi", ContainerKind::kInit), SharedApp("app", "1", "30Gi")});
  ASSERT_EQ(Place(none_, pod), "4-7 memory 1");
  EXPECT_EQ(FreeOn(1), 24U);
  StartPod(none_, pod, devicemanager::NoPreference, state_);
  EXPECT_EQ(FreeOn(1), 34U);
}

TEST_F(SharedMemory, IsExplained) {
  EXPECT_EQ(DescribeRequest(none_, state_, Sharing("a", "1500m", "2Gi")),
            "app: shared CPUs (Burstable pod), 1500m of one NUMA node, 2Gi memory; "
            "single-numa-node of annotation alignd.io/shared-cpus");
  ASSERT_EQ(Place(none_, Sharing("big", "100m", "62Gi")), "4-7 memory 1");
  const std::string message = MessageOf(none_, Sharing("a", "500m", "64Gi"));
  EXPECT_NE(message.find("2048Mi of 65536Mi memory"), std::string::npos) << message;
}

TEST_F(SharedMemory, IsRefusedIfItsAmountIsNotKnown) {
  Pod pod = Sharing("a", "500m", "");
  pod.lacks_memory_requests = true;
  const Admission admission = Decide(none_, pod);
  ASSERT_FALSE(admission.admitted());
  EXPECT_EQ(admission.refusal->reason, "PodPolicyError");
  EXPECT_NE(admission.refusal->message.find("CRI does not show what a Burstable pod requests"),
            std::string::npos)
      << admission.refusal->message;
  KubeletConfig config = ConfigOf();
  config.memory_manager_policy = MemoryManagerPolicy::kNone;
  config.reserved_memory.clear();
  const Node node = NodeOf(config);
  state_ = NodeState::Initial(node);
  EXPECT_EQ(Place(node, pod), "4-7 memory");
}

TEST_F(SharedMemory, OfPodsWithPodLevelMemoryIsRefused) {
  Pod pod = Sharing("a", "500m", "1Gi");
  pod.pod_level = Resources{.requests = Amounts({{"memory", "2Gi"}}), .limits = {}};
  const Admission admission = Decide(none_, pod);
  ASSERT_FALSE(admission.admitted());
  EXPECT_NE(admission.refusal->message.find(
                "it has a pod-level memory request, which is not accounted by NUMA node"),
            std::string::npos)
      << admission.refusal->message;
}

// A kubelet that reads the file finds an entry of its own form.
TEST_F(SharedMemory, IsInTheFileOfTheMemoryManager) {
  ASSERT_EQ(Place(none_, Sharing("a", "500m", "20Gi")), "4-7 memory 1");
  for (const checkpoint::StateForm form :
       {checkpoint::StateForm::kPlain, checkpoint::StateForm::kPodLevel}) {
    const std::string text = checkpoint::FormatMemoryCheckpoint("Static", state_.memory, form);
    const Result<checkpoint::MemoryCheckpoint> read = checkpoint::ParseMemoryCheckpoint(text);
    ASSERT_TRUE(read.ok()) << read.error().Text();
    EXPECT_EQ(read->state, state_.memory);
    EXPECT_TRUE(memorymanager::ValidateLoaded(none_.machine, *none_.memory, read->state).ok());
  }
}

TEST_F(SharedMemory, IsRebuiltFromTheMark) {
  ASSERT_EQ(Place(none_, Sharing("a", "500m", "20Gi")), "4-7 memory 1");
  const ContainerKey key{"a", "app"};
  const Adoption adoption =
      Adopt(none_, NodeState::Initial(none_), {},
            {{.id = "c", .key = key, .pod = "a", .mark = MarkOf(state_, key)}});
  EXPECT_EQ(adoption.next.memory, state_.memory);
  EXPECT_EQ(adoption.next.cpu.shares, state_.cpu.shares);
}

// The policy is taken from the configuration: the container has its memory until it ends.
TEST_F(SharedMemory, StaysWithoutThePolicy) {
  ASSERT_EQ(Place(none_, Sharing("a", "500m", "20Gi")), "4-7 memory 1");
  KubeletConfig config = ConfigOf();
  config.pod_policies.clear();
  const Node after = NodeOf(config);
  const Transition transition = PlanTransition(none_, after, state_, MayMove::kNever);
  ASSERT_TRUE(transition.IsAdmitted());
  state_ = transition.next;
  EXPECT_EQ(PlaceOf(after, {"a", "app"}), "0-7 memory 1");
  ReleasePod("a", state_);
  EXPECT_EQ(FreeOn(1), 64U);
}

}  // namespace
}  // namespace alignd::admission
