// What a scheduler has decided (annotation resource-status) is followed as a whole, or refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/topologymanager/policy.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"
#include "core/random_machine.h"

namespace alignd::admission {
namespace {

KubeletConfig OwnStatusConfig(const Machine& machine, Random& random) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = std::to_string(machine.cpus().First());
  config.pod_policies = {PodPolicy::kResourceStatus, PodPolicy::kCpuBindPolicy};
  const std::string option = random.OneOf<std::string>(
      {"", "", "full-pcpus-only", "distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache",
       "distribute-cpus-across-cores"});
  if (!option.empty()) config.cpu_manager_policy_options[option] = "true";
  config.topology_manager_policy = random.OneOf<TopologyManagerPolicy>(
      {TopologyManagerPolicy::kNone, TopologyManagerPolicy::kNone,
       TopologyManagerPolicy::kBestEffort, TopologyManagerPolicy::kBestAttainable,
       TopologyManagerPolicy::kRestricted, TopologyManagerPolicy::kSingleNumaNode});
  if (random.OnceIn(2)) config.topology_manager_scope = TopologyManagerScope::kPod;
  if (random.OnceIn(3)) config.compatibility = Compatibility::k1_20;
  if (random.OnceIn(2)) return config;
  config.memory_manager_policy = MemoryManagerPolicy::kStatic;
  config.eviction_hard_memory = "";
  config.system_reserved = Amounts({{"memory", "512Mi"}});
  config.reserved_memory = {
      {.numa_node = machine.NumaId(0), .limits = Amounts({{"memory", "512Mi"}})}};
  return config;
}

class OwnStatusProperty : public testing::Test {
 protected:
  // A node of which some CPUs are free, and a pod. False: no CPU is decided.
  bool Draw() {
    machine_ = RandomMachine(random_);
    Result<Node> node = Node::Make(*machine_, OwnStatusConfig(*machine_, random_));
    EXPECT_TRUE(node.ok()) << node.error().Text();
    if (!node.ok()) return false;
    node_ = *std::move(node);
    state_ = NodeState::Initial(*node_);
    const CpuSet free = state_.cpu.default_set - node_->cpu->reserved;
    free_ = random_.SomeOf(free);
    if (const CpuSet taken = free - free_; !taken.empty()) {
      state_.cpu.default_set -= taken;
      state_.cpu.assignments["other"]["app"] = taken;
    }
    return Decide();
  }

  // Most decisions can be followed.
  bool Decide() {
    counts_.clear();
    int total = 0;
    for (const int numa : machine_->numa_with_cpus()) {
      const int most = free_.CountCommon(machine_->CpusInNuma(numa));
      const int count = random_.OnceIn(2) ? 0 : random_.Number(0, std::min(4, most));
      counts_[numa] = count + (random_.OnceIn(20) ? 1 : 0);
      total += counts_[numa];
    }
    if (total == 0) return false;
    pod_ = PodOf(total);
    memory_node_ =
        random_.OnceIn(2) ? std::optional<int>() : random_.Number(0, machine_->numa_count() - 1);
    for (const auto& [numa, count] : counts_) {
      if (count > 0) ResourcesOf(numa)["cpu"] = Quantity(count);
    }
    if (memory_node_) ResourcesOf(*memory_node_)["memory"] = *Quantity::Parse("64Mi");
    pod_.policies.required_bind = random_.OneOf<std::optional<CpuBindPolicy>>(
        {std::nullopt, std::nullopt, CpuBindPolicy::kFullPcpus, CpuBindPolicy::kSpreadByPcpus});
    return true;
  }

  std::map<std::string, Quantity, std::less<>>& ResourcesOf(int numa) {
    return pod_.policies.numa_resources[machine_->NumaId(numa)];
  }

  // Containers that need `total` CPUs at the same time.
  Pod PodOf(int total) {
    const auto amounts = [](int cpus) {
      return std::map<std::string, std::string>{{"cpu", std::to_string(cpus)}, {"memory", "64Mi"}};
    };
    std::vector<Container> containers;
    int of_apps = total;
    if (random_.OnceIn(3)) {
      const bool is_largest = random_.OnceIn(2);
      if (is_largest) of_apps = random_.Number(1, total);
      containers.push_back(Init("init", amounts(is_largest ? total : random_.Number(1, total))));
    }
    for (int i = 0; of_apps > 0; ++i) {
      const int cpus = random_.OnceIn(2) ? of_apps : random_.Number(1, of_apps);
      containers.push_back(App("app-" + std::to_string(i), amounts(cpus)));
      of_apps -= cpus;
    }
    return MakePod("p", std::move(containers));
  }

  std::string Where() const {
    std::string text = Describe(*machine_) + " free " + free_.ToString() + " policy " +
                       std::string(ToString(node_->topology.kind())) + " cpuset " +
                       pod_.policies.cpuset.ToString() + " counts";
    for (const auto& [numa, count] : counts_) text += " " + std::to_string(count);
    for (const Container& one : pod_.containers) {
      text += " " + one.name + "=" + one.resources.limits.at("cpu").ToString();
    }
    for (const auto& [name, value] : node_->config.cpu_manager_policy_options) text += " " + name;
    if (pod_.policies.required_bind)
      text += " " + std::string(ToString(*pod_.policies.required_bind));
    if (memory_node_) text += " memory on " + std::to_string(*memory_node_);
    if (node_->config.compatibility == Compatibility::k1_20) text += " as 1.20";
    if (node_->topology.scope() == TopologyManagerScope::kPod) text += " scope pod";
    return text;
  }

  // Of each core, how many of the CPUs are on it, and how many it has.
  bool LieOnCores(const CpuSet& cpus, CpuBindPolicy policy) const {
    std::map<int, int> taken;
    std::map<int, int> all;
    for (const Cpu& row : machine_->cpu_rows()) {
      ++all[row.core];
      if (cpus.Contains(row.cpu)) ++taken[row.core];
    }
    return std::ranges::all_of(taken, [&](const auto& core) {
      return core.second == (policy == CpuBindPolicy::kFullPcpus ? all.at(core.first) : 1);
    });
  }

  void CheckCores(const NodeState& next) const {
    const auto& required = pod_.policies.required_bind;
    const bool is_full = required == CpuBindPolicy::kFullPcpus ||
                         node_->config.cpu_manager_policy_options.contains("full-pcpus-only");
    CpuSet of_apps;
    for (const Container& one : pod_.containers) {
      const CpuSet* const cpus = next.cpu.Find({"p", one.name});
      ASSERT_NE(cpus, nullptr) << Where();
      if (is_full) {
        ASSERT_TRUE(LieOnCores(*cpus, CpuBindPolicy::kFullPcpus)) << Where();
      }
      if (one.kind == ContainerKind::kApp) of_apps |= *cpus;
    }
    if (required == CpuBindPolicy::kSpreadByPcpus) {
      ASSERT_TRUE(LieOnCores(of_apps, *required)) << Where();
    }
  }

  // The node's policy admits nothing for the annotation.
  void CheckAlignment(const Admission& admission) const {
    const TopologyManagerPolicy kind = node_->topology.kind();
    if (kind == TopologyManagerPolicy::kNone || kind == TopologyManagerPolicy::kBestEffort) return;
    std::vector<ContainerDecision> on_empty;
    if (kind == TopologyManagerPolicy::kBestAttainable) {
      KubeletConfig config = node_->config;
      config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
      const Result<Node> node = Node::Make(*machine_, config);
      ASSERT_TRUE(node.ok()) << node.error().Text();
      Pod pod = pod_;
      pod.policies = {.required_bind = pod_.policies.required_bind};
      on_empty =
          Admit(*node, NodeState::Initial(*node), pod, devicemanager::NoPreference).decisions;
    }
    for (size_t i = 0; i < admission.decisions.size(); ++i) {
      const topologymanager::TopologyHint& ours = *admission.decisions[i].affinity;
      if (kind != TopologyManagerPolicy::kBestAttainable) {
        ASSERT_TRUE(ours.preferred) << Where();
      } else if (i < on_empty.size()) {
        ASSERT_FALSE(topologymanager::AlignsBetter(*on_empty[i].affinity, ours)) << Where();
        if (!on_empty[i].affinity->preferred) return;
      }
    }
    CheckPlaces(admission);
  }

  // Of a pod that is aligned as well as on the empty node: CPUs and memory are on the same NUMA
  // nodes. As 1.20 merges, these only have nodes in common.
  void CheckPlaces(const Admission& admission) const {
    std::map<std::string, std::vector<NumaMask>> places;  // CPUs, memory
    for (const auto& [name, assignment] : admission.assignments) {
      const bool is_pod = node_->topology.scope() == TopologyManagerScope::kPod;
      std::vector<NumaMask>& of_unit = places[is_pod ? "" : name];
      of_unit.resize(2);
      of_unit[0] = of_unit[0] | machine_->NumaOf(assignment.exclusive);
      of_unit[1] = of_unit[1] | machine_->MaskOfIds({assignment.memory_nodes.begin(),
                                                     assignment.memory_nodes.end()});
    }
    for (const auto& [name, of_unit] : places) {
      const NumaMask cpus = of_unit[0];
      const NumaMask memory = of_unit[1];
      if (node_->topology.kind() == TopologyManagerPolicy::kSingleNumaNode) {
        ASSERT_EQ((cpus | memory).Count(), 1) << Where();
      }
      if (memory.empty()) continue;
      if (node_->config.compatibility == Compatibility::k1_20) {
        ASSERT_TRUE(cpus.Intersects(memory)) << Where();
      } else {
        ASSERT_EQ(cpus, memory) << Where();
      }
    }
  }

  // True: admitted, and all of the decision is followed.
  bool IsFollowed() const {
    const Admission admission = Admit(*node_, state_, pod_, devicemanager::NoPreference);
    if (!admission.admitted()) {
      EXPECT_EQ(admission.next.cpu, state_.cpu) << Where();
      return false;
    }
    const CpuSet cpus = admission.next.cpu.HeldBy("p");
    EXPECT_TRUE(admission.next.BrokenInvariants(*node_).empty()) << Where();
    EXPECT_TRUE(free_.Contains(cpus)) << Where();
    for (const auto& [numa, count] : counts_) {
      EXPECT_EQ(cpus.CountCommon(machine_->CpusInNuma(numa)), count) << Where();
    }
    for (const auto& [name, assignment] : admission.assignments) {
      for (const int id : assignment.memory_nodes) {
        EXPECT_TRUE(!memory_node_ || id == machine_->NumaId(*memory_node_)) << Where();
      }
    }
    CheckCores(admission.next);
    CheckAlignment(admission);
    return true;
  }

  // Only the numbers of free CPUs can stand in the way.
  bool IsPlain() const {
    return pod_.containers.size() == 1 && !pod_.policies.required_bind && !node_->memory &&
           node_->config.cpu_manager_policy_options.empty() &&
           node_->topology.kind() == TopologyManagerPolicy::kNone;
  }

  Random random_;
  std::optional<Machine> machine_;
  std::optional<Node> node_;
  NodeState state_;
  CpuSet free_;
  std::map<int, int> counts_;  // by NUMA node
  std::optional<int> memory_node_;
  Pod pod_;
};

TEST_F(OwnStatusProperty, NumbersOfCpusAreThoseOfTheSchedulerOrThePodIsRefused) {
  std::map<bool, int> followed;
  for (int round = Iterations(3000); round > 0 && !HasFailure(); --round) {
    if (!Draw()) continue;
    const bool fits = std::ranges::all_of(counts_, [&](const auto& count) {
      return free_.CountCommon(machine_->CpusInNuma(count.first)) >= count.second;
    });
    const bool is_followed = IsFollowed();
    EXPECT_TRUE(fits || !is_followed) << Where();
    if (IsPlain()) {
      EXPECT_EQ(is_followed, fits) << Where();
    }
    ++followed[is_followed];
  }
  EXPECT_GT(followed[true], 0);
  EXPECT_GT(followed[false], 0);
}

TEST_F(OwnStatusProperty, TheCpusAreThoseOfTheSchedulerOrThePodIsRefused) {
  std::map<bool, int> followed;
  for (int round = Iterations(3000); round > 0 && !HasFailure(); --round) {
    if (!Draw()) continue;
    pod_.policies.numa_resources.clear();
    memory_node_.reset();
    CpuSet cpuset;
    for (auto& [numa, count] : counts_) {
      cpuset |= random_.SomeOf(free_ & machine_->CpusInNuma(numa)).Lowest(count);
      count = cpuset.CountCommon(machine_->CpusInNuma(numa));
    }
    if (cpuset.empty()) continue;
    if (!random_.OnceIn(10)) {
      const std::optional<CpuBindPolicy> bind = pod_.policies.required_bind;
      pod_ = PodOf(cpuset.Count());
      pod_.policies.required_bind = bind;
    }
    pod_.policies.cpuset = cpuset;
    const bool fits = pod_.containers.size() == 1 &&
                      pod_.containers[0].resources.limits.at("cpu") == Quantity(cpuset.Count());
    const bool is_followed = IsFollowed();
    if (IsPlain()) {
      EXPECT_EQ(is_followed, fits) << Where();
    }
    if (is_followed) {
      EXPECT_EQ(Admit(*node_, state_, pod_, devicemanager::NoPreference).next.cpu.HeldBy("p"),
                cpuset)
          << Where();
    }
    ++followed[is_followed];
  }
  EXPECT_GT(followed[true], 0);
  EXPECT_GT(followed[false], 0);
}

}  // namespace
}  // namespace alignd::admission
