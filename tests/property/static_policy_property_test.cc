// Random pods come and go: no CPU is lost, assigned twice or taken from its container.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "alignd/cpumanager/static_policy.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"
#include "core/random_machine.h"

namespace alignd::cpumanager {
namespace {

using topologymanager::HintList;
using topologymanager::Hints;
using topologymanager::TopologyHint;

PolicyOptions RandomOptions(Random& random) {
  PolicyOptions options;
  options.strict_cpu_reservation = random.OnceIn(3);
  options.align_by_socket = random.OnceIn(4);
  switch (random.Number(0, 4)) {
    case 0:
      options.distribute_cpus_across_cores = true;
      return options;
    case 1:
      options.distribute_cpus_across_numa = true;
      break;
    case 2:
      options.prefer_align_cpus_by_uncorecache = true;
      break;
    default:
      break;
  }
  options.full_pcpus_only = random.OnceIn(3);
  return options;
}

Pod RandomPod(Random& random, const std::string& uid) {
  const auto amounts = [&] {
    return std::map<std::string, std::string>{{"cpu", std::to_string(random.Number(1, 6))},
                                              {"memory", "1Gi"}};
  };
  std::vector<Container> containers;
  for (int i = random.Number(0, 2); i > 0; --i) {
    const std::string name = "init" + std::to_string(i);
    containers.push_back(random.OnceIn(3) ? Sidecar(name, amounts()) : Init(name, amounts()));
  }
  for (int i = random.Number(1, 2); i > 0; --i) {
    containers.push_back(App("app" + std::to_string(i), amounts()));
  }
  return MakePod(uid, std::move(containers));
}

// A hint of the list, or any node, as the hints of other resources can lead to.
TopologyHint RandomAffinity(Random& random, const topologymanager::HintsByResource& hints) {
  const auto cpu = hints.find("cpu");
  if (cpu == hints.end() || !cpu->second || cpu->second->empty() || random.OnceIn(3)) return {};
  return random.OneOf(cpu->second->All());
}

// Containers that can run at the same time share no CPU; each has the requested number.
void ExpectFair(const Pod& pod, const CpuState& state) {
  CpuSet running;
  for (const Container& container : pod.containers) {
    const CpuSet* cpus = state.Find({pod.uid, container.name});
    if (cpus == nullptr) continue;
    ASSERT_EQ(cpus->Count(), ExclusiveCpus(pod, container));
    ASSERT_FALSE(running.Intersects(*cpus)) << pod.uid << " " << container.name;
    if (container.kind != ContainerKind::kInit) running |= *cpus;
  }
}

// align-by-socket: whether the nodes touch as many sockets as `fewest` nodes fill.
bool IsSocketAligned(const Machine& machine, NumaMask nodes, int fewest) {
  const int nodes_per_socket =
      machine.numa_with_cpus().Count() / static_cast<int>(machine.sockets().size());
  if (nodes_per_socket == 0) return false;
  int touched = 0;
  for (const CpuGroup& socket : machine.sockets()) {
    if (socket.cpus.Intersects(machine.CpusInNuma(nodes))) ++touched;
  }
  return touched == (fewest + nodes_per_socket - 1) / nodes_per_socket;
}

// The definition of a hint, for one set of nodes after another.
HintList HintsByDefinition(const Machine& machine, const StaticPolicy& policy,
                           const CpuState& state, int request) {
  const auto reusable = state.reusable.find("p");
  const CpuSet must_have = reusable == state.reusable.end() ? CpuSet() : reusable->second;
  const CpuSet usable = (state.default_set - policy.reserved) | must_have;
  HintList hints;
  int fewest = machine.numa_with_cpus().Count();
  for (int size = machine.numa_count(); size >= 1; --size) {
    for (uint64_t bits = 1; bits <= machine.all_numa().bits(); ++bits) {
      const NumaMask nodes = NumaMask::FromBits(bits);
      if (nodes.Count() == size && machine.CpusInNuma(nodes).Count() >= request) fewest = size;
    }
  }
  fewest = std::min(fewest, machine.numa_with_cpus().Count());
  for (int size = 1; size <= machine.numa_count(); ++size) {
    for (uint64_t bits = 1; bits <= machine.all_numa().bits(); ++bits) {
      const NumaMask nodes = NumaMask::FromBits(bits);
      if (nodes.Count() != size || !machine.numa_with_cpus().Contains(nodes)) continue;
      const CpuSet cpus = machine.CpusInNuma(nodes);
      if ((cpus & usable).Count() < request || !cpus.Contains(must_have)) continue;
      const bool aligned =
          policy.options.align_by_socket && IsSocketAligned(machine, nodes, fewest);
      hints.push_back({.affinity = nodes, .preferred = size == fewest || aligned});
    }
  }
  return hints;
}

TEST(StaticPolicyProperty, HintsAreThoseOfTheDefinition) {
  Random random;
  const int rounds = Iterations(300);
  for (int round = 0; round < rounds; ++round) {
    const Machine machine = RandomMachine(random);
    const StaticPolicy policy{.options = {.align_by_socket = random.OnceIn(3)},
                              .reserved = CpuSet{machine.cpus().First()}};
    CpuState state = InitialState(machine, policy);
    state.default_set = random.SomeOf(state.default_set) | policy.reserved;
    if (random.OnceIn(3)) {
      state.reusable["p"] = random.SomeOf(machine.cpus() - state.default_set).Lowest(3);
    }
    const int request = random.Number(1, machine.cpus().Count() + 1);
    const Pod pod =
        MakePod("p", {App("app", {{"cpu", std::to_string(request)}, {"memory", "1Gi"}})});
    const Hints hints = *ContainerHints(machine, policy, state, pod, pod.containers[0]).at("cpu");
    ASSERT_EQ(hints.All(), HintsByDefinition(machine, policy, state, request))
        << Describe(machine) << " default set " << state.default_set.ToString() << " request "
        << request;
  }
}

// Admits the pod container by container; the state stays as it was if one is refused.
void AdmitOrLeave(Random& random, const Machine& machine, const StaticPolicy& policy,
                  const Pod& pod, CpuState& state) {
  CpuState next = state;
  for (const Container& container : pod.containers) {
    const TopologyHint affinity =
        RandomAffinity(random, ContainerHints(machine, policy, next, pod, container));
    if (Allocate(machine, policy, pod, container, affinity, next)) return;
    ASSERT_EQ(BrokenInvariants(machine, policy, next), std::vector<std::string>{});
  }
  ASSERT_NO_FATAL_FAILURE(ExpectFair(pod, next));
  state = next;
}

TEST(StaticPolicyProperty, NoCpuIsLostOrDoubled) {
  Random random;
  const int rounds = Iterations(300);
  for (int round = 0; round < rounds; ++round) {
    const Machine machine = RandomMachine(random);
    CpuSet reserved = machine.cpus() - random.SomeOf(machine.cpus());
    reserved.Add(machine.cpus().First());
    const StaticPolicy policy{.options = RandomOptions(random), .reserved = reserved};
    CpuState state = InitialState(machine, policy);
    for (int step = 0; step < 20; ++step) {
      const std::string uid = "pod" + std::to_string(random.Number(0, 3));
      const Pod pod = RandomPod(random, uid);
      if (!state.assignments.contains(uid)) {
        ASSERT_NO_FATAL_FAILURE(AdmitOrLeave(random, machine, policy, pod, state))
            << Describe(machine);
      } else if (random.OnceIn(2)) {
        ReleasePod(uid, state);
      } else {
        ReleaseContainer({uid, state.assignments.at(uid).begin()->first}, state);
      }
      ASSERT_EQ(BrokenInvariants(machine, policy, state), std::vector<std::string>{})
          << Describe(machine);
      const Result<Done> loaded = ValidateLoaded(machine, policy, state);
      ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    }
    for (const char* uid : {"pod0", "pod1", "pod2", "pod3"}) ReleasePod(uid, state);
    ASSERT_EQ(state, InitialState(machine, policy)) << Describe(machine);
  }
}

}  // namespace
}  // namespace alignd::cpumanager
