// State = f(running containers): random pods come, go and are resized, then any of the files is
// lost, and the state is rebuilt from what the containers have.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/adoption.h"
#include "alignd/admission/resize.h"
#include "alignd/checkpoint/mark_annotation.h"
#include "alignd/memorymanager/static_policy.h"
#include "core/crowded_node.h"

namespace alignd::admission {
namespace {

// A node whose containers all run, with the marks that they were created with.
class MarkedNode {
 public:
  explicit MarkedNode(Random& random)
      : random_(random), crowded_(CrowdedNode::Make(RandomMachine(random), random)) {}

  void Step(int step) {
    const Pod pod = crowded_.NextPod(step, random_);
    Admission admission = Admit(crowded_.node, crowded_.state, pod, devicemanager::NoPreference);
    if (admission.admitted()) {
      crowded_.state = std::move(admission.next);
      admitted_[pod.uid] = pod;
      for (const Container& container : pod.containers) {
        const ContainerKey key{pod.uid, container.name};
        const AssignmentMark mark = MarkOf(crowded_.state, key, container.kind);
        if (!mark.IsEmpty()) marks_[key] = checkpoint::FormatMark(key, "id", mark);
      }
    }
    const std::set<std::string> pods = PodsIn(crowded_.state);
    std::erase_if(marks_, [&](const auto& entry) { return !pods.contains(entry.first.pod_uid); });
    std::erase_if(admitted_, [&](const auto& entry) { return !pods.contains(entry.first); });
    if (random_.OnceIn(2)) ResizeOne();
  }

  std::vector<MarkedContainer> Containers() const {
    std::vector<MarkedContainer> containers;
    for (const auto& [key, text] : marks_) {
      MarkedContainer container{.id = key.pod_uid + key.container,
                                .key = key,
                                .pod = "default/" + key.pod_uid,
                                .mark = checkpoint::ParseMark(key, "id", text).value()};
      const CpuSet* const cpus = state().cpu.Find(key);
      // As a container is: both say the same, or only one is known.
      if (cpus != nullptr && !random_.OnceIn(4)) container.record = *cpus;
      if (cpus != nullptr && (container.record.empty() || !random_.OnceIn(4))) {
        container.cgroup = *cpus;
      }
      containers.insert(containers.begin() + random_.Number(0, static_cast<int>(containers.size())),
                        std::move(container));
    }
    return containers;
  }

  // What a start reads from intact files.
  NodeState AfterRestart() const {
    NodeState state = crowded_.state;
    state.cpu.reusable.clear();
    state.affinities.clear();
    for (const auto& [key, resources] : crowded_.state.devices.allocations) {
      for (auto& [resource, allocation] : state.devices.allocations[key]) {
        allocation.response.clear();
      }
    }
    return state;
  }

  // What files say that are valid, and of another history of these pods: some are missing, and the
  // others came in another order.
  NodeState OfAnotherHistory() const {
    NodeState state = NodeState::Initial(node());
    state.devices.resources = crowded_.state.devices.resources;
    std::vector<Pod> pods;
    for (const auto& [uid, pod] : admitted_) {
      if (random_.OnceIn(4)) continue;
      pods.insert(pods.begin() + random_.Number(0, static_cast<int>(pods.size())), pod);
    }
    for (const Pod& pod : pods) {
      Admission admission = Admit(node(), state, pod, devicemanager::NoPreference);
      if (admission.admitted()) state = std::move(admission.next);
    }
    return state;
  }

  const Node& node() const { return crowded_.node; }
  const NodeState& state() const { return crowded_.state; }
  int device_kinds() const { return crowded_.device_kinds; }

 private:
  void ResizeOne() {
    for (const auto& [key, mark] : marks_) {
      const CpuSet* const cpus = state().cpu.Find(key);
      if (cpus == nullptr || !random_.OnceIn(3)) continue;
      ResizeDecision decision =
          Resize(crowded_.node, crowded_.state, key, random_.Number(1, cpus->Count() + 2));
      if (!decision.refusal) crowded_.state = std::move(decision.next);
    }
  }

  Random& random_;
  CrowdedNode crowded_;
  std::map<ContainerKey, std::string> marks_;
  std::map<std::string, Pod> admitted_;  // by UID
};

// A container that has again the CPUs of its creation may have an entry or none: that says the
// same.
cpumanager::CpuState WithoutEqualOriginals(cpumanager::CpuState cpu) {
  const auto originals = cpu.originals;
  for (const auto& [uid, containers] : originals) {
    auto& of_pod = cpu.originals[uid];
    for (const auto& [name, cpus] : containers) {
      if (cpus == *cpu.Find({uid, name})) of_pod.erase(name);
    }
    if (of_pod.empty()) cpu.originals.erase(uid);
  }
  return cpu;
}

// In the kubelet's checks, memory of a group of nodes is compared by its sum.
void ExpectSameMemory(const Node& node, const NodeState& rebuilt, const NodeState& intact) {
  EXPECT_EQ(rebuilt.memory.assignments, intact.memory.assignments);
  if (!node.memory) return;
  memorymanager::MemoryState books = intact.memory;
  books.machine = rebuilt.memory.machine;
  const auto valid = memorymanager::ValidateLoaded(node.machine, *node.memory, books);
  EXPECT_TRUE(valid.ok()) << valid.error().Text();
}

TEST(AdoptionProperty, AnyLostFilesAreRebuiltFromTheContainers) {
  Random random;
  for (int run = 0; run < Iterations(150); ++run) {
    MarkedNode world(random);
    for (int step = random.Number(1, 12); step > 0; --step) world.Step(step);
    const NodeState intact = world.AfterRestart();
    const NodeState initial = NodeState::Initial(world.node());
    NodeState damaged = intact;
    const int lost = random.Number(1, 15);
    if ((lost & 1) != 0) damaged.cpu = initial.cpu;
    if ((lost & 2) != 0) damaged.memory = initial.memory;
    if ((lost & 4) != 0) damaged.devices.allocations.clear();
    if ((lost & 8) != 0) damaged.cpu.originals.clear();
    const Adoption adoption = Adopt(world.node(), damaged, {}, world.Containers());
    const NodeState& rebuilt = adoption.next;
    ASSERT_EQ(rebuilt.BrokenInvariants(world.node()), std::vector<std::string>());
    EXPECT_EQ(WithoutEqualOriginals(rebuilt.cpu), WithoutEqualOriginals(intact.cpu));
    EXPECT_EQ(rebuilt.devices, intact.devices);
    ExpectSameMemory(world.node(), rebuilt, intact);
    EXPECT_EQ(adoption.unknown.size(), 0U) << adoption.unknown.front().text;
    // Adopted once more, they are as they are.
    EXPECT_EQ(Adopt(world.node(), rebuilt, {}, world.Containers()).next, rebuilt);
    const Pod next = RandomPod("next", world.node().machine, world.device_kinds(), random);
    const Admission with = Admit(world.node(), rebuilt, next, devicemanager::NoPreference);
    const Admission without = Admit(world.node(), intact, next, devicemanager::NoPreference);
    EXPECT_EQ(with.admitted(), without.admitted());
    EXPECT_EQ(WithoutEqualOriginals(with.next.cpu), WithoutEqualOriginals(without.next.cpu));
    EXPECT_EQ(with.next.devices, without.next.devices);
    EXPECT_EQ(with.next.memory.assignments, without.next.memory.assignments);
    if (::testing::Test::HasFailure()) return;
  }
}

// Memory and devices are those of the marks, whatever valid files say: nothing that a running
// container has is free, or another one's.
TEST(AdoptionProperty, FilesOfAnotherHistoryTakeNoMemoryAndNoDevices) {
  Random random;
  int refuted = 0;
  for (int run = 0; run < Iterations(150); ++run) {
    MarkedNode world(random);
    for (int step = random.Number(1, 12); step > 0; --step) world.Step(step);
    const std::vector<MarkedContainer> containers = world.Containers();
    const Adoption adoption = Adopt(world.node(), world.OfAnotherHistory(), {}, containers);
    ASSERT_EQ(adoption.next.BrokenInvariants(world.node()), std::vector<std::string>());
    refuted += static_cast<int>(adoption.refuted.size());
    for (const MarkedContainer& container : containers) {
      for (const auto& [resource, devices] : container.mark.devices) {
        const auto* const now = adoption.next.devices.Find(container.key, resource);
        ASSERT_NE(now, nullptr) << container.key.pod_uid;
        EXPECT_EQ(now->devices, devices);
      }
      const auto* const memory = adoption.next.memory.Find(container.key);
      if (container.mark.memory.empty() || container.mark.IsInit()) continue;
      ASSERT_NE(memory, nullptr) << container.key.pod_uid;
      EXPECT_EQ(*memory, container.mark.memory);
    }
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(refuted, 0);
}

// Containers whose marks contradict each other and the state: nothing is ever assigned twice, and
// the result does not depend on the order.
TEST(AdoptionProperty, ContradictionsBreakNothing) {
  Random random;
  for (int run = 0; run < Iterations(150); ++run) {
    MarkedNode world(random);
    for (int step = random.Number(0, 6); step > 0; --step) world.Step(step);
    std::vector<MarkedContainer> containers = world.Containers();
    for (int i = random.Number(1, 8); i > 0; --i) {
      MarkedContainer other{.id = "x" + std::to_string(i),
                            .key = {"x" + std::to_string(random.Number(1, 5)), std::to_string(i)},
                            .pod = "",
                            .runs = !random.OnceIn(4),
                            .mark = {}};
      other.mark.cpus = random.SomeOf(world.node().machine.cpus()).Lowest(random.Number(0, 3));
      other.mark.memory = {{{0}, "memory", uint64_t{1} << random.Number(0, 40)}};
      other.mark.devices["a.com/dev"][0] = {"dev-" + std::to_string(random.Number(0, 2))};
      if (random.OnceIn(3)) other.cgroup = random.SomeOf(world.node().machine.cpus());
      containers.push_back(std::move(other));
    }
    const NodeState before =
        random.OnceIn(2) ? world.AfterRestart() : NodeState::Initial(world.node());
    NodeState state = Adopt(world.node(), before, {}, containers).next;
    ASSERT_EQ(state.BrokenInvariants(world.node()), std::vector<std::string>());
    std::reverse(containers.begin(), containers.end());
    EXPECT_EQ(Adopt(world.node(), before, {}, containers).next, state);
    // What is withheld is free again when the pods have gone.
    for (const std::string& uid : PodsIn(state)) {
      ReleasePod(uid, state);
      ASSERT_EQ(state.BrokenInvariants(world.node()), std::vector<std::string>());
    }
    EXPECT_EQ(state.cpu, NodeState::Initial(world.node()).cpu);
    EXPECT_TRUE(state.devices.withheld.empty());
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace alignd::admission
