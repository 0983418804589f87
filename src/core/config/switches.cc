#include "core/config/switches.h"

#include <array>
#include <optional>
#include <vector>

#include "alignd/config/config_problem.h"
#include "alignd/config/pod_policy_switch.h"

namespace alignd {
namespace {

using json::View;

constexpr std::array kPodPolicies = {PodPolicy::kNumaTopologyPolicy, PodPolicy::kCpuBindPolicy,
                                     PodPolicy::kCpuExclusivePolicy, PodPolicy::kResourceStatus,
                                     PodPolicy::kSharedNumaNode};

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

}  // namespace

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
  const Result<std::vector<View>> elements = (*list)->Elements();
  if (!elements.ok()) return elements.error();
  for (const View& element : *elements) {
    const Result<std::string> name = element.String();
    if (!name.ok()) return name.error();
    const Result<PodPolicy> policy = PodPolicyNamed(*name);
    if (!policy.ok()) return policy.error().In(element.path());
    config.pod_policies.insert(*policy);
  }
  return Done{};
}

// Other gates change nothing that alignd does.
Result<Done> ReadFeatureGates(const View& top, KubeletConfig& config) {
  const Result<std::optional<View>> gates = top.Find("featureGates");
  if (!gates.ok()) return gates.error();
  if (!*gates) return Done{};
  for (const std::string gate :
       {"AllAlpha", "AllBeta", "PodLevelResources", "PodLevelResourceManagers"}) {
    const Result<std::optional<View>> member = (*gates)->Find(gate);
    if (!member.ok()) return member.error();
    if (!*member) continue;
    const Result<bool> on = (*member)->Bool();
    if (!on.ok()) return on.error();
    config.feature_gates[gate] = *on;
  }
  return Done{};
}

}  // namespace alignd
