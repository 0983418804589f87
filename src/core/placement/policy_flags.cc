#include "alignd/placement/policy_flags.h"

#include <algorithm>

#include "core/json/json_view.h"

namespace alignd::placement {
namespace {

using ConfigJson = nlohmann::json;

// As LetNoPodsChoose. What is no list of objects is refused when the configuration is read.
void LetNoneChoose(ConfigJson& config) {
  const auto entries = config.find("namespacePolicies");
  if (entries == config.end() || !entries->is_array()) return;
  const ConfigJson policy = config.value("topologyManagerPolicy", ConfigJson("none"));
  const bool has_policy = policy != "none" && policy != "" && !policy.is_null();
  for (ConfigJson& entry : *entries) {
    const auto list = entry.is_object() ? entry.find("podPolicies") : entry.end();
    if (list == entry.end() || !list->is_array()) continue;
    const bool chose = std::ranges::find(*list, ConfigJson("numaTopologyPolicy")) != list->end();
    *list = ConfigJson::array();
    const auto defaults = entry.find("defaults");
    const bool has_defaults = defaults != entry.end() && defaults->is_object();
    if (!chose || has_policy || !has_defaults) continue;
    // A default that was only for the policy that pods choose is refused without one.
    const ConfigJson of_pods = defaults->value("numaTopologyPolicy", ConfigJson(""));
    if (of_pods == "" || of_pods.is_null()) defaults->erase("singleNUMANodeExclusive");
  }
}

}  // namespace

Result<std::string> WithFlags(const std::string& config, const PolicyFlags& flags) {
  if (config.empty() || flags == PolicyFlags()) return config;
  Result<ConfigJson> changed = json::Parse(config);
  if (!changed.ok()) return changed.error();
  if (!changed->is_object()) {
    return Error{ErrorCode::kInvalidArgument, "the KubeletConfiguration is no object", "give one"};
  }
  if (flags.pod_policies) {
    ConfigJson list = ConfigJson::array();
    for (const PodPolicy policy : *flags.pod_policies) list.push_back(ToString(policy));
    (*changed)["podPolicies"] = std::move(list);
    if (flags.pod_policies->empty()) LetNoneChoose(*changed);
  }
  if (flags.shared_pool_handlers) {
    (*changed)["sharedPoolHandlers"] = *flags.shared_pool_handlers;
  }
  if (flags.not_devices) (*changed)["notDevices"] = *flags.not_devices;
  if (flags.annotated_extended_resources) {
    (*changed)["annotatedExtendedResources"] = *flags.annotated_extended_resources;
  }
  return changed->dump();
}

}  // namespace alignd::placement
