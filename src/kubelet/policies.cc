#include "kubelet/policies.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "kubelet/words.h"

namespace alignd::kubelet {
namespace {

using nlohmann::json;

struct ManagerFlag {
  const char* flag;
  const char* field;
  char separator = '=';  // of name and value
};

// Flags with one value.
constexpr std::array<ManagerFlag, 5> kTextFlags = {{
    {"--cpu-manager-policy", "cpuManagerPolicy"},
    {"--memory-manager-policy", "memoryManagerPolicy"},
    {"--topology-manager-policy", "topologyManagerPolicy"},
    {"--topology-manager-scope", "topologyManagerScope"},
    {"--reserved-cpus", "reservedSystemCPUs"},
}};

// Flags of the form a=b,c=d.
constexpr std::array<ManagerFlag, 6> kMapFlags = {{
    {"--kube-reserved", "kubeReserved"},
    {"--system-reserved", "systemReserved"},
    {"--eviction-hard", "evictionHard", '<'},
    {"--feature-gates", "featureGates"},
    {"--cpu-manager-policy-options", "cpuManagerPolicyOptions"},
    {"--topology-manager-policy-options", "topologyManagerPolicyOptions"},
}};

// Flags whose values alignctl does not read.
constexpr const char* kUnreadFlag = "--reserved-memory";

json ValueOf(const ManagerFlag& flag, const std::string& text) {
  const bool is_gate = std::string_view(flag.field) == "featureGates";
  if (is_gate && ParseGoBool(text)) return *ParseGoBool(text);
  return text;
}

json MapOf(const ManagerFlag& flag, const std::string& list) {
  json map = json::object();
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string entry = list.substr(begin, end - begin);
    const size_t equals = entry.find(flag.separator);
    if (equals != std::string::npos)
      map[entry.substr(0, equals)] = ValueOf(flag, entry.substr(equals + 1));
    begin = end + 1;
  }
  return map;
}

Error TurnOffByHand(const std::string& why, const std::string& remedy) {
  return {ErrorCode::kInvalidArgument, why, remedy + ", then run this command again"};
}

bool ManagesNothing(const KubeletConfig& config) {
  return config.cpu_manager_policy == CpuManagerPolicy::kNone &&
         config.memory_manager_policy == MemoryManagerPolicy::kNone &&
         config.topology_manager_policy == TopologyManagerPolicy::kNone &&
         config.cpu_manager_policy_options.empty();
}

// The text of --config without the managers.
Result<std::string> WithoutManagers(std::string text, const KubeletConfig& config) {
  std::vector<std::pair<const char*, std::optional<std::string>>> fields;
  if (config.cpu_manager_policy != CpuManagerPolicy::kNone) {
    fields.emplace_back("cpuManagerPolicy", "none");
  }
  if (!config.cpu_manager_policy_options.empty()) {
    fields.emplace_back("cpuManagerPolicyOptions", std::nullopt);
  }
  if (config.memory_manager_policy != MemoryManagerPolicy::kNone) {
    fields.emplace_back("memoryManagerPolicy", "None");
  }
  if (config.topology_manager_policy != TopologyManagerPolicy::kNone) {
    fields.emplace_back("topologyManagerPolicy", "none");
  }
  for (const auto& [field, value] : fields) {
    Result<std::string> edited = WithField(text, field, value);
    if (!edited.ok()) return edited;
    text = *std::move(edited);
  }
  return text;
}

}  // namespace

Result<KubeletConfig> ConfigOf(const Setup& setup) {
  if (LastFlag(setup.words, kUnreadFlag)) {
    return Error{
        ErrorCode::kInvalidArgument,
        std::string("the kubelet has the flag ") + kUnreadFlag + ", which alignctl does not read",
        "set reservedMemory in the file of the kubelet's --config instead of the flag"};
  }
  json config = json::parse(setup.config_json, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) config = json::object();
  for (const ManagerFlag& known : kTextFlags) {
    if (const auto value = LastFlag(setup.words, known.flag)) config[known.field] = *value;
  }
  for (const ManagerFlag& known : kMapFlags) {
    if (const auto value = LastFlag(setup.words, known.flag))
      config[known.field] = MapOf(known, *value);
  }
  Result<KubeletConfig> read = ParseKubeletConfig(config.dump());
  if (read.ok()) return read;
  return Error{
      read.error().code, "the kubelet's configuration cannot be read: " + read.error().message,
      read.error().remedy.empty() ? "correct the kubelet's --config" : read.error().remedy};
}

Result<std::vector<Change>> PlanWithoutManagers(FileView files, const Setup& setup,
                                                std::vector<Change> changes) {
  const Result<KubeletConfig> config = ConfigOf(setup);
  if (!config.ok()) return config.error();
  if (ManagesNothing(*config)) return changes;
  for (const char* const flag : {"--cpu-manager-policy", "--cpu-manager-policy-options",
                                 "--memory-manager-policy", "--topology-manager-policy"}) {
    if (!LastFlag(setup.words, flag)) continue;
    return TurnOffByHand(
        std::string("the kubelet's policies are set by its flag ") + flag,
        std::string("move ") + flag + " into the file of --config, without restarting the kubelet");
  }
  for (const Change& change : changes) files.Set(change.path, change.after.value_or(""));
  const Result<std::optional<std::string>> text = files.Read(setup.config_file);
  if (!text.ok()) return text.error();
  Result<std::string> edited = WithoutManagers(text->value_or(""), *config);
  if (!edited.ok()) return edited.error().In(setup.config_file);
  const auto known = std::ranges::find(changes, setup.config_file, &Change::path);
  if (known != changes.end()) {
    known->after = *edited;
  } else {
    // If the file is changed until it is restored, detach leaves it as it is.
    changes.push_back({.path = setup.config_file,
                       .before = *text,
                       .after = *edited,
                       .kind = Change::Kind::kField,
                       .old_endpoint = EndpointIn(text->value_or(""))});
  }
  files.Set(setup.config_file, *edited);
  const Result<Setup> after = FindSetup(files, setup.unit_name);
  if (!after.ok()) return after.error();
  const Result<KubeletConfig> off = ConfigOf(*after);
  if (!off.ok()) return off.error();
  if (ManagesNothing(*off)) return changes;
  return TurnOffByHand(
      "with the policies none in " + setup.config_file +
          ", the kubelet would still manage CPUs, memory or topology: a file of its --config-dir " +
          setup.config_dir + " sets a policy",
      "move the policies from that directory into " + setup.config_file);
}

}  // namespace alignd::kubelet
