#include "core/admission/own_defaults.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "alignd/admission/own_policy.h"
#include "core/admission/held_resources.h"
#include "core/admission/own_cpus.h"

namespace alignd::admission {
namespace {

// The problems of one entry.
class EntryProblems {
 public:
  EntryProblems(const KubeletConfig& config, std::optional<CpuBindPolicy> bind, size_t position,
                std::vector<ConfigProblem>& problems)
      : config_(config),
        bind_(bind),
        entry_(config.namespace_policies[position]),
        path_("namespacePolicies[" + std::to_string(position) + "].defaults."),
        problems_(problems) {}

  void Find() {
    for (const auto& [name, value] : ToTexts(entry_.defaults)) {
      if (name == "numaTopologyPolicy") {
        CheckTopology(name, value);
      } else if (name == "singleNUMANodeExclusive") {
        CheckApart(name, value);
      } else if (config_.cpu_manager_policy == CpuManagerPolicy::kNone) {
        Add(name, value, "has no effect, because cpuManagerPolicy is none",
            "set cpuManagerPolicy to static, or remove " + name);
      }
    }
    if (config_.cpu_manager_policy == CpuManagerPolicy::kNone) return;
    CheckBind("requiredCPUBindPolicy", entry_.defaults.required_bind);
    CheckBind("preferredCPUBindPolicy", entry_.defaults.preferred_bind);
  }

 private:
  void CheckTopology(const std::string& name, const std::string& value) {
    const TopologyManagerPolicy of_node = config_.topology_manager_policy;
    const TopologyManagerPolicy wanted = ManagerPolicyOf(*entry_.defaults.numa_topology);
    if (of_node == TopologyManagerPolicy::kNone || of_node == wanted) return;
    Add(name, value, "contradicts topologyManagerPolicy " + std::string(ToString(of_node)),
        "remove numaTopologyPolicy: the policy of the node applies to all pods; or set "
        "topologyManagerPolicy to none or " +
            std::string(ToString(wanted)));
  }

  void CheckApart(const std::string& name, const std::string& value) {
    const bool has_policy = config_.topology_manager_policy != TopologyManagerPolicy::kNone ||
                            entry_.defaults.numa_topology ||
                            entry_.pod_policies.contains(PodPolicy::kNumaTopologyPolicy);
    if (has_policy) return;
    Add(name, value, "has no effect, because topologyManagerPolicy is none",
        "add numaTopologyPolicy to these defaults, or set topologyManagerPolicy");
  }

  void CheckBind(const std::string& name, const std::optional<CpuBindPolicy>& wanted) {
    if (!wanted || !bind_ || *bind_ == *wanted) return;
    Add(name, std::string(ToString(*wanted)),
        "contradicts option " + OptionOf(*bind_) + " of cpuManagerPolicyOptions",
        "remove " + name + ": the option applies to all pods; or remove the option");
  }

  void Add(const std::string& name, const std::string& value, const std::string& why,
           std::string remedy) {
    problems_.push_back({path_ + name,
                         value,
                         {ErrorCode::kInvalidArgument, path_ + name + ": " + value + " " + why,
                          std::move(remedy)}});
  }

  const KubeletConfig& config_;
  const std::optional<CpuBindPolicy> bind_;  // of the node
  const NamespacePolicies& entry_;
  const std::string path_;
  std::vector<ConfigProblem>& problems_;
};

// The policies with which a pod that has something assigned has been admitted; null: it has none.
const PodPolicies* PoliciesOfHolder(const NodeState& state, const std::string& pod_uid) {
  const auto found = state.chosen_policies.find(pod_uid);
  if (found == state.chosen_policies.end()) return nullptr;
  const bool holds = std::ranges::any_of(
      HoldersIn(state), [&](const ContainerKey& key) { return key.pod_uid == pod_uid; });
  return holds ? &found->second : nullptr;
}

}  // namespace

const PlacementPolicies& DefaultsOf(const Node& node, const Pod& pod) {
  return pod.defaults ? *pod.defaults : DefaultPoliciesFor(node.config, pod.name_space);
}

PlacementPolicies FollowedPolicies(const Node& node, const Pod& pod) {
  PlacementPolicies followed = DefaultsOf(node, pod);
  const std::set<PodPolicy>& allowed = PodPoliciesFor(node.config, pod.name_space);
  if (allowed.empty()) return followed;
  const PodPolicies& asked = pod.policies;
  const auto take = [](const auto& given, auto& member) {
    if (given) member = given;
  };
  if (allowed.contains(PodPolicy::kNumaTopologyPolicy)) {
    take(asked.numa_topology, followed.numa_topology);
    take(asked.keeps_numa_apart, followed.keeps_numa_apart);
  }
  if (allowed.contains(PodPolicy::kCpuBindPolicy)) {
    take(asked.required_bind, followed.required_bind);
    take(asked.preferred_bind, followed.preferred_bind);
  }
  if (allowed.contains(PodPolicy::kCpuExclusivePolicy)) take(asked.exclusive, followed.exclusive);
  if (allowed.contains(PodPolicy::kSharedNumaNode)) {
    take(asked.shared_on_one_node, followed.shared_on_one_node);
  }
  return followed;
}

PodPolicies PoliciesAfter(const Node& node, const NodeState& before, const NodeState& after,
                          const Pod& pod) {
  PodPolicies chosen = ChosenPolicies(node, pod);
  const auto lie_as = [&](const std::optional<CpuBindPolicy>& required) {
    return required && LieAs(*required, node, after, pod.uid);
  };
  if (!lie_as(chosen.required_bind)) chosen.required_bind.reset();
  const auto known = before.chosen_policies.find(pod.uid);
  if (known == before.chosen_policies.end() || known->second == chosen) return chosen;
  const PodPolicies* const kept = PoliciesOfHolder(before, pod.uid);
  if (kept == nullptr) return chosen;
  // Where there is no default, only the annotation of now says what the pod asks for.
  const PlacementPolicies& defaults = DefaultsOf(node, pod);
  if (defaults.numa_topology) {
    chosen.numa_topology = std::max(chosen.numa_topology, kept->numa_topology);
  }
  if (defaults.required_bind && lie_as(kept->required_bind)) {
    chosen.required_bind = kept->required_bind;
  }
  if (defaults.preferred_bind && kept->preferred_bind) chosen.preferred_bind = kept->preferred_bind;
  if (defaults.exclusive && kept->exclusive) chosen.exclusive = kept->exclusive;
  if (!AreEmpty(chosen)) chosen.name_space = pod.name_space;
  return chosen;
}

Pod WithoutLaterDefaults(const Node& node, const NodeState& state, const Pod& pod) {
  const PlacementPolicies& defaults = DefaultsOf(node, pod);
  if (!defaults.numa_topology && !defaults.required_bind) return pod;
  const PodPolicies* const kept = PoliciesOfHolder(state, pod.uid);
  if (kept == nullptr) return pod;
  const PodPolicies& asked = pod.policies;
  return WithDefaults(node, pod, [&](PlacementPolicies& left) {
    if (kept->numa_topology && kept->numa_topology <= asked.numa_topology) {
      left.numa_topology.reset();
    }
    if (kept->required_bind && kept->required_bind == asked.required_bind) {
      left.required_bind.reset();
    }
  });
}

std::string OfDefaults(const Pod& pod, std::string_view name, std::string_view value) {
  return std::string(name) + " " + std::string(value) + " of " + DefaultsText(pod);
}

std::string DefaultsText(const Pod& pod) { return "the defaults of namespace " + pod.name_space; }

KubeletConfig WithTopologyPolicy(KubeletConfig config, TopologyManagerPolicy policy) {
  config.topology_manager_policy = policy;
  for (NamespacePolicies& entry : config.namespace_policies) {
    entry.defaults.numa_topology.reset();
    if (policy == TopologyManagerPolicy::kNone) entry.defaults.keeps_numa_apart = false;
  }
  return config;
}

std::string WithoutDefaultTopology(const KubeletConfig& config) {
  const bool has_any = std::ranges::any_of(
      config.namespace_policies,
      [](const NamespacePolicies& entry) { return entry.defaults.numa_topology.has_value(); });
  return has_any ? " and no numaTopologyPolicy among the defaults in namespacePolicies" : "";
}

std::vector<ConfigProblem> FindDefaultProblems(const KubeletConfig& config,
                                               const cpumanager::PolicyOptions& options) {
  std::vector<ConfigProblem> problems;
  for (size_t i = 0; i < config.namespace_policies.size(); ++i) {
    EntryProblems(config, BindPolicyOf(options), i, problems).Find();
  }
  return problems;
}

}  // namespace alignd::admission
