// Other settings, for comparisons.
#include <algorithm>
#include <array>
#include <utility>

#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/placement/fleet_node.h"
#include "core/json/json_view.h"

namespace alignd::placement {
namespace {

struct ChangeKey {
  std::string_view key;
  std::string_view field;  // of KubeletConfiguration; empty: not a field
  bool is_option = false;  // the field is a map, the value NAME=VALUE
  bool is_list = true;     // commas separate values
};

constexpr auto kChangeKeys = std::to_array<ChangeKey>({
    {"policy", "topologyManagerPolicy"},
    {"scope", "topologyManagerScope"},
    {"cpu-policy", "cpuManagerPolicy"},
    {"memory-policy", "memoryManagerPolicy"},
    {"reserved-cpus", "reservedSystemCPUs", false, false},
    {"cpu-policy-option", "cpuManagerPolicyOptions", true, false},
    {"topology-policy-option", "topologyManagerPolicyOptions", true, false},
    {"device", "", false, false},
});

Error BadChange(std::string message, std::string remedy) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)};
}

const ChangeKey* KeyOf(std::string_view key) {
  const auto* const found = std::ranges::find(kChangeKeys, key, &ChangeKey::key);
  return found == kChangeKeys.end() ? nullptr : found;
}

// A device whose place changes must not be allocated: where it is, a checkpoint has said.
Result<Done> ReplaceDevices(const std::string& text, FleetNode& node) {
  auto devices = ParseDevices(text);
  if (!devices.ok()) return devices.error();
  const std::string& resource = devices->first;
  if (!node.files.device_checkpoint.empty()) {
    const auto parsed = checkpoint::ParseDeviceCheckpoint(node.files.device_checkpoint);
    if (!parsed.ok()) return parsed.error().In("kubelet_internal_checkpoint");
    bool is_named = parsed->registered.contains(resource);
    for (const auto& [key, allocated] : parsed->allocations) {
      is_named = is_named || allocated.contains(resource);
    }
    if (is_named) {
      return BadChange("kubelet_internal_checkpoint has devices of " + resource +
                           ", and another placement would contradict it",
                       "compare without the state files");
    }
  }
  node.input.description.devices.erase(resource);
  node.input.unlocated_devices.erase(resource);
  node.input.owned.erase(resource);
  if (node.input.object) {
    const Quantity count(static_cast<int64_t>(devices->second.size()));
    node.input.object->allocatable[resource] = node.input.object->capacity[resource] = count;
  }
  return AddDevices(resource, std::move(devices->second), node.input);
}

// The Node object says what the node can allocate now: what changes with the configuration is added
// to it.
Result<Done> ChangeAllocatable(const std::string& before, const KubeletConfig& after,
                               FleetNode& node) {
  if (!node.input.object) return Done{};
  const Result<KubeletConfig> config = ParseKubeletConfig(before);
  if (!config.ok()) return config.error();
  const Machine& machine = node.input.description.machine;
  const Result<Allocatable> now = AllocatableOf(machine, *config, /*pods=*/0);
  if (!now.ok()) return now.error();
  const Result<Allocatable> then = AllocatableOf(machine, after, /*pods=*/0);
  if (!then.ok()) return then.error();
  for (auto& [name, amount] : node.input.object->allocatable) {
    const Quantity* const old = Find(now->amounts, name);
    const Quantity* const changed = Find(then->amounts, name);
    if (old == nullptr || changed == nullptr) continue;
    amount += *changed;
    amount -= *old;
    if (amount.Sign() < 0) amount = Quantity();
  }
  return Done{};
}

}  // namespace

const std::vector<std::string>& ConfigChangeKeys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all;
    for (const ChangeKey& key : kChangeKeys) all.emplace_back(key.key);
    return all;
  }();
  return keys;
}

Result<std::vector<ConfigChange>> ParseConfigChanges(std::string_view text) {
  const size_t equals = text.find('=');
  const std::string key(text.substr(0, equals));
  const ChangeKey* const known = KeyOf(key);
  std::string_view rest = equals == std::string_view::npos ? "" : text.substr(equals + 1);
  if (known != nullptr && rest.empty()) {
    return BadChange(std::string(text) + ": has no value", "write " + key + "=VALUE");
  }
  if (known == nullptr) {
    std::string all;
    for (const std::string& name : ConfigChangeKeys()) all += (all.empty() ? "" : ", ") + name;
    return BadChange(std::string(text) + ": is not KEY=VALUE with a known key",
                     "the keys are " + all);
  }
  std::vector<ConfigChange> changes;
  while (known->is_list) {
    const size_t comma = rest.find(',');
    if (comma == std::string_view::npos) break;
    changes.push_back({key, std::string(rest.substr(0, comma))});
    rest.remove_prefix(comma + 1);
  }
  changes.push_back({key, std::string(rest)});
  for (const ConfigChange& change : changes) {
    if (!change.value.empty()) continue;
    return BadChange(std::string(text) + ": has an empty value",
                     "write values with one comma between them");
  }
  return changes;
}

Result<Done> Apply(const ConfigChange& change, FleetNode& node) {
  const ChangeKey* const key = KeyOf(change.key);
  if (key == nullptr) return BadChange("there is no setting " + change.key, "name another one");
  constexpr auto kOfObjects =
      std::to_array<std::string_view>({"policy", "scope", "topology-policy-option"});
  if (node.input.object_view && std::ranges::find(kOfObjects, change.key) == kOfObjects.end()) {
    return BadChange("node " + node.name + " is known from a NodeResourceTopology object, which " +
                         "does not have the CPUs and devices that " + change.key + " depends on",
                     "give the output of alignctl topology -o json, made on that node");
  }
  if (key->field.empty()) return ReplaceDevices(change.value, node);
  Result<nlohmann::json> config = json::Parse(node.config.empty() ? "{}" : node.config);
  if (!config.ok()) return config.error();
  if (!config->is_object()) {
    return BadChange("the KubeletConfiguration of node " + node.name + " is no object",
                     "give a KubeletConfiguration");
  }
  const std::string before = config->dump();
  nlohmann::json& field = (*config)[std::string(key->field)];
  if (key->is_option) {
    const size_t equals = change.value.find('=');
    if (!field.is_object()) field = nlohmann::json::object();
    field[change.value.substr(0, equals)] =
        equals == std::string::npos ? "true" : change.value.substr(equals + 1);
  } else {
    field = change.value;
  }
  const std::string text = config->dump();
  const Result<KubeletConfig> checked = ParseKubeletConfig(text);
  if (!checked.ok()) return checked.error();
  const Result<Done> changed = ChangeAllocatable(before, *checked, node);
  if (!changed.ok()) return changed;
  node.config = text;
  return Done{};
}

}  // namespace alignd::placement
