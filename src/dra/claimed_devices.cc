#include "dra/claimed_devices.h"

#include <algorithm>
#include <utility>

#include "dra/cdi_registry.h"
#include "dra/device_metadata.h"
#include "dra/device_numa.h"
#include "host/file.h"

namespace alignd::dra {
namespace {

// Larger than the metadata of any claim.
constexpr size_t kMaxMetadataBytes = size_t{1} << 20;

Error Unavailable(Error error) {
  error.code = ErrorCode::kUnavailable;
  return error;
}

// What the driver says of this device in one of the files. Empty: it does not say.
Result<NumaIds> PlaceByDriver(const std::string& name, const std::vector<std::string>& files,
                              const DeviceNuma& kernel) {
  for (const std::string& file : files) {
    if (!IsMetadataPath(file)) continue;
    const Result<std::string> text = host::ReadFile(file, kMaxMetadataBytes);
    if (!text.ok()) continue;
    const std::vector<DeviceMetadata> devices = ParseDeviceMetadata(*text);
    const auto device = std::ranges::find(devices, name, &DeviceMetadata::name);
    if (device == devices.end()) continue;
    if (device->numa_node) return NumaIds{*device->numa_node};
    Result<NumaIds> ids = kernel.OfPciDevice(device->pci_bus_id);
    if (!ids.ok() || !ids->empty()) return ids;
    return kernel.OfPcieRoot(device->pcie_root);
  }
  return NumaIds();
}

Result<NumaIds> PlaceByNodes(const std::vector<CdiNode>& nodes, DeviceNuma& kernel) {
  NumaIds all;
  for (const CdiNode& node : nodes) {
    Result<NumaIds> ids = kernel.OfDeviceNode(node.host_path);
    if (ids.ok() && ids->empty()) ids = kernel.OfDeviceNode(node.path);
    if (!ids.ok()) return ids;
    all.merge(*ids);
  }
  return all;
}

Result<NumaIds> PlaceOf(const PreparedDevice& device, const CdiRegistry& registry,
                        DeviceNuma& kernel) {
  CdiEdits all;
  for (const std::string& name : device.cdi_names) {
    Result<CdiEdits> edits = registry.Find(name);
    if (!edits.ok()) return edits.error();
    std::ranges::move(edits->device_nodes, std::back_inserter(all.device_nodes));
    std::ranges::move(edits->mounts, std::back_inserter(all.mounts));
  }
  Result<NumaIds> ids = PlaceByDriver(device.name, all.mounts, kernel);
  if (!ids.ok() || !ids->empty()) return ids;
  return PlaceByNodes(all.device_nodes, kernel);
}

}  // namespace

Result<std::vector<PreparedDevice>> PreparedFor(const Places& places, const std::string& pod_uid) {
  const Result<std::string> text = host::ReadFile(places.prepared_claims);
  if (!text.ok()) {
    if (text.error().code == ErrorCode::kNotFound) return std::vector<PreparedDevice>();
    return Unavailable(text.error());
  }
  const Result<std::vector<PreparedClaim>> claims = ParsePreparedClaims(*text);
  if (!claims.ok()) {
    return Unavailable(host::ContentError(claims.error(), places.prepared_claims));
  }
  return DevicesOf(*claims, pod_uid);
}

Result<std::vector<ClaimedDevice>> Locate(const Places& places,
                                          const std::vector<PreparedDevice>& devices) {
  std::vector<ClaimedDevice> located;
  if (devices.empty()) return located;
  const CdiRegistry registry = CdiRegistry::Read(places.cdi_directories);
  DeviceNuma kernel(places.root);
  for (const PreparedDevice& device : devices) {
    const std::string name = device.driver + "/" + device.name;
    const auto is_known = [&](const ClaimedDevice& known) { return known.name == name; };
    if (std::ranges::any_of(located, is_known)) continue;  // of a second claim
    const Result<NumaIds> place = PlaceOf(device, registry, kernel);
    if (!place.ok()) return Unavailable(place.error().In(name));
    located.push_back({name, {place->begin(), place->end()}});
  }
  return located;
}

}  // namespace alignd::dra
