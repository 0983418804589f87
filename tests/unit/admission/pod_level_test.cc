#include "alignd/admission/pod_level.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/assignment.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/init_containers.h"
#include "alignd/cpumanager/pod_partition.h"
#include "alignd/memorymanager/fit_to_machine.h"
#include "alignd/memorymanager/pod_memory.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

using devicemanager::NoPreference;

constexpr char kGate[] = "PodLevelResourceManagers";

// Two NUMA nodes with four single-threaded cores and 4 GiB each; CPU 0 is reserved.
Node PodLevelNode(TopologyManagerScope scope,
                  TopologyManagerPolicy policy = TopologyManagerPolicy::kBestEffort) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  config.memory_manager_policy = MemoryManagerPolicy::kStatic;
  config.eviction_hard_memory = "";
  config.system_reserved = Amounts({{"memory", "512Mi"}});
  config.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", "512Mi"}})}};
  config.topology_manager_policy = policy;
  config.topology_manager_scope = scope;
  config.feature_gates[kGate] = true;
  Result<Node> node =
      Node::Make(MakeMachine("socket:2 numa:1 core:4 thread:1 memory-gib=4"), config);
  EXPECT_TRUE(node.ok()) << node.error().message;
  return *std::move(node);
}

Pod WholePod(const std::string& uid, const std::string& cpus, const std::string& memory,
             std::vector<Container> containers) {
  Pod pod = MakePod(uid, std::move(containers));
  const ResourceList whole = Amounts({{"cpu", cpus}, {"memory", memory}});
  pod.pod_level = Resources{.requests = whole, .limits = whole};
  return pod;
}

const std::map<std::string, std::string> kTwo = {{"cpu", "2"}, {"memory", "1Gi"}};

// One container of its own, one that shares.
Pod AppAndLog(const std::string& uid) {
  return WholePod(uid, "3", "2Gi", {App("app", kTwo), App("log", {})});
}

NodeState Admitted(const Node& node, const NodeState& state, const Pod& pod) {
  Admission admission = Admit(node, state, pod, NoPreference);
  EXPECT_TRUE(admission.admitted()) << admission.refusal->message;
  return std::move(admission.next);
}

TEST(PodLevelManagers, TheGateAndTheScopeDecide) {
  const Pod pod = AppAndLog("p");
  const Node whole = PodLevelNode(TopologyManagerScope::kPod);
  EXPECT_EQ(PodLevelManagersOf(whole, pod), PodLevelManagers::kPod);
  EXPECT_EQ(PodLevelManagersOf(PodLevelNode(TopologyManagerScope::kContainer), pod),
            PodLevelManagers::kContainers);
  EXPECT_EQ(PodLevelManagersOf(
                PodLevelNode(TopologyManagerScope::kPod, TopologyManagerPolicy::kNone), pod),
            PodLevelManagers::kContainers);
  EXPECT_EQ(PodLevelManagersOf(whole, MakePod("p", {App("app", kTwo)})), PodLevelManagers::kOff);
  Node off = whole;
  off.config.feature_gates[kGate] = false;
  EXPECT_EQ(PodLevelManagersOf(off, pod), PodLevelManagers::kOff);
}

TEST(PodLevelManagers, WithoutTheGateThePodIsAssignedNothing) {
  Node node = PodLevelNode(TopologyManagerScope::kPod);
  node.config.feature_gates.clear();
  const NodeState initial = NodeState::Initial(node);
  const NodeState state = Admitted(node, initial, AppAndLog("p"));
  EXPECT_TRUE(state.cpu == initial.cpu);
  EXPECT_TRUE(state.memory == initial.memory);
}

TEST(PodLevelManagers, OnlyTheContainerOfItsOwnHasExclusiveCpus) {
  const Node node = PodLevelNode(TopologyManagerScope::kPod);
  const Admission admission = Admit(node, NodeState::Initial(node), AppAndLog("p"), NoPreference);
  ASSERT_TRUE(admission.admitted());
  EXPECT_EQ(admission.assignments.at("app").exclusive.ToString(), "1-2");
  EXPECT_EQ(admission.assignments.at("app").cpuset.ToString(), "1-2");
  EXPECT_TRUE(admission.assignments.at("log").exclusive.empty());
  EXPECT_EQ(admission.assignments.at("log").cpuset.ToString(), "3");
  EXPECT_EQ(admission.assignments.at("log").memory_nodes, std::vector<int>{0});
  const Pod pod = OnThisNode(node, AppAndLog("p"));
  EXPECT_EQ(ToString(IsolationOf(admission.next, pod, pod.containers[0])), "container");
  EXPECT_EQ(ToString(IsolationOf(admission.next, pod, pod.containers[1])), "pod");
  EXPECT_EQ(ToString(IsolationOf(NodeState::Initial(node), pod, pod.containers[0])), "host");
}

TEST(PodLevelManagers, AHandlerOfTheSharedPoolGetsNothing) {
  const Node node = PodLevelNode(TopologyManagerScope::kPod);
  Pod pod = AppAndLog("p");
  pod.shared_pool_handler = "runsc";
  const NodeState state = Admitted(node, NodeState::Initial(node), pod);
  EXPECT_TRUE(state.cpu.pods.empty());
  EXPECT_TRUE(state.cpu.assignments.empty());
  EXPECT_TRUE(state.memory.pods.empty());
}

TEST(PodLevelManagers, ContainersThatRequestMoreThanTheirPodAreRefused) {
  const Node node = PodLevelNode(TopologyManagerScope::kPod);
  const auto refusal_of = [&](const Pod& pod) {
    const Admission admission = Admit(node, NodeState::Initial(node), pod, NoPreference);
    EXPECT_TRUE(admission.next == NodeState::Initial(node));
    return admission.refusal ? admission.refusal->message : "admitted";
  };
  EXPECT_EQ(refusal_of(WholePod("p", "3", "4Gi", {App("a", kTwo), App("b", kTwo)})),
            "Allocate failed due to not enough cpus available to satisfy request: requested=2, "
            "available=1, which is unexpected");
  EXPECT_EQ(refusal_of(WholePod("p", "4", "1536Mi", {App("a", kTwo), App("b", kTwo)})),
            "Allocate failed due to [memorymanager] container b requests more memory than its pod "
            "has available, which is unexpected");
}

TEST(PodLevelManagers, WhatAPodHasFromScopeContainerReturnsBeforeItIsAllocatedAsAWhole) {
  const Pod pod = AppAndLog("p");
  const Node by_container = PodLevelNode(TopologyManagerScope::kContainer);
  const Node whole = PodLevelNode(TopologyManagerScope::kPod);
  const NodeState before = Admitted(by_container, NodeState::Initial(by_container), pod);
  EXPECT_TRUE(before.cpu.pods.empty());
  EXPECT_FALSE(before.cpu.assignments.empty());
  const NodeState after = Admitted(whole, before, pod);
  const NodeState fresh = Admitted(whole, NodeState::Initial(whole), pod);
  EXPECT_TRUE(after.cpu.pods == fresh.cpu.pods);
  EXPECT_TRUE(after.cpu.default_set == fresh.cpu.default_set);
  EXPECT_TRUE(after.memory == fresh.memory);
  EXPECT_EQ(after.BrokenInvariants(whole), std::vector<std::string>{});
}

TEST(PodLevelManagers, APodOfScopePodKeepsWhatItHasInScopeContainer) {
  const Pod pod = AppAndLog("p");
  const Node by_container = PodLevelNode(TopologyManagerScope::kContainer);
  const Node whole = PodLevelNode(TopologyManagerScope::kPod);
  const NodeState before = Admitted(whole, NodeState::Initial(whole), pod);
  const NodeState same = Admitted(by_container, before, pod);
  EXPECT_TRUE(same.cpu == before.cpu);
  EXPECT_TRUE(same.memory == before.memory);

  NodeState incomplete = before;
  incomplete.cpu.assignments["p"].erase("app");
  incomplete.memory.assignments["p"].erase("app");
  NodeState completed = Admitted(by_container, incomplete, pod);
  EXPECT_EQ(completed.cpu.Find({"p", "app"})->ToString(), "4-5");
  EXPECT_EQ(completed.BrokenInvariants(by_container), std::vector<std::string>{});
  ReleasePod("p", completed);
  EXPECT_TRUE(completed == NodeState::Initial(by_container));
}

TEST(PodLevelManagers, ARunningPodThatIsRefusedReleasesAllInTheNextState) {
  const Node node = PodLevelNode(TopologyManagerScope::kPod, TopologyManagerPolicy::kRestricted);
  const NodeState before = Admitted(node, NodeState::Initial(node), AppAndLog("p"));
  const Pod larger = WholePod("p", "4", "2Gi", {App("app", kTwo), App("log", {})});
  const Admission admission = Admit(node, before, larger, NoPreference);
  ASSERT_FALSE(admission.admitted());
  EXPECT_EQ(admission.refusal->message,
            "Pod Scope pod with pod-level resources failed admission under pod-scope topology "
            "manager");
  EXPECT_TRUE(admission.next.cpu == NodeState::Initial(node).cpu);
  EXPECT_TRUE(admission.next.memory == NodeState::Initial(node).memory);
}

TEST(PodLevelManagers, EndedInitContainersReleaseNothing) {
  const Node node = PodLevelNode(TopologyManagerScope::kPod);
  const Pod pod = OnThisNode(
      node, WholePod("p", "3", "2Gi", {Init("init", kTwo), App("app", kTwo), App("log", {})}));
  NodeState state = Admitted(node, NodeState::Initial(node), pod);
  const NodeState admitted = state;
  for (const char* container : {"init", "app", "log"}) ContainerStarts(node, pod, container, state);
  EXPECT_TRUE(state.cpu == admitted.cpu);
  EXPECT_TRUE(state.memory == admitted.memory);
  LendToInitContainers(node, pod, state);
  EXPECT_TRUE(state.cpu == admitted.cpu);
  ReleaseContainer({"p", "app"}, state);
  EXPECT_TRUE(state.cpu.default_set == admitted.cpu.default_set);
  // The init container starts again beside the last container: its pod keeps its memory.
  ContainerStarts(node, pod, "log", state);
  EXPECT_TRUE(state.memory.machine == admitted.memory.machine);
  ReleasePod("p", state);
  state.affinities.clear();
  EXPECT_TRUE(state == NodeState::Initial(node));
}

TEST(PodLevelManagers, DevicesAreAllocatedAtTheStart) {
  const Node node = PodLevelNode(TopologyManagerScope::kPod);
  NodeState state = NodeState::Initial(node);
  devicemanager::Resource& gpus = state.devices.resources["a.com/gpu"];
  gpus.registered = true;
  gpus.devices["gpu-0"] = {.numa = {1}};
  std::map<std::string, std::string> with_gpu = kTwo;
  with_gpu["a.com/gpu"] = "1";
  const Pod pod =
      WholePod("p", "5", "3Gi", {App("app", with_gpu), App("more", with_gpu), App("log", {})});
  state = Admitted(node, state, pod);
  EXPECT_TRUE(state.devices.allocations.empty());
  const StartedPod started = StartPod(node, OnThisNode(node, pod), NoPreference, state);
  ASSERT_EQ(started.devices.size(), 1U);
  EXPECT_TRUE(started.devices.contains("app"));
  ASSERT_TRUE(started.waits.has_value());
  EXPECT_EQ(started.waits->first, "more");
  EXPECT_EQ(started.waits->second.message,
            "Allocate failed due to requested number of devices unavailable for a.com/gpu. "
            "Requested: 1, Available: 0, which is unexpected");
  EXPECT_NE(state.devices.Find({"p", "app"}, "a.com/gpu"), nullptr);
  EXPECT_EQ(state.devices.Find({"p", "more"}, "a.com/gpu"), nullptr);
}

TEST(PodLevelManagers, ARefusalSaysWhatIsRequestedAsAWhole) {
  const Node node = PodLevelNode(TopologyManagerScope::kPod);
  const NodeState state = NodeState::Initial(node);
  const Pod pod = WholePod("p", "8", "2Gi", {App("app", kTwo), App("log", {})});
  const Admission admission = Admit(node, state, pod, NoPreference);
  ASSERT_FALSE(admission.admitted());
  EXPECT_EQ(DescribeRequest(node, state, pod),
            "pod as a whole: 8 CPUs, 2Gi memory; app: 2 exclusive CPUs, 1Gi memory; log: shared "
            "CPUs of the pod (its cpu and memory requests are not both set and equal to its "
            "limits)");
  const std::string text = Explain(node, state, pod, *admission.refusal).message;
  EXPECT_NE(text.find("it does not fit even on the empty node"), std::string::npos) << text;
}

TEST(WholePodCpus, AreInNoOtherSetOfTheState) {
  const Node node = PodLevelNode(TopologyManagerScope::kPod);
  const NodeState state = Admitted(node, NodeState::Initial(node), AppAndLog("p"));
  const auto validated = [&](const cpumanager::CpuState& cpu) {
    const Result<Done> valid = cpumanager::ValidateLoaded(node.machine, *node.cpu, cpu);
    return valid.ok() ? std::string("valid") : valid.error().message;
  };
  const auto broken = [&](const cpumanager::CpuState& cpu) {
    return cpumanager::BrokenInvariants(node.machine, *node.cpu, cpu);
  };
  EXPECT_EQ(validated(state.cpu), "valid");
  EXPECT_TRUE(broken(state.cpu).empty());

  cpumanager::CpuState lost = state.cpu;
  lost.pods["p"] = Cpus("1-2");
  lost.assignments["p"].erase("log");
  EXPECT_EQ(validated(lost),
            "current set of available CPUs \"0-7\" doesn't match with CPUs in state \"0-2,4-7\"");

  cpumanager::CpuState twice = state.cpu;
  twice.pods["q"] = Cpus("3");
  EXPECT_EQ(validated(twice), "cpus \"3\" are assigned to more than one pod");

  cpumanager::CpuState outside = state.cpu;
  outside.default_set -= Cpus("4");
  outside.assignments["p"]["log"] = Cpus("3-4");
  EXPECT_EQ(broken(outside),
            std::vector<std::string>{
                "CPUs 4 are assigned to containers of pod p without being the pod's"});

  // The kubelet does not check this either, and forgets the pod's CPUs later.
  cpumanager::CpuState overlapping = state.cpu;
  overlapping.default_set |= Cpus("3");
  overlapping.assignments["p"].erase("log");
  EXPECT_EQ(validated(overlapping), "valid");
  EXPECT_FALSE(broken(overlapping).empty());
  cpumanager::DropStalePods(overlapping);
  EXPECT_TRUE(overlapping.pods.empty());
  EXPECT_TRUE(broken(overlapping).empty());
}

TEST(WholePodCpus, OriginalCpusMarkContainersOfTheirOwn) {
  const Node node = PodLevelNode(TopologyManagerScope::kPod);
  NodeState state = Admitted(node, NodeState::Initial(node), AppAndLog("p"));
  const NodeState expected = state;
  EXPECT_EQ(IsolationOf(state, {"p", "app"}), Isolation::kContainer);
  EXPECT_EQ(IsolationOf(state, {"p", "log"}), Isolation::kPod);
  EXPECT_EQ(IsolationOf(state, {"p", "debugger"}), Isolation::kHost);
  EXPECT_EQ(AssignmentOf(node, state, {"p", "app"}).exclusive, Cpus("1-2"));
  const Assignment log = AssignmentOf(node, state, {"p", "log"});
  EXPECT_TRUE(log.exclusive.empty());
  EXPECT_TRUE(log.shares_pod_cpus);
  EXPECT_EQ(log.cpuset, Cpus("3"));
  EXPECT_EQ(log.KeptFromOthers(), Cpus("3"));
  EXPECT_TRUE(AssignmentOf(node, state, {"p", "debugger"}).KeptFromOthers().empty());
  // A file of original CPUs can be older than the pod's CPUs as a whole.
  state.cpu.originals["p"]["app"] = Cpus("7");
  EXPECT_EQ(Admitted(node, state, AppAndLog("p")), expected);
  // The kubelet has no such file: until the pod is admitted again, all of its containers share.
  state.cpu.originals.erase("p");
  EXPECT_EQ(IsolationOf(state, {"p", "app"}), Isolation::kPod);
  EXPECT_EQ(Admitted(node, state, AppAndLog("p")), expected);
}

TEST(WholePodCpus, AreForPodsOfWhichAllContainersAreKnown) {
  const Node node = PodLevelNode(TopologyManagerScope::kPod);
  Pod pod = AppAndLog("p");
  pod.is_complete = false;
  const NodeState initial = NodeState::Initial(node);
  const NodeState state = Admitted(node, initial, pod);
  EXPECT_TRUE(state.cpu == initial.cpu);
  EXPECT_TRUE(state.memory == initial.memory);
}

TEST(PodQuota, StaysUnlessEachContainerHasCpusOfItsOwn) {
  Node node = PodLevelNode(TopologyManagerScope::kPod);
  const auto keeps = [&](const Pod& pod) { return KeepsPodQuota(node, OnThisNode(node, pod)); };
  const Pod all_own = WholePod("p", "4", "2Gi", {App("a", kTwo), App("b", kTwo)});
  for (const TopologyManagerScope scope :
       {TopologyManagerScope::kPod, TopologyManagerScope::kContainer}) {
    node = PodLevelNode(scope);
    EXPECT_TRUE(keeps(AppAndLog("p")));
    EXPECT_FALSE(keeps(all_own));
    EXPECT_FALSE(keeps(MakePod("p", {App("app", kTwo), App("log", {})})));
    Pod unknown = MakePod("p", {App("app", kTwo)});
    unknown.is_complete = false;
    EXPECT_TRUE(keeps(unknown));
  }
  node.config.feature_gates[kGate] = false;
  EXPECT_FALSE(keeps(AppAndLog("p")));
}

TEST(PodLevelManagers, DevicesAreAllocatedWithThePodIfTheNodeDoesSo) {
  Node node = PodLevelNode(TopologyManagerScope::kPod);
  node.allocates_devices_with_pod = true;
  NodeState state = NodeState::Initial(node);
  devicemanager::Resource& gpus = state.devices.resources["a.com/gpu"];
  gpus.registered = true;
  gpus.devices["gpu-0"] = {.numa = {1}};
  std::map<std::string, std::string> with_gpu = kTwo;
  with_gpu["a.com/gpu"] = "1";
  const Pod one = WholePod("p", "3", "2Gi", {App("app", with_gpu), App("log", {})});
  const NodeState admitted = Admitted(node, state, one);
  EXPECT_NE(admitted.devices.Find({"p", "app"}, "a.com/gpu"), nullptr);
  EXPECT_EQ(admitted.cpu.pods.at("p"), Cpus("4-6"));
  const Admission refused =
      Admit(node, admitted, WholePod("q", "3", "2Gi", one.containers), NoPreference);
  EXPECT_FALSE(refused.admitted());
}

TEST(WholePodMemory, IsReservedOnce) {
  const Node node = PodLevelNode(TopologyManagerScope::kPod);
  const NodeState state = Admitted(node, NodeState::Initial(node), AppAndLog("p"));
  const auto validated = [&](const memorymanager::MemoryState& memory) {
    const Result<Done> valid = memorymanager::ValidateLoaded(node.machine, *node.memory, memory);
    return valid.ok() ? std::string("valid") : valid.error().message;
  };
  EXPECT_EQ(validated(state.memory), "valid");
  EXPECT_EQ(state.memory.machine.at(0).number_of_assignments, 1);
  EXPECT_EQ(state.memory.machine.at(0).tables.at("memory").reserved, uint64_t{2} << 30);

  memorymanager::MemoryState forgotten = state.memory;
  forgotten.pods.clear();
  EXPECT_EQ(validated(forgotten),
            "[memorymanager] the expected machine state is different from the real one");

  memorymanager::MemoryState larger = state.memory;
  larger.assignments["p"]["app"][0].size = uint64_t{3} << 30;
  EXPECT_EQ(validated(larger),
            "[memorymanager] container app of pod p has memory that is not the "
            "pod's");

  memorymanager::MemoryState elsewhere = state.memory;
  elsewhere.assignments["p"]["app"][0].numa_affinity = {7};
  EXPECT_EQ(validated(elsewhere),
            "[memorymanager] (pod: p, container: app) the memory assignment uses the NUMA that "
            "does not exist");

  const auto fitted = memorymanager::FitToMachine(node.machine, *node.memory, state.memory);
  ASSERT_TRUE(fitted.has_value());
  EXPECT_TRUE(*fitted == state.memory);
}

}  // namespace
}  // namespace alignd::admission
