#include "core/config/switches.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/config/config_problem.h"
#include "alignd/config/pod_policy_switch.h"
#include "alignd/pod/resource_name.h"
#include "core/pod/default_policies.h"

namespace alignd {
namespace {

using json::View;

constexpr std::array kPodPolicies = {PodPolicy::kNumaTopologyPolicy, PodPolicy::kCpuBindPolicy,
                                     PodPolicy::kCpuExclusivePolicy, PodPolicy::kResourceStatus,
                                     PodPolicy::kQosClass,           PodPolicy::kPreferSharedCpus,
                                     PodPolicy::kPreferIsolatedCpus, PodPolicy::kSharedNumaNode};

Result<PodPolicy> PodPolicyNamed(std::string_view name) {
  std::vector<std::string_view> names;
  std::string list = "known are";
  for (const PodPolicy policy : kPodPolicies) {
    if (name == ToString(policy)) return policy;
    list += (names.empty() ? " " : ", ") + std::string(ToString(policy));
    names.push_back(ToString(policy));
  }
  return Error{ErrorCode::kInvalidArgument,
               "\"" + std::string(name) + "\" is no policy that pods can choose",
               SuggestName(name, names, list)};
}

Result<std::set<PodPolicy>> ReadPolicies(const View& list) {
  const Result<std::vector<View>> elements = list.Elements();
  if (!elements.ok()) return elements.error();
  std::set<PodPolicy> policies;
  for (const View& element : *elements) {
    const Result<std::string> name = element.String();
    if (!name.ok()) return name.error();
    const Result<PodPolicy> policy = PodPolicyNamed(*name);
    if (!policy.ok()) return policy.error().In(element.path());
    policies.insert(*policy);
  }
  return policies;
}

constexpr char kAnyEnding = '*';

// A namespace, or the beginning of several with a `*` after it.
// Source: kubernetes apimachinery pkg/util/validation, IsDNS1123Label.
bool IsNamespacePattern(std::string_view name) {
  constexpr size_t kLongestLabel = 63;
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const bool is_beginning = name.ends_with(kAnyEnding);
  if (is_beginning) name.remove_suffix(1);
  return !name.empty() && name.size() <= kLongestLabel && is_plain(name.front()) &&
         (is_beginning || is_plain(name.back())) &&
         std::ranges::all_of(name, [&](char c) { return is_plain(c) || c == '-'; });
}

bool StandsFor(std::string_view pattern, std::string_view name_space) {
  if (!pattern.ends_with(kAnyEnding)) return pattern == name_space;
  pattern.remove_suffix(1);
  return name_space.starts_with(pattern);
}

// All names before: their paths and what they are.
using NamesBefore = std::vector<std::pair<std::string, std::string>>;

Result<std::vector<std::string>> ReadNamespaces(const View& list, NamesBefore& before) {
  const Result<std::vector<View>> elements = list.Elements();
  if (!elements.ok()) return elements.error();
  if (elements->empty()) return list.Wrong("is empty");
  std::vector<std::string> names;
  for (const View& element : *elements) {
    Result<std::string> name = element.String();
    if (!name.ok()) return name.error();
    if (!IsNamespacePattern(*name)) {
      return element.IsNot(R"(a namespace, such as "team-a", or the beginning of several, such as )"
                           R"("team-*")");
    }
    for (const auto& [path, earlier] : before) {
      // Of "team-a*", "team-*" covers all: the beginning without its `*` is one of them.
      const bool is_covered = *name == earlier || (earlier.ends_with(kAnyEnding) &&
                                                   StandsFor(earlier, std::string_view(*name)));
      if (!is_covered) continue;
      Error error = element.Wrong("has no effect: " + path + ", \"" + earlier + "\", comes first");
      error.remedy = "remove one of them, or write the entry with \"" + *name + "\" first";
      return error;
    }
    before.emplace_back(element.path(), *name);
    names.push_back(*std::move(name));
  }
  return names;
}

Result<NamespacePolicies> ReadEntry(const View& element, NamesBefore& before) {
  const auto members = element.Members();
  if (!members.ok()) return members.error();
  for (const auto& [key, member] : *members) {
    if (key == "namespaces" || key == "podPolicies" || key == "defaults") continue;
    return member.Wrong("is not known; known are namespaces, podPolicies, defaults");
  }
  const Result<View> namespaces = element.Require("namespaces");
  if (!namespaces.ok()) return namespaces.error();
  Result<std::vector<std::string>> names = ReadNamespaces(*namespaces, before);
  if (!names.ok()) return names.error();
  const Result<View> list = element.Require("podPolicies");
  if (!list.ok()) return list.error();
  Result<std::set<PodPolicy>> policies = ReadPolicies(*list);
  if (!policies.ok()) return policies.error();
  const Result<std::optional<View>> given = element.Find("defaults");
  if (!given.ok()) return given.error();
  PlacementPolicies defaults;
  if (*given) {
    const Result<PlacementPolicies> read = ReadDefaultPolicies(**given);
    if (!read.ok()) return read.error();
    defaults = *read;
  }
  return NamespacePolicies{*std::move(names), *std::move(policies), defaults};
}

const NamespacePolicies* EntryOf(const KubeletConfig& config, std::string_view name_space) {
  const auto entry = std::ranges::find_if(config.namespace_policies,
                                          [&](const auto& one) { return one.Has(name_space); });
  return entry == config.namespace_policies.end() ? nullptr : &*entry;
}

// A list of names; nullopt: there is none.
Result<std::optional<std::set<std::string>>> ReadNames(
    const View& top, std::string_view field,
    const std::function<Result<Done>(const std::string&)>& check) {
  const Result<std::optional<View>> list = top.Find(field);
  if (!list.ok()) return list.error();
  if (!*list) return std::optional<std::set<std::string>>();
  const Result<std::vector<View>> elements = (*list)->Elements();
  if (!elements.ok()) return elements.error();
  std::set<std::string> names;
  for (const View& element : *elements) {
    const Result<std::string> name = element.String();
    if (!name.ok()) return name.error();
    const Result<Done> checked = check(*name);
    if (!checked.ok()) return checked.error().In(element.path());
    names.insert(*name);
  }
  return std::optional(std::move(names));
}

}  // namespace

bool NamespacePolicies::Has(std::string_view name_space) const {
  return std::ranges::any_of(namespaces,
                             [&](const auto& name) { return StandsFor(name, name_space); });
}

const std::set<PodPolicy>& PodPoliciesFor(const KubeletConfig& config,
                                          std::string_view name_space) {
  const NamespacePolicies* const entry = EntryOf(config, name_space);
  return entry == nullptr ? config.pod_policies : entry->pod_policies;
}

std::string NameOfPodPolicies(const KubeletConfig& config, std::string_view name_space) {
  if (EntryOf(config, name_space) == nullptr) return "podPolicies";
  return "podPolicies for namespace " + std::string(name_space);
}

const PlacementPolicies& DefaultPoliciesFor(const KubeletConfig& config,
                                            std::string_view name_space) {
  static const PlacementPolicies none;
  const NamespacePolicies* const entry = EntryOf(config, name_space);
  return entry == nullptr ? none : entry->defaults;
}

std::set<PodPolicy> PodPoliciesAnywhere(const KubeletConfig& config) {
  std::set<PodPolicy> policies = config.pod_policies;
  for (const NamespacePolicies& entry : config.namespace_policies) {
    policies.insert(entry.pod_policies.begin(), entry.pod_policies.end());
    const PlacementPolicies& has = entry.defaults;
    if (has.numa_topology) policies.insert(PodPolicy::kNumaTopologyPolicy);
    if (has.required_bind || has.preferred_bind) policies.insert(PodPolicy::kCpuBindPolicy);
    if (has.exclusive) policies.insert(PodPolicy::kCpuExclusivePolicy);
    if (has.prefers_shared_cpus) policies.insert(PodPolicy::kPreferSharedCpus);
    if (has.shared_on_one_node) policies.insert(PodPolicy::kSharedNumaNode);
  }
  return policies;
}

void LetNoPodsChoose(KubeletConfig& config) {
  config.pod_policies.clear();
  // An entry without defaults stays if there is one with: it can keep a namespace from that one.
  const bool has_defaults = std::ranges::any_of(
      config.namespace_policies,
      [](const NamespacePolicies& entry) { return entry.defaults != PlacementPolicies(); });
  if (!has_defaults) config.namespace_policies.clear();
  for (NamespacePolicies& entry : config.namespace_policies) {
    // A default that was only for the policy that pods choose is refused without one.
    const bool chose = entry.pod_policies.contains(PodPolicy::kNumaTopologyPolicy);
    const bool has_policy = config.topology_manager_policy != TopologyManagerPolicy::kNone ||
                            entry.defaults.numa_topology;
    if (chose && !has_policy) entry.defaults.keeps_numa_apart = false;
    entry.pod_policies.clear();
  }
}

std::string_view ToString(PodPolicy policy) {
  switch (policy) {
    case PodPolicy::kNumaTopologyPolicy:
      return "numaTopologyPolicy";
    case PodPolicy::kCpuBindPolicy:
      return "cpuBindPolicy";
    case PodPolicy::kCpuExclusivePolicy:
      return "cpuExclusivePolicy";
    case PodPolicy::kResourceStatus:
      return "resourceStatus";
    case PodPolicy::kQosClass:
      return "qosClass";
    case PodPolicy::kPreferSharedCpus:
      return "prefer-shared-cpus";
    case PodPolicy::kPreferIsolatedCpus:
      return "prefer-isolated-cpus";
    case PodPolicy::kSharedNumaNode:
      break;
  }
  return "sharedNUMANode";
}

Result<std::set<PodPolicy>> ParsePodPolicies(std::string_view text) {
  std::set<PodPolicy> policies;
  if (text == "off") return policies;
  while (true) {
    const size_t comma = text.find(',');
    const Result<PodPolicy> policy = PodPolicyNamed(text.substr(0, comma));
    if (!policy.ok()) {
      Error error = policy.error();
      error.remedy += "; off: pods choose none";
      return error;
    }
    policies.insert(*policy);
    if (comma == std::string_view::npos) return policies;
    text.remove_prefix(comma + 1);
  }
}

std::string ToText(const std::set<PodPolicy>& policies) {
  std::string text;
  for (const PodPolicy policy : policies) {
    text += (text.empty() ? "" : ",") + std::string(ToString(policy));
  }
  return text.empty() ? "off" : text;
}

Result<Done> ReadPodPolicySwitch(const View& top, KubeletConfig& config) {
  const Result<std::optional<View>> list = top.Find("podPolicies");
  if (!list.ok()) return list.error();
  if (!*list) return Done{};
  Result<std::set<PodPolicy>> policies = ReadPolicies(**list);
  if (!policies.ok()) return policies.error();
  config.pod_policies = *std::move(policies);
  return Done{};
}

Result<Done> ReadNamespacePolicies(const View& top, KubeletConfig& config) {
  const Result<std::optional<View>> list = top.Find("namespacePolicies");
  if (!list.ok()) return list.error();
  if (!*list) return Done{};
  const Result<std::vector<View>> elements = (*list)->Elements();
  if (!elements.ok()) return elements.error();
  NamesBefore before;
  for (const View& element : *elements) {
    Result<NamespacePolicies> entry = ReadEntry(element, before);
    if (!entry.ok()) return entry.error();
    config.namespace_policies.push_back(*std::move(entry));
  }
  return Done{};
}

Result<Done> ReadSharedPoolHandlers(const View& top, KubeletConfig& config) {
  Result<std::optional<std::set<std::string>>> names =
      ReadNames(top, "sharedPoolHandlers", [](const std::string& name) {
        if (!name.empty()) return CheckHandlerName(name);
        return Result<Done>(
            Error{ErrorCode::kInvalidArgument, "is empty", "write the names of runtime handlers"});
      });
  if (!names.ok()) return names.error();
  if (*names) config.shared_pool_handlers = SharedPoolHandlers(**std::move(names));
  return Done{};
}

Result<Done> ReadNotDevices(const View& top, KubeletConfig& config) {
  Result<std::optional<std::set<std::string>>> names = ReadNames(top, "notDevices", CheckNotDevice);
  if (!names.ok()) return names.error();
  if (*names) config.not_devices = **std::move(names);
  return Done{};
}

Result<Done> ReadAnnotatedExtendedResources(const View& top, KubeletConfig& config) {
  const Result<std::optional<View>> member = top.Find("annotatedExtendedResources");
  if (!member.ok()) return member.error();
  if (!*member) return Done{};
  const Result<bool> follows = (*member)->Bool();
  if (!follows.ok()) return follows.error();
  config.annotated_extended_resources = *follows;
  return Done{};
}

}  // namespace alignd
