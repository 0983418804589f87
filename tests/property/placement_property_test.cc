// Random pods on random nodes: a pod that fits is one of which the sums of all pods fit, counted
// slowly, and which the core admits on the node as it was.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/placement/planned_node.h"
#include "core/crowded_node.h"
#include "core/random_planned.h"

namespace alignd::placement {
namespace {

using admission::RandomConfig;
using admission::WithRandomMemory;

// In thousandths, of a request that has no smaller parts.
int64_t MilliOf(const ResourceList& list, const std::string& name) {
  const auto entry = list.find(name);
  return entry == list.end() ? 0 : entry->second.MilliValue();
}

// What the pod needs at the worst moment of its life: while each init container runs, and after.
int64_t WorstMoment(const PlannedPod& planned, const std::string& name) {
  const std::vector<Container>& containers = planned.pod.containers;
  int64_t worst = 0;
  for (size_t now = 0; now <= containers.size(); ++now) {
    // `now` runs, or in the end all app containers.
    int64_t sum = 0;
    if (now < containers.size() && containers[now].kind == ContainerKind::kApp) continue;
    for (size_t i = 0; i < containers.size(); ++i) {
      const bool is_end = now == containers.size();
      const bool runs = containers[i].kind == ContainerKind::kApp    ? is_end
                        : containers[i].kind == ContainerKind::kInit ? i == now
                                                                     : i <= now;
      if (runs) sum += MilliOf(containers[i].resources.requests, name);
    }
    worst = std::max(worst, sum);
  }
  if (planned.pod.pod_level && planned.pod.pod_level->requests.contains(name)) {
    worst = MilliOf(planned.pod.pod_level->requests, name);
  }
  return worst + MilliOf(planned.overhead, name);
}

// Everything on the node, in the simplest form.
struct SlowNode {
  std::map<std::string, int64_t> free_milli;  // by resource
  int64_t pods = 0;
  std::vector<PlannedPod> placed;

  bool HasPlaceFor(const PlannedPod& pod) const {
    if (static_cast<int64_t>(placed.size()) + 1 > pods) return false;
    std::set<std::string> names;
    for (const Container& container : pod.pod.containers) {
      for (const auto& [name, amount] : container.resources.requests) names.insert(name);
    }
    for (const auto& [name, amount] : pod.overhead) names.insert(name);
    for (const std::string& name : names) {
      int64_t sum = WorstMoment(pod, name);
      if (sum == 0) continue;
      for (const PlannedPod& other : placed) sum += WorstMoment(other, name);
      const auto free = free_milli.find(name);
      if (free == free_milli.end() || sum > free->second) return false;
    }
    return true;
  }
};

SlowNode SlowNodeOf(const NodeInput& input, const KubeletConfig& config, int64_t pods) {
  SlowNode node;
  node.pods = pods;
  // RandomConfig reserves CPU 0 and 512 MiB, and has no eviction threshold.
  EXPECT_EQ(config.reserved_system_cpus, "0");
  node.free_milli["cpu"] = 1000 * (input.description.machine.cpus().Count() - 1);
  int64_t memory = -(int64_t{512} << 20);
  for (const NumaNode& numa : input.description.machine.numa()) {
    memory += static_cast<int64_t>(numa.memory_bytes);
    for (const auto& [size, count] : numa.hugepages) {
      const auto bytes = static_cast<int64_t>(size * count);
      memory -= bytes;
      node.free_milli["hugepages-2Mi"] += 1000 * bytes;
    }
  }
  node.free_milli["memory"] = 1000 * memory;
  for (const auto& [name, devices] : input.description.devices) {
    node.free_milli[name] = 1000 * static_cast<int64_t>(devices.size());
  }
  return node;
}

TEST(PlacementProperty, NeverSaysYesWrongly) {
  Random random;
  const int runs = Iterations(200);
  int fitting = 0;
  std::map<Stage, int> refused;
  for (int run = 0; run < runs; ++run) {
    const Machine machine = WithRandomMemory(RandomMachine(random), random);
    NodeInput input{{machine, {}, {}}, std::nullopt, {}, {}, {}};
    input.description.devices["a.com/dev"] = RandomDeviceList(machine, random);
    const KubeletConfig config = RandomConfig(random);
    const int64_t pod_limit = random.Number(2, 12);
    Result<PlannedNode> node = PlannedNode::Make(input, config, pod_limit, {});
    if (!node.ok()) continue;  // NUMA node 0 can be too small for what is reserved
    bool is_moved = false;
    bool is_undecided = false;
    SlowNode slow = SlowNodeOf(input, config, pod_limit);
    for (int step = 0; step < 12; ++step) {
      const PlannedPod pod = RandomPlanned("pod-" + std::to_string(step), machine, random);
      auto before = scenario::Simulation::Start(input.description, config);
      ASSERT_TRUE(before.ok());
      const admission::NodeState state = node->state();
      const Verdict verdict = node->Place(pod);
      if (verdict.outcome != Outcome::kFits) {
        ++refused[verdict.stage];
        is_undecided = is_undecided || verdict.outcome == Outcome::kUndecided;
        is_moved = is_moved || verdict.admission.has_value();
        ASSERT_TRUE(verdict.refusal.has_value());
        continue;
      }
      ++fitting;
      ASSERT_FALSE(is_undecided) << "what an undecided pod takes is not known";
      ASSERT_TRUE(pod.faults.empty() && pod.undecided.empty());
      ASSERT_TRUE(slow.HasPlaceFor(pod)) << "ALIGND_SEED run " << run << " step " << step;
      const admission::Admission admission =
          admission::Admit(node->node(), state, pod.pod,
                           [](const auto& query) { return std::optional(query.must_include); });
      ASSERT_TRUE(admission.admitted());
      ASSERT_EQ(node->state().BrokenInvariants(node->node()), std::vector<std::string>{});
      slow.placed.push_back(pod);
      // A kubelet that refuses a pod can move memory within a group of NUMA nodes. Without that,
      // all that were placed, placed again in this order on an empty node, still fit.
      if (is_moved) continue;
      for (const PlannedPod& placed : slow.placed) {
        ASSERT_TRUE(before->Run(scenario::AdmitPod{placed.pod}).admission->admitted());
      }
    }
  }
  // The test has looked at all of them.
  EXPECT_GT(fitting, runs / 4);
  EXPECT_GT(refused[Stage::kValidation], 0);
  EXPECT_GT(refused[Stage::kScheduler], 0);
  EXPECT_GT(refused[Stage::kKubelet], 0);
}

}  // namespace
}  // namespace alignd::placement
