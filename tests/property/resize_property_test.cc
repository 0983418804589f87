// Random pods come and go, and random containers are resized, on random nodes. Each decision is
// compared with simple rules about each CPU, each core and each set of NUMA nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/init_containers.h"
#include "alignd/admission/resize.h"
#include "alignd/base/numa_subsets.h"
#include "core/crowded_node.h"
#include "core/hint_oracle.h"

namespace alignd::admission {
namespace {

using topologymanager::HintList;
using topologymanager::Hints;
using topologymanager::HintsByResource;
using topologymanager::TopologyHint;

std::map<std::string, std::string> RandomCpuOptions(const Machine& machine,
                                                    TopologyManagerPolicy policy, Random& random) {
  std::map<std::string, std::string> options;
  if (random.OnceIn(3)) options["strict-cpu-reservation"] = "true";
  const bool by_socket =
      policy != TopologyManagerPolicy::kSingleNumaNode &&
      static_cast<int>(machine.sockets().size()) <= machine.numa_with_cpus().Count();
  if (by_socket && random.OnceIn(4)) options["align-by-socket"] = "true";
  const int kind = random.Number(0, 4);
  if (kind == 0) {
    options["distribute-cpus-across-cores"] = "true";
    return options;
  }
  if (kind == 1) options["distribute-cpus-across-numa"] = "true";
  if (kind == 2) options["prefer-align-cpus-by-uncorecache"] = "true";
  if (random.OnceIn(2)) options["full-pcpus-only"] = "true";
  return options;
}

// DistributeEvenly, where the options leave it to the node.
NumaAllocateStrategy StrategyBeside(const std::map<std::string, std::string>& options) {
  const bool is_refused = options.contains("distribute-cpus-across-cores") ||
                          options.contains("prefer-align-cpus-by-uncorecache");
  return is_refused ? NumaAllocateStrategy::kNone : NumaAllocateStrategy::kAllNodes;
}

CrowdedNode RandomResizeNode(Random& random) {
  const Machine machine =
      WithRandomMemory(WithRandomDistances(RandomMachine(random), random), random);
  KubeletConfig config = RandomConfig(random);
  if (random.OnceIn(4)) {
    config.topology_manager_policy = TopologyManagerPolicy::kNone;
    config.topology_manager_policy_options.clear();
  }
  CpuSet reserved;
  if (random.OnceIn(4)) reserved = (machine.cpus() - random.SomeOf(machine.cpus())).Lowest(3);
  reserved.Add(machine.cpus().First());
  config.reserved_system_cpus = reserved.ToString();
  config.cpu_manager_policy_options =
      RandomCpuOptions(machine, config.topology_manager_policy, random);
  if (random.OnceIn(3)) {
    config.numa_allocate_strategy = StrategyBeside(config.cpu_manager_policy_options);
  }
  if (random.OnceIn(2)) {
    config.memory_manager_policy = MemoryManagerPolicy::kNone;
    config.reserved_memory.clear();
  }
  Result<Node> node = Node::Make(machine, config);
  if (!node.ok()) BadMachineText("RandomResizeNode", node.error().message);
  NodeState state = NodeState::Initial(*node);
  const int device_kinds = random.Number(0, 2);
  for (const std::string& resource : DeviceNames(device_kinds)) {
    state.devices.resources[resource] = RandomDevices(node->machine, random);
  }
  return {*std::move(node), std::move(state), device_kinds};
}

// Small pods, so that there is something left to grow into; most have CPUs only.
Pod SmallRandomPod(const std::string& uid, const CrowdedNode& crowded, Random& random) {
  std::vector<Container> containers;
  const bool whole_cores = random.OnceIn(2);
  const int group = whole_cores ? crowded.node.machine.cpus_per_core() : 1;
  for (int i = random.Number(1, 3); i > 0; --i) {
    std::map<std::string, std::string> amounts;
    amounts["cpu"] = std::to_string(group * random.Number(1, 4));
    amounts["memory"] = random.OnceIn(4) ? "6Gi" : "64Mi";
    if (random.OnceIn(3)) {
      for (const std::string& device : DeviceNames(crowded.device_kinds)) {
        amounts[device] = std::to_string(random.Number(0, 2));
      }
    }
    const ContainerKind kind = i == 1             ? ContainerKind::kApp
                               : random.OnceIn(2) ? ContainerKind::kInit
                                                  : ContainerKind::kSidecar;
    containers.push_back(MakeContainer(kind, "c" + std::to_string(i), amounts));
  }
  return MakePod(uid, std::move(containers));
}

// What a resize may add, and what must be true of the result. No code of the real one.
struct ResizeOracle {
  const Node& node;
  const NodeState& state;
  const ContainerKey& key;
  int count;
  CpuSet kept;     // of the result
  CpuSet offered;  // the rest of the result is part of it

  ResizeOracle(const Node& a_node, const NodeState& a_state, const ContainerKey& a_key, int a_count)
      : node(a_node), state(a_state), key(a_key), count(a_count) {
    const CpuSet own = Own();
    const auto originals = state.cpu.originals.find(key.pod_uid);
    CpuSet original = own;
    if (originals != state.cpu.originals.end() && originals->second.contains(key.container)) {
      original = originals->second.at(key.container);
    }
    kept = count > own.Count() ? own : original;
    offered = count > own.Count() ? state.cpu.default_set - node.cpu->reserved : own - original;
    if (!node.cpu->options.full_pcpus_only) return;
    for (const CpuGroup& core : node.machine.cores()) {
      if (core.cpus.Intersects(kept)) kept |= core.cpus & offered;
    }
    for (const CpuGroup& core : node.machine.cores()) {
      if (!offered.Contains(core.cpus)) offered -= core.cpus;
    }
    offered -= kept;
  }

  CpuSet Own() const {
    const CpuSet* const own = state.cpu.Find(key);
    return own == nullptr ? CpuSet() : *own;
  }

  bool IsWhole(const CpuSet& cpus) const {
    return std::ranges::all_of(node.machine.cores(), [&](const CpuGroup& core) {
      return !core.cpus.Intersects(cpus) || cpus.Contains(core.cpus);
    });
  }

  // Whether the cores that can be added are of one size, and the rest is a multiple of it.
  bool IsUniform() const {
    const int size = node.machine.cpus_per_core();
    return !node.cpu->options.full_pcpus_only ||
           ((count - kept.Count()) % size == 0 &&
            std::ranges::all_of(node.machine.cores(), [&](const CpuGroup& core) {
              return !offered.Contains(core.cpus) || core.cpus.Count() == size;
            }));
  }

  // Whether the kept CPUs and others on these nodes can be `count` in all.
  bool IsEnough(NumaMask nodes) const {
    const CpuSet here = offered & node.machine.CpusInNuma(nodes);
    const int missing = count - kept.Count();
    if (missing < 0) return false;
    if (!node.cpu->options.full_pcpus_only) return here.Count() >= missing;
    if (count % node.machine.cpus_per_core() != 0 || !IsWhole(kept)) return false;
    std::set<int> sums = {0};
    for (const CpuGroup& core : node.machine.cores()) {
      if (!here.Contains(core.cpus)) continue;
      for (const int sum : std::set<int>(sums)) sums.insert(sum + core.cpus.Count());
    }
    return sums.contains(missing);
  }

  NumaMask KeptNodes() const { return node.machine.NumaOf(kept); }
  NumaMask AllNodes() const { return node.machine.numa_with_cpus(); }

  // The fewest of these nodes that are enough with those of the kept CPUs.
  int FewestFurther(NumaMask among) const {
    if (IsEnough(KeptNodes())) return 0;
    int fewest = NumaMask::kMaxNodes;
    ForEachSubset(among - KeptNodes(), [&](NumaMask further) {
      if (IsEnough(KeptNodes() | further)) fewest = std::min(fewest, further.Count());
    });
    return fewest;
  }

  // Where its memory and its devices are.
  NumaMask FixedNodes() const {
    std::vector<int64_t> ids;
    if (const auto* const blocks = state.memory.Find(key)) {
      for (const memorymanager::Block& block : *blocks) {
        ids.insert(ids.end(), block.numa_affinity.begin(), block.numa_affinity.end());
      }
    }
    const auto of_key = state.devices.allocations.find(key);
    if (of_key != state.devices.allocations.end()) {
      for (const auto& [resource, allocation] : of_key->second) {
        for (const auto& [id, devices] : allocation.devices) ids.push_back(id);
      }
    }
    return node.machine.MaskOfIds(ids);
  }

  // --- The topology policy, about a resize up. ---

  bool IsForPod() const { return node.topology.scope() == TopologyManagerScope::kPod; }
  bool IsAligned(const ContainerKey& other) const {
    return IsForPod() ? other.pod_uid == key.pod_uid : other == key;
  }

  CpuSet Unit() const { return IsForPod() ? state.cpu.HeldBy(key.pod_uid) : Own(); }

  HintList CpuHintsByDefinition() const {
    const CpuSet unit = Unit();
    const int wanted = unit.Count() + count - Own().Count();
    const CpuSet usable = unit | offered | kept;
    int fewest = AllNodes().Count();
    ForEachSubset(AllNodes(), [&](NumaMask nodes) {
      if (node.machine.CpusInNuma(nodes).Count() >= wanted) {
        fewest = std::min(fewest, nodes.Count());
      }
    });
    const int sockets = static_cast<int>(node.machine.sockets().size());
    const int per_socket = AllNodes().Count() / sockets;
    HintList hints;
    ForEachSubset(AllNodes(), [&](NumaMask nodes) {
      const CpuSet cpus = node.machine.CpusInNuma(nodes);
      if (!nodes.Contains(node.machine.NumaOf(unit)) || (cpus & usable).Count() < wanted) return;
      bool preferred = nodes.Count() == fewest;
      if (node.cpu->options.align_by_socket && per_socket > 0) {
        const auto touched = std::ranges::count_if(
            node.machine.sockets(),
            [&](const CpuGroup& socket) { return socket.cpus.Intersects(cpus); });
        preferred = preferred || touched == (fewest + per_socket - 1) / per_socket;
      }
      hints.push_back({nodes, preferred});
    });
    return hints;
  }

  std::optional<Hints> DeviceHintsByDefinition(const std::string& resource,
                                               const std::set<std::string>& ids) const {
    const auto& devices = state.devices.resources.at(resource).devices;
    NumaMask considered;
    for (const auto& [id, device] : devices) {
      considered = considered | node.machine.MaskOfIds(device.numa);
    }
    if (considered.empty()) return std::nullopt;
    const auto on = [&](NumaMask nodes, bool only_own) {
      int on_nodes = 0;
      for (const auto& [id, device] : devices) {
        if (only_own && !ids.contains(id)) continue;
        if (node.machine.MaskOfIds(device.numa).Intersects(nodes)) ++on_nodes;
      }
      return on_nodes;
    };
    const int wanted = static_cast<int>(ids.size());
    int fewest = considered.Count();
    ForEachSubset(considered, [&](NumaMask nodes) {
      if (on(nodes, false) >= wanted) fewest = std::min(fewest, nodes.Count());
    });
    HintList hints;
    ForEachSubset(considered, [&](NumaMask nodes) {
      if (on(nodes, true) >= wanted) hints.push_back({nodes, nodes.Count() == fewest});
    });
    return Hints(hints);
  }

  TopologyHint MergedByDefinition() const {
    HintsByResource answer{{"cpu", Hints(CpuHintsByDefinition())}};
    std::map<std::string, std::set<std::string>> ids;
    for (const auto& [other, resources] : state.devices.allocations) {
      if (!IsAligned(other)) continue;
      for (const auto& [resource, allocation] : resources) ids[resource].merge(allocation.Ids());
    }
    for (const auto& [resource, of_resource] : ids) {
      answer[resource] = DeviceHintsByDefinition(resource, of_resource);
    }
    std::map<std::string, NumaMask> memory;
    const auto blocks = state.memory.assignments.find(key.pod_uid);
    if (blocks != state.memory.assignments.end()) {
      for (const auto& [container, of_container] : blocks->second) {
        if (!IsAligned({key.pod_uid, container})) continue;
        for (const memorymanager::Block& block : of_container) {
          for (const int id : block.numa_affinity) {
            memory[block.type].Add(*node.machine.NumaPosition(id));
          }
        }
      }
    }
    for (const auto& [type, nodes] : memory) answer[type] = Hints({{nodes, true}});
    return topologymanager::MergeByCarrying(node.topology.numa(),
                                            topologymanager::AllOf(node.topology.Lists({answer})),
                                            node.topology.rules());
  }
};

// What every resize leaves as it is, and what it changes.
void ExpectOnlyThisContainerChanged(const ResizeOracle& oracle, const ResizeDecision& decision) {
  const NodeState& before = oracle.state;
  const NodeState& next = decision.next;
  ASSERT_EQ(next.BrokenInvariants(oracle.node), std::vector<std::string>{});
  ASSERT_EQ(next.memory, before.memory);
  ASSERT_EQ(next.devices, before.devices);
  CpuSet elsewhere;
  for (const auto& [uid, containers] : before.cpu.assignments) {
    for (const auto& [name, cpus] : containers) {
      const ContainerKey other{uid, name};
      if (other == oracle.key) continue;
      ASSERT_EQ(*next.cpu.Find(other), cpus);
      ASSERT_EQ(next.cpu.OriginalOf(other), before.cpu.OriginalOf(other));
      elsewhere |= cpus;
    }
  }
  if (oracle.count == 0) {
    ASSERT_EQ(next.cpu.Find(oracle.key), nullptr);
  } else {
    ASSERT_EQ(*next.cpu.Find(oracle.key), decision.after);
  }
  if (oracle.count == 0 || oracle.Own().empty()) {
    ASSERT_TRUE(next.cpu.WasShared(oracle.key));
  } else {
    ASSERT_EQ(next.cpu.OriginalOf(oracle.key), before.cpu.OriginalOf(oracle.key));
  }
  const CpuSet removed = decision.before - decision.after;
  ASSERT_EQ(next.cpu.default_set,
            (before.cpu.default_set - decision.after) | (removed - elsewhere));
}

void ExpectAllowedSet(const ResizeOracle& oracle, const ResizeDecision& decision) {
  const CpuSet& after = decision.after;
  ASSERT_EQ(after.Count(), oracle.count);
  ASSERT_TRUE(after.Contains(oracle.kept)) << after.ToString();
  ASSERT_TRUE((oracle.kept | oracle.offered).Contains(after)) << after.ToString();
  if (oracle.node.cpu->options.full_pcpus_only) {
    ASSERT_TRUE(oracle.IsWhole(after)) << after.ToString();
  }
  if (!decision.next.affinities.contains(oracle.key)) return;
  const TopologyHint& stored = decision.next.affinities.at(oracle.key);
  if (oracle.count > decision.before.Count() && stored.affinity) {
    ASSERT_TRUE(stored.affinity->Contains(oracle.node.machine.NumaOf(after)));
  }
}

// Near CPUs before others, on the nodes of the kept ones: the rest of started cores, then caches.
void ExpectNearCpusFirst(const ResizeOracle& oracle, const CpuSet& after) {
  const cpumanager::PolicyOptions& options = oracle.node.cpu->options;
  if (options.distribute_cpus_across_numa || !oracle.IsUniform()) return;
  const Machine& machine = oracle.node.machine;
  const CpuSet bounds = machine.CpusInNuma(oracle.KeptNodes());
  const CpuSet added = after - oracle.kept;
  CpuSet started;
  CpuSet caches;
  for (const CpuGroup& core : machine.cores()) {
    if (core.cpus.Intersects(oracle.kept)) started |= core.cpus;
  }
  for (const CpuGroup& cache : machine.uncores()) {
    if (cache.cpus.Intersects(oracle.kept)) caches |= cache.cpus & bounds;
  }
  if (options.distribute_cpus_across_cores) {
    if (added.Intersects(started)) {
      ASSERT_TRUE(after.Contains((oracle.offered & bounds) - started)) << after.ToString();
    }
    if (!(added - caches).empty()) {
      ASSERT_TRUE(after.Contains((oracle.offered & caches) - started)) << after.ToString();
    }
    return;
  }
  if (!(added - started).empty()) {
    ASSERT_TRUE(after.Contains(oracle.offered & started)) << after.ToString();
  }
  if (!(added - started - caches).empty()) {
    ASSERT_TRUE(after.Contains(oracle.offered & caches)) << after.ToString();
  }
}

// distribute-cpus-across-numa: a node with fewer CPUs of the container than another one could give
// no more, unless the other one has only kept CPUs.
void ExpectEvenNodes(const ResizeOracle& oracle, const CpuSet& after) {
  const cpumanager::PolicyOptions& options = oracle.node.cpu->options;
  if (!options.distribute_cpus_across_numa || !oracle.IsUniform()) return;
  if (oracle.Own().empty()) return;  // as at admission
  const Machine& machine = oracle.node.machine;
  const int group = options.full_pcpus_only ? machine.cpus_per_core() : 1;
  for (const int few : machine.NumaOf(after)) {
    if (after.Contains(oracle.offered & machine.CpusInNuma(few))) continue;
    for (const int many : machine.NumaOf(after - oracle.kept)) {
      ASSERT_GE(after.CountCommon(machine.CpusInNuma(few)) + group,
                after.CountCommon(machine.CpusInNuma(many)))
          << after.ToString();
    }
  }
}

// The nodes of the kept CPUs if these have enough; else the fewest further ones of `among`. The
// first CPUs of a container lie as at admission.
void ExpectFewestNodes(const ResizeOracle& oracle, const CpuSet& after, NumaMask among) {
  if (oracle.Own().empty()) {
    ASSERT_TRUE(among.Contains(oracle.node.machine.NumaOf(after))) << after.ToString();
    return;
  }
  const NumaMask nodes = oracle.node.machine.NumaOf(after);
  const NumaMask further = nodes - oracle.KeptNodes();
  if (oracle.IsEnough(oracle.KeptNodes())) {
    ASSERT_TRUE(further.empty()) << after.ToString();
    return;
  }
  ASSERT_TRUE(among.Contains(further)) << after.ToString();
  if (oracle.IsUniform()) {
    ASSERT_EQ(further.Count(), oracle.FewestFurther(among)) << after.ToString();
  }
}

void ExpectRefusal(const ResizeOracle& oracle, const ResizeDecision& decision) {
  const Refusal& refusal = *decision.refusal;
  ASSERT_EQ(refusal.reason, "ResizeRefused");
  ASSERT_TRUE(refusal.message.find(refusal.fault) != std::string::npos);
  ASSERT_TRUE(refusal.message.find("asked for " + std::to_string(oracle.count)) !=
              std::string::npos)
      << refusal.message;
  ASSERT_FALSE(refusal.remedy.empty());
  ASSERT_EQ(decision.after, decision.before);
  ASSERT_EQ(decision.next, oracle.state);
}

// What a refusal names as a remedy helps.
void ExpectTrueRemedy(const ResizeOracle& oracle, const std::string& remedy) {
  const auto has = [&](const char* text) { return remedy.find(text) != std::string::npos; };
  if (has("end other pods")) {
    NodeState alone = oracle.state;
    for (const std::string& uid : PodsIn(alone)) {
      if (uid != oracle.key.pod_uid) ReleasePod(uid, alone);
    }
    ASSERT_TRUE(Resize(oracle.node, alone, oracle.key, oracle.count).admitted()) << remedy;
  }
  if (has("best-effort")) {
    KubeletConfig config = oracle.node.config;
    config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
    const Result<Node> node = Node::Make(oracle.node.machine, config);
    ASSERT_TRUE(node.ok()) << node.error().message;
    ASSERT_TRUE(Resize(*node, oracle.state, oracle.key, oracle.count).admitted()) << remedy;
  }
  const std::string words = "let the container ask for ";
  if (!remedy.starts_with(words) || has(" or more") || has("multiple")) return;
  const int smaller = std::stoi(remedy.substr(words.size()));
  const ResizeDecision decision = Resize(oracle.node, oracle.state, oracle.key, smaller);
  ASSERT_TRUE(decision.admitted()) << remedy << ": " << decision.refusal->message;
  ASSERT_LT(smaller, oracle.count);
  ASSERT_GT(smaller, decision.before.Count());
}

struct ResizeTally {
  int done = 0;
  int shrunk = 0;
  int refused = 0;
  int extended = 0;
  int by_topology = 0;
  int to_shared = 0;
  int from_shared = 0;
};

// The first exclusive CPUs of a container are those that a new pod would get in its place: a pod of
// one container, without devices and memory that are assigned.
void ExpectAsAtAdmission(const ResizeOracle& oracle, const ResizeDecision& decision) {
  const cpumanager::PolicyOptions& options = oracle.node.cpu->options;
  const NodeState& state = oracle.state;
  const std::string& uid = oracle.key.pod_uid;
  if (options.full_pcpus_only || options.align_by_socket || oracle.node.memory) return;
  if (state.cpu.assignments.contains(uid)) return;  // with topology scope pod, they count
  for (const auto& [key, devices] : state.devices.allocations) {
    if (key.pod_uid == uid) return;
  }
  const Pod pod =
      MakePod("new", {App("app", {{"cpu", std::to_string(oracle.count)}, {"memory", "64Mi"}})});
  const Admission admission = Admit(oracle.node, state, pod, devicemanager::NoPreference);
  ASSERT_EQ(admission.admitted(), decision.admitted());
  if (!admission.admitted()) return;
  ASSERT_EQ(admission.next.cpu.Find({"new", "app"})->ToString(), decision.after.ToString());
}

// Possible in any case.
void ExpectSharedCpus(const ResizeOracle& oracle, const ResizeDecision& decision) {
  ASSERT_TRUE(decision.after.empty());
  ASSERT_EQ(decision.next.affinities, oracle.state.affinities);
}

void CheckShrink(const ResizeOracle& oracle, const ResizeDecision& decision) {
  ASSERT_EQ(decision.admitted(), oracle.IsEnough(oracle.AllNodes()));
  if (!decision.admitted()) return;
  // Those of its memory and devices come before all others, also where one other is enough.
  const NumaMask fixed = oracle.FixedNodes();
  const bool suffice = oracle.IsEnough(oracle.KeptNodes() | fixed);
  ExpectFewestNodes(oracle, decision.after, suffice ? fixed : oracle.AllNodes());
  ASSERT_EQ(decision.next.affinities, oracle.state.affinities);
}

void CheckGrowth(const ResizeOracle& oracle, const ResizeDecision& decision, ResizeTally& tally) {
  const TopologyManagerPolicy policy = oracle.node.topology.kind();
  const bool is_possible = oracle.IsEnough(oracle.AllNodes());
  if (policy == TopologyManagerPolicy::kNone) {
    ASSERT_EQ(decision.admitted(), is_possible);
    if (is_possible) ExpectFewestNodes(oracle, decision.after, oracle.AllNodes());
    return;
  }
  const TopologyHint merged = oracle.MergedByDefinition();
  const bool may_refuse = policy != TopologyManagerPolicy::kBestEffort;
  if (!is_possible) {
    ASSERT_FALSE(decision.admitted());
    return;
  }
  const NumaMask aligned =
      merged.affinity.value_or(oracle.AllNodes()) | oracle.node.machine.NumaOf(oracle.Unit());
  const bool fits = oracle.IsEnough(aligned | oracle.KeptNodes());
  if (may_refuse && !merged.preferred) {
    ++tally.by_topology;
    ASSERT_FALSE(decision.admitted());
    return;
  }
  ASSERT_EQ(decision.admitted(), fits || !may_refuse);
  if (fits) {
    ExpectFewestNodes(oracle, decision.after, aligned);
  } else if (decision.admitted()) {
    ExpectFewestNodes(oracle, decision.after, oracle.AllNodes());
  }
}

void CheckResize(const CrowdedNode& crowded, const ContainerKey& key, int count,
                 ResizeTally& tally) {
  const ResizeOracle oracle(crowded.node, crowded.state, key, count);
  const ResizeDecision decision = Resize(crowded.node, crowded.state, key, count);
  ASSERT_EQ(decision.before, oracle.Own());
  if (count == decision.before.Count()) {
    ASSERT_TRUE(decision.admitted());
    ASSERT_EQ(decision.next, crowded.state);
    return;
  }
  if (decision.admitted()) {
    ++tally.done;
    if (count < decision.before.Count()) ++(count == 0 ? tally.to_shared : tally.shrunk);
    if (decision.before.empty()) ++tally.from_shared;
    ASSERT_NO_FATAL_FAILURE(ExpectOnlyThisContainerChanged(oracle, decision));
    if (count == 0) return ExpectSharedCpus(oracle, decision);
    ASSERT_NO_FATAL_FAILURE(ExpectAllowedSet(oracle, decision));
    ASSERT_NO_FATAL_FAILURE(ExpectNearCpusFirst(oracle, decision.after));
    ASSERT_NO_FATAL_FAILURE(ExpectEvenNodes(oracle, decision.after));
    const NumaMask before = crowded.node.machine.NumaOf(decision.before);
    if (!before.Contains(crowded.node.machine.NumaOf(decision.after))) ++tally.extended;
  } else {
    ASSERT_GT(count, 0);
    ++tally.refused;
    ASSERT_NO_FATAL_FAILURE(ExpectRefusal(oracle, decision));
    ASSERT_NO_FATAL_FAILURE(ExpectTrueRemedy(oracle, decision.refusal->remedy));
  }
  if (count < decision.before.Count()) {
    CheckShrink(oracle, decision);
  } else {
    if (decision.before.empty()) ExpectAsAtAdmission(oracle, decision);
    CheckGrowth(oracle, decision, tally);
  }
}

// Also one that was resized to shared CPUs.
ContainerKey RandomResizable(const NodeState& state, Random& random) {
  std::vector<ContainerKey> keys;
  for (const auto& [uid, containers] : state.cpu.originals) {
    for (const auto& [name, cpus] : containers) {
      if (state.cpu.Find({uid, name}) == nullptr) keys.push_back({uid, name});
    }
  }
  for (const auto& [uid, containers] : state.cpu.assignments) {
    for (const auto& [name, cpus] : containers) keys.push_back({uid, name});
  }
  return random.OneOf(keys);
}

int RandomCount(const CrowdedNode& crowded, const ContainerKey& key, Random& random) {
  const int group = random.OnceIn(3) ? 1 : crowded.node.machine.cpus_per_core();
  if (crowded.state.cpu.Find(key) == nullptr) {
    return random.OnceIn(4) ? random.Number(0, 12) : group * random.Number(1, 4);
  }
  if (random.OnceIn(8)) return 0;
  const int own = crowded.state.cpu.Find(key)->Count();
  const int original = crowded.state.cpu.OriginalOf(key).Count();
  if (original < own && random.OnceIn(2)) return random.Number(std::max(1, original), own);
  const int most = random.OnceIn(4) ? crowded.node.machine.cpus().Count() / group : 4;
  return std::max(1, own + group * random.Number(random.OnceIn(4) ? -2 : 1, most));
}

// The pod gets a new sandbox: its init containers run again, on CPUs of its app containers.
void RestartInitContainers(CrowdedNode& crowded, Pod pod) {
  NodeState state = crowded.state;
  for (Container& container : pod.containers) {
    const ContainerKey key{pod.uid, container.name};
    if (container.kind == ContainerKind::kInit) {
      ReleaseContainer(key, state);
    } else if (const CpuSet* cpus = state.cpu.Find(key)) {
      const auto count = Amounts({{"cpu", std::to_string(cpus->Count())}}).at("cpu");
      container.resources.requests["cpu"] = container.resources.limits["cpu"] = count;
    }
  }
  LendToInitContainers(crowded.node, pod, state);
  Admission admission = Admit(crowded.node, state, pod, devicemanager::NoPreference);
  if (admission.admitted()) crowded.state = std::move(admission.next);
}

TEST(ResizeProperty, IsDoneExactlyIfThereIsAnAllowedSet) {
  Random random;
  const int runs = Iterations(1000);
  ResizeTally tally;
  for (int run = 0; run < runs; ++run) {
    CrowdedNode crowded = RandomResizeNode(random);
    std::map<std::string, Pod> pods;
    for (int step = 0; step < 25; ++step) {
      NodeState& state = crowded.state;
      if (state.cpu.assignments.empty() || random.OnceIn(4)) {
        const Pod pod = SmallRandomPod("pod" + std::to_string(step), crowded, random);
        Admission admission = Admit(crowded.node, state, pod, devicemanager::NoPreference);
        if (admission.admitted()) state = std::move(admission.next);
        pods[pod.uid] = pod;
        continue;
      }
      const ContainerKey key = RandomResizable(state, random);
      if (random.OnceIn(12)) {
        ReleasePod(key.pod_uid, state);
      } else if (random.OnceIn(12)) {
        ReleaseContainer(key, state);
      } else if (random.OnceIn(8)) {
        RestartInitContainers(crowded, pods.at(key.pod_uid));
      } else {
        const int count = RandomCount(crowded, key, random);
        const std::string what =
            Describe(crowded.node.machine) + " " + key.pod_uid + "/" + key.container + " from " +
            ResizeOracle(crowded.node, state, key, count).Own().ToString() + " to " +
            std::to_string(count) + " default set " + state.cpu.default_set.ToString();
        ASSERT_NO_FATAL_FAILURE(CheckResize(crowded, key, count, tally)) << what;
        if (testing::Test::HasFailure()) FAIL() << what;
        state = Resize(crowded.node, state, key, count).next;
      }
      ASSERT_EQ(state.BrokenInvariants(crowded.node), std::vector<std::string>{});
    }
    for (const std::string& uid : PodsIn(crowded.state)) ReleasePod(uid, crowded.state);
    ASSERT_EQ(crowded.state.cpu, NodeState::Initial(crowded.node).cpu);
  }
  // All kinds of results occurred, unless the run is short.
  if (runs < 500) return;
  EXPECT_GT(tally.done, runs);
  EXPECT_GT(tally.shrunk, runs / 2);
  EXPECT_GT(tally.refused, runs);
  EXPECT_GT(tally.extended, runs / 20);
  EXPECT_GT(tally.by_topology, runs / 20);
  EXPECT_GT(tally.to_shared, runs / 2);
  EXPECT_GT(tally.from_shared, runs / 4);
}

}  // namespace
}  // namespace alignd::admission
