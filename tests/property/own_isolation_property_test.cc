// Pods whose containers all ask for isolated CPUs, or for others: they are placed as on a node
// whose other CPUs are taken, unless that is worse.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "alignd/admission/admission.h"
#include "core/crowded_node.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"
#include "core/random_machine.h"

namespace alignd::admission {
namespace {

constexpr int kMaxContainers = 3;

Pod IsolatedPod(Random& random) {
  std::vector<Container> containers;
  for (int i = random.Number(1, kMaxContainers); i > 0; --i) {
    containers.push_back(App("c" + std::to_string(i),
                             {{"cpu", std::to_string(random.Number(1, 4))}, {"memory", "64Mi"}}));
  }
  return MakePod("p", std::move(containers));
}

// One in which each container has at most so many NUMA nodes as in the other one.
bool IsAsGood(const Machine& machine, const Pod& pod, const Admission& one,
              const Admission& other) {
  if (!one.admitted() || !other.admitted()) return one.admitted();
  const auto nodes = [&](const Admission& admission, const Container& container) {
    return machine.NumaOf(*admission.next.cpu.Find({pod.uid, container.name})).Count();
  };
  return std::ranges::all_of(pod.containers, [&](const Container& container) {
    return nodes(one, container) <= nodes(other, container);
  });
}

CpuSet CpusIn(const Admission& admission, const Pod& pod) {
  return admission.next.cpu.HeldBy(pod.uid);
}

TEST(OwnIsolationProperty, IsAsIfTheOtherCpusWereTaken) {
  Random random;
  int followed = 0;
  int not_followed = 0;
  const int runs = Iterations(2000);
  for (int run = 0; run < runs; ++run) {
    Machine machine = RandomMachine(random);
    machine = WithIsolated(machine, random.SomeOf(machine.cpus()));
    KubeletConfig config;
    config.cpu_manager_policy = CpuManagerPolicy::kStatic;
    config.reserved_system_cpus = std::to_string(machine.cpus().First());
    // These admit only preferred hints: where a pod is admitted, it is aligned as well as before.
    config.topology_manager_policy = random.OneOf<TopologyManagerPolicy>(
        {TopologyManagerPolicy::kNone, TopologyManagerPolicy::kRestricted,
         TopologyManagerPolicy::kSingleNumaNode});
    config.topology_manager_scope =
        random.OnceIn(2) ? TopologyManagerScope::kPod : TopologyManagerScope::kContainer;
    config.pod_policies = {PodPolicy::kPreferIsolatedCpus};
    const Result<Node> node = Node::Make(machine, config);
    ASSERT_TRUE(node.ok()) << node.error().Text();
    NodeState state = NodeState::Initial(*node);
    const CpuSet taken = random.SomeOf(state.cpu.default_set - node->cpu->reserved).Lowest(4);
    state.cpu.default_set -= taken;
    if (!taken.empty()) state.cpu.assignments["other"]["app"] = taken;

    const bool isolated = !random.OnceIn(4);
    const CpuSet others = isolated ? machine.cpus() - machine.isolated() : machine.isolated();
    NodeState only_wanted = state;
    const CpuSet rest = (state.cpu.default_set & others) - node->cpu->reserved;
    only_wanted.cpu.default_set -= rest;
    if (!rest.empty()) only_wanted.cpu.assignments["rest"]["app"] = rest;

    Pod pod = IsolatedPod(random);
    const Admission plain = Admit(*node, state, pod, devicemanager::NoPreference);
    const Admission wanted = Admit(*node, only_wanted, pod, devicemanager::NoPreference);
    ReadScopedAnnotation(kPreferIsolated, "prefer-isolated-cpus.cri-resource-manager.intel.com",
                         isolated ? "1" : "0", pod.policies.isolation);
    const Admission decided = Admit(*node, state, pod, devicemanager::NoPreference);
    const std::string what = Describe(machine) + " isolated " + machine.isolated().ToString() +
                             " taken " + taken.ToString();
    ASSERT_EQ(decided.admitted(), plain.admitted()) << what;
    ASSERT_TRUE(decided.next.BrokenInvariants(*node).empty()) << what;
    if (!decided.admitted()) continue;
    ASSERT_TRUE(IsAsGood(machine, pod, decided, plain)) << what;
    if (IsAsGood(machine, pod, wanted, plain)) {
      ++followed;
      ASSERT_EQ(CpusIn(decided, pod).ToString(), CpusIn(wanted, pod).ToString()) << what;
      ASSERT_FALSE(CpusIn(decided, pod).Intersects(others)) << what;
    } else {
      ++not_followed;
      // Without a topology policy, a single NUMA node can be better than what the options choose.
      const bool is_found = config.topology_manager_policy == TopologyManagerPolicy::kNone &&
                            !CpusIn(decided, pod).Intersects(others);
      if (pod.containers.size() == 1 && !is_found) {
        ASSERT_EQ(CpusIn(decided, pod).ToString(), CpusIn(plain, pod).ToString()) << what;
      }
    }
  }
  if (runs < 500) return;
  EXPECT_GT(followed, runs / 8);
  EXPECT_GT(not_followed, runs / 8);
}

}  // namespace
}  // namespace alignd::admission
