#include "core/placement/object_config.h"

#include <optional>
#include <utility>

#include "alignd/config/kubelet_config.h"
#include "alignd/noderesourcetopology/object.h"
#include "core/placement/object_fields.h"

namespace alignd::placement {
namespace {

namespace nrt = noderesourcetopology;

// A policy that is an attribute of the object, and a field of a KubeletConfiguration.
struct PolicyField {
  const char* attribute;
  const char* field;
  const char* standard;
};

constexpr PolicyField kPolicyFields[] = {
    {nrt::kPolicyAttribute, "topologyManagerPolicy", "none"},
    {nrt::kScopeAttribute, "topologyManagerScope", "container"},
    {nrt::kCpuPolicyAttribute, "cpuManagerPolicy", "none"},
    {nrt::kMemoryPolicyAttribute, "memoryManagerPolicy", "None"},
};

// What alignd has written: the policies, and `options`, which are the other fields.
void ReadWritten(const TopologyObject& object, const nlohmann::json& options,
                 ObjectConfig& config) {
  for (const PolicyField& policy : kPolicyFields) {
    const std::string* const value = AttributeOf(object.attributes, policy.attribute);
    if (value != nullptr) config.kubelet[policy.field] = *value;
  }
  for (const auto& [field, value] : options.items()) {
    if (field == "compatibility") {
      config.unknown = "the node decides with compatibility " + value.dump() +
                       ", which is not planned with here; give its answers with alignctl simulate "
                       "on that node";
    } else {
      config.kubelet[field] = value;
    }
  }
}

// Both can be wrong: the object of the kubelet behind alignd says none.
Result<Done> CheckPolicy(const TopologyObject& object, const nlohmann::json& given,
                         const PolicyField& policy) {
  const std::string* const value = AttributeOf(object.attributes, policy.attribute);
  const auto found = given.find(policy.field);
  const std::string configured = found != given.end() && found->is_string()
                                     ? found->get<std::string>()
                                     : std::string(policy.standard);
  if (value == nullptr || *value == configured) return Done{};
  return BadField(object,
                  "attribute " + std::string(policy.attribute) + " is \"" + *value +
                      "\", and the KubeletConfiguration has " + policy.field + " \"" + configured +
                      "\"",
                  "give the KubeletConfiguration of that node; on a node with alignd, let "
                  "alignd-events --topology write the object");
}

Result<nlohmann::json> ReadGiven(const TopologyObject& object, const std::string& given) {
  if (given.empty()) {
    return BadField(object,
                    "it has no attribute alignd.io/policyOptions, and there is no "
                    "KubeletConfiguration of the node",
                    "publish the object with alignd, or give the KubeletConfiguration with "
                    "--config");
  }
  Result<nlohmann::json> config = json::Parse(given);
  if (!config.ok()) return config.error();
  if (!config->is_object()) return BadObject("the KubeletConfiguration is no object", "give one");
  for (const PolicyField& policy : kPolicyFields) {
    const Result<Done> same = CheckPolicy(object, *config, policy);
    if (!same.ok()) return same.error();
  }
  return config;
}

// The attribute of an object that alignd writes in which the policies cannot be.
Error WrongPolicies(const TopologyObject& object, const nlohmann::json& options,
                    const std::string& what) {
  const char* attribute = nrt::kPolicyOptionsAttribute;
  for (const PolicyField& policy : kPolicyFields) {
    const bool is_it =
        !options.contains(policy.field) && what.starts_with(std::string(policy.field) + ":");
    if (is_it) attribute = policy.attribute;
  }
  return BadField(object, "attribute " + std::string(attribute) + ": " + what,
                  "let alignd-events --topology write the object; if the alignd of that node is "
                  "newer than this program, upgrade this program");
}

// What ParsePolicyOptions does not read as a boolean, it refuses later.
bool IsOn(const std::map<std::string, std::string>& options, const char* name) {
  const auto found = options.find(name);
  return found != options.end() && ParseGoBool(found->second).value_or(true);
}

}  // namespace

Result<ObjectConfig> ReadObjectConfig(const TopologyObject& object, const std::string& given) {
  const Result<nlohmann::json> options = JsonAttribute(object, nrt::kPolicyOptionsAttribute);
  if (!options.ok()) return options.error();
  if (!options->is_null() && !options->is_object()) {
    return BadField(object, "attribute alignd.io/policyOptions: it is no JSON object",
                    kWriteWithAlignd);
  }
  ObjectConfig config;
  config.kubelet = nlohmann::json::object();
  if (options->is_object()) {
    ReadWritten(object, *options, config);
  } else {
    Result<nlohmann::json> read = ReadGiven(object, given);
    if (!read.ok()) return read.error();
    config.kubelet = *std::move(read);
  }
  for (const char* field : {"reservedSystemCPUs", "kubeReserved", "systemReserved", "evictionHard",
                            "reservedMemory", "maxPods", "podsPerCore"}) {
    config.kubelet.erase(field);
  }
  config.kubelet["evictionHard"] = nlohmann::json::object();
  Result<KubeletConfig> parsed = ParseKubeletConfig(config.kubelet.dump());
  if (!parsed.ok()) {
    if (options->is_object()) return WrongPolicies(object, *options, parsed.error().message);
    return parsed.error().In("NodeResourceTopology " + object.name);
  }
  config.assigns_cpus = parsed->cpu_manager_policy == CpuManagerPolicy::kStatic;
  config.assigns_memory = parsed->memory_manager_policy == MemoryManagerPolicy::kStatic;
  config.shares_nodes =
      config.assigns_cpus && PodPoliciesAnywhere(*parsed).contains(PodPolicy::kSharedNumaNode);
  config.full_cores_only = IsOn(parsed->cpu_manager_policy_options, "full-pcpus-only");
  config.aligns_by_socket = IsOn(parsed->cpu_manager_policy_options, "align-by-socket");
  config.parsed = *std::move(parsed);
  return config;
}

std::string WithReservation(const ObjectConfig& config, const ObjectReservation& reserved) {
  nlohmann::json kubelet = config.kubelet;
  if (!reserved.cpus.empty()) kubelet["reservedSystemCPUs"] = reserved.cpus.ToString();
  ResourceList all;
  for (const auto& [numa_id, memory] : reserved.memory) {
    nlohmann::json limits = nlohmann::json::object();
    for (const auto& [type, amount] : memory) {
      limits[type] = amount.ToString();
      all[type] += amount;
    }
    kubelet["reservedMemory"].push_back({{"numaNode", numa_id}, {"limits", std::move(limits)}});
  }
  for (const auto& [type, amount] : all) kubelet["kubeReserved"][type] = amount.ToString();
  return kubelet.dump();
}

}  // namespace alignd::placement
