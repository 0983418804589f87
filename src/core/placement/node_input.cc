#include "alignd/placement/node_input.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "alignd/pod/resource_name.h"
#include "core/json/json_view.h"
#include "core/placement/described_devices.h"
#include "core/placement/faults.h"
#include "core/placement/names.h"
#include "core/placement/reported_owners.h"
#include "core/pod/resource_list.h"

namespace alignd::placement {
namespace {

using json::View;

Error Wrong(std::string message, std::string remedy = {}) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)};
}

Result<Done> CheckKnown(const View& object, FieldNames names) {
  Faults faults;
  CheckFields(object, names, faults);
  if (faults.empty()) return Done{};
  return Wrong(faults.texts().front());
}

// A misspelt member would change what the node has: a device without `numa` is aligned everywhere.
Result<Done> CheckMembers(const View& node) {
  constexpr auto kNode = std::to_array<std::string_view>({"caches", "cpus", "devices", "isolated",
                                                          "note", "numa", "owners", "pci_devices",
                                                          "pci_devices_left_out", "preferred"});
  constexpr auto kNuma =
      std::to_array<std::string_view>({"distances", "hugepages", "id", "memory"});
  constexpr auto kDevice = std::to_array<std::string_view>({"id", "numa"});
  Result<Done> known = CheckKnown(node, kNode);
  if (!known.ok()) return known;
  Faults faults;
  for (const View& numa : ListIn(node, "numa", faults)) CheckFields(numa, kNuma, faults);
  if (const auto devices = ObjectIn(node, "devices", faults)) {
    const auto members = devices->Members();
    for (const auto& [resource, list] : *members) {
      for (const View& device : ListIn(*devices, resource, faults)) {
        CheckFields(device, kDevice, faults);
      }
    }
  }
  return faults.empty() ? Result<Done>(Done{}) : Wrong(faults.texts().front());
}

Result<NodeObject::Taint> ReadTaint(const View& view) {
  NodeObject::Taint taint;
  Faults faults;
  taint.key = StringIn(view, "key", faults).value_or("");
  taint.value = StringIn(view, "value", faults).value_or("");
  taint.effect = StringIn(view, "effect", faults).value_or("");
  if (!faults.empty()) return Wrong(faults.texts().front());
  return taint;
}

Result<Done> ReadNodeSpec(const View& top, NodeObject& node) {
  Faults faults;
  const auto metadata = ObjectIn(top, "metadata", faults);
  if (metadata) node.name = StringIn(*metadata, "name", faults).value_or("");
  if (metadata) CheckStringMap(*metadata, "labels", faults);
  if (!faults.empty()) return Wrong(faults.texts().front());
  if (const auto labels = metadata ? ObjectIn(*metadata, "labels", faults) : std::nullopt) {
    const auto members = labels->Members();
    for (const auto& [key, value] : *members) node.labels[key] = *value.String();
  }
  const auto spec = ObjectIn(top, "spec", faults);
  if (!spec) return Done{};
  for (const View& view : ListIn(*spec, "taints", faults)) {
    const Result<NodeObject::Taint> taint = ReadTaint(view);
    if (!taint.ok()) return taint.error();
    if (taint->effect == "NoSchedule" || taint->effect == "NoExecute")
      node.taints.push_back(*taint);
  }
  const Result<std::optional<View>> unschedulable = spec->Find("unschedulable");
  if (!unschedulable.ok()) return unschedulable.error();
  const Result<bool> is_so = *unschedulable ? (*unschedulable)->Bool() : Result<bool>(false);
  if (!is_so.ok()) return is_so.error();
  // The controllers set the same taint.
  const NodeObject::Taint taint{"node.kubernetes.io/unschedulable", "", "NoSchedule"};
  if (*is_so && std::ranges::find(node.taints, taint) == node.taints.end()) {
    node.taints.push_back(taint);
  }
  return faults.empty() ? Result<Done>(Done{}) : Wrong(faults.texts().front());
}

// A whole number; nullopt if the text is none.
std::optional<int64_t> NumberOf(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

}  // namespace

Result<Done> CheckDevices(const Machine& machine, const std::string& resource,
                          const scenario::DeviceList& devices) {
  if (!MayBeDevice(resource)) {
    return Wrong("\"" + resource + "\" cannot be the name of devices",
                 "name them as their plugin does, such as nvidia.com/gpu");
  }
  for (const auto& [id, device] : devices) {
    for (const int64_t numa : device.numa) {
      if (machine.NumaPosition(numa)) continue;
      std::string known;
      for (const NumaNode& node : machine.numa()) {
        known += (known.empty() ? "" : ", ") + std::to_string(node.id);
      }
      return Wrong("device " + id + " of " + resource + " is on NUMA node " + std::to_string(numa) +
                       ", which the machine does not have",
                   "its NUMA nodes are " + known);
    }
  }
  return Done{};
}

Result<NodeInput> ReadNodeInput(std::string_view text) {
  const Result<nlohmann::ordered_json> ordered = json::ParseOrdered(text);
  if (!ordered.ok()) return ordered.error();
  Result<scenario::NodeDescription> description = scenario::ParseNode(text);
  if (!description.ok()) return description.error();
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.error();
  const View top(*parsed, "");
  const Result<Done> known = CheckMembers(top);
  if (!known.ok()) return known.error();
  NodeInput input{*std::move(description), std::nullopt, {}, {}, {}};
  const Result<Done> taken = TakeReportedDevices(top, input);
  if (!taken.ok()) return taken.error();
  for (const auto& [resource, devices] : input.description.devices) {
    const Result<Done> checked = CheckDevices(input.description.machine, resource, devices);
    if (!checked.ok()) return checked.error();
  }
  return input;
}

bool IsNodeObject(std::string_view text) {
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok() || !parsed->is_object()) return false;
  const auto kind = parsed->find("kind");
  return kind != parsed->end() && *kind == "Node";
}

Result<NodeObject> ReadNodeObject(std::string_view text) {
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.error();
  const View top(*parsed, "");
  NodeObject node;
  const auto with_remedy = [](Error error, const char* remedy) {
    if (error.remedy.empty()) error.remedy = remedy;
    return error;
  };
  constexpr char kGiveAsIs[] = "give the Node as kubectl get nodes -o json prints it";
  // A Node that was made by hand, or whose kubelet has not reported yet.
  constexpr char kNotReported[] =
      "see the log of the node's kubelet, which has not reported yet; delete the Node if there is "
      "no such node";
  const Result<Done> spec = ReadNodeSpec(top, node);
  if (!spec.ok()) return with_remedy(spec.error(), kGiveAsIs);
  const Result<View> status = top.Require("status");
  if (!status.ok()) return with_remedy(status.error(), kNotReported);
  const Result<View> allocatable = status->Require("allocatable");
  if (!allocatable.ok()) return with_remedy(allocatable.error(), kNotReported);
  Result<ResourceList> amounts = ReadResourceList(*allocatable);
  if (!amounts.ok()) return with_remedy(amounts.error(), kGiveAsIs);
  Result<ResourceList> capacity = ReadResourceList(*status, "capacity");
  if (!capacity.ok()) return with_remedy(capacity.error(), kGiveAsIs);
  node.allocatable = *std::move(amounts);
  node.capacity = *std::move(capacity);
  return node;
}

Result<std::pair<std::string, scenario::DeviceList>> ParseDevices(std::string_view text) {
  constexpr char kForm[] =
      "write RESOURCE=COUNT@NUMA,..., such as nvidia.com/gpu=4@0,4@1; without @NUMA the devices "
      "are on no NUMA node";
  const std::string shown = "--device " + std::string(text);
  const size_t equals = text.find('=');
  const std::string resource(text.substr(0, equals));
  if (equals == std::string_view::npos) return Wrong(shown + ": has no =COUNT", kForm);
  if (resource.find('/') == std::string::npos || !IsQualifiedName(resource)) {
    return Wrong(shown + ": \"" + resource + "\" is not the name of an extended resource", kForm);
  }
  scenario::DeviceList devices;
  std::string_view rest = text.substr(equals + 1);
  for (bool more = true; more;) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
    const size_t at = part.find('@');
    const std::optional<int64_t> count = NumberOf(part.substr(0, at));
    const bool has_numa = at != std::string_view::npos;
    const std::optional<int64_t> numa =
        has_numa ? NumberOf(part.substr(at + 1)) : std::optional<int64_t>(0);
    if (!count || !numa || *count > kMaxDevices - static_cast<int64_t>(devices.size())) {
      return Wrong(shown + ": \"" + std::string(part) + "\" is not COUNT@NUMA, with at most " +
                       std::to_string(kMaxDevices) + " devices",
                   kForm);
    }
    for (int64_t i = 0; i < *count; ++i) {
      devicemanager::Device device;
      if (has_numa) device.numa.push_back(*numa);
      std::string id = resource.substr(resource.find('/') + 1);
      id += "-" + std::to_string(devices.size());
      devices.emplace_back(std::move(id), std::move(device));
    }
  }
  return std::pair(resource, std::move(devices));
}

Result<Done> AddDevices(const std::string& resource, scenario::DeviceList devices,
                        NodeInput& input) {
  const Result<Done> checked = CheckDevices(input.description.machine, resource, devices);
  if (!checked.ok()) return checked;
  if (input.description.devices.contains(resource)) {
    return Wrong("the node has devices of " + resource + " already",
                 "remove --device, or the devices of its description");
  }
  input.description.devices.emplace(resource, std::move(devices));
  input.generated_ids.insert(resource);
  return Done{};
}

}  // namespace alignd::placement
