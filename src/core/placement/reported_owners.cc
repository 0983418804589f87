#include "core/placement/reported_owners.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/base/counted.h"
#include "core/placement/faults.h"

namespace alignd::placement {
namespace {

using json::View;

Result<Done> FirstOf(const Faults& faults) {
  if (faults.empty()) return Done{};
  return Error{ErrorCode::kInvalidArgument, faults.texts().front()};
}

// The resources of which containers had some when the description was made, by pod.
std::map<std::string, std::set<std::string>> OwnedIn(const View& owners, Faults& faults) {
  std::map<std::string, std::set<std::string>> all;
  for (const View& container : ListIn(owners, "containers", faults)) {
    const std::string pod = StringIn(container, "pod", faults).value_or("");
    std::set<std::string> owned;
    if (!StringIn(container, "cpus", faults).value_or("").empty()) owned.insert("cpu");
    if (const auto devices = ObjectIn(container, "devices", faults)) {
      const auto members = devices->Members();
      for (const auto& [resource, count] : *members) owned.insert(resource);
    }
    if (!owned.empty()) all[pod].merge(owned);
  }
  return all;
}

// Healthy devices that the report has as numbers only, because it would have been too long.
void TakeUnlistedDevices(const View& owners, Faults& faults, NodeInput& input) {
  constexpr char kPath[] = "owners.devices_left_out";
  for (const View& group : ListIn(owners, "devices_left_out", faults)) {
    const std::string resource = StringIn(group, "resource", faults).value_or("");
    const auto number = [&](const char* key) -> std::optional<int64_t> {
      const Result<std::optional<View>> found = group.Find(key);
      if (!found.ok() || !*found || (*found)->value().is_null()) return std::nullopt;
      const Result<int64_t> value = (*found)->Integer(0, INT32_MAX);
      if (!value.ok()) faults.Add(value.error());
      return value.ok() ? std::optional(*value) : std::nullopt;
    };
    const int64_t free = number("free").value_or(0);
    const std::optional<int64_t> numa = number("numa");
    if (free == 0) continue;
    if (!numa) {
      input.unlocated_devices[resource] = Counted(free, "free device") +
                                          " on no NUMA node or on several " +
                                          std::string(IsOrAre(free)) + " not in the " +
                                          "description; list all devices in its `devices`";
      continue;
    }
    auto& devices = input.description.devices[resource];
    if (free > kMaxDevices - static_cast<int64_t>(devices.size())) {
      return faults.Add(kPath, "has more than " + std::to_string(kMaxDevices) + " devices");
    }
    for (int64_t i = 0; i < free; ++i) {
      devices.emplace_back("unlisted-" + std::to_string(*numa) + "-" + std::to_string(i),
                           devicemanager::Device{true, {*numa}});
    }
  }
}

}  // namespace

Result<Done> TakeReportedDevices(const View& node, NodeInput& input) {
  Faults faults;
  const auto owners = ObjectIn(node, "owners", faults);
  if (!owners) return Done{};
  input.owned = OwnedIn(*owners, faults);
  if (!faults.empty()) return FirstOf(faults);
  if (node.value().contains("devices")) return Done{};
  for (const View& device : ListIn(*owners, "devices", faults)) {
    const std::string resource = StringIn(device, "resource", faults).value_or("");
    const std::string id = StringIn(device, "id", faults).value_or("");
    if (!StringIn(device, "problem", faults).value_or("").empty()) continue;
    devicemanager::Device read;
    const Result<std::optional<View>> numa = device.Find("numa");
    if (!numa.ok()) return numa.error();
    if (*numa) {
      const Result<std::vector<View>> ids = (*numa)->Elements();
      if (!ids.ok()) return ids.error();
      for (const View& element : *ids) {
        const Result<int64_t> number = element.Integer(0, INT32_MAX);
        if (!number.ok()) return number.error();
        read.numa.push_back(*number);
      }
    }
    input.description.devices[resource].emplace_back(id, std::move(read));
  }
  TakeUnlistedDevices(*owners, faults, input);
  return FirstOf(faults);
}

}  // namespace alignd::placement
