#include "core/placement/object_memory.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "alignd/base/quantity.h"
#include "alignd/noderesourcetopology/object.h"
#include "alignd/noderesourcetopology/zones.h"
#include "core/json/json_view.h"
#include "core/placement/faults.h"
#include "core/placement/object_fields.h"

namespace alignd::placement {
namespace {

using json::View;
using noderesourcetopology::Amount;
using noderesourcetopology::Zone;
using noderesourcetopology::ZoneName;

constexpr std::string_view kHugePages = "hugepages-";

bool IsMemory(std::string_view resource) {
  return resource == "memory" || resource.starts_with(kHugePages);
}

uint64_t BytesInPages(const Zone& zone) {
  uint64_t bytes = 0;
  for (const auto& [name, amount] : zone.resources) {
    if (name.starts_with(kHugePages)) bytes += amount.capacity;
  }
  return bytes;
}

// Pages by their size.
Result<std::map<uint64_t, uint64_t>> PagesOf(const TopologyObject& object, const Zone& zone) {
  std::map<uint64_t, uint64_t> pages;
  for (const auto& [name, amount] : zone.resources) {
    if (!name.starts_with(kHugePages)) continue;
    const Result<Quantity> size = Quantity::Parse(name.substr(kHugePages.size()));
    const auto page = static_cast<uint64_t>(size.ok() ? std::max<int64_t>(size->Value(), 0) : 0);
    if (page == 0 || amount.capacity % page != 0) {
      return BadZone(object, zone.numa_id,
                     ": " + name + ": capacity " + std::to_string(amount.capacity) +
                         " is not a number of such pages");
    }
    pages[page] = amount.capacity / page;
  }
  return pages;
}

Result<std::vector<int>> DistancesOf(const TopologyObject& object, const Zone& zone) {
  std::vector<int> distances;
  for (const auto& [id, distance] : zone.costs) {
    if (!HasZone(object, id)) {
      return BadZone(object, zone.numa_id, ": costs has " + ZoneName(id) + ", which is no zone");
    }
    distances.push_back(distance);
  }
  if (!distances.empty() && distances.size() != object.zones.size()) {
    return BadZone(object, zone.numa_id, ": costs does not have each zone once");
  }
  return distances;
}

Result<NumaNode> NumaNodeOf(const TopologyObject& object, const Zone& zone, bool assigns_memory) {
  NumaNode numa;
  numa.id = zone.numa_id;
  const Amount memory = AmountIn(zone, "memory");
  numa.memory_bytes = memory.capacity;
  Result<std::map<uint64_t, uint64_t>> pages = PagesOf(object, zone);
  if (!pages.ok()) return pages.error();
  numa.hugepages = *std::move(pages);
  const uint64_t in_pages = BytesInPages(zone);
  if (in_pages > memory.capacity ||
      (assigns_memory && memory.allocatable > memory.capacity - in_pages)) {
    return BadZone(object, zone.numa_id,
                   ": memory: capacity " + std::to_string(memory.capacity) +
                       " is less than allocatable memory and huge pages");
  }
  Result<std::vector<int>> distances = DistancesOf(object, zone);
  if (!distances.ok()) return distances.error();
  numa.distances = *std::move(distances);
  return numa;
}

// What is missing between capacity and allocatable. Huge pages are part of the capacity of memory.
ResourceList ReservedIn(const Zone& zone) {
  ResourceList reserved;
  for (const auto& [type, amount] : zone.resources) {
    if (!IsMemory(type)) continue;
    const uint64_t capacity = amount.capacity - (type == "memory" ? BytesInPages(zone) : 0);
    const uint64_t bytes = capacity - amount.allocatable;
    if (bytes > 0) reserved[type] = Quantity(static_cast<int64_t>(bytes));
  }
  return reserved;
}

bool IsAssigned(const TopologyObject& object) {
  return std::ranges::any_of(object.zones, [](const Zone& zone) {
    return std::ranges::any_of(zone.resources, [](const auto& entry) {
      return IsMemory(entry.first) && entry.second.available < entry.second.allocatable;
    });
  });
}

Error BadGroups(const TopologyObject& object, const std::string& what) {
  return BadField(object, "attribute alignd.io/memoryGroups: " + what, kWriteWithAlignd);
}

// By NUMA node id.
Result<std::map<int, std::vector<int>>> ReadGroups(const TopologyObject& object,
                                                   const nlohmann::json& list) {
  std::map<int, std::vector<int>> groups;
  Faults faults;
  const nlohmann::json holder = {{"groups", list}};
  for (const View& group : ListIn(View(holder, ""), "groups", faults)) {
    std::vector<int> ids;
    const Result<View> names = group.Require("memoryNodes");
    const auto elements = names.ok() ? names->Elements() : Result<std::vector<View>>(names.error());
    if (!elements.ok()) return BadGroups(object, elements.error().message);
    for (const View& name : *elements) {
      const Result<std::string> text = name.String();
      const std::optional<int64_t> id = text.ok() ? NumaIdOf(*text) : std::nullopt;
      if (!id || !HasZone(object, *id)) return BadGroups(object, name.path() + " is no zone");
      ids.push_back(static_cast<int>(*id));
    }
    std::ranges::sort(ids);
    for (const int id : ids) {
      if (!groups.emplace(id, ids).second) {
        return BadGroups(object, ZoneName(id) + " is in two groups");
      }
    }
  }
  if (!faults.empty()) return BadGroups(object, faults.texts().front());
  return groups;
}

}  // namespace

Result<ObjectMemory> MakeObjectMemory(const TopologyObject& object, const ObjectConfig& config) {
  ObjectMemory made;
  for (const Zone& zone : object.zones) {
    Result<NumaNode> numa = NumaNodeOf(object, zone, config.assigns_memory);
    if (!numa.ok()) return numa.error();
    made.numa.push_back(*std::move(numa));
    if (!config.assigns_memory) continue;
    if (ResourceList reserved = ReservedIn(zone); !reserved.empty()) {
      made.reserved[zone.numa_id] = std::move(reserved);
    }
    for (const auto& [type, amount] : zone.resources) {
      if (IsMemory(type)) made.available[zone.numa_id][type] = amount.available;
    }
  }
  if (!config.assigns_memory) return made;
  const Result<nlohmann::json> list =
      JsonAttribute(object, noderesourcetopology::kMemoryGroupsAttribute);
  if (!list.ok()) return list.error();
  if (!list->is_null()) {
    Result<std::map<int, std::vector<int>>> groups = ReadGroups(object, *list);
    if (!groups.ok()) return groups.error();
    made.groups = *std::move(groups);
  } else if (IsAssigned(object)) {  // without assigned memory there is no group
    made.unknown =
        std::string(
            "memory: memory is assigned, and the object does not say which NUMA nodes are "
            "in one memory group (alignd.io/memoryGroups); ") +
        kPublish;
  }
  return made;
}

}  // namespace alignd::placement
