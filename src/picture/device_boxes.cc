// PCI devices and devices of device plugins.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "picture/node_boxes.h"
#include "picture/words.h"

namespace alignd::picture {
namespace {

// The maximum in one NUMA node: what is beyond is counted.
constexpr size_t kMaxPciShown = 24;
constexpr size_t kMaxResourcesShown = 16;
constexpr size_t kMaxDevicesShown = 32;

constexpr int kPciWidth = 196;
constexpr int kDeviceWidth = 116;
constexpr int kDeviceHeight = 36;

Box Rest(size_t count, int width) {
  const std::string text = "and " + std::to_string(count) + " more";
  Box box{.width = width, .height = kDeviceHeight, .paint = {kWhite, kInk}, .dashed = true};
  box.lines.push_back(FittedLine(text, 7, 22, width - 14, 11, false, kPale));
  return box;
}

Box PciBox(const host::PciDevice& device) {
  Box box{.width = kPciWidth,
          .height = kDeviceHeight,
          .id = "pci-" + device.address,
          .title = PciWords(device),
          .paint = kDevicePaint,
          .stroke = kLine};
  std::string name(KindName(device.kind));
  for (const std::string& one : device.names) name += " " + one;
  std::string second = device.address + " " + (device.driver.empty() ? device.id : device.driver);
  if (device.virtual_functions > 0)
    second += ", " + std::to_string(device.virtual_functions) + " VFs";
  box.lines.push_back(FittedLine(name, 7, 15, kPciWidth - 14, 11, true));
  box.lines.push_back(FittedLine(second, 7, 29, kPciWidth - 14, 10, false, kPale));
  return box;
}

Box DeviceBox(const Owners& owners, const PluginDevice& device) {
  const Owner* const owner = device.owner ? &owners.containers[*device.owner] : nullptr;
  std::string state = owner == nullptr ? "free" : "assigned to " + OwnerWords(*owner);
  if (!device.problem.empty()) {
    state = owner == nullptr ? device.problem : state + "; " + device.problem;
  }
  Box box{.width = kDeviceWidth,
          .height = kDeviceHeight,
          .title = device.resource + " " + device.id + ": " + state + "; " + NodeWords(device.numa),
          .paint = owner == nullptr ? kFreePaint : kOwnerColours[owner->colour],
          .stroke = device.problem.empty() ? kStrongLine : kWarning,
          .dashed = !device.problem.empty()};
  const std::string_view ink = box.paint.text;
  box.lines.push_back(FittedLine(device.id, 7, 15, kDeviceWidth - 14, 11, true, ink));
  const std::string key = owner == nullptr ? "" : owner->key;
  const std::string second = device.problem.empty()
                                 ? (key.empty() ? "free" : key)
                                 : key + (key.empty() ? "" : ", ") + device.problem;
  box.lines.push_back(FittedLine(second, 7, 29, kDeviceWidth - 14, 10, false, ink));
  return box;
}

// Whether a device with these NUMA nodes is drawn at `numa_id`; nullopt: at none or several.
bool IsAt(const Picture& picture, const std::vector<int64_t>& numa, std::optional<int> numa_id) {
  const bool is_one = numa.size() == 1 && picture.machine.NumaPosition(numa[0]);
  return numa_id ? is_one && numa[0] == *numa_id : !is_one;
}

// The devices of one resource at one place.
struct Devices {
  std::vector<const PluginDevice*> listed{};
  size_t count = 0;  // also of those that are not listed
  size_t free = 0;
};

Box ResourceBox(const Owners& owners, const std::string& resource, const Devices& devices,
                int width) {
  std::vector<Box> boxes;
  for (const PluginDevice* device : devices.listed) {
    if (boxes.size() == kMaxDevicesShown) break;
    boxes.push_back(DeviceBox(owners, *device));
  }
  if (devices.count > boxes.size()) {
    boxes.push_back(Rest(devices.count - boxes.size(), kDeviceWidth));
  }
  const std::string count =
      ": " + std::to_string(devices.free) + " free of " + std::to_string(devices.count);
  Box box{.title = resource + count, .paint = kDevicePaint};
  Box rows = InRows(std::move(boxes), width - 14, 5);
  // The count stays if the name is long.
  const int line_width = std::max(rows.width, 250);
  Line line = FittedLine(resource, 7, 14, line_width - TextWidth(count, 10, true), 10, true);
  line.text += count;
  box.lines.push_back(std::move(line));
  Enclose(box, std::move(rows), 7);
  return box;
}

}  // namespace

std::vector<Box> DeviceBoxes(const Picture& picture, std::optional<int> numa_id, int width) {
  std::vector<Box> pci;
  size_t left_out = numa_id ? 0 : picture.parts.pci_left_out;
  for (const host::PciDevice& device : picture.parts.pci) {
    const std::vector<int64_t> numa =
        device.numa ? std::vector<int64_t>{*device.numa} : std::vector<int64_t>();
    if (!IsAt(picture, numa, numa_id)) continue;
    if (pci.size() < kMaxPciShown) {
      pci.push_back(PciBox(device));
    } else {
      ++left_out;
    }
  }
  if (left_out > 0) pci.push_back(Rest(left_out, kPciWidth));
  std::vector<Box> all;
  if (!pci.empty()) all.push_back(InRows(std::move(pci), width, 6));
  if (!picture.owners) return all;
  std::map<std::string, Devices> resources;
  for (const PluginDevice& device : picture.owners->devices) {
    if (!IsAt(picture, device.numa, numa_id)) continue;
    Devices& devices = resources[device.resource];
    devices.listed.push_back(&device);
    ++devices.count;
    if (!device.owner && device.problem.empty()) ++devices.free;
  }
  for (const DevicesLeftOut& group : picture.owners->left_out) {
    if (group.numa != numa_id) continue;
    Devices& devices = resources[group.resource];
    devices.count += group.devices;
    devices.free += group.free;
  }
  std::vector<Box> plugins;
  for (const auto& [resource, devices] : resources) {
    if (plugins.size() == kMaxResourcesShown) break;
    plugins.push_back(ResourceBox(*picture.owners, resource, devices, width));
  }
  if (resources.size() > plugins.size()) {
    plugins.push_back(Rest(resources.size() - plugins.size(), kPciWidth));
  }
  if (!plugins.empty()) all.push_back(InRows(std::move(plugins), width, 6));
  return all;
}

}  // namespace alignd::picture
