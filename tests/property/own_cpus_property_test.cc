// The CPUs of pods that ask how these lie on cores and what they stay away from, against slow
// definitions.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/own_policy.h"
#include "alignd/base/numa_subsets.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"
#include "core/random_machine.h"

namespace alignd::admission {
namespace {

using Bind = CpuBindPolicy;

KubeletConfig OwnCpusConfig(const Machine& machine, Random& random) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = std::to_string(machine.cpus().First());
  config.pod_policies = {PodPolicy::kCpuBindPolicy, PodPolicy::kCpuExclusivePolicy};
  const std::string option = random.OneOf<std::string>(
      {"", "", "", "distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache",
       "full-pcpus-only", "distribute-cpus-across-cores"});
  if (!option.empty()) config.cpu_manager_policy_options[option] = "true";
  return config;
}

// Other pods have some of the CPUs, and stay away from some others or not.
NodeState CrowdedState(const Node& node, Random& random) {
  NodeState state = NodeState::Initial(node);
  for (int i = random.Number(0, 3); i > 0; --i) {
    const CpuSet free = state.cpu.default_set - node.cpu->reserved;
    const CpuSet cpus = random.SomeOf(free).Lowest(random.Number(1, 6));
    if (cpus.empty()) continue;
    const std::string uid = "other-" + std::to_string(i);
    state.cpu.default_set -= cpus;
    state.cpu.assignments[uid]["app"] = cpus;
    const auto exclusive = random.OneOf<std::optional<CpuExclusivePolicy>>(
        {std::nullopt, CpuExclusivePolicy::kPcpuLevel, CpuExclusivePolicy::kNumaNodeLevel});
    if (exclusive) state.chosen_policies[uid] = PodPolicies{.exclusive = exclusive};
  }
  return state;
}

// The rest of the node is a pod that never ends.
NodeState WithoutFree(NodeState state, const CpuSet& cpus) {
  const CpuSet taken = state.cpu.default_set & cpus;
  if (taken.empty()) return state;
  state.cpu.default_set -= taken;
  state.cpu.assignments["rest"]["app"] = taken;
  return state;
}

Pod PodOf(int cpus, const PodPolicies& policies) {
  Pod pod = MakePod("p", {App("app", {{"cpu", std::to_string(cpus)}, {"memory", "64Mi"}})});
  pod.policies = policies;
  return pod;
}

Admission DecideOn(const Node& node, const NodeState& state, const Pod& pod) {
  return Admit(node, state, pod, devicemanager::NoPreference);
}

// CPUs by core, row by row.
std::map<int, CpuSet> CoresIn(const Machine& machine, const CpuSet& cpus) {
  std::map<int, CpuSet> cores;
  for (const Cpu& row : machine.cpu_rows()) {
    if (cpus.Contains(row.cpu)) cores[row.core].Add(row.cpu);
  }
  return cores;
}

CpuSet WholeCoresByDefinition(const Machine& machine, const CpuSet& cpus) {
  const std::map<int, CpuSet> all = CoresIn(machine, machine.cpus());
  CpuSet whole;
  for (const auto& [core, here] : CoresIn(machine, cpus)) {
    if (here == all.at(core)) whole |= here;
  }
  return whole;
}

// Whether some whole cores have that many CPUs in all.
bool IsSumOfCores(const Machine& machine, const CpuSet& whole, int count) {
  std::set<int> sums = {0};
  for (const auto& [core, cpus] : CoresIn(machine, whole)) {
    std::set<int> more = sums;
    for (const int sum : sums) more.insert(sum + cpus.Count());
    sums = std::move(more);
  }
  return sums.contains(count);
}

bool HasCoresOfDifferentSizes(const Machine& machine) {
  return std::ranges::any_of(CoresIn(machine, machine.cpus()), [&](const auto& core) {
    return core.second.Count() != machine.cpus_per_core();
  });
}

class OwnCpusProperty : public testing::Test {
 protected:
  // A node, and what is free on it.
  void Draw() {
    machine_ = RandomMachine(random_);
    Result<Node> node = Node::Make(*machine_, OwnCpusConfig(*machine_, random_));
    ASSERT_TRUE(node.ok()) << node.error().Text();
    node_ = *std::move(node);
    state_ = CrowdedState(*node_, random_);
    free_ = state_.cpu.default_set - node_->cpu->reserved;
    count_ = random_.Number(1, std::max(1, free_.Count() + 1));
  }

  bool HasOption(const std::string& name) const {
    return node_->config.cpu_manager_policy_options.contains(name);
  }

  std::string Where() const {
    std::string text =
        Describe(*machine_) + " free " + free_.ToString() + " count " + std::to_string(count_);
    for (const auto& [name, value] : node_->config.cpu_manager_policy_options) text += " " + name;
    return text;
  }

  // The CPUs of the pod; nullopt: it is refused. Nothing but its own CPUs changes.
  std::optional<CpuSet> CpusOf(const PodPolicies& policies) const {
    const Admission admission = DecideOn(*node_, state_, PodOf(count_, policies));
    if (!admission.admitted()) {
      EXPECT_EQ(admission.next, state_);
      return std::nullopt;
    }
    const CpuSet cpus = admission.next.cpu.HeldBy("p");
    EXPECT_EQ(cpus.Count(), count_) << Where();
    EXPECT_TRUE(free_.Contains(cpus)) << Where();
    EXPECT_TRUE(admission.next.BrokenInvariants(*node_).empty()) << Where();
    return cpus;
  }

  // All CPUs; then those of each NUMA node, where most is free first.
  std::vector<CpuSet> PlacesInOrder(const CpuSet& free) const {
    std::vector<CpuSet> places = {machine_->cpus()};
    for (int most = free.Count(); most >= 0; --most) {
      for (int numa = 0; numa < machine_->numa_count(); ++numa) {
        const CpuSet& cpus = machine_->CpusInNuma(numa);
        if (!cpus.empty() && cpus.CountCommon(free) == most) places.push_back(cpus);
      }
    }
    return places;
  }

  // Whether free whole cores have count_ CPUs: on as few NUMA nodes as all cores of the machine
  // that do, if the policy requires that.
  bool FitsOnWholeCores(TopologyManagerPolicy policy) const {
    if (count_ % machine_->cpus_per_core() != 0) return false;
    const auto is_sum = [&](NumaMask nodes, const CpuSet& of) {
      const CpuSet cpus = machine_->CpusInNuma(nodes) & of;
      return IsSumOfCores(*machine_, WholeCoresByDefinition(*machine_, cpus), count_);
    };
    int fewest = policy == TopologyManagerPolicy::kSingleNumaNode ? 1 : 0;
    bool fits = false;
    ForEachSubset(machine_->numa_with_cpus(), [&](NumaMask nodes) {
      if (fewest == 0 && is_sum(nodes, machine_->cpus())) fewest = nodes.Count();
      const bool may_be = policy == TopologyManagerPolicy::kBestEffort || nodes.Count() == fewest;
      fits = fits || (may_be && is_sum(nodes, free_));
    });
    return fits;
  }

  Random random_;
  std::optional<Machine> machine_;
  std::optional<Node> node_;
  NodeState state_;
  CpuSet free_;
  int count_ = 0;
};

TEST_F(OwnCpusProperty, RequiredFullPcpusIsASetOfWholeCoresIfThereIsOne) {
  int admitted = 0;
  int refused = 0;
  for (int round = Iterations(500); round > 0; --round) {
    ASSERT_NO_FATAL_FAILURE(Draw());
    if (HasOption("distribute-cpus-across-cores")) continue;
    const CpuSet whole = WholeCoresByDefinition(*machine_, free_);
    const bool fits =
        count_ % machine_->cpus_per_core() == 0 && IsSumOfCores(*machine_, whole, count_);
    const std::optional<CpuSet> cpus = CpusOf({.required_bind = Bind::kFullPcpus});
    ASSERT_EQ(cpus.has_value(), fits) << Where();
    if (cpus) {
      ASSERT_EQ(WholeCoresByDefinition(*machine_, *cpus), *cpus) << Where();
    }
    ++(cpus ? admitted : refused);
  }
  EXPECT_GT(admitted, 0);
  EXPECT_GT(refused, 0);
}

TEST_F(OwnCpusProperty, RequiredSpreadingIsOneCpuOfEachCoreIfThereAreEnough) {
  int admitted = 0;
  int refused = 0;
  for (int round = Iterations(500); round > 0; --round) {
    ASSERT_NO_FATAL_FAILURE(Draw());
    if (HasOption("full-pcpus-only")) continue;
    const auto cores = static_cast<int>(CoresIn(*machine_, free_).size());
    const std::optional<CpuSet> cpus = CpusOf({.required_bind = Bind::kSpreadByPcpus});
    ASSERT_EQ(cpus.has_value(), count_ <= cores) << Where();
    if (cpus) {
      ASSERT_EQ(static_cast<int>(CoresIn(*machine_, *cpus).size()), count_) << Where();
    }
    ++(cpus ? admitted : refused);
  }
  EXPECT_GT(admitted, 0);
  EXPECT_GT(refused, 0);
}

// Without NUMA nodes or caches that differ, as many cores as there can be.
TEST_F(OwnCpusProperty, PreferredSpreadingIsOptimalWhereTheOptionsPutThePod) {
  int spread = 0;
  for (int round = Iterations(500); round > 0; --round) {
    ASSERT_NO_FATAL_FAILURE(Draw());
    const std::optional<CpuSet> plain = CpusOf({});
    const std::optional<CpuSet> cpus = CpusOf({.preferred_bind = Bind::kSpreadByPcpus});
    ASSERT_EQ(cpus.has_value(), plain.has_value()) << Where();
    if (!cpus) continue;
    if (HasOption("full-pcpus-only")) {
      ASSERT_EQ(*cpus, *plain) << Where();
      continue;
    }
    std::map<std::pair<int, int>, CpuSet> places;
    for (const Cpu& row : machine_->cpu_rows()) {
      const bool by_cache = HasOption("prefer-align-cpus-by-uncorecache");
      places[{row.numa, by_cache ? row.uncore : 0}].Add(row.cpu);
    }
    for (const auto& [key, place] : places) {
      const CpuSet here = *cpus & place;
      ASSERT_EQ(here.Count(), plain->CountCommon(place)) << Where() << " " << cpus->ToString();
      const size_t cores = CoresIn(*machine_, free_ & place).size();
      ASSERT_EQ(CoresIn(*machine_, here).size(),
                std::min<size_t>(cores, static_cast<size_t>(here.Count())))
          << Where() << " " << cpus->ToString();
    }
    if (*cpus != *plain) ++spread;
  }
  EXPECT_GT(spread, 0);
}

TEST_F(OwnCpusProperty, PreferredFullPcpusIsWhatTheOptionsPack) {
  for (int round = Iterations(500); round > 0; --round) {
    ASSERT_NO_FATAL_FAILURE(Draw());
    const std::optional<CpuSet> plain = CpusOf({});
    const std::optional<CpuSet> cpus = CpusOf({.preferred_bind = Bind::kFullPcpus});
    ASSERT_EQ(cpus.has_value(), plain.has_value()) << Where();
    if (!HasOption("distribute-cpus-across-numa")) {
      ASSERT_EQ(cpus, plain) << Where();
    }
  }
}

// What the pod stays away from, row by row.
CpuSet AvoidedByDefinition(const Machine& machine, const NodeState& state,
                           CpuExclusivePolicy policy) {
  CpuSet avoided;
  for (const auto& [uid, chosen] : state.chosen_policies) {
    if (chosen.exclusive != policy) continue;
    for (const int taken : state.cpu.HeldBy(uid)) {
      for (const Cpu& row : machine.cpu_rows()) {
        const Cpu& other = machine.Row(taken);
        const bool is_near = policy == CpuExclusivePolicy::kPcpuLevel ? row.core == other.core
                                                                      : row.numa == other.numa;
        if (is_near) avoided.Add(row.cpu);
      }
    }
  }
  return avoided;
}

TEST_F(OwnCpusProperty, AnExclusivePolicyIsFollowedWhereThatCostsNothing) {
  int apart = 0;
  int together = 0;
  for (int round = Iterations(1000); round > 0; --round) {
    ASSERT_NO_FATAL_FAILURE(Draw());
    for (const auto policy : {CpuExclusivePolicy::kPcpuLevel, CpuExclusivePolicy::kNumaNodeLevel}) {
      const CpuSet avoided = AvoidedByDefinition(*machine_, state_, policy);
      const Admission anywhere = DecideOn(*node_, state_, PodOf(count_, {}));
      const Admission ours = DecideOn(*node_, state_, PodOf(count_, {.exclusive = policy}));
      ASSERT_EQ(ours.admitted(), anywhere.admitted()) << Where();
      if (!ours.admitted()) continue;
      const CpuSet near = anywhere.next.cpu.HeldBy("p");
      std::optional<CpuSet> far;
      for (const CpuSet& place : PlacesInOrder(free_ - avoided)) {
        const CpuSet out = free_ - (place - avoided);
        const Admission away = DecideOn(*node_, WithoutFree(state_, out), PodOf(count_, {}));
        const CpuSet cpus = away.next.cpu.HeldBy("p");
        if (!away.admitted()) continue;
        if (machine_->NumaOf(cpus).Count() > machine_->NumaOf(near).Count()) continue;
        far = cpus;
        break;
      }
      ASSERT_EQ(ours.next.cpu.HeldBy("p"), far.value_or(near))
          << Where() << " avoided " << avoided.ToString();
      ++(far ? apart : together);
    }
  }
  EXPECT_GT(apart, 0);
  EXPECT_GT(together, 0);
}

// The hints are those of a node on which nothing else is free. Where cores have different sizes,
// they count which numbers of CPUs whole cores have.
TEST_F(OwnCpusProperty, TheAlignmentCountsWhatThePodCanHave) {
  std::map<bool, int> aligned;
  std::map<bool, int> of_any_size;
  for (int round = Iterations(500); round > 0; --round) {
    ASSERT_NO_FATAL_FAILURE(Draw());
    KubeletConfig config = node_->config;
    config.topology_manager_policy = random_.OneOf<TopologyManagerPolicy>(
        {TopologyManagerPolicy::kBestEffort, TopologyManagerPolicy::kRestricted,
         TopologyManagerPolicy::kSingleNumaNode});
    config.cpu_manager_policy_options.clear();
    const Result<Node> node = Node::Make(*machine_, config);
    ASSERT_TRUE(node.ok()) << node.error().Text();
    for (const Bind bind : {Bind::kFullPcpus, Bind::kSpreadByPcpus}) {
      CpuSet usable;
      if (bind == Bind::kFullPcpus) {
        usable = WholeCoresByDefinition(*machine_, free_);
      } else {
        for (const auto& [core, cpus] : CoresIn(*machine_, free_)) usable.Add(cpus.First());
      }
      const Admission ours = DecideOn(*node, state_, PodOf(count_, {.required_bind = bind}));
      if (bind == Bind::kFullPcpus && HasCoresOfDifferentSizes(*machine_)) {
        ASSERT_EQ(ours.admitted(), FitsOnWholeCores(config.topology_manager_policy)) << Where();
        ++of_any_size[ours.admitted()];
        continue;
      }
      const Admission plain =
          DecideOn(*node, WithoutFree(state_, free_ - usable), PodOf(count_, {}));
      ASSERT_EQ(ours.decisions.at(0).affinity, plain.decisions.at(0).affinity) << Where();
      const auto by_topology = [](const Admission& admission) {
        return admission.refused_at && admission.refused_at->by == RefusedBy::kTopology;
      };
      ASSERT_EQ(by_topology(ours), by_topology(plain)) << Where();
      if (bind == Bind::kSpreadByPcpus) {
        ASSERT_EQ(ours.next.cpu.HeldBy("p"), plain.next.cpu.HeldBy("p")) << Where();
      }
      if (ours.admitted() && config.topology_manager_policy != TopologyManagerPolicy::kBestEffort) {
        const CpuSet cpus = ours.next.cpu.HeldBy("p");
        const std::optional<NumaMask>& nodes = ours.decisions.at(0).affinity->affinity;
        ASSERT_TRUE(!nodes || nodes->Contains(machine_->NumaOf(cpus))) << Where();  // none: any
      }
      ++aligned[ours.admitted()];
    }
  }
  EXPECT_GT(aligned[true], 0);
  EXPECT_GT(aligned[false], 0);
  EXPECT_GT(of_any_size[true], 0);
  EXPECT_GT(of_any_size[false], 0);
}

}  // namespace
}  // namespace alignd::admission
