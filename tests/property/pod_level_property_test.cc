// Random pods with and without pod-level resources come and go, with the feature gate
// PodLevelResourceManagers. What a pod is assigned is compared with simple rules about each CPU and
// each container.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/adoption.h"
#include "alignd/admission/pod_level.h"
#include "alignd/checkpoint/mark_annotation.h"
#include "core/crowded_node.h"

namespace alignd::admission {
namespace {

// A container of a pod to make. Amounts of 0: the container is shared.
struct Planned {
  ContainerKind kind = ContainerKind::kApp;
  int cpus = 0;
  int gib = 0;
};

struct PlannedPod {
  std::string uid;
  std::vector<Planned> containers;
  int cpus = 0;  // of the pod as a whole
  int gib = 0;
};

// What containers of their own need at one time: the API server refuses pods with less.
int NeededAtOnce(const std::vector<Planned>& containers, int Planned::*amount) {
  int running = 0;
  int most = 0;
  for (const Planned& container : containers) {
    most = std::max(most, running + container.*amount);
    if (container.kind != ContainerKind::kInit) running += container.*amount;
  }
  return most;
}

PlannedPod RandomPlan(const std::string& uid, Random& random) {
  PlannedPod pod{.uid = uid, .containers = {}, .cpus = 0, .gib = 0};
  const int init = random.Number(0, 3);
  const int all = init + random.Number(1, 3);
  for (int i = 0; i < all; ++i) {
    Planned& container = pod.containers.emplace_back();
    if (i < init) {
      container.kind = random.OnceIn(2) ? ContainerKind::kInit : ContainerKind::kSidecar;
    }
    if (random.OnceIn(3)) continue;
    container.cpus = random.Number(1, 3);
    container.gib = random.Number(1, 2);
  }
  pod.cpus = std::max(1, NeededAtOnce(pod.containers, &Planned::cpus)) + random.Number(0, 2);
  pod.gib = std::max(1, NeededAtOnce(pod.containers, &Planned::gib)) + random.Number(0, 2);
  return pod;
}

std::string NameOf(size_t index) { return "c" + std::to_string(index); }

Pod PodOf(const PlannedPod& planned) {
  std::vector<Container> containers;
  for (size_t i = 0; i < planned.containers.size(); ++i) {
    const Planned& container = planned.containers[i];
    std::map<std::string, std::string> amounts;
    if (container.cpus > 0) {
      amounts = {{"cpu", std::to_string(container.cpus)},
                 {"memory", std::to_string(container.gib) + "Gi"}};
    }
    containers.push_back(MakeContainer(container.kind, NameOf(i), amounts));
  }
  Pod pod = MakePod(planned.uid, std::move(containers));
  const ResourceList whole = Amounts(
      {{"cpu", std::to_string(planned.cpus)}, {"memory", std::to_string(planned.gib) + "Gi"}});
  pod.pod_level = Resources{.requests = whole, .limits = whole};
  return pod;
}

// What is available to container `index` beside the sidecars and apps that run with an amount of
// their own: those of the whole pod, or for an init container those before it.
int AvailableTo(const PlannedPod& pod, size_t index, int whole, int Planned::*amount) {
  const bool ends_first = pod.containers[index].kind == ContainerKind::kInit;
  int available = whole;
  for (size_t other = 0; other < pod.containers.size(); ++other) {
    const Planned& beside = pod.containers[other];
    const bool runs = beside.kind != ContainerKind::kInit && (!ends_first || other < index);
    if (runs) available -= beside.*amount;
  }
  return available;
}

bool SomeSharedContainerHasNone(const PlannedPod& pod, int whole, int Planned::*amount) {
  for (size_t i = 0; i < pod.containers.size(); ++i) {
    if (pod.containers[i].cpus == 0 && AvailableTo(pod, i, whole, amount) <= 0) return true;
  }
  return false;
}

class PodLevelProperty : public testing::Test {
 protected:
  // A node with the feature gate, of a random shape.
  static CrowdedNode MakeNode(TopologyManagerScope scope, Random& random) {
    CrowdedNode crowded = CrowdedNode::Make(RandomMachine(random), random);
    KubeletConfig config = crowded.node.config;
    config.topology_manager_scope = scope;
    config.compatibility = Compatibility::k1_36;
    config.feature_gates["PodLevelResourceManagers"] = true;
    switch (random.Number(0, 4)) {
      case 0:
        config.cpu_manager_policy_options["distribute-cpus-across-numa"] = "true";
        break;
      case 1:
        config.cpu_manager_policy_options["prefer-align-cpus-by-uncorecache"] = "true";
        break;
      case 2:
        config.cpu_manager_policy_options["full-pcpus-only"] = "true";
        break;
      default:
        break;
    }
    Result<Node> node = Node::Make(crowded.node.machine, config);
    EXPECT_TRUE(node.ok()) << node.error().message;
    crowded.node = *std::move(node);
    return crowded;
  }

  static CpuSet SetOf(const NodeState& state, const PlannedPod& pod, size_t index) {
    const CpuSet* cpus = state.cpu.Find({pod.uid, NameOf(index)});
    return cpus == nullptr ? CpuSet{} : *cpus;
  }

  // The parts of one pod, each CPU looked at.
  static void ExpectParts(const NodeState& state, const PlannedPod& pod) {
    const CpuSet whole = state.cpu.pods.at(pod.uid);
    ASSERT_EQ(whole.Count(), pod.cpus);
    for (size_t i = 0; i < pod.containers.size(); ++i) {
      const Planned& container = pod.containers[i];
      const CpuSet own = SetOf(state, pod, i);
      if (container.cpus > 0) {
        ASSERT_EQ(own.Count(), container.cpus);
      }
      for (const int cpu : whole) {
        // In use by a sidecar or app of its own that runs beside this container.
        bool taken = false;
        for (size_t other = 0; other < pod.containers.size(); ++other) {
          const Planned& beside = pod.containers[other];
          const bool runs = beside.kind != ContainerKind::kInit &&
                            (container.kind != ContainerKind::kInit || other < i);
          taken = taken ||
                  (other != i && runs && beside.cpus > 0 && SetOf(state, pod, other).Contains(cpu));
        }
        if (container.cpus > 0) {
          ASSERT_FALSE(taken && own.Contains(cpu)) << NameOf(i) << " CPU " << cpu;
        } else {
          ASSERT_EQ(own.Contains(cpu), !taken) << NameOf(i) << " CPU " << cpu;
        }
      }
    }
  }

  static void ExpectMemory(const NodeState& state, const PlannedPod& pod) {
    constexpr uint64_t kGib = uint64_t{1} << 30;
    const std::vector<memorymanager::Block>& whole = state.memory.pods.at(pod.uid);
    ASSERT_EQ(whole.size(), 1U);
    ASSERT_EQ(whole[0].size, static_cast<uint64_t>(pod.gib) * kGib);
    for (size_t i = 0; i < pod.containers.size(); ++i) {
      const auto* blocks = state.memory.Find({pod.uid, NameOf(i)});
      ASSERT_NE(blocks, nullptr);
      ASSERT_EQ(blocks->size(), 1U);
      const int gib = pod.containers[i].cpus > 0 ? pod.containers[i].gib
                                                 : AvailableTo(pod, i, pod.gib, &Planned::gib);
      ASSERT_EQ(blocks->front().size, static_cast<uint64_t>(gib) * kGib);
      ASSERT_EQ(blocks->front().numa_affinity, whole[0].numa_affinity);
    }
  }

  // No CPU has two owners, whatever pods there are.
  static void ExpectOneOwner(const CrowdedNode& crowded) {
    const cpumanager::CpuState& cpu = crowded.state.cpu;
    for (const int one : crowded.node.machine.cpus()) {
      int owners = cpu.default_set.Contains(one) ? 1 : 0;
      for (const std::string& pod : PodsIn(crowded.state)) {
        bool owns = cpu.pods.contains(pod) && cpu.pods.at(pod).Contains(one);
        if (cpu.assignments.contains(pod)) {
          for (const auto& [name, cpus] : cpu.assignments.at(pod)) {
            owns = owns || cpus.Contains(one);
          }
        }
        owners += owns ? 1 : 0;
      }
      ASSERT_EQ(owners, 1) << "CPU " << one << " of " << Describe(crowded.node.machine);
    }
    ASSERT_EQ(crowded.state.BrokenInvariants(crowded.node), std::vector<std::string>{});
  }
};

TEST_F(PodLevelProperty, PodsAreDividedByTheRules) {
  Random random;
  int admitted = 0;
  int without_pool = 0;
  const int runs = Iterations(200);
  for (int run = 0; run < runs; ++run) {
    CrowdedNode crowded = MakeNode(TopologyManagerScope::kPod, random);
    for (int step = 0; step < 12; ++step) {
      if (random.OnceIn(3)) {
        crowded.Step(step, random);  // a pod without pod-level resources
        ASSERT_NO_FATAL_FAILURE(ExpectOneOwner(crowded));
        continue;
      }
      const PlannedPod planned = RandomPlan("whole" + std::to_string(step), random);
      const Pod pod = PodOf(planned);
      const Admission admission =
          Admit(crowded.node, crowded.state, pod, devicemanager::NoPreference);
      const bool is_best_effort =
          crowded.node.topology.kind() == TopologyManagerPolicy::kBestEffort;
      const bool without_cpus = SomeSharedContainerHasNone(planned, planned.cpus, &Planned::cpus);
      if (without_cpus || SomeSharedContainerHasNone(planned, planned.gib, &Planned::gib)) {
        ASSERT_FALSE(admission.admitted());
        // Other policies refuse the empty hints. Memory is only looked at if the CPUs suffice.
        if (is_best_effort && without_cpus) {
          ASSERT_EQ(admission.refusal->reason, "EmptyPodSharedPoolError");
        }
        ++without_pool;
      } else if (admission.refusal) {
        ASSERT_NE(admission.refusal->reason, "EmptyPodSharedPoolError");
      }
      if (admission.refusal) {
        ASSERT_FALSE(PodsIn(admission.next).contains(planned.uid));
        ASSERT_TRUE(is_best_effort || admission.refusal->reason != "EmptyPodSharedPoolError");
        continue;
      }
      ++admitted;
      crowded.state = admission.next;
      ASSERT_NO_FATAL_FAILURE(ExpectOneOwner(crowded));
      ASSERT_NO_FATAL_FAILURE(ExpectParts(crowded.state, planned));
      ASSERT_NO_FATAL_FAILURE(ExpectMemory(crowded.state, planned));
      const Admission again = Admit(crowded.node, crowded.state, pod, devicemanager::NoPreference);
      ASSERT_TRUE(again.admitted() || !is_best_effort);
      if (again.admitted()) {
        ASSERT_TRUE(again.next.cpu == crowded.state.cpu);
        ASSERT_TRUE(again.next.memory == crowded.state.memory);
      }
    }
  }
  EXPECT_GT(admitted, runs / 4);
  EXPECT_GT(without_pool, 0);
}

// The containers of a pod that run: all of an ordinary pod, some of a pod with CPUs as a whole.
std::vector<MarkedContainer> RunningContainers(const NodeState& state, Random& random) {
  std::vector<MarkedContainer> running;
  for (const std::string& uid : PodsIn(state)) {
    std::set<std::string> names;
    if (state.cpu.assignments.contains(uid)) {
      for (const auto& [name, cpus] : state.cpu.assignments.at(uid)) names.insert(name);
    }
    if (state.memory.assignments.contains(uid)) {
      for (const auto& [name, blocks] : state.memory.assignments.at(uid)) names.insert(name);
    }
    for (const auto& [key, resources] : state.devices.allocations) {
      if (key.pod_uid == uid) names.insert(key.container);
    }
    const bool is_whole = state.cpu.pods.contains(uid);
    size_t remaining = names.size();
    for (const std::string& name : names) {
      if (is_whole && --remaining > 0 && random.OnceIn(2)) continue;  // the last one stays at least
      const ContainerKey key{uid, name};
      const AssignmentMark mark = MarkOf(state, key);
      if (mark.IsEmpty()) continue;
      const std::string text = checkpoint::FormatMark(key, "id", mark);
      MarkedContainer container{.id = uid + name,
                                .key = key,
                                .pod = "default/" + uid,
                                .mark = checkpoint::ParseMark(key, "id", text).value()};
      container.record = container.cgroup = mark.cpus;
      if (is_whole && random.OnceIn(4)) container.cgroup = random.SomeOf(mark.whole.cpus);
      running.push_back(std::move(container));
    }
  }
  return running;
}

TEST_F(PodLevelProperty, AnyLostFilesAreRebuiltFromSomeContainersOfEachPod) {
  Random random;
  int rebuilt_pods = 0;
  const int runs = Iterations(150);
  for (int run = 0; run < runs; ++run) {
    CrowdedNode crowded = MakeNode(TopologyManagerScope::kPod, random);
    for (int step = 0; step < 8; ++step) {
      if (random.OnceIn(3)) {
        crowded.Step(step, random);
        continue;
      }
      const Pod pod = PodOf(RandomPlan("whole" + std::to_string(step), random));
      Admission admission = Admit(crowded.node, crowded.state, pod, devicemanager::NoPreference);
      if (admission.admitted()) crowded.state = std::move(admission.next);
    }
    NodeState intact = crowded.state;
    intact.cpu.reusable.clear();
    const NodeState initial = NodeState::Initial(crowded.node);
    NodeState damaged = intact;
    const int lost = random.Number(1, 7);
    if ((lost & 1) != 0) damaged.cpu = initial.cpu;
    if ((lost & 2) != 0) damaged.memory = initial.memory;
    if ((lost & 4) != 0) damaged.cpu.originals.clear();
    const Adoption adoption = Adopt(crowded.node, damaged, {}, RunningContainers(intact, random));
    ASSERT_TRUE(adoption.unknown.empty()) << adoption.unknown.front().text;
    ASSERT_EQ(adoption.next.BrokenInvariants(crowded.node), std::vector<std::string>{});
    ASSERT_TRUE(adoption.next.cpu == intact.cpu) << Describe(crowded.node.machine);
    ASSERT_TRUE(adoption.next.memory.pods == intact.memory.pods);
    ASSERT_TRUE(adoption.next.memory.assignments == intact.memory.assignments);
    rebuilt_pods += static_cast<int>(intact.cpu.pods.size());
  }
  EXPECT_GT(rebuilt_pods, runs / 4);
}

// A container of one of a few pods, with a mark that is sound in itself.
MarkedContainer RandomMarked(int number, const Machine& machine, Random& random) {
  const std::string uid = "x" + std::to_string(random.Number(1, 4));
  const ContainerKey key{uid, NameOf(static_cast<size_t>(random.Number(0, 2)))};
  MarkedContainer marked{.id = std::to_string(number), .key = key, .pod = "", .mark = {}};
  marked.runs = !random.OnceIn(4);
  WholePodMark& whole = marked.mark.whole;
  const CpuSet first{machine.cpus().First() + random.Number(0, 1)};
  whole.cpus = (random.SomeOf(machine.cpus()) | first) & machine.cpus();
  whole.memory = {{{machine.NumaId(0)}, "memory", uint64_t{1} << random.Number(20, 31)}};
  for (size_t i = 0; i < 3; ++i) {
    if (NameOf(i) != key.container && random.OnceIn(3)) continue;
    whole.cpu_parts[NameOf(i)] = random.OnceIn(2) ? whole.cpus : whole.cpus.Lowest(1);
    whole.memory_parts[NameOf(i)] = whole.memory;
    if (random.OnceIn(2)) whole.own.insert(NameOf(i));
  }
  marked.mark.cpus = whole.cpu_parts[key.container];
  marked.mark.memory = whole.memory;
  if (random.OnceIn(4)) whole = {};
  if (random.OnceIn(3)) marked.cgroup = random.SomeOf(machine.cpus());
  return marked;
}

// Containers whose marks contradict each other, also within a pod: nothing is assigned twice.
TEST_F(PodLevelProperty, ContradictionsBreakNothing) {
  Random random;
  const int runs = Iterations(200);
  int adopted = 0;
  for (int run = 0; run < runs; ++run) {
    CrowdedNode crowded = MakeNode(TopologyManagerScope::kPod, random);
    const Node& node = crowded.node;
    std::vector<MarkedContainer> containers;
    for (int i = random.Number(1, 8); i > 0; --i) {
      containers.push_back(RandomMarked(i, node.machine, random));
    }
    const NodeState before = NodeState::Initial(node);
    Adoption adoption = Adopt(node, before, {}, containers);
    ASSERT_EQ(adoption.next.BrokenInvariants(node), std::vector<std::string>{});
    adopted += static_cast<int>(adoption.next.cpu.pods.size());
    std::reverse(containers.begin(), containers.end());
    ASSERT_TRUE(Adopt(node, before, {}, containers).next == adoption.next);
    NodeState state = std::move(adoption.next);
    for (const std::string& uid : PodsIn(state)) {
      ReleasePod(uid, state);
      ASSERT_EQ(state.BrokenInvariants(node), std::vector<std::string>{});
    }
    ASSERT_TRUE(state.cpu == before.cpu);
    ASSERT_TRUE(state.memory == before.memory);
  }
  EXPECT_GT(adopted, runs / 8);
}

TEST_F(PodLevelProperty, TheLastContainerReleasesThePod) {
  Random random;
  const int runs = Iterations(200);
  for (int run = 0; run < runs; ++run) {
    CrowdedNode crowded = MakeNode(TopologyManagerScope::kPod, random);
    for (int step = 0; step < 3; ++step) crowded.Step(step, random);
    const NodeState before = crowded.state;
    const PlannedPod planned = RandomPlan("whole", random);
    const Admission admission =
        Admit(crowded.node, crowded.state, PodOf(planned), devicemanager::NoPreference);
    if (!admission.admitted()) continue;
    crowded.state = admission.next;
    std::vector<size_t> order;
    for (size_t i = 0; i < planned.containers.size(); ++i) {
      order.insert(order.begin() + random.Number(0, static_cast<int>(order.size())), i);
    }
    for (const size_t index : order) {
      ASSERT_TRUE(crowded.state.cpu.pods.contains("whole"));
      ASSERT_TRUE(crowded.state.cpu.default_set == admission.next.cpu.default_set);
      ASSERT_TRUE(crowded.state.memory.machine == admission.next.memory.machine);
      ReleaseContainer({"whole", NameOf(index)}, crowded.state);
      ASSERT_NO_FATAL_FAILURE(ExpectOneOwner(crowded));
    }
    ASSERT_TRUE(crowded.state.cpu == before.cpu);
    ASSERT_TRUE(crowded.state.memory.assignments == before.memory.assignments);
    ASSERT_TRUE(crowded.state.memory.pods.empty());
  }
}

TEST_F(PodLevelProperty, PartOfAPodIsCompletedInItsOwnCpus) {
  Random random;
  int completed = 0;
  const int runs = Iterations(200);
  for (int run = 0; run < runs; ++run) {
    CrowdedNode crowded = MakeNode(TopologyManagerScope::kPod, random);
    const PlannedPod planned = RandomPlan("whole", random);
    const Pod pod = PodOf(planned);
    const Admission admission =
        Admit(crowded.node, crowded.state, pod, devicemanager::NoPreference);
    if (!admission.admitted()) continue;
    // As if alignd ended after some containers: the first ones have their CPUs, or others have.
    crowded.state = admission.next;
    const bool is_prefix = random.OnceIn(2);
    std::map<std::string, CpuSet>& parts = crowded.state.cpu.assignments["whole"];
    const size_t kept = static_cast<size_t>(random.Number(1, static_cast<int>(parts.size())));
    while (parts.size() > kept) {
      parts.erase(NameOf(is_prefix ? parts.size() - 1 : planned.containers.size() - parts.size()));
    }
    const std::map<std::string, CpuSet> before = parts;
    const Admission again = Admit(crowded.node, crowded.state, pod, devicemanager::NoPreference);
    if (!again.admitted()) continue;  // the policy may not admit where the pod is
    crowded.state = again.next;
    ASSERT_NO_FATAL_FAILURE(ExpectOneOwner(crowded));
    ASSERT_NO_FATAL_FAILURE(ExpectParts(crowded.state, planned));
    if (!is_prefix) continue;
    ++completed;
    ASSERT_TRUE(crowded.state.cpu.pods == admission.next.cpu.pods);
    for (const auto& [name, cpus] : before) {
      ASSERT_EQ(crowded.state.cpu.assignments.at("whole").at(name), cpus);
    }
  }
  EXPECT_GT(completed, 0);
}

// In scope container, an eligible container is treated as in a pod without pod-level resources, and
// the others are not there.
TEST_F(PodLevelProperty, ScopeContainerAssignsEligibleContainersOnly) {
  Random random;
  int admitted = 0;
  const int runs = Iterations(200);
  for (int run = 0; run < runs; ++run) {
    CrowdedNode crowded = MakeNode(TopologyManagerScope::kContainer, random);
    for (int step = 0; step < 2; ++step) crowded.Step(step, random);
    const PlannedPod planned = RandomPlan("whole", random);
    Pod ordinary = PodOf(planned);
    ordinary.pod_level.reset();
    std::erase_if(ordinary.containers,
                  [](const Container& container) { return container.resources.requests.empty(); });
    const Admission admission =
        Admit(crowded.node, crowded.state, PodOf(planned), devicemanager::NoPreference);
    const Admission expected =
        Admit(crowded.node, crowded.state, ordinary, devicemanager::NoPreference);
    ASSERT_EQ(admission.admitted(), expected.admitted());
    if (!admission.admitted()) continue;
    ++admitted;
    ASSERT_TRUE(admission.next.cpu == expected.next.cpu);
    ASSERT_TRUE(admission.next.memory == expected.next.memory);
    ASSERT_TRUE(admission.next.cpu.pods.empty());
  }
  EXPECT_GT(admitted, 0);
}

}  // namespace
}  // namespace alignd::admission
