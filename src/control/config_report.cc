#include "control/config_report.h"

#include <string_view>
#include <utility>

#include "control/readable.h"

namespace alignd::control {
namespace {

std::string Quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

std::string InBraces(const std::map<std::string, std::string>& entries) {
  std::string text;
  for (const auto& [key, value] : entries) {
    text += (text.empty() ? "" : ", ") + key + ": " + Quoted(value);
  }
  return "{" + text + "}";
}

std::map<std::string, std::string> TextsOf(const ResourceList& amounts) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, amount] : amounts) texts[name] = amount.ToString();
  return texts;
}

std::string ValueOf(const std::vector<MemoryReservation>& reservations) {
  std::string text;
  for (const MemoryReservation& reservation : reservations) {
    text += (text.empty() ? "" : ", ") + ("{numaNode: " + std::to_string(reservation.numa_node)) +
            ", limits: " + InBraces(TextsOf(reservation.limits)) + "}";
  }
  return "[" + text + "]";
}

// With those that alignd does not know, so that a misspelt one is seen.
std::string GatesOf(const KubeletConfig& config) {
  std::map<std::string, bool> gates = config.feature_gates;
  gates.insert(config.unknown_feature_gates.begin(), config.unknown_feature_gates.end());
  std::string text;
  for (const auto& [name, on] : gates) {
    text += (text.empty() ? "" : ", ") + name + (on ? ": true" : ": false");
  }
  return "{" + text + "}";
}

std::string ValueOf(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return "[" + text + "]";
}

std::string ValueOf(const std::set<PodPolicy>& policies) {
  return "[" + (policies.empty() ? std::string() : ToText(policies)) + "]";
}

std::string ValueOf(const std::vector<NamespacePolicies>& entries) {
  std::string text;
  for (const NamespacePolicies& entry : entries) {
    std::string names;
    for (const std::string& name : entry.namespaces) names += (names.empty() ? "" : ",") + name;
    text += (text.empty() ? "" : ", ") + ("{namespaces: [" + names + "], podPolicies: ") +
            ValueOf(entry.pod_policies);
    std::string defaults;
    for (const auto& [name, value] : ToTexts(entry.defaults)) {
      defaults += (defaults.empty() ? "" : ", ") + name + ": " + value;
    }
    text += defaults.empty() ? "}" : ", defaults: {" + defaults + "}}";
  }
  return "[" + text + "]";
}

std::string PeriodOf(int64_t ms) {
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + "s" : std::to_string(ms) + "ms";
}

}  // namespace

std::vector<v1::Setting> ReportFields(const KubeletConfig& config,
                                      const std::map<std::string, std::string>& given) {
  const auto merges = given.find("mergeDefaultEvictionSettings");
  const std::vector<std::pair<const char*, std::string>> fields = {
      {"cpuManagerPolicy", std::string(ToString(config.cpu_manager_policy))},
      {"cpuManagerPolicyOptions", InBraces(config.cpu_manager_policy_options)},
      {"cpuManagerReconcilePeriod", PeriodOf(config.cpu_manager_reconcile_period_ms)},
      {"reservedSystemCPUs", Quoted(config.reserved_system_cpus)},
      {"kubeReserved", InBraces(TextsOf(config.kube_reserved))},
      {"systemReserved", InBraces(TextsOf(config.system_reserved))},
      {"evictionHard", config.eviction_hard_memory.empty()
                           ? "{}"
                           : InBraces({{"memory.available", config.eviction_hard_memory}})},
      {"mergeDefaultEvictionSettings", merges == given.end() ? "false" : merges->second},
      {"topologyManagerPolicy", std::string(ToString(config.topology_manager_policy))},
      {"topologyManagerScope", std::string(ToString(config.topology_manager_scope))},
      {"topologyManagerPolicyOptions", InBraces(config.topology_manager_policy_options)},
      {"memoryManagerPolicy", std::string(ToString(config.memory_manager_policy))},
      {"reservedMemory", ValueOf(config.reserved_memory)},
      {"featureGates", GatesOf(config)},
      {"compatibility", Quoted(ToString(config.compatibility))},
      {"numaAllocateStrategy", Quoted(ToString(config.numa_allocate_strategy))},
      {"podPolicies", ValueOf(config.pod_policies)},
      {"namespacePolicies", ValueOf(config.namespace_policies)},
      {"sharedPoolHandlers", ValueOf(config.shared_pool_handlers.names())},
      {"notDevices", ValueOf(config.not_devices)},
      {"annotatedExtendedResources", config.annotated_extended_resources ? "true" : "false"}};
  std::vector<v1::Setting> settings;
  for (const auto& [name, value] : fields) {
    v1::Setting& setting = settings.emplace_back();
    setting.set_kind("field");
    setting.set_name(name);
    setting.set_value(Readable(value));
    setting.set_source(given.contains(name) ? "file" : "default");
  }
  return settings;
}

}  // namespace alignd::control
