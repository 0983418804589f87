#include "core/placement/object_devices.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "alignd/devicemanager/device_state.h"
#include "alignd/noderesourcetopology/object.h"
#include "alignd/noderesourcetopology/zones.h"
#include "alignd/pod/resource_name.h"
#include "core/json/json_view.h"
#include "core/placement/faults.h"
#include "core/placement/object_fields.h"

namespace alignd::placement {
namespace {

using json::View;
using noderesourcetopology::Amount;
using noderesourcetopology::DeviceGroup;
using noderesourcetopology::Zone;

// The devices of the object, each once.
struct LocatedDevices {
  std::vector<DeviceGroup> groups;
  std::vector<Zone> zones;    // without the devices that are in a group
  bool knows_groups = false;  // the object has the attribute
};

// Takes the group from the zone's sum.
// Errors: the rest is none.
Result<Done> Take(const View& group, const DeviceGroup& devices, Zone& zone) {
  Amount& sum = zone.resources[devices.resource];
  const Amount& amount = devices.amount;
  if (sum.capacity < amount.capacity || sum.allocatable < amount.allocatable ||
      sum.available < amount.available) {
    return group.Wrong("it has more than zone " + noderesourcetopology::ZoneName(zone.numa_id));
  }
  sum.capacity -= amount.capacity;
  sum.allocatable -= amount.allocatable;
  sum.available -= amount.available;
  // What is left are devices of their own.
  if (sum.available > sum.allocatable || sum.allocatable > sum.capacity) {
    return group.Wrong("it does not fit the amounts of zone " +
                       noderesourcetopology::ZoneName(zone.numa_id));
  }
  return Done{};
}

// Reads a group, and takes it from its zones.
Result<DeviceGroup> ReadGroup(const View& view, std::vector<Zone>& zones) {
  DeviceGroup group;
  Faults faults;
  group.resource = StringIn(view, "resource", faults).value_or("");
  const Result<Amount> amount = ReadAmounts(view);
  if (!amount.ok()) return amount.error();
  group.amount = *amount;
  if (!MayBeDevice(group.resource) || amount->capacity > kMaxDevicesOfZone) {
    return view.Wrong("\"" + group.resource + "\" is no device resource of at most " +
                      std::to_string(kMaxDevicesOfZone) + " devices");
  }
  const Result<View> names = view.Require("zones");
  if (!names.ok()) return names.error();
  const Result<std::vector<View>> elements = names->Elements();
  if (!elements.ok()) return elements.error();
  for (const View& name : *elements) {
    const Result<std::string> text = name.String();
    const std::optional<int64_t> id = text.ok() ? NumaIdOf(*text) : std::nullopt;
    if (!id) return name.IsNot("the name of a zone");
    group.numa_ids.push_back(*id);
    const auto zone = std::ranges::find(zones, *id, &Zone::numa_id);
    if (zone == zones.end()) continue;  // a NUMA node that the machine does not have
    const Result<Done> taken = Take(view, group, *zone);
    if (!taken.ok()) return taken.error();
  }
  return group;
}

Result<LocatedDevices> ReadDevices(const TopologyObject& object) {
  const Result<nlohmann::json> list =
      JsonAttribute(object, noderesourcetopology::kDeviceGroupsAttribute);
  if (!list.ok()) return list.error();
  const auto bad = [&object](const std::string& what) {
    return BadField(object, "attribute alignd.io/deviceGroups: " + what, kWriteWithAlignd);
  };
  LocatedDevices devices{.groups = {}, .zones = object.zones, .knows_groups = !list->is_null()};
  Faults faults;
  const nlohmann::json holder = {{"groups", *list}};
  for (const View& view : ListIn(View(holder, ""), "groups", faults)) {
    Result<DeviceGroup> group = ReadGroup(view, devices.zones);
    if (!group.ok()) return bad(group.error().message);
    devices.groups.push_back(*std::move(group));
  }
  if (!faults.empty()) return bad(faults.texts().front());
  return devices;
}

void AddTo(ObjectDevices& made, const DeviceGroup& group) {
  scenario::DeviceList& devices = made.all[group.resource];
  for (uint64_t i = 0; i < group.amount.capacity; ++i) {
    std::string id = "device-" + std::to_string(devices.size());
    if (i >= group.amount.available && i < group.amount.allocatable) {
      made.assigned[group.resource].insert(id);
    }
    devices.emplace_back(
        std::move(id),
        devicemanager::Device{.healthy = i < group.amount.allocatable, .numa = group.numa_ids});
  }
}

// Objects of other exporters have sums only: if the sums are not the devices of the Node, some of
// them are on several NUMA nodes or on none.
void CompareSum(const std::string& resource, const NodeObject& node, ObjectDevices& made) {
  made.summed.insert(resource);
  const auto healthy = std::ranges::count_if(
      made.all[resource], [](const auto& device) { return device.second.healthy; });
  const Quantity* const allocatable = Find(node.allocatable, resource);
  const Quantity on_node = allocatable == nullptr ? Quantity() : *allocatable;
  if (on_node == Quantity(healthy)) return;
  made.unlocated[resource] =
      "the zones have " + std::to_string(healthy) + " of them allocatable, and Node " + node.name +
      " has " + on_node.ToString() + ": some are on several NUMA nodes or on none; " + kPublish;
  made.all.erase(resource);
  made.assigned.erase(resource);
}

}  // namespace

Result<ObjectDevices> MakeObjectDevices(const TopologyObject& object, const NodeObject& node) {
  const Result<LocatedDevices> located = ReadDevices(object);
  if (!located.ok()) return located.error();
  ObjectDevices made;
  for (const DeviceGroup& group : located->groups) AddTo(made, group);
  std::set<std::string> in_zones;
  for (const Zone& zone : located->zones) {
    for (const auto& [resource, amount] : zone.resources) {
      if (!MayBeDevice(resource)) continue;
      in_zones.insert(resource);
      AddTo(made, {resource, {zone.numa_id}, amount});
    }
  }
  if (located->knows_groups) return made;
  for (const std::string& resource : in_zones) CompareSum(resource, node, made);
  return made;
}

}  // namespace alignd::placement
