#include "alignd/placement/topology_object.h"

#include <algorithm>
#include <array>
#include <utility>

#include "alignd/machine/machine.h"
#include "alignd/noderesourcetopology/object.h"
#include "alignd/placement/fleet_node.h"  // CheckNodeName
#include "alignd/pod/resource_name.h"
#include "core/json/json_view.h"
#include "core/placement/faults.h"
#include "core/placement/object_fields.h"

namespace alignd::placement {
namespace {

using json::View;
using noderesourcetopology::Amount;
using noderesourcetopology::Zone;

constexpr uint64_t kMaxBytes = 1'000'000'000'000'000'000 - 1;

Result<std::map<std::string, std::string>> ReadAttributes(const View& holder) {
  std::map<std::string, std::string> attributes;
  Faults faults;
  for (const View& view : ListIn(holder, "attributes", faults)) {
    const std::string name = StringIn(view, "name", faults).value_or("");
    const auto [known, is_new] =
        attributes.emplace(name, StringIn(view, "value", faults).value_or(""));
    if (!is_new) return view.Wrong("a second attribute " + name);
  }
  if (!faults.empty()) return BadObject(faults.texts().front(), kPublish);
  return attributes;
}

Result<Done> ReadAmountsAndCosts(const View& view, Zone& zone) {
  Faults faults;
  for (const View& resource : ListIn(view, "resources", faults)) {
    const std::string name = StringIn(resource, "name", faults).value_or("");
    const Result<Amount> amount = ReadAmounts(resource);
    if (!amount.ok()) return amount.error();
    const uint64_t most = name == "cpu"       ? kMaxCpus
                          : MayBeDevice(name) ? kMaxDevicesOfZone
                                              : kMaxBytes;
    if (amount->capacity > most) {
      return resource.Wrong("capacity " + std::to_string(amount->capacity) + " of " + name +
                            " is more than " + std::to_string(most));
    }
    if (!zone.resources.emplace(name, *amount).second) {
      return resource.Wrong("a second entry of " + name);
    }
  }
  for (const View& cost : ListIn(view, "costs", faults)) {
    const std::string name = StringIn(cost, "name", faults).value_or("");
    const std::optional<int64_t> id = NumaIdOf(name);
    if (!id || *id < 0) return cost.Wrong("name \"" + name + "\" is not node- and a number");
    const Result<View> value = cost.Require("value");
    if (!value.ok()) return value.error();
    const Result<int64_t> distance = value->Integer(0, Machine::kMaxDistance);
    if (!distance.ok()) return distance.error();
    zone.costs.emplace_back(static_cast<int>(*id), static_cast<int>(*distance));
  }
  if (!faults.empty()) return BadObject(faults.texts().front(), kPublish);
  std::ranges::sort(zone.costs);
  return Done{};
}

// With Koordinator's annotations, the allocatable CPUs contain the reserved ones
// (noderesourcetopology::ObjectJson).
Result<Done> TakeOutReserved(const View& view, const std::map<std::string, std::string>& attributes,
                             Zone& zone) {
  const char* const name = noderesourcetopology::kReservedCpusAttribute;
  const std::string* const text = AttributeOf(attributes, name);
  if (text == nullptr) return Done{};
  const Amount cpus = AmountIn(zone, "cpu");
  const std::optional<uint64_t> reserved = CpusIn(attributes, name);
  if (!reserved || *reserved > cpus.allocatable - cpus.available) {
    return view.Wrong("attribute " + std::string(name) + " \"" + *text +
                      "\" is no number of CPUs that are allocatable and not available");
  }
  if (*reserved > 0) zone.resources["cpu"].allocatable -= *reserved;
  return Done{};
}

Result<Done> ReadZones(const View& top, TopologyObject& object) {
  Faults faults;
  for (const View& view : ListIn(top, "zones", faults)) {
    const std::string type = StringIn(view, "type", faults).value_or("");
    if (type != "Node") {
      return view.Wrong("type \"" + type + "\" is not Node, a NUMA node");
    }
    const std::string name = StringIn(view, "name", faults).value_or("");
    const std::optional<int64_t> id = NumaIdOf(name);
    if (!id || *id < 0) return view.Wrong("name \"" + name + "\" is not node- and a number");
    Zone zone;
    zone.numa_id = static_cast<int>(*id);
    const Result<Done> read = ReadAmountsAndCosts(view, zone);
    if (!read.ok()) return read;
    Result<std::map<std::string, std::string>> attributes = ReadAttributes(view);
    if (!attributes.ok()) return attributes.error();
    const Result<Done> reserved = TakeOutReserved(view, *attributes, zone);
    if (!reserved.ok()) return reserved;
    if (!object.of_zone.emplace(zone.numa_id, *std::move(attributes)).second) {
      return view.Wrong("a second zone " + name);
    }
    object.zones.push_back(std::move(zone));
  }
  if (!faults.empty()) return BadObject(faults.texts().front(), kPublish);
  if (object.zones.empty()) return View(top.value(), "zones").Wrong("there is none");
  std::ranges::sort(object.zones, {}, &Zone::numa_id);
  return Done{};
}

// Whether koordlet writes the object.
bool IsOfKoordinator(const View& top) {
  Faults ignored;
  const auto metadata = ObjectIn(top, "metadata", ignored);
  const auto labels = metadata ? ObjectIn(*metadata, "labels", ignored) : std::nullopt;
  return labels &&
         StringIn(*labels, "app.kubernetes.io/managed-by", ignored).value_or("") == "Koordinator";
}

// Objects without attributes of the policy have the older form of it.
// Source: scheduler-plugins pkg/noderesourcetopology/nodeconfig/topologymanager.go,
// ToTopologyManagerConfig of topologyPolicies.
Result<Done> ReadOlderPolicy(const View& top, TopologyObject& object) {
  const bool has_policy = object.attributes.contains(noderesourcetopology::kPolicyAttribute);
  const bool has_scope = object.attributes.contains(noderesourcetopology::kScopeAttribute);
  const Result<std::optional<View>> list = top.Find("topologyPolicies");
  if (!list.ok()) return list.error();
  if (!*list || (*list)->value().is_null() || has_policy || has_scope) return Done{};
  const Result<std::vector<View>> policies = (*list)->Elements();
  if (!policies.ok()) return policies.error();
  if (policies->empty()) return Done{};
  const Result<std::string> name = policies->front().String();
  if (!name.ok()) return name.error();
  struct Older {
    std::string_view name;
    const char* policy;
    const char* scope;  // nullptr: it does not say it
  };
  constexpr auto kAll = std::to_array<Older>({
      {"SingleNUMANodePodLevel", "single-numa-node", "pod"},
      {"SingleNUMANodeContainerLevel", "single-numa-node", "container"},
      {"RestrictedPodLevel", "restricted", "pod"},
      {"RestrictedContainerLevel", "restricted", "container"},
      {"Restricted", "restricted", nullptr},
      {"BestEffortPodLevel", "best-effort", "pod"},
      {"BestEffortContainerLevel", "best-effort", "container"},
      {"BestEffort", "best-effort", nullptr},
      {"None", "none", nullptr},
  });
  // Koordinator before 1.3 writes this, whatever policy the kubelet has.
  // Source: koordinator pkg/koordlet/statesinformer, newNodeTopo.
  if (*name == "None" && IsOfKoordinator(top)) return Done{};
  const auto* const found = std::ranges::find(kAll, *name, &Older::name);
  // alignd's own policies have no name in this form, and it has attributes.
  if (found == kAll.end()) return Done{};
  object.attributes[noderesourcetopology::kPolicyAttribute] = found->policy;
  if (found->scope != nullptr) {
    object.attributes[noderesourcetopology::kScopeAttribute] = found->scope;
  }
  return Done{};
}

// What the object says of the node.
Result<Done> ReadContents(const View& top, TopologyObject& object) {
  Result<std::map<std::string, std::string>> attributes = ReadAttributes(top);
  if (!attributes.ok()) return attributes.error();
  object.attributes = *std::move(attributes);
  const Result<Done> older = ReadOlderPolicy(top, object);
  if (!older.ok()) return older;
  return ReadZones(top, object);
}

// Only a fingerprint of all pods says which pods are in the amounts.
// Source: podfingerprint; resource-topology-exporter pkg/podreadiness; the method is missing in
// objects of older exporters, which fingerprint all pods.
std::string FingerprintOf(const View& top, const TopologyObject& object) {
  const std::string* const method =
      AttributeOf(object.attributes, noderesourcetopology::kFingerprintMethodAttribute);
  if (method != nullptr && *method != "all") return {};
  if (const std::string* const text =
          AttributeOf(object.attributes, noderesourcetopology::kFingerprintAttribute)) {
    return *text;
  }
  Faults ignored;
  const auto metadata = ObjectIn(top, "metadata", ignored);
  const auto annotations = metadata ? ObjectIn(*metadata, "annotations", ignored) : std::nullopt;
  if (!annotations) return {};
  return StringIn(*annotations, noderesourcetopology::kFingerprintAnnotation, ignored).value_or("");
}

}  // namespace

Result<TopologyObject> ReadTopologyObject(std::string_view text) {
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.error();
  const View top(*parsed, "");
  TopologyObject object;
  object.name = TextAt(*parsed, "metadata", "name");
  const Result<Done> named = CheckNodeName(object.name);
  if (!named.ok()) return named.error().In("NodeResourceTopology: metadata");
  Faults faults;
  const std::string version = StringIn(top, "apiVersion", faults).value_or("");
  if (version != noderesourcetopology::kApiVersion) {
    return BadField(object, "apiVersion: \"" + version + "\" is not read",
                    std::string("give it as ") + noderesourcetopology::kApiVersion);
  }
  const Result<Done> read = ReadContents(top, object);
  if (!read.ok()) {
    return BadField(object, read.error().message,
                    read.error().remedy.empty() ? kPublish : read.error().remedy);
  }
  object.fingerprint = FingerprintOf(top, object);
  return object;
}

}  // namespace alignd::placement
