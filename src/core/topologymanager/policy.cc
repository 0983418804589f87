#include "alignd/topologymanager/policy.h"

#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/topologymanager/config_problems.h"

namespace alignd::topologymanager {
namespace {

constexpr std::string_view kPreferClosest = "prefer-closest-numa-nodes";
constexpr std::string_view kMaxAllowable = "max-allowable-numa-nodes";
constexpr int kSmallestMaxAllowable = 8;

Error Invalid(std::string message, std::string remedy) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)};
}

std::string Quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

struct Options {
  bool prefer_closest = false;
  std::optional<int> max_allowable;
};

Result<int> ParseMaxAllowable(const std::string& value) {
  int number = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stop != end) {
    return Invalid("unable to convert policy option to integer " + Quoted(kMaxAllowable) +
                       ": strconv.Atoi: parsing " + Quoted(value) + ": invalid syntax",
                   "give a whole number of at least 8, or remove the option");
  }
  if (number < kSmallestMaxAllowable) {
    return Invalid("the minimum value of " + Quoted(kMaxAllowable) + " should not be less than 8",
                   "it is " + value + "; raise or remove it");
  }
  return number;
}

Result<Done> SetOption(const std::string& name, const std::string& value, Options& options) {
  if (name == kPreferClosest) {
    const std::optional<bool> on = ParseGoBool(value);
    if (!on) {
      return Invalid("bad value for option " + Quoted(name) + ": strconv.ParseBool: parsing " +
                         Quoted(value) + ": invalid syntax",
                     "give true or false");
    }
    options.prefer_closest = *on;
    return Done{};
  }
  if (name == kMaxAllowable) {
    const Result<int> number = ParseMaxAllowable(value);
    if (!number.ok()) return number.error();
    options.max_allowable = *number;
    return Done{};
  }
  return Invalid(
      "unknown Topology Manager Policy option: " + Quoted(name),
      SuggestName(name, {kPreferClosest, kMaxAllowable},
                  "known are " + Quoted(kPreferClosest) + " and " + Quoted(kMaxAllowable)));
}

// The four kinds of answers become lists to combine.
// Source: policy.go, filterProvidersHints.
std::vector<Hints> ToLists(const std::vector<HintsByResource>& answers) {
  std::vector<Hints> lists;
  for (const HintsByResource& answer : answers) {
    if (answer.empty()) lists.push_back({{std::nullopt, true}});
    for (const auto& [resource, hints] : answer) {
      if (!hints) {
        lists.push_back({{std::nullopt, true}});
      } else if (hints->empty()) {
        lists.push_back({{std::nullopt, false}});
      } else {
        lists.push_back(*hints);
      }
    }
  }
  return lists;
}

// The hints that single-numa-node uses: preferred, and for any or exactly one NUMA node.
// Source: policy_single_numa_node.go, filterSingleNumaHints.
Hints OnlySingleNuma(const Hints& hints) {
  HintList usable;
  for (const TopologyHint& hint : hints.listed()) {
    if (hint.preferred && (!hint.affinity || hint.affinity->Count() == 1)) usable.push_back(hint);
  }
  if (const DescribedHints* described = hints.described()) {
    for (const int node : described->sets.within) {
      const NumaMask mask = NumaMask::Of(node);
      if (described->IsPreferred(mask) && described->sets.Contains(mask)) {
        usable.push_back({mask, true});
      }
    }
  }
  return {std::move(usable), hints};
}

// Source: numa_info.go, NewNUMAInfo.
Result<Done> RequireDistances(const Machine& machine) {
  for (const NumaNode& node : machine.numa()) {
    if (!node.distances.empty()) continue;
    return Invalid("cannot discover NUMA topology: error getting NUMA distances from cadvisor",
                   "the machine shows no distances for NUMA node " + std::to_string(node.id) +
                       "; remove " + Quoted(kPreferClosest) + " from topologyManagerPolicyOptions");
  }
  return Done{};
}

std::vector<ConfigProblem> ReadOptions(const Machine& machine, const KubeletConfig& config,
                                       Options& options) {
  std::vector<ConfigProblem> problems;
  const bool pods_choose = PodPoliciesAnywhere(config).contains(PodPolicy::kNumaTopologyPolicy);
  if (config.topology_manager_policy == TopologyManagerPolicy::kNone && !pods_choose) {
    return problems;
  }
  const std::map<std::string, std::string>& written = config.topology_manager_policy_options;
  const auto add = [&](std::string_view name, const Error& error) {
    problems.push_back({"topologyManagerPolicyOptions." + std::string(name),
                        written.at(std::string(name)), error});
  };
  for (const auto& [name, value] : written) {
    const Result<Done> set = SetOption(name, value, options);
    if (!set.ok()) add(name, set.error());
  }
  if (options.prefer_closest) {
    const Result<Done> known = RequireDistances(machine);
    if (!known.ok()) add(kPreferClosest, known.error());
  }
  if (options.max_allowable && machine.numa_count() > *options.max_allowable) {
    add(kMaxAllowable, Invalid("unsupported on machines with more than " +
                                   std::to_string(*options.max_allowable) + " NUMA Nodes",
                               "this one has " + std::to_string(machine.numa_count()) +
                                   "; raise or remove " + Quoted(kMaxAllowable)));
  }
  return problems;
}

}  // namespace

std::vector<ConfigProblem> FindProblems(const Machine& machine, const KubeletConfig& config) {
  Options options;
  return ReadOptions(machine, config, options);
}

Result<Policy> Policy::Make(const Machine& machine, const KubeletConfig& config) {
  const TopologyManagerPolicy kind = config.topology_manager_policy;
  Options options;
  const std::vector<ConfigProblem> problems = ReadOptions(machine, config, options);
  if (!problems.empty()) return problems.front().error;
  MergeRules rules{.as_1_20 = config.compatibility == Compatibility::k1_20};
  // Every candidate of single-numa-node has one node, so distances make no difference.
  rules.prefer_closest = options.prefer_closest && kind != TopologyManagerPolicy::kSingleNumaNode;
  return Policy(kind, config.topology_manager_scope, NumaInfo(machine), rules);
}

std::vector<Hints> Policy::Lists(const std::vector<HintsByResource>& answers) const {
  std::vector<Hints> lists = ToLists(answers);
  if (kind_ == TopologyManagerPolicy::kSingleNumaNode) {
    for (Hints& hints : lists) hints = OnlySingleNuma(hints);
  }
  return lists;
}

MergedHint Policy::Merge(const std::vector<HintsByResource>& answers) const {
  TopologyHint hint = MergeHints(numa_, Lists(answers), rules_);
  switch (kind_) {
    case TopologyManagerPolicy::kSingleNumaNode:
      if (hint.affinity == numa_.all()) hint.affinity = std::nullopt;
      return {hint, hint.preferred};
    case TopologyManagerPolicy::kRestricted:
    case TopologyManagerPolicy::kBestAttainable:
      return {hint, hint.preferred};
    case TopologyManagerPolicy::kNone:
    case TopologyManagerPolicy::kBestEffort:
      break;
  }
  return {hint, true};
}

bool AlignsBetter(const TopologyHint& a, const TopologyHint& b) {
  if (a.preferred || b.preferred) return a.preferred && !b.preferred;
  const auto nodes = [](const TopologyHint& hint) {
    return hint.affinity ? hint.affinity->Count() : 0;  // any NUMA node will do
  };
  return nodes(a) < nodes(b);
}

Refusal TopologyAffinityError() {
  return {"TopologyAffinityError", "Resources cannot be allocated with Topology locality"};
}

}  // namespace alignd::topologymanager
