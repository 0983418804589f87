#include "alignd/noderesourcetopology/object.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "alignd/noderesourcetopology/zones.h"

namespace alignd::noderesourcetopology {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Up to so many NUMA nodes, scheduler-plugins needs no attribute.
constexpr int kDefaultMaxNumaNodes = 8;

OrderedJson Attribute(const std::string& name, const std::string& value) {
  return {{"name", name}, {"value", value}};
}

// The deprecated field. scheduler-plugins reads the first entry; Koordinator looks in all of them
// for a name without a level.
// Source: noderesourcetopology-api pkg/apis/topology/v1alpha2/types.go; koordinator
// pkg/scheduler/plugins/nodenumaresource/topology_options.go, convertToNUMATopologyPolicy.
OrderedJson DeprecatedPolicies(const topologymanager::Policy& policy) {
  const std::string level =
      policy.scope() == TopologyManagerScope::kPod ? "PodLevel" : "ContainerLevel";
  switch (policy.kind()) {
    case TopologyManagerPolicy::kBestEffort:
    case TopologyManagerPolicy::kBestAttainable:
      return {"BestEffort" + level, "BestEffort"};
    case TopologyManagerPolicy::kRestricted:
      return {"Restricted" + level, "Restricted"};
    case TopologyManagerPolicy::kSingleNumaNode:
      return OrderedJson::array({"SingleNUMANode" + level});
    case TopologyManagerPolicy::kNone:
      break;
  }
  return OrderedJson::array({"None"});
}

template <typename Id>
OrderedJson ZoneNames(const std::vector<Id>& numa_ids) {
  OrderedJson names = OrderedJson::array();
  for (const Id id : numa_ids) names.push_back(ZoneName(id));
  return names;
}

// [{"memoryNodes":["node-0","node-1"],"allocatable":{"memory":"..."},"available":{...}}], in one
// text: values of attributes are strings.
std::string GroupsText(const std::vector<MemoryGroup>& groups) {
  OrderedJson list = OrderedJson::array();
  for (const MemoryGroup& group : groups) {
    OrderedJson& entry = list.emplace_back(OrderedJson{{"memoryNodes", ZoneNames(group.numa_ids)}});
    for (const auto& [type, amount] : group.memory) {
      entry["allocatable"][type] = std::to_string(amount.allocatable);
      entry["available"][type] = std::to_string(amount.available);
    }
  }
  return list.dump();
}

// What the decision depends on beside the policies, as a KubeletConfiguration has it. Not of it:
// `compatibility`, `numaAllocateStrategy`, `podPolicies`, `namespacePolicies`,
// `sharedPoolHandlers`, `notDevices` and `annotatedExtendedResources`, and the policy that other
// readers do not know.
std::string OptionsText(const KubeletConfig& config) {
  OrderedJson options = OrderedJson::object();
  if (config.topology_manager_policy == TopologyManagerPolicy::kBestAttainable) {
    options["topologyManagerPolicy"] = ToString(config.topology_manager_policy);
  }
  if (!config.cpu_manager_policy_options.empty()) {
    options["cpuManagerPolicyOptions"] = config.cpu_manager_policy_options;
  }
  if (!config.topology_manager_policy_options.empty()) {
    options["topologyManagerPolicyOptions"] = config.topology_manager_policy_options;
  }
  if (!config.feature_gates.empty()) options["featureGates"] = config.feature_gates;
  if (config.compatibility != KubeletConfig{}.compatibility) {
    options["compatibility"] = ToString(config.compatibility);
  }
  if (config.numa_allocate_strategy != NumaAllocateStrategy::kNone) {
    options["numaAllocateStrategy"] = ToString(config.numa_allocate_strategy);
  }
  for (const PodPolicy policy : config.pod_policies) {
    options["podPolicies"].push_back(ToString(policy));
  }
  for (const NamespacePolicies& entry : config.namespace_policies) {
    OrderedJson list = OrderedJson::array();
    for (const PodPolicy policy : entry.pod_policies) list.push_back(ToString(policy));
    OrderedJson& written = options["namespacePolicies"].emplace_back();
    written = {{"namespaces", entry.namespaces}, {"podPolicies", std::move(list)}};
    for (const auto& [name, value] : ToTexts(entry.defaults)) written["defaults"][name] = value;
  }
  if (config.shared_pool_handlers != KubeletConfig{}.shared_pool_handlers) {
    options["sharedPoolHandlers"] = config.shared_pool_handlers.names();
  }
  if (!config.not_devices.empty()) options["notDevices"] = config.not_devices;
  if (!config.annotated_extended_resources) options["annotatedExtendedResources"] = false;
  return options.dump();
}

// [{"resource":"a.com/nic","zones":["node-0","node-1"],"capacity":"2",...}]
std::string DeviceGroupsText(const std::vector<DeviceGroup>& groups) {
  OrderedJson list = OrderedJson::array();
  for (const DeviceGroup& group : groups) {
    list.push_back({{"resource", group.resource},
                    {"zones", ZoneNames(group.numa_ids)},
                    {"capacity", std::to_string(group.amount.capacity)},
                    {"allocatable", std::to_string(group.amount.allocatable)},
                    {"available", std::to_string(group.amount.available)}});
  }
  return list.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

// Readers know the kubelet's policies. A node with best-attainable admits pods that it cannot
// align, so that a reader must score it, and not filter by the alignment.
std::string_view PolicyForReaders(TopologyManagerPolicy policy) {
  return ToString(policy == TopologyManagerPolicy::kBestAttainable
                      ? TopologyManagerPolicy::kBestEffort
                      : policy);
}

OrderedJson Attributes(const admission::Node& node, const std::vector<MemoryGroup>& groups,
                       const std::vector<DeviceGroup>& devices,
                       const std::optional<FreeCores>& cores,
                       const std::optional<std::vector<PodIdentity>>& pods) {
  const KubeletConfig& config = node.config;
  OrderedJson list = {
      Attribute(kPolicyAttribute, std::string(PolicyForReaders(node.topology.kind()))),
      Attribute(kScopeAttribute, std::string(ToString(node.topology.scope())))};
  if (node.machine.numa_count() > kDefaultMaxNumaNodes) {
    list.push_back(Attribute(kMaxNodesAttribute, std::to_string(node.machine.numa_count())));
  }
  if (pods) {
    list.push_back(Attribute(kFingerprintAttribute, PodFingerprint(*pods)));
    list.push_back(Attribute(kFingerprintMethodAttribute, "all"));
    if (const std::optional<std::string> uids = UidFingerprint(*pods)) {
      list.push_back(Attribute(kUidFingerprintAttribute, *uids));
    }
  }
  list.push_back(Attribute(kCpuPolicyAttribute, std::string(ToString(config.cpu_manager_policy))));
  list.push_back(
      Attribute(kMemoryPolicyAttribute, std::string(ToString(config.memory_manager_policy))));
  if (node.memory) list.push_back(Attribute(kMemoryGroupsAttribute, GroupsText(groups)));
  list.push_back(Attribute(kPolicyOptionsAttribute, OptionsText(config)));
  list.push_back(Attribute(kDeviceGroupsAttribute, DeviceGroupsText(devices)));
  if (cores) list.push_back(Attribute(kCpusPerCoreAttribute, std::to_string(cores->cpus_per_core)));
  return list;
}

// The names of the group's zones, joined by commas; empty: the node is in no group.
std::string GroupOf(int numa_id, const std::vector<MemoryGroup>& groups) {
  std::string names;
  for (const MemoryGroup& group : groups) {
    if (std::ranges::find(group.numa_ids, numa_id) == group.numa_ids.end()) continue;
    for (const int id : group.numa_ids) names += (names.empty() ? "" : ",") + ZoneName(id);
  }
  return names;
}

// What pods that ask for shared CPUs of one NUMA node are decided by.
void AddBacking(const Backing& backing, bool has_cores, OrderedJson& attributes) {
  attributes.push_back(Attribute(kSharedRequestsAttribute, std::to_string(backing.millis) + "m"));
  attributes.push_back(Attribute(kBackingCpusAttribute, std::to_string(backing.cpus)));
  if (!has_cores) return;
  attributes.push_back(Attribute(kBackingCoreCpusAttribute, std::to_string(backing.core_cpus)));
}

OrderedJson OfZone(const Zone& zone, const std::vector<MemoryGroup>& groups,
                   const std::optional<FreeCores>& cores, const std::map<int, Backing>& backing,
                   const std::optional<uint64_t>& reserved_cpus) {
  OrderedJson json = {{"name", ZoneName(zone.numa_id)}, {"type", "Node"}};
  for (const auto& [id, distance] : zone.costs) {
    json["costs"].push_back({{"name", ZoneName(id)}, {"value", distance}});
  }
  if (const std::string group = GroupOf(zone.numa_id, groups); !group.empty()) {
    json["attributes"].push_back(Attribute(kMemoryGroupAttribute, group));
  }
  if (cores) {
    json["attributes"].push_back(
        Attribute(kFreeCoreCpusAttribute, std::to_string(cores->cpus.at(zone.numa_id))));
  }
  if (const auto of_zone = backing.find(zone.numa_id); of_zone != backing.end()) {
    AddBacking(of_zone->second, cores.has_value(), json["attributes"]);
  }
  if (reserved_cpus) {
    json["attributes"].push_back(Attribute(kReservedCpusAttribute, std::to_string(*reserved_cpus)));
  }
  json["resources"] = OrderedJson::array();
  for (const auto& [name, amount] : zone.resources) {
    json["resources"].push_back({{"name", name},
                                 {"capacity", std::to_string(amount.capacity)},
                                 {"allocatable", std::to_string(amount.allocatable)},
                                 {"available", std::to_string(amount.available)}});
  }
  return json;
}

// Makes the reserved CPUs of the zone allocatable, and counts them.
uint64_t TakeReserved(const admission::Node& node, const admission::NodeState& state, Zone& zone) {
  if (!node.cpu) return 0;
  const std::optional<int> position = node.machine.NumaPosition(zone.numa_id);
  const CpuSet online = node.machine.CpusInNuma(*position) - state.cpu.offline;
  const auto reserved = static_cast<uint64_t>((online & node.cpu->reserved).Count());
  zone.resources["cpu"].allocatable += reserved;
  return reserved;
}

}  // namespace

std::string ZoneName(int64_t numa_id) { return "node-" + std::to_string(numa_id); }

std::string ObjectJson(const std::string& name, const admission::Node& node,
                       const admission::NodeState& state,
                       const std::optional<std::vector<PodIdentity>>& pods,
                       const Annotations& koordinator) {
  const std::vector<MemoryGroup> groups = MemoryGroups(node, state);
  OrderedJson object = {
      {"apiVersion", kApiVersion}, {"kind", kKind}, {"metadata", {{"name", name}}}};
  // Readers that are older than the attribute look for the annotation.
  if (pods) object["metadata"]["annotations"][kFingerprintAnnotation] = PodFingerprint(*pods);
  for (const auto& [key, value] : koordinator) object["metadata"]["annotations"][key] = value;
  object["topologyPolicies"] = DeprecatedPolicies(node.topology);
  const std::optional<FreeCores> cores = FreeCoresOf(node, state);
  object["attributes"] = Attributes(node, groups, DeviceGroups(node, state), cores, pods);
  if (!koordinator.empty()) {
    object["attributes"].push_back(Attribute(kKoordinatorAttribute, "true"));
  }
  object["zones"] = OrderedJson::array();
  const std::map<int, Backing> backing = BackingOf(node, state);
  for (Zone& zone : Zones(node, state)) {
    std::optional<uint64_t> reserved_cpus;
    if (!koordinator.empty()) reserved_cpus = TakeReserved(node, state, zone);
    object["zones"].push_back(OfZone(zone, groups, cores, backing, reserved_cpus));
  }
  // Names of resources come from device plugins.
  return object.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace alignd::noderesourcetopology
