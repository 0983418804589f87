// Containers of the shared pool that stay on one NUMA node: hints, the decision, what refuses them,
// and what becomes of them.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/adoption.h"
#include "alignd/admission/assignment_mark.h"
#include "alignd/admission/cpu_moves.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/own_policy.h"
#include "alignd/admission/resize.h"
#include "alignd/admission/shared_pool.h"
#include "alignd/admission/transition.h"
#include "alignd/cpumanager/node_shares.h"
#include "alignd/noderesourcetopology/zones.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

using Policy = TopologyManagerPolicy;

constexpr char kGpus[] = "nvidia.com/gpu";

// Two NUMA nodes with four CPUs each; CPU 0 is reserved.
class SharedNode : public testing::Test {
 protected:
  static KubeletConfig ConfigOf(Policy policy = Policy::kNone) {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.topology_manager_policy = policy;
    config.pod_policies = {PodPolicy::kSharedNumaNode};
    return config;
  }

  static Node NodeOf(const KubeletConfig& config) {
    Result<Node> node = Node::Make(MakeMachine("socket:2 numa:1 core:4"), config);
    EXPECT_TRUE(node.ok()) << node.error().Text();
    return *std::move(node);
  }

  static Container SharedApp(const std::string& name, const std::string& cpu) {
    Container container = App(name, {});
    container.resources.requests = Amounts({{"cpu", cpu}});
    return container;
  }

  // Burstable.
  static Pod Sharing(const std::string& uid, const std::string& cpu) {
    Pod pod = MakePod(uid, {SharedApp("app", cpu)});
    pod.policies.shared_on_one_node = true;
    return pod;
  }

  static Pod Exclusive(const std::string& uid, const std::string& cpus) {
    return MakePod(uid, {App("app", {{"cpu", cpus}, {"memory", "64Mi"}})});
  }

  Admission Decide(const Node& node, const Pod& pod) const {
    return Admit(node, state_, pod, devicemanager::NoPreference);
  }

  // Admits the pod; the CPUs on which its container `app` runs, or the refusal.
  std::string Place(const Node& node, const Pod& pod) {
    Admission admission = Decide(node, pod);
    if (!admission.admitted()) return admission.refusal->reason;
    state_ = std::move(admission.next);
    EXPECT_TRUE(state_.BrokenInvariants(node).empty());
    return RunsOn(node, pod.uid);
  }

  std::string RunsOn(const Node& node, const std::string& uid,
                     const std::string& container = "app") const {
    return AssignmentOf(node, state_, {uid, container}).cpuset.ToString();
  }

  std::string MessageOf(const Node& node, const Pod& pod) const {
    const Admission admission = Decide(node, pod);
    if (admission.admitted()) return "admitted";
    return Explain(node, state_, pod, *admission.refusal).message;
  }

  void AddGpu(int numa) {
    state_.devices.resources[kGpus] = {.registered = true,
                                       .devices = {{"gpu0", {.healthy = true, .numa = {numa}}}}};
  }

  const Node none_ = NodeOf(ConfigOf());
  NodeState state_ = NodeState::Initial(none_);
};

TEST_F(SharedNode, StaysOnTheNodeWithMostLeft) {
  EXPECT_EQ(Place(none_, Sharing("a", "1500m")), "4-7");
  EXPECT_EQ(Place(none_, Sharing("b", "1500m")), "0-3");  // 2500m are left on node 1, 3000m here
  EXPECT_EQ(Place(none_, Sharing("c", "2500m")), "4-7");
  EXPECT_EQ(Place(none_, Sharing("d", "1501m")), "UnexpectedAdmissionError");
  EXPECT_EQ(Place(none_, Sharing("e", "1500m")), "0-3");
  // Without a request, it needs a place to run on.
  EXPECT_EQ(Place(none_, Sharing("f", "0")), "0-3");
  EXPECT_EQ(state_.cpu.SavedDefaultSet().ToString(), "0-7");
  EXPECT_TRUE(state_.cpu.assignments.empty());
}

// The CPUs that back the requests are not assigned, and the rest is.
TEST_F(SharedNode, LeavesTheRestToExclusivePods) {
  ASSERT_EQ(Place(none_, Sharing("a", "1500m")), "4-7");
  EXPECT_EQ(Place(none_, Exclusive("big", "6")), "UnexpectedAdmissionError");
  EXPECT_EQ(Place(none_, Exclusive("fits", "5")), "1-5");
  EXPECT_EQ(RunsOn(none_, "a"), "6-7");
  EXPECT_EQ(Place(none_, Exclusive("one", "1")), "UnexpectedAdmissionError");
  ReleasePod("a", state_);
  EXPECT_EQ(Place(none_, Exclusive("one", "1")), "6");
}

TEST_F(SharedNode, KeepsItsShareWhenItIsCreatedAgain) {
  ASSERT_EQ(Place(none_, Sharing("a", "2")), "4-7");
  const NodeState before = state_;
  EXPECT_EQ(Place(none_, Sharing("a", "2")), "4-7");
  EXPECT_EQ(state_, before);
}

// With another request: in place of the former one.
TEST_F(SharedNode, StaysOnItsNodeWithAnotherRequest) {
  ASSERT_EQ(Place(none_, Sharing("a", "2")), "4-7");
  ASSERT_EQ(Place(none_, Exclusive("x", "5")), "1-5");
  const auto renew = [&](const char* cpu) {
    const Pod pod = Sharing("a", cpu);
    RenewedShare renewed = RenewShare(none_, state_, pod, pod.containers[0], true);
    EXPECT_TRUE(renewed.next.BrokenInvariants(none_).empty());
    EXPECT_EQ(renewed.next == state_, !renewed.lacks.empty());
    state_ = std::move(renewed.next);
    return renewed.lacks;
  };
  EXPECT_EQ(Place(none_, Exclusive("y", "1")), "UnexpectedAdmissionError");
  EXPECT_EQ(renew("2001m"), "2000m of shared CPUs");
  EXPECT_EQ(renew("1"), "");
  EXPECT_EQ(Place(none_, Exclusive("y", "1")), "6");
  EXPECT_EQ(renew("1001m"), "1000m of shared CPUs");
  EXPECT_EQ(RunsOn(none_, "a"), "7");
}

TEST_F(SharedNode, OfOnePodStayTogetherIfTheyFit) {
  Pod pod = MakePod("a", {SharedApp("app", "1"), SharedApp("log", "2"), SharedApp("fat", "2")});
  pod.policies.shared_on_one_node = true;
  ASSERT_EQ(Place(none_, pod), "4-7");
  EXPECT_EQ(RunsOn(none_, "a", "log"), "4-7");
  EXPECT_EQ(RunsOn(none_, "a", "fat"), "0-3");
}

TEST_F(SharedNode, AlignsWithDevices) {
  const Node node = NodeOf(ConfigOf(Policy::kSingleNumaNode));
  AddGpu(0);
  Pod pod = Sharing("a", "2");
  pod.containers[0].resources.limits[kGpus] = Quantity(1);
  const Admission admission = Decide(node, pod);
  ASSERT_TRUE(admission.admitted());
  EXPECT_EQ(admission.assignments.at("app").cpuset.ToString(), "0-3");
  EXPECT_EQ(admission.assignments.at("app").share,
            (cpumanager::NodeShare{0, 2000, ContainerKind::kApp}));
  EXPECT_EQ(admission.decisions.at(0).hints.at("shared cpu")->listed().size(), 2U);
  // Where the GPU is, too little is left.
  ASSERT_EQ(Place(node, Exclusive("x", "2")), "1-2");
  EXPECT_EQ(Decide(node, pod).refusal->reason, "TopologyAffinityError");
  const Node best = NodeOf(ConfigOf(Policy::kBestEffort));
  EXPECT_EQ(Place(best, pod), "4-7");
}

// The pod's exclusive CPUs and shared ones are on one NUMA node together, or it is refused.
TEST_F(SharedNode, OfAPodAlignTogetherInScopePod) {
  KubeletConfig config = ConfigOf(Policy::kSingleNumaNode);
  config.topology_manager_scope = TopologyManagerScope::kPod;
  const Node node = NodeOf(config);
  Pod pod = MakePod("a", {App("app", {{"cpu", "2"}, {"memory", "64Mi"}}),
                          App("log", {{"cpu", "1500m"}, {"memory", "64Mi"}}),
                          App("tee", {{"cpu", "500m"}, {"memory", "64Mi"}})});
  pod.policies.shared_on_one_node = true;
  ASSERT_EQ(Place(node, pod), "4-5");  // on node 0, 3 CPUs are not enough
  EXPECT_EQ(RunsOn(node, "a", "log"), "6-7");
  EXPECT_EQ(RunsOn(node, "a", "tee"), "6-7");
  pod.uid = "b";
  EXPECT_EQ(Place(node, pod), "TopologyAffinityError");
}

// A sidecar runs beside the init container, so that the pod needs the CPUs of both.
TEST_F(SharedNode, FitsBesideSidecarAndInitContainerInScopePod) {
  KubeletConfig config = ConfigOf(Policy::kRestricted);
  config.topology_manager_scope = TopologyManagerScope::kPod;
  config.reserved_system_cpus = "0-1";
  const Result<Node> node = Node::Make(MakeMachine("socket:2 numa:1 core:8"), config);
  ASSERT_TRUE(node.ok()) << node.error().Text();
  state_ = NodeState::Initial(*node);
  Pod pod = MakePod("a", {Sidecar("proxy", {{"cpu", "2"}, {"memory", "64Mi"}}),
                          Init("load", {{"cpu", "4"}, {"memory", "64Mi"}}),
                          App("app", {{"cpu", "500m"}, {"memory", "64Mi"}})});
  pod.policies.shared_on_one_node = true;
  // Node 0 has 6 CPUs, and 6 are exclusive.
  EXPECT_EQ(Place(*node, pod), "14-15");
  EXPECT_EQ(state_.cpu.HeldBy("a").ToString(), "8-13");
}

TEST_F(SharedNode, IsOffByDefault) {
  KubeletConfig config = ConfigOf();
  config.pod_policies.clear();
  const Node node = NodeOf(config);
  const Pod pod = Sharing("a", "2");
  EXPECT_FALSE(RequestsAssignment(node, state_, pod, pod.containers[0]));
  EXPECT_EQ(Place(node, pod), "0-7");
  EXPECT_TRUE(state_.cpu.shares.empty());
  EXPECT_EQ(DescribePodPolicy(node, pod),
            "annotation alignd.io/shared-cpus is ignored: podPolicies does not have "
            "sharedNUMANode");
}

TEST_F(SharedNode, IsExplained) {
  const Pod pod = Sharing("a", "1500m");
  EXPECT_EQ(DescribeRequest(none_, state_, pod),
            "app: shared CPUs (Burstable pod), 1500m of one NUMA node; single-numa-node of "
            "annotation alignd.io/shared-cpus");
  ASSERT_EQ(Place(none_, pod), "4-7");
  EXPECT_EQ(DescribeAvailable(AvailableByNode(none_, state_)),
            "NUMA node 0: 3 of 4 CPUs (1-3), 3000m of 3000m shared CPU; NUMA node 1: 2 of 4 CPUs "
            "(4-5), 2500m of 4000m shared CPU");
  const std::string message = MessageOf(none_, Sharing("big", "3500m"));
  EXPECT_NE(message.find("no NUMA node has enough shared CPUs for container app, which is to stay "
                         "on one"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("2500m of 4000m shared CPU"), std::string::npos) << message;
  EXPECT_NE(message.find("What would help: "), std::string::npos) << message;
  EXPECT_TRUE(FitsWithoutOthers(none_, state_, Sharing("big", "3500m")));
  EXPECT_FALSE(FitsWithoutOthers(none_, state_, Sharing("big", "4001m")));
}

TEST_F(SharedNode, IsRefusedWhereItCannotBeFollowed) {
  Pod pod = Sharing("a", "1");
  pod.policies.shared_on_one_node = false;
  ReadPodPolicies(kSharedCpusAnnotation, "one", pod.policies);
  EXPECT_EQ(MessageOf(none_, pod),
            "annotation alignd.io/shared-cpus: \"one\" is not \"single-numa-node\" or \"\". What "
            "would help: correct the annotation: write single-numa-node; or remove it");
  KubeletConfig config = ConfigOf();
  config.cpu_manager_policy = CpuManagerPolicy::kNone;
  EXPECT_NE(MessageOf(NodeOf(config), Sharing("a", "1")).find("this node assigns no CPUs"),
            std::string::npos);
  pod = Sharing("a", "1");
  pod.shared_pool_handler = "runsc";
  EXPECT_NE(MessageOf(none_, pod).find("its runtime handler is runsc"), std::string::npos);
  pod = Sharing("a", "1");
  pod.pod_level = Resources{.requests = Amounts({{"cpu", "2"}}), .limits = {}};
  EXPECT_NE(MessageOf(none_, pod).find("a pod-level cpu request"), std::string::npos);
  // It has nothing of the shared pool.
  pod = Exclusive("x", "2");
  pod.policies.shared_on_one_node = true;
  EXPECT_EQ(Place(none_, pod), "1-2");
}

// Where its NUMA node has no CPU for it any more, it runs on those of the pool.
TEST_F(SharedNode, RunsElsewhereWhileItsCpusAreOffline) {
  ASSERT_EQ(Place(none_, Sharing("a", "1500m")), "4-7");
  cpumanager::SetOffline({4, 5, 6, 7}, state_.cpu);
  EXPECT_TRUE(state_.BrokenInvariants(none_).empty());
  EXPECT_EQ(RunsOn(none_, "a"), "0-3");
  cpumanager::SetOffline({4, 5, 6}, state_.cpu);
  EXPECT_EQ(RunsOn(none_, "a"), "7");
  EXPECT_EQ(Place(none_, Exclusive("x", "4")), "UnexpectedAdmissionError");
}

TEST_F(SharedNode, IsNotStarvedByAResize) {
  ASSERT_EQ(Place(none_, Sharing("a", "2500m")), "4-7");
  ASSERT_EQ(Place(none_, Exclusive("x", "3")), "1-2,4");
  const ResizeDecision most = Resize(none_, state_, {"x", "app"}, 4);
  ASSERT_TRUE(most.admitted());
  EXPECT_EQ(most.after.ToString(), "1-4");
  const ResizeDecision more = Resize(none_, state_, {"x", "app"}, 5);
  ASSERT_FALSE(more.admitted());
}

TEST_F(SharedNode, IsInTheTopologyObject) {
  ASSERT_EQ(Place(none_, Sharing("a", "1500m")), "4-7");
  const auto zones = noderesourcetopology::Zones(none_, state_);
  EXPECT_EQ(zones[0].resources.at("cpu").available, 3U);
  EXPECT_EQ(zones[1].resources.at("cpu").available, 2U);
  EXPECT_EQ(zones[1].resources.at("cpu").allocatable, 4U);
}

// After a restart without a state file, the mark has it.
TEST_F(SharedNode, IsAdoptedFromItsMark) {
  ASSERT_EQ(Place(none_, Sharing("a", "1500m")), "4-7");
  const ContainerKey key{"a", "app"};
  const MarkedContainer running{
      .id = "c1", .key = key, .pod = "default/a", .mark = MarkOf(state_, key)};
  const NodeState empty = NodeState::Initial(none_);
  EXPECT_TRUE(IsIncomplete(none_, empty, key, running.mark));
  EXPECT_FALSE(IsIncomplete(none_, state_, key, running.mark));
  const Adoption adoption = Adopt(none_, empty, {}, {running});
  EXPECT_EQ(adoption.next, state_);
  ASSERT_EQ(adoption.adopted.size(), 1U);
  EXPECT_EQ(adoption.adopted[0].text, "shared CPUs of NUMA node 1");
  EXPECT_TRUE(adoption.unknown.empty());
  // It has ended, or pods can no longer ask.
  MarkedContainer ended = running;
  ended.runs = false;
  EXPECT_EQ(Adopt(none_, empty, {}, {ended}).next, empty);
  KubeletConfig config = ConfigOf();
  config.pod_policies.clear();
  EXPECT_FALSE(IsIncomplete(NodeOf(config), empty, key, running.mark));
  EXPECT_EQ(Adopt(NodeOf(config), empty, {}, {running}).next, empty);
  // Its CPUs have been given to others meanwhile.
  state_ = empty;
  ASSERT_EQ(Place(none_, Exclusive("x", "6")), "1-2,4-7");
  const Adoption late = Adopt(none_, state_, {}, {running});
  EXPECT_EQ(late.next, state_);
  ASSERT_EQ(late.unknown.size(), 1U);
  EXPECT_EQ(late.unknown[0].text,
            "it runs on all CPUs of the shared pool: NUMA node 1, on which it stayed, no longer "
            "has CPUs for what it requests");
}

// A file of an earlier time says that it is on another NUMA node.
TEST_F(SharedNode, IsWhereItsMarkSays) {
  ASSERT_EQ(Place(none_, Sharing("a", "2500m")), "4-7");
  const ContainerKey key{"a", "app"};
  MarkedContainer running{.id = "c1", .key = key, .pod = "default/a", .mark = MarkOf(state_, key)};
  NodeState wrong = state_;
  wrong.cpu.shares[key].numa_id = 0;
  wrong.cpu.shares[{"ended", "app"}] = {.numa_id = 0, .millis = 500};
  EXPECT_TRUE(IsIncomplete(none_, wrong, key, running.mark));
  NodeState right = wrong;
  right.cpu.shares[key].numa_id = 1;
  EXPECT_EQ(Adopt(none_, wrong, {}, {running}).next, right);
  running.runs = false;
  EXPECT_EQ(Adopt(none_, wrong, {}, {running}).next, wrong);
}

// Another alignd, which does not read the file, has started one while the other did not run.
TEST_F(SharedNode, OneThatDoesNotRunYieldsToOneThatRuns) {
  NodeState saved = state_;
  const ContainerKey ended{"p", "ended"};
  saved.cpu.shares[{"p", "app"}] = {.numa_id = 0, .millis = 1000};
  saved.cpu.shares[ended] = {.numa_id = 0, .millis = 2000};
  NodeState now = state_;
  const ContainerKey key{"r", "app"};
  now.cpu.shares[{"p", "app"}] = {.numa_id = 0, .millis = 1000};
  now.cpu.shares[key] = {.numa_id = 0, .millis = 2000};
  std::vector<MarkedContainer> running;
  for (const auto& [one, share] : now.cpu.shares) {
    running.push_back({.id = one.pod_uid, .key = one, .pod = "", .mark = MarkOf(now, one)});
  }
  EXPECT_TRUE(IsIncomplete(none_, saved, key, running.back().mark));
  const Adoption adoption = Adopt(none_, saved, {}, running);
  EXPECT_EQ(adoption.next, now);
  EXPECT_TRUE(adoption.unknown.empty());
  ASSERT_EQ(adoption.adopted.size(), 1U);
  EXPECT_EQ(adoption.adopted[0].text, "shared CPUs of NUMA node 0");
  // With enough for both, it keeps its place.
  saved.cpu.shares[ended].millis = 0;
  now.cpu.shares[ended] = saved.cpu.shares.at(ended);
  EXPECT_EQ(Adopt(none_, saved, {}, running).next, now);
}

// All files are of an earlier time: another pod has had its CPUs exclusively since.
TEST_F(SharedNode, WhatExclusiveCpusDoNotLeaveIsNotTakenFromTheFile) {
  const ContainerKey key{"c", "app"};
  NodeState saved = state_;
  saved.cpu.shares[key] = {.numa_id = 1, .millis = 2000};
  ASSERT_EQ(Place(none_, Exclusive("q", "6")), "1-2,4-7");
  const ContainerKey other{"q", "app"};
  const MarkedContainer exclusive{.id = "c2",
                                  .key = other,
                                  .pod = "default/q",
                                  .mark = MarkOf(state_, other),
                                  .record = {1, 2, 4, 5, 6, 7}};
  const Adoption ended = Adopt(none_, saved, {}, {exclusive});
  EXPECT_EQ(ended.next, state_);
  EXPECT_TRUE(ended.unknown.empty());
  // It runs as well.
  const MarkedContainer running{
      .id = "c1", .key = key, .pod = "default/c", .mark = MarkOf(saved, key)};
  const Adoption both = Adopt(none_, saved, {}, {exclusive, running});
  EXPECT_EQ(both.next, state_);
  ASSERT_EQ(both.unknown.size(), 1U);
  EXPECT_EQ(both.unknown[0].id, "c1");
}

// It was created again while its pod could not ask.
TEST_F(SharedNode, EndsWhereARunningContainerHasNoMarkOfIt) {
  const ContainerKey key{"k", "app"};
  const NodeState without = state_;
  state_.cpu.shares[key] = {.numa_id = 1, .millis = 2000};
  const MarkedContainer unmarked{.id = "c1", .key = key, .pod = "default/k", .mark = {}};
  EXPECT_TRUE(IsIncomplete(none_, state_, key, unmarked.mark));
  EXPECT_FALSE(IsIncomplete(none_, without, key, unmarked.mark));
  EXPECT_EQ(Adopt(none_, state_, {}, {unmarked}).next, without);
}

// A file of an earlier time says that a container of the pool is where one with CPUs of its own
// runs.
TEST_F(SharedNode, EndsWhereItsMarkHasExclusiveCpus) {
  ASSERT_EQ(Place(none_, Exclusive("a", "2")), "1-2");
  const ContainerKey key{"a", "app"};
  const MarkedContainer running{
      .id = "c1", .key = key, .pod = "default/a", .mark = MarkOf(state_, key), .record = {1, 2}};
  NodeState wrong = NodeState::Initial(none_);
  wrong.cpu.shares[key] = {.numa_id = 0, .millis = 500};
  const Adoption adoption = Adopt(none_, wrong, {}, {running});
  EXPECT_TRUE(adoption.next.BrokenInvariants(none_).empty());
  EXPECT_EQ(adoption.next.cpu.assignments, state_.cpu.assignments);
  EXPECT_TRUE(adoption.next.cpu.shares.empty());
}

// CPUs that are offline at the restart come back.
TEST_F(SharedNode, IsAdoptedWhileItsCpusAreOffline) {
  ASSERT_EQ(Place(none_, Sharing("a", "3500m")), "4-7");
  const ContainerKey key{"a", "app"};
  const MarkedContainer running{
      .id = "c1", .key = key, .pod = "default/a", .mark = MarkOf(state_, key)};
  NodeState restarted = NodeState::Initial(none_);
  cpumanager::SetOffline({7}, restarted.cpu);
  const Adoption adoption = Adopt(none_, restarted, {}, {running});
  EXPECT_TRUE(adoption.unknown.empty());
  EXPECT_EQ(adoption.next.cpu.shares, state_.cpu.shares);
  state_ = adoption.next;
  EXPECT_EQ(RunsOn(none_, "a"), "4-6");
  EXPECT_EQ(Place(none_, Exclusive("x", "4")), "UnexpectedAdmissionError");
  cpumanager::SetOffline({}, state_.cpu);
  EXPECT_EQ(RunsOn(none_, "a"), "4-7");
  EXPECT_EQ(Place(none_, Exclusive("x", "4")), "UnexpectedAdmissionError");
  EXPECT_EQ(Place(none_, Exclusive("x", "3")), "1-3");
}

TEST_F(SharedNode, EndsWithThePolicy) {
  ASSERT_EQ(Place(none_, Sharing("a", "1500m")), "4-7");
  KubeletConfig config = ConfigOf();
  config.pod_policies.clear();
  const Transition off = PlanTransition(none_, NodeOf(config), state_, MayMove::kNever);
  ASSERT_TRUE(off.IsAdmitted());
  EXPECT_TRUE(off.next.cpu.shares.empty());
  ASSERT_EQ(off.notes.size(), 1U);
  EXPECT_NE(off.notes[0].find("podPolicies without sharedNUMANode"), std::string::npos);
}

TEST_F(SharedNode, KeepsItsCpusInAChange) {
  ASSERT_EQ(Place(none_, Sharing("a", "2500m")), "4-7");
  KubeletConfig config = ConfigOf(Policy::kRestricted);
  config.reserved_system_cpus = "0,4";
  const Transition fits = PlanTransition(none_, NodeOf(config), state_, MayMove::kNever);
  ASSERT_TRUE(fits.IsAdmitted());
  EXPECT_EQ(fits.next.cpu.shares, state_.cpu.shares);
  config.reserved_system_cpus = "0,4-5";
  const Transition taken = PlanTransition(none_, NodeOf(config), state_, MayMove::kNever);
  ASSERT_FALSE(taken.IsAdmitted());
  EXPECT_EQ(taken.faults,
            (std::vector<std::string>{
                "containers of the shared pool that stay on NUMA node 1 request 2500m CPU, and the "
                "change leaves 2 CPUs there for them: delete their pods, or reserve fewer CPUs of "
                "this NUMA node"}));
}

// Exclusive containers move only to CPUs that no shared container needs where it stays.
TEST_F(SharedNode, IsNotStarvedByAMove) {
  ASSERT_EQ(Place(none_, Exclusive("x", "3")), "1-3");
  ASSERT_EQ(Place(none_, Sharing("a", "2500m")), "4-7");
  KubeletConfig config = ConfigOf();
  config.reserved_system_cpus = "0-1";
  const Node after = NodeOf(config);
  const Transition moved = PlanTransition(none_, after, state_, MayMove::kIfNeeded);
  ASSERT_TRUE(moved.IsAdmitted());
  EXPECT_EQ(moved.next.cpu.HeldBy("x").ToString(), "2-4");
  ASSERT_EQ(Place(none_, Sharing("b", "500m")), "4-7");
  ASSERT_EQ(Place(none_, Sharing("c", "1000m")), "4-7");
  const Transition full = PlanTransition(none_, after, state_, MayMove::kIfNeeded);
  EXPECT_TRUE(full.faults.empty());
  ASSERT_EQ(full.containers.size(), 1U);
  EXPECT_EQ(full.containers[0].why.find("CPUs 1 become reserved; it fits nowhere else: "), 0U)
      << full.containers[0].why;
  // The plan of before, made now.
  const Result<NodeState> late = AfterStep(MoveStep::kReserve, none_, state_, MovesIn(moved));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().Text(),
            "container app of pod x cannot be moved from CPUs 1-3 to 2-4: until the move ends, the "
            "container has both, and containers of the shared pool that stay on NUMA node 1 "
            "request its other CPUs; repeat the change; if that fails again, delete pods that stay "
            "there");
}

}  // namespace
}  // namespace alignd::admission
