// The defaults of a namespace against a definition: a pod without annotations is decided as one
// that asks by annotation for what its namespace has by default, on a node whose pods may choose
// all of it; where a pod may choose, its own values come first.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "alignd/admission/admission.h"
#include "alignd/admission/own_policy.h"
#include "core/crowded_node.h"
#include "core/machine_builder.h"
#include "core/random_planned.h"

namespace alignd::admission {
namespace {

constexpr char kTeam[] = "team-a";

std::string SharingOf(const std::string& container) {
  return "prefer-shared-cpus.resource-policy.nri.io/container." + container;
}

void AskRandomly(Pod& pod, Random& random) {
  PodPolicies& asked = pod.policies;
  const PlacementPolicies wishes = placement::RandomPlacement(random);
  asked.numa_topology = wishes.numa_topology;
  asked.keeps_numa_apart = wishes.keeps_numa_apart;
  asked.required_bind = wishes.required_bind;
  asked.preferred_bind = wishes.preferred_bind;
  asked.exclusive = wishes.exclusive;
  asked.shared_on_one_node = wishes.shared_on_one_node;
  for (const Container& container : pod.containers) {
    if (!random.OnceIn(4)) continue;
    ReadSharingAnnotation(SharingOf(container.name), random.OnceIn(2) ? "true" : "false",
                          asked.sharing);
  }
}

// What the pod would ask for by annotation.
class Definition {
 public:
  Definition(const KubeletConfig& config, const Pod& pod) : pod_(pod) {
    const auto in_team = [&](PodPolicy policy) {
      const bool is_there = pod.name_space == kTeam && !config.namespace_policies.empty();
      return is_there ? config.namespace_policies[0].pod_policies.contains(policy)
                      : config.pod_policies.contains(policy);
    };
    PlacementPolicies defaults;
    if (pod.name_space == kTeam && !config.namespace_policies.empty()) {
      defaults = config.namespace_policies[0].defaults;
    }
    const PodPolicies& asked = pod.policies;
    PodPolicies& own = pod_.policies;
    own = {};
    const bool topology = in_team(PodPolicy::kNumaTopologyPolicy);
    own.numa_topology = defaults.numa_topology;
    if (topology && asked.numa_topology) {
      own.numa_topology = asked.numa_topology;
      const bool has_none = config.topology_manager_policy == TopologyManagerPolicy::kNone;
      contradicts_ =
          has_none && defaults.numa_topology && *own.numa_topology < *defaults.numa_topology;
    }
    own.keeps_numa_apart = defaults.keeps_numa_apart || (topology && asked.keeps_numa_apart);
    const bool bind = in_team(PodPolicy::kCpuBindPolicy);
    own.required_bind = bind && asked.required_bind ? asked.required_bind : defaults.required_bind;
    requires_itself_ = bind && asked.required_bind;
    if (defaults.required_bind && own.required_bind != defaults.required_bind) contradicts_ = true;
    own.preferred_bind =
        bind && asked.preferred_bind ? asked.preferred_bind : defaults.preferred_bind;
    own.exclusive = in_team(PodPolicy::kCpuExclusivePolicy) && asked.exclusive ? asked.exclusive
                                                                               : defaults.exclusive;
    own.shared_on_one_node = defaults.shared_on_one_node ||
                             (in_team(PodPolicy::kSharedNumaNode) && asked.shared_on_one_node);
    for (const Container& container : pod.containers) {
      std::optional<bool> shares;
      if (in_team(PodPolicy::kPreferSharedCpus))
        shares = PrefersShared(asked.sharing, container.name);
      if (!shares && defaults.prefers_shared_cpus) shares = true;
      if (shares == true) {
        ReadSharingAnnotation(SharingOf(container.name), "true", own.sharing);
      }
    }
  }

  // A bind policy by default is for exclusive CPUs: without any, it has no effect.
  Pod WithoutDefaultBind() const {
    Pod pod = pod_;
    if (!requires_itself_) pod.policies.required_bind.reset();
    return pod;
  }

  const Pod& pod() const { return pod_; }
  bool contradicts() const { return contradicts_; }

 private:
  Pod pod_;
  bool contradicts_ = false;
  bool requires_itself_ = false;
};

class OwnDefaultsProperty : public testing::Test {
 protected:
  // A node with defaults, and the same whose pods ask for them.
  bool Draw() {
    machine_ = WithRandomMemory(RandomMachine(random_), random_);
    KubeletConfig config = RandomConfig(random_);
    if (!random_.OnceIn(4)) config.topology_manager_policy = TopologyManagerPolicy::kNone;
    if (random_.OnceIn(4)) config.cpu_manager_policy_options["full-pcpus-only"] = "true";
    const auto some = [&] {
      std::set<PodPolicy> list;
      for (const PodPolicy policy : AllPolicies()) {
        if (random_.OnceIn(2)) list.insert(policy);
      }
      return list;
    };
    config.pod_policies = some();
    config.namespace_policies = {{{kTeam}, some(), placement::RandomPlacement(random_)}};
    Result<Node> node = Node::Make(*machine_, config);
    if (!node.ok()) return false;  // a default contradicts the node
    node_ = *std::move(node);
    config.namespace_policies.clear();
    config.pod_policies = AllPolicies();
    node = Node::Make(*machine_, config);
    if (!node.ok()) return false;
    defined_ = *std::move(node);
    state_ = NodeState::Initial(*node_);
    defined_state_ = NodeState::Initial(*defined_);
    return true;
  }

  static std::set<PodPolicy> AllPolicies() {
    return {PodPolicy::kNumaTopologyPolicy, PodPolicy::kCpuBindPolicy,
            PodPolicy::kCpuExclusivePolicy, PodPolicy::kPreferSharedCpus,
            PodPolicy::kSharedNumaNode};
  }

  Pod RandomOne(int number) {
    Pod pod = RandomPod("p" + std::to_string(number), *machine_, 0, random_);
    pod.name_space = random_.OnceIn(4) ? "default" : kTeam;
    if (random_.OnceIn(3)) {  // Burstable
      for (Container& container : pod.containers) container.resources.limits.erase("cpu");
    }
    if (random_.OnceIn(2)) AskRandomly(pod, random_);
    return pod;
  }

  // Both decide alike; the pod is placed.
  void Decide(const Pod& pod) {
    const Definition definition(node_->config, pod);
    const Admission with_defaults = Admit(*node_, state_, pod, devicemanager::NoPreference);
    if (definition.contradicts()) {
      ++seen_["contradicts"];
      if (with_defaults.admitted()) {  // nothing of it is aligned
        EXPECT_EQ(with_defaults.next.cpu.assignments, state_.cpu.assignments);
      } else {
        EXPECT_EQ(with_defaults.refusal->reason, kPodPolicyError) << with_defaults.refusal->message;
      }
      return;
    }
    Admission defined =
        Admit(*defined_, defined_state_, definition.pod(), devicemanager::NoPreference);
    if (defined.refusal && defined.refusal->reason == kPodPolicyError &&
        definition.pod().policies.required_bind) {
      defined = Admit(*defined_, defined_state_, definition.WithoutDefaultBind(),
                      devicemanager::NoPreference);
    }
    ASSERT_EQ(with_defaults.admitted(), defined.admitted())
        << (with_defaults.refusal ? with_defaults.refusal : defined.refusal)->message << "\n"
        << DescribePodPolicy(*node_, pod);
    ++seen_[defined.admitted() ? "admitted" : "refused"];
    if (defined.refusal) {
      EXPECT_EQ(with_defaults.refusal->reason, defined.refusal->reason);
    }
    EXPECT_EQ(with_defaults.assignments, defined.assignments) << DescribePodPolicy(*node_, pod);
    EXPECT_EQ(with_defaults.decisions, defined.decisions);
    EXPECT_EQ(with_defaults.next.cpu, defined.next.cpu);
    EXPECT_EQ(with_defaults.next.memory, defined.next.memory);
    EXPECT_TRUE(with_defaults.next.BrokenInvariants(*node_).empty());
    if (!(definition.pod().policies == pod.policies)) ++seen_["differs from its annotations"];
    CheckRunning(pod, with_defaults);
    state_ = with_defaults.next;
    defined_state_ = defined.next;
  }

  // A pod with exclusive CPUs has the policies after a restart that it had before, if there was
  // only the configuration that there is. Of the topology policy, only what its assignment shows:
  // it can be unknown, if the pod was placed beside others, and is no other one.
  void CheckRunning(const Pod& pod, const Admission& admission) {
    if (!admission.admitted()) return;
    const auto chosen = admission.next.chosen_policies.find(pod.uid);
    if (chosen == admission.next.chosen_policies.end()) return;
    const bool holds = std::ranges::any_of(admission.assignments, [](const auto& assignment) {
      return !assignment.second.exclusive.empty();
    });
    if (!holds) return;
    NodeState restarted = admission.next;
    restarted.chosen_policies.clear();
    PodPolicies asked = pod.policies;
    asked.name_space = pod.name_space;
    const NodeState learned = WithPolicies(*node_, restarted, {{pod.uid, asked}});
    const auto again = learned.chosen_policies.find(pod.uid);
    PodPolicies known = again == learned.chosen_policies.end() ? PodPolicies() : again->second;
    if (known.numa_topology) ++seen_["runs with its topology policy"];
    if (!known.numa_topology) {
      known.numa_topology = chosen->second.numa_topology;
      known.name_space = pod.name_space;
    }
    EXPECT_EQ(known, chosen->second) << DescribePodPolicy(*node_, pod);
    ++seen_["runs with policies"];
  }

  Random random_;
  std::optional<Machine> machine_;
  std::optional<Node> node_;
  std::optional<Node> defined_;
  NodeState state_;
  NodeState defined_state_;
  std::map<std::string, int> seen_;
};

TEST_F(OwnDefaultsProperty, AreAsAnnotations) {
  int nodes = 0;
  for (int run = 0; run < Iterations(1500) && !HasFailure(); ++run) {
    if (!Draw()) continue;
    ++nodes;
    for (int number = 0; number < 4 && !HasFailure(); ++number) Decide(RandomOne(number));
  }
  EXPECT_GT(nodes, 100);
  for (const char* const kind :
       {"admitted", "refused", "contradicts", "differs from its annotations", "runs with policies",
        "runs with its topology policy"}) {
    EXPECT_GT(seen_[kind], 20) << kind;
  }
}

}  // namespace
}  // namespace alignd::admission
