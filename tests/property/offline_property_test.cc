// Random pods come and go, random containers are resized, and random CPUs go offline and come back.
// What is true of the state then is stated for each CPU, without code of the real one.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/resize.h"
#include "alignd/admission/shared_pool.h"
#include "alignd/cpumanager/static_policy.h"
#include "core/crowded_node.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"
#include "core/property_seed.h"
#include "core/random_machine.h"

namespace alignd::admission {
namespace {

Node NodeWithOfflineCpus(Random& random) {
  const Machine machine = RandomMachine(random);
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = std::to_string(machine.cpus().First());
  config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
  if (random.OnceIn(2)) config.topology_manager_scope = TopologyManagerScope::kPod;
  if (random.OnceIn(3)) config.cpu_manager_policy_options["strict-cpu-reservation"] = "true";
  if (random.OnceIn(4)) config.cpu_manager_policy_options["full-pcpus-only"] = "true";
  Result<Node> node = Node::Make(machine, config);
  if (!node.ok()) BadMachineText("NodeWithOfflineCpus", node.error().message);
  return *std::move(node);
}

Pod PodOfCpus(const std::string& uid, Random& random) {
  std::vector<Container> containers;
  for (int i = random.Number(1, 3); i > 0; --i) {
    const ContainerKind kind = i == 1             ? ContainerKind::kApp
                               : random.OnceIn(2) ? ContainerKind::kInit
                                                  : ContainerKind::kSidecar;
    containers.push_back(
        MakeContainer(kind, "c" + std::to_string(i),
                      {{"cpu", std::to_string(random.Number(1, 4))}, {"memory", "64Mi"}}));
  }
  return MakePod(uid, std::move(containers));
}

CpuSet AllAssigned(const NodeState& state) {
  CpuSet cpus;
  for (const std::string& uid : PodsIn(state)) cpus |= state.cpu.HeldBy(uid);
  return cpus;
}

void ExpectWhatOfflineMeans(const Node& node, const NodeState& state, const CpuSet& offline) {
  ASSERT_EQ(state.BrokenInvariants(node), std::vector<std::string>());
  ASSERT_EQ(state.cpu.offline, offline);
  // The file is the same as if all CPUs were online.
  NodeState online = state;
  cpumanager::SetOffline({}, online.cpu);
  ASSERT_EQ(online.cpu.SavedDefaultSet(), state.cpu.SavedDefaultSet());
  ASSERT_EQ(online.cpu.default_set, online.cpu.SavedDefaultSet());
  ASSERT_EQ(online.cpu.default_set - offline, state.cpu.default_set);
  ASSERT_TRUE((AllAssigned(state) & state.cpu.SavedDefaultSet()).empty());
  for (const auto& [uid, containers] : state.cpu.assignments) {
    for (const auto& [name, cpus] : containers) {
      const Assignment assignment = AssignmentOf(node, state, {uid, name});
      ASSERT_FALSE(assignment.cpuset.empty());
      ASSERT_EQ(assignment.offline, cpus & offline);
      if (offline.Contains(cpus)) {
        ASSERT_TRUE(assignment.exclusive.empty());
        ASSERT_EQ(assignment.cpuset, SharedCpus(node, state));
      } else {
        ASSERT_EQ(assignment.cpuset, cpus - offline);
        ASSERT_EQ(assignment.exclusive, assignment.cpuset);
      }
    }
  }
}

TEST(OfflineProperty, NoCpuThatIsOfflineIsAssignedAndNoneIsLostOrAssignedTwice) {
  Random random;
  int admitted = 0;
  int resized = 0;
  for (int round = Iterations(150); round > 0 && !::testing::Test::HasFatalFailure(); --round) {
    const Node node = NodeWithOfflineCpus(random);
    NodeState state = NodeState::Initial(node);
    CpuSet offline;
    for (int step = 0; step < 40 && !::testing::Test::HasFatalFailure(); ++step) {
      const NodeState before = state;
      if (random.OnceIn(4)) {
        offline = random.OnceIn(3) ? CpuSet() : random.SomeOf(node.machine.cpus());
        cpumanager::SetOffline(offline, state.cpu);
        ASSERT_EQ(state.cpu.assignments, before.cpu.assignments);
      } else if (random.OnceIn(3)) {
        const std::set<std::string> pods = PodsIn(state);
        if (!pods.empty()) ReleasePod(*pods.begin(), state);
      } else if (random.OnceIn(3) && !state.cpu.assignments.empty()) {
        const auto& [uid, containers] = *state.cpu.assignments.begin();
        const ContainerKey key{uid, containers.begin()->first};
        const ResizeDecision decision = Resize(node, state, key, random.Number(1, 6));
        ASSERT_TRUE(((decision.after - decision.before) & offline).empty());
        state = decision.next;
        resized += decision.after == decision.before ? 0 : 1;
      } else {
        const Pod pod = PodOfCpus(std::to_string(step), random);
        const Admission admission = Admit(node, state, pod, devicemanager::NoPreference);
        if (admission.admitted()) {
          ++admitted;
          state = admission.next;
          ASSERT_TRUE((state.cpu.HeldBy(pod.uid) & offline).empty());
        }
      }
      ExpectWhatOfflineMeans(node, state, offline);
    }
    // When all are online again, everything can be released.
    cpumanager::SetOffline({}, state.cpu);
    for (const std::string& uid : PodsIn(state)) ReleasePod(uid, state);
    ASSERT_EQ(state.cpu.default_set, node.cpu->Managed(node.machine));
  }
  if (Iterations(150) >= 150) {
    EXPECT_GT(admitted, 100);
    EXPECT_GT(resized, 10);
  }
}

}  // namespace
}  // namespace alignd::admission
