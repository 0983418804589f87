#include "alignd/admission/adoption.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/cpumanager/static_policy.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

constexpr char kAdoptedGpu[] = "a.com/gpu";

// Two NUMA nodes with four CPUs and two devices each; CPU 0 is reserved.
class AdoptionTest : public testing::Test {
 protected:
  AdoptionTest() : AdoptionTest("socket:2 numa:1 core:4") {}
  explicit AdoptionTest(const char* machine) : node_(MakeNode(machine)) {
    state_ = NodeState::Initial(node_);
    auto& gpus = state_.devices.resources[kAdoptedGpu];
    gpus.registered = true;
    for (int i = 0; i < 4; ++i) gpus.devices["gpu" + std::to_string(i)].numa = {i / 2};
  }

  static Node MakeNode(const char* machine) {
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = "0";
    config.memory_manager_policy = MemoryManagerPolicy::kStatic;
    config.eviction_hard_memory = "";
    config.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", "512Mi"}})}};
    config.system_reserved = Amounts({{"memory", "512Mi"}});
    config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
    return Node::Make(MakeMachine(machine), config).value();
  }

  void Add(const std::string& uid, const std::string& cpus, const std::string& gpus = "0") {
    const Pod pod = AppPod(uid, {{"cpu", cpus}, {"memory", "1Gi"}, {kAdoptedGpu, gpus}});
    Admission admission = Admit(node_, state_, pod, devicemanager::NoPreference);
    ASSERT_TRUE(admission.admitted()) << admission.refusal->message;
    state_ = std::move(admission.next);
  }

  // As it runs: with its mark, and on the CPUs that it is assigned.
  MarkedContainer Running(const std::string& uid) const {
    const ContainerKey key{uid, "app"};
    MarkedContainer container{
        .id = "id-" + uid, .key = key, .pod = "default/" + uid, .mark = MarkOf(state_, key)};
    container.record = container.cgroup = container.mark.cpus;
    return container;
  }

  // A container with a mark that no state has.
  static MarkedContainer Marked(const std::string& uid, const CpuSet& cpus) {
    MarkedContainer container;
    container.id = "id-" + uid;
    container.key = {uid, "app"};
    container.pod = "default/" + uid;
    container.mark.cpus = container.record = container.cgroup = cpus;
    return container;
  }

  Adoption AdoptInto(NodeState state, std::vector<MarkedContainer> containers,
                     const std::set<std::string>& absent = {}) const {
    Adoption adoption = Adopt(node_, std::move(state), absent, std::move(containers));
    EXPECT_EQ(adoption.next.BrokenInvariants(node_), std::vector<std::string>());
    return adoption;
  }
  Adoption FromNothing(std::vector<MarkedContainer> containers) const {
    return AdoptInto(NodeState::Initial(node_), std::move(containers));
  }

  static std::string CpusOf(const NodeState& state, const std::string& uid) {
    const CpuSet* const cpus = state.cpu.Find({uid, "app"});
    return cpus == nullptr ? "none" : cpus->ToString();
  }
  static std::vector<std::string> Texts(const std::vector<AdoptionNote>& notes) {
    std::vector<std::string> texts;
    for (const AdoptionNote& note : notes) texts.push_back(note.pod + ": " + note.text);
    return texts;
  }

  const Node node_;
  NodeState state_;
};

TEST_F(AdoptionTest, RebuildsTheWholeStateFromTheMarks) {
  Add("a", "2", "1");
  Add("b", "3", "2");
  Add("c", "1");
  const Adoption adoption = FromNothing({Running("c"), Running("a"), Running("b")});
  EXPECT_EQ(adoption.next.cpu, state_.cpu);
  EXPECT_EQ(adoption.next.memory, state_.memory);
  EXPECT_EQ(adoption.next.devices.allocations, state_.devices.allocations);
  EXPECT_TRUE(adoption.next.devices.resources.contains(kAdoptedGpu));
  EXPECT_EQ(adoption.unknown.size(), 0U);
  EXPECT_EQ(
      Texts(adoption.adopted),
      (std::vector<std::string>{"default/a: CPUs 1-2, memory of NUMA nodes 0, a.com/gpu gpu0",
                                "default/b: CPUs 4-6, memory of NUMA nodes 1, a.com/gpu gpu2 gpu3",
                                "default/c: CPUs 3, memory of NUMA nodes 0"}));
}

TEST_F(AdoptionTest, AddsOnlyWhatTheStateLacks) {
  Add("a", "2", "1");
  const MarkedContainer container = Running("a");
  EXPECT_FALSE(IsIncomplete(node_, state_, container.key, container.mark));
  EXPECT_EQ(AdoptInto(state_, {container}).next, state_);

  NodeState without_memory = state_;
  without_memory.memory = NodeState::Initial(node_).memory;
  EXPECT_TRUE(IsIncomplete(node_, without_memory, container.key, container.mark));
  const Adoption adoption = AdoptInto(without_memory, {container});
  EXPECT_EQ(adoption.next, state_);
  EXPECT_EQ(Texts(adoption.adopted), std::vector<std::string>{"default/a: memory of NUMA nodes 0"});
}

// A resize changes the CPUs, and not the mark.
TEST_F(AdoptionTest, UsesTheCpusOfAResize) {
  MarkedContainer container = Marked("a", {1, 2});
  container.record = container.cgroup = {1, 2, 3};
  const Adoption adoption = FromNothing({container});
  EXPECT_EQ(CpusOf(adoption.next, "a"), "1-3");
  EXPECT_EQ(adoption.next.cpu.OriginalOf(container.key), (CpuSet{1, 2}));
  EXPECT_EQ(adoption.unknown.size(), 0U);

  // Created again after the resize, then resized to fewer.
  container.mark.cpus = {1, 2, 3};
  container.mark.original = {1};
  container.record = container.cgroup = {1, 2};
  const Adoption shrunk = FromNothing({container});
  EXPECT_EQ(CpusOf(shrunk.next, "a"), "1-2");
  EXPECT_EQ(shrunk.next.cpu.OriginalOf(container.key), CpuSet{1});
}

// The file of the original CPUs alone is lost.
TEST_F(AdoptionTest, RebuildsOriginalCpus) {
  MarkedContainer container = Marked("a", {1, 2});
  container.record = container.cgroup = {1, 2, 3};
  NodeState state = FromNothing({container}).next;
  EXPECT_FALSE(IsIncomplete(node_, state, container.key, container.mark));
  const NodeState before = state;
  state.cpu.originals.clear();
  EXPECT_TRUE(IsIncomplete(node_, state, container.key, container.mark));
  EXPECT_EQ(AdoptInto(state, {container}).next, before);
}

TEST_F(AdoptionTest, BelievesTwoSourcesMoreThanOne) {
  struct Case {
    CpuSet record;
    CpuSet cgroup;
    std::string cpus;
    size_t doubts;
  };
  const std::vector<Case> cases = {
      {{}, {}, "1-2", 0},                // neither is known
      {{1, 2, 3}, {}, "1-3", 0},         // a resize; no cgroup
      {{}, {1, 2, 3}, "1-3", 0},         // a resize; the runtime does not say
      {{1, 2}, {1, 2, 3, 4}, "1-2", 1},  // another program has written the cgroup
      {{1, 2, 3}, {1, 2}, "1-2", 1},     // the runtime has taken an update and not applied it
      {{1, 2, 3}, {4, 5}, "1-3", 1},     // resized, then written by another program
      {{4, 5}, {4, 5}, "4-5", 0},        // a move; the mark stays
      {{4, 5}, {}, "1-2", 1},            // one against one
      {{4, 5}, {5, 6}, "1-2", 1},        // all three differ
      {{4, 5, 6}, {4, 5, 6}, "1-2", 1},  // no resize takes the CPUs of the mark away
  };
  for (const Case& one : cases) {
    MarkedContainer container = Marked("a", {1, 2});
    container.record = one.record;
    container.cgroup = one.cgroup;
    const Adoption adoption = FromNothing({container});
    SCOPED_TRACE("record " + one.record.ToString() + ", cgroup " + one.cgroup.ToString());
    EXPECT_EQ(CpusOf(adoption.next, "a"), one.cpus);
    EXPECT_EQ(adoption.unknown.size(), one.doubts);
  }
}

TEST_F(AdoptionTest, WithholdsContestedCpus) {
  const Adoption adoption =
      FromNothing({Marked("a", {1, 2}), Marked("b", {2, 3}), Marked("c", {4})});
  NodeState state = adoption.next;
  EXPECT_EQ(CpusOf(state, "a"), "none");
  EXPECT_EQ(CpusOf(state, "b"), "none");
  EXPECT_EQ(CpusOf(state, "c"), "4");
  EXPECT_EQ(state.cpu.default_set, (CpuSet{0, 5, 6, 7}));
  EXPECT_EQ(Texts(adoption.unknown),
            (std::vector<std::string>{
                "default/a: it has CPUs 1-2 by its mark, and so has container app of pod default/b "
                "(CPUs 2-3): it is not known whose they are, so that they are assigned to no "
                "container, and no other pod gets them",
                "default/b: it has CPUs 2-3 by its mark, and so has container app of pod default/a "
                "(CPUs 1-2): it is not known whose they are, so that they are assigned to no "
                "container, and no other pod gets them"}));
  // They stay where they are, and a pod is refused rather than given one of their CPUs.
  EXPECT_EQ(AssignmentOf(node_, state, {"a", "app"}).cpuset, CpuSet());
  const Pod large = AppPod("d", {{"cpu", "4"}, {"memory", "1Gi"}});
  EXPECT_FALSE(Admit(node_, state, large, devicemanager::NoPreference).admitted());
  // The file has no place for them, and must be valid for the next start.
  const auto read = checkpoint::ParseCpuCheckpoint(
      checkpoint::FormatCpuCheckpoint("static", state.cpu, checkpoint::StateForm::kData));
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(cpumanager::ValidateLoaded(node_.machine, *node_.cpu, read->state).ok());

  EXPECT_TRUE(PodsIn(state).contains("a"));
  ReleasePod("a", state);
  EXPECT_EQ(state.BrokenInvariants(node_), std::vector<std::string>());
  EXPECT_EQ(state.cpu.default_set, (CpuSet{0, 1, 5, 6, 7}));
  ReleasePod("b", state);
  EXPECT_EQ(state.cpu.default_set, (CpuSet{0, 1, 2, 3, 5, 6, 7}));
  EXPECT_EQ(state.BrokenInvariants(node_), std::vector<std::string>());
}

// Runtime and cgroup say that a container is also on other CPUs than those of its mark.
TEST_F(AdoptionTest, WithholdsWhereAContestantIs) {
  MarkedContainer a = Marked("a", {1, 2});
  a.record = {1, 2, 5};
  a.cgroup = {0, 1, 2, 4, 6, 9};  // 0 is reserved, 4 is assigned, 9 does not exist
  NodeState state = FromNothing({a, Marked("b", {2, 3}), Marked("c", {4})}).next;
  EXPECT_EQ(CpusOf(state, "c"), "4");
  EXPECT_EQ(state.cpu.withheld.find({"a", "app"})->second, (CpuSet{1, 2, 5, 6}));
  EXPECT_EQ(state.cpu.withheld.find({"b", "app"})->second, (CpuSet{2, 3}));
  EXPECT_EQ(state.cpu.default_set, (CpuSet{0, 7}));
  ReleasePod("a", state);
  EXPECT_EQ(state.cpu.default_set, (CpuSet{0, 1, 5, 6, 7}));
  EXPECT_EQ(state.BrokenInvariants(node_), std::vector<std::string>());
}

// The container is created again: what it claimed is free, except what the other still claims.
TEST_F(AdoptionTest, AllocatesToAContestantAnew) {
  const NodeState state = FromNothing({Marked("a", {1, 2}), Marked("b", {2, 3})}).next;
  const Pod pod = AppPod("a", {{"cpu", "2"}, {"memory", "1Gi"}});
  const Admission admission = Admit(node_, state, pod, devicemanager::NoPreference);
  ASSERT_TRUE(admission.admitted());
  EXPECT_EQ(admission.next.BrokenInvariants(node_), std::vector<std::string>());
  EXPECT_FALSE(admission.next.cpu.Find({"a", "app"})->Intersects({2, 3}));
}

TEST_F(AdoptionTest, NeverTakesWhatTheStateHasForAnotherPod) {
  Add("a", "2", "1");
  MarkedContainer other = Marked("b", {2, 3});
  other.mark.devices[kAdoptedGpu][0] = {"gpu0"};
  const Adoption adoption = AdoptInto(state_, {Running("a"), other});
  EXPECT_EQ(adoption.next, state_);
  EXPECT_EQ(Texts(adoption.unknown),
            (std::vector<std::string>{
                "default/b: its mark says that it has CPUs 2-3 exclusively, but CPUs 2 are "
                "assigned to container app of pod a in the state files; it runs in the shared pool",
                "default/b: its mark says that it has a.com/gpu gpu0, but container app of pod a "
                "is allocated gpu0 in the state files"}));
  // The pod of the entry is gone.
  const Adoption released = AdoptInto(state_, {other}, {"a"});
  EXPECT_EQ(CpusOf(released.next, "a"), "none");
  EXPECT_EQ(CpusOf(released.next, "b"), "2-3");
  EXPECT_EQ(released.unknown.size(), 0U);
}

TEST_F(AdoptionTest, AContainerThatHasEndedYields) {
  MarkedContainer ended = Marked("a", {1, 2});
  ended.runs = false;
  ended.mark.devices[kAdoptedGpu][0] = {"gpu0"};
  MarkedContainer running = Marked("b", {2, 3});
  running.mark.devices[kAdoptedGpu][0] = {"gpu0"};
  const Adoption adoption = FromNothing({ended, running});
  EXPECT_EQ(CpusOf(adoption.next, "a"), "none");
  EXPECT_EQ(CpusOf(adoption.next, "b"), "2-3");
  EXPECT_EQ(adoption.next.devices.Find({"a", "app"}, kAdoptedGpu), nullptr);
  EXPECT_NE(adoption.next.devices.Find({"b", "app"}, kAdoptedGpu), nullptr);
  EXPECT_EQ(adoption.unknown.size(), 0U);
  // Alone, it keeps them: it may start again.
  EXPECT_EQ(CpusOf(FromNothing({ended}).next, "a"), "1-2");
}

TEST_F(AdoptionTest, WithholdsContestedDevices) {
  MarkedContainer a = Marked("a", {1});
  MarkedContainer b = Marked("b", {2});
  a.mark.devices[kAdoptedGpu][0] = {"gpu0", "gpu1"};
  b.mark.devices[kAdoptedGpu][0] = {"gpu1"};
  NodeState state = state_;
  const Adoption adoption = AdoptInto(state, {a, b});
  EXPECT_EQ(adoption.next.devices.allocations.size(), 0U);
  EXPECT_EQ(adoption.unknown.size(), 2U);
  EXPECT_EQ(adoption.next.devices.AllocatedIds(kAdoptedGpu),
            (std::set<std::string>{"gpu0", "gpu1"}));
  const auto decide = [&](const NodeState& from) {
    return Admit(node_, from, AppPod("c", {{"cpu", "1"}, {"memory", "1Gi"}, {kAdoptedGpu, "3"}}),
                 devicemanager::NoPreference);
  };
  EXPECT_FALSE(decide(adoption.next).admitted());
  NodeState released = adoption.next;
  ReleasePod("a", released);
  EXPECT_TRUE(decide(released).admitted());
}

// A decision names all containers of a pod, also those that run on with the devices they claim.
TEST_F(AdoptionTest, KeepsClaimsOfDevicesUntilThePodIsReleased) {
  MarkedContainer a = Marked("a", {1});
  MarkedContainer b = Marked("b", {2});
  a.mark.devices[kAdoptedGpu][0] = {"gpu0", "gpu1"};
  b.mark.devices[kAdoptedGpu][0] = {"gpu1"};
  const Pod pod = AppPod("a", {{"cpu", "1"}, {"memory", "1Gi"}, {kAdoptedGpu, "2"}});
  const Admission anew =
      Admit(node_, AdoptInto(state_, {a, b}).next, pod, devicemanager::NoPreference);
  ASSERT_TRUE(anew.admitted()) << anew.refusal->message;
  NodeState state = anew.next;
  EXPECT_EQ(state.devices.Find({"a", "app"}, kAdoptedGpu)->Ids(),
            (std::set<std::string>{"gpu2", "gpu3"}));
  ReleasePod("b", state);
  EXPECT_EQ(state.devices.AllocatedIds(kAdoptedGpu).size(), 4U);
  ReleasePod("a", state);
  EXPECT_EQ(state.devices.AllocatedIds(kAdoptedGpu).size(), 0U);
}

TEST_F(AdoptionTest, DropsClaimsOfDevicesThatTheContainerIsAllocated) {
  const ContainerKey key{"a", "app"};
  state_.devices.allocations[key][kAdoptedGpu].devices[0] = {"gpu0"};
  state_.devices.withheld[key][kAdoptedGpu] = {"gpu0", "gpu1"};
  const Pod pod = AppPod("a", {{"cpu", "1"}, {"memory", "1Gi"}, {kAdoptedGpu, "1"}});
  const Admission again = Admit(node_, state_, pod, devicemanager::NoPreference);
  ASSERT_TRUE(again.admitted()) << again.refusal->message;
  EXPECT_EQ(again.next.devices.withheld.find(key)->second.at(kAdoptedGpu),
            std::set<std::string>{"gpu1"});
  state_.devices.withheld[key][kAdoptedGpu] = {"gpu0"};
  const Admission rest = Admit(node_, state_, pod, devicemanager::NoPreference);
  EXPECT_FALSE(rest.next.devices.withheld.contains(key));
}

// With the feature gate PodLevelResourceManagers, and scope pod.
class AdoptionOfWholePods : public AdoptionTest {
 protected:
  Node WholePodNode() const {
    KubeletConfig config = node_.config;
    config.topology_manager_scope = TopologyManagerScope::kPod;
    config.feature_gates["PodLevelResourceManagers"] = true;
    return Node::Make(node_.machine, config).value();
  }
};

// The memory of the pod as a whole is booked, and the container's is no part of it.
TEST_F(AdoptionOfWholePods, GivesBackTheMemoryOfAPodWithoutContainers) {
  const Node node = WholePodNode();
  MarkedContainer container = Marked("a", {});
  container.mark.whole.memory = {{{0}, "memory", uint64_t{1} << 29}};
  container.mark.memory = {{{0}, "memory", uint64_t{1} << 30}};
  const Adoption adoption = Adopt(node, NodeState::Initial(node), {}, {container});
  EXPECT_EQ(adoption.next.memory, NodeState::Initial(node).memory);
  EXPECT_EQ(adoption.next.BrokenInvariants(node), std::vector<std::string>());
  EXPECT_EQ(adoption.unknown.size(), 1U);
}

TEST_F(AdoptionOfWholePods, ContestedCpusAreFreeWhenThePodIsAssignedOthers) {
  const Node node = WholePodNode();
  NodeState state = NodeState::Initial(node);
  cpumanager::Withhold({"a", "app"}, {1, 2}, state.cpu);
  cpumanager::Withhold({"a", "log"}, {2, 3}, state.cpu);
  cpumanager::Withhold({"b", "app"}, {2}, state.cpu);
  Pod pod = MakePod("a", {App("app", {{"cpu", "1"}, {"memory", "1Gi"}}), App("log", {})});
  const ResourceList whole = Amounts({{"cpu", "2"}, {"memory", "2Gi"}});
  pod.pod_level = Resources{.requests = whole, .limits = whole};
  const Admission admission = Admit(node, state, pod, devicemanager::NoPreference);
  ASSERT_TRUE(admission.admitted()) << admission.refusal->message;
  EXPECT_EQ(admission.next.cpu.Withheld(), CpuSet{2});
  EXPECT_EQ(admission.next.BrokenInvariants(node), std::vector<std::string>());
}

TEST_F(AdoptionTest, NamesCpusAndMemoryThatCannotBeAssignedAnyMore) {
  MarkedContainer container = Marked("a", {0, 3, 8});
  container.mark.memory = {{{0}, "memory", uint64_t{1} << 50}};
  const Adoption adoption = FromNothing({container});
  EXPECT_EQ(CpusOf(adoption.next, "a"), "3");
  EXPECT_EQ(adoption.next.memory, NodeState::Initial(node_).memory);
  EXPECT_EQ(
      Texts(adoption.unknown),
      (std::vector<std::string>{
          "default/a: CPUs 0,8 cannot be assigned to it any more: they are offline, absent or "
          "reserved",
          "default/a: its memory counts as free: 1125899906842624 bytes of memory on NUMA "
          "nodes 0: that much is not free"}));
}

TEST_F(AdoptionTest, NamesMemoryOnNodesThatAreNotThere) {
  MarkedContainer container = Marked("a", {});
  container.mark.memory = {{{7}, "memory", 1}};
  EXPECT_EQ(Texts(FromNothing({container}).unknown),
            std::vector<std::string>{"default/a: its memory counts as free: 1 bytes of memory on "
                                     "NUMA nodes 7: a node does not exist"});
  container.mark.memory = {{{0}, "hugepages-3Mi", 1}};
  EXPECT_EQ(Texts(FromNothing({container}).unknown),
            std::vector<std::string>{"default/a: its memory counts as free: 1 bytes of "
                                     "hugepages-3Mi on NUMA nodes 0: the nodes have no such "
                                     "memory"});
}

// Containers of one pod may share CPUs of init containers.
TEST_F(AdoptionTest, ContainersOfOnePodMayHaveTheSameCpus) {
  MarkedContainer init = Marked("a", {1, 2});
  init.key.container = "init";
  const Adoption adoption = FromNothing({init, Marked("a", {1, 2, 3})});
  EXPECT_EQ(CpusOf(adoption.next, "a"), "1-3");
  EXPECT_EQ(*adoption.next.cpu.Find({"a", "init"}), (CpuSet{1, 2}));
  EXPECT_EQ(adoption.unknown.size(), 0U);
}

}  // namespace
}  // namespace alignd::admission
