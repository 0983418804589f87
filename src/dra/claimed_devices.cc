#include "dra/claimed_devices.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "dra/cdi_registry.h"
#include "dra/device_metadata.h"
#include "dra/device_numa.h"
#include "host/file.h"

namespace alignd::dra {
namespace {

// What a driver says of one device. Empty: it tells no place.
Result<NumaIds> PlaceOf(const DeviceMetadata& device, const DeviceNuma& kernel) {
  if (device.numa_node) return NumaIds{*device.numa_node};
  Result<NumaIds> ids = kernel.OfPciDevice(device.pci_bus_id);
  if (!ids.ok() || !ids->empty()) return ids;
  return kernel.OfPcieRoot(device.pcie_root);
}

// Of all devices in these files; nullopt if they do not tell the place of each.
Result<std::optional<NumaIds>> PlacesByDriver(const std::vector<std::string>& files,
                                              const DeviceNuma& kernel) {
  NumaIds ids;
  bool is_complete = !files.empty();
  for (const std::string& file : files) {
    const Result<std::string> text = host::ReadFile(file);
    if (!text.ok()) return text.error();
    const Result<std::vector<DeviceMetadata>> devices = ParseDeviceMetadata(*text);
    if (!devices.ok()) return host::ContentError(devices.error(), file);
    is_complete = is_complete && !devices->empty();
    for (const DeviceMetadata& device : *devices) {
      Result<NumaIds> place = PlaceOf(device, kernel);
      if (!place.ok()) return place.error();
      is_complete = is_complete && !place->empty();
      ids.merge(*place);
    }
  }
  if (!is_complete) return std::optional<NumaIds>();
  return std::optional(std::move(ids));
}

Result<NumaIds> PlaceByNodes(const CdiEdits& edits, DeviceNuma& kernel) {
  NumaIds ids;
  for (const std::string& node : edits.device_nodes) {
    Result<NumaIds> of_node = kernel.OfDeviceNode(node);
    if (!of_node.ok()) return of_node.error();
    ids.merge(*of_node);
  }
  return ids;
}

// The devices of one container, of which `names` are all.
class Devices {
 public:
  Devices(const CdiRegistry& registry, DeviceNuma& kernel) : registry_(registry), kernel_(kernel) {}

  Result<std::vector<ClaimedDevice>> Find(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      Result<CdiEdits> edits = registry_.Find(name);
      if (!edits.ok()) return edits.error();
      std::vector<std::string>& files = metadata_[ParseCdiName(name)->vendor];
      std::ranges::copy_if(edits->mounts, std::back_inserter(files), IsMetadataPath);
      edits_.emplace(name, *std::move(edits));
    }
    std::vector<ClaimedDevice> devices;
    for (const std::string& name : names) {
      Result<NumaIds> place = PlaceOf(name);
      if (!place.ok()) return place.error().In(name);
      devices.push_back({name, {place->begin(), place->end()}});
    }
    return devices;
  }

 private:
  // A driver describes its devices together, under a CDI name that is none of theirs.
  Result<NumaIds> PlaceOf(const std::string& name) {
    const std::string vendor = ParseCdiName(name)->vendor;
    Result<std::optional<NumaIds>> told = PlacesByDriver(metadata_.at(vendor), kernel_);
    if (!told.ok()) return told.error();
    if (*told) return **std::move(told);
    return PlaceByNodes(edits_.at(name), kernel_);
  }

  const CdiRegistry& registry_;
  DeviceNuma& kernel_;
  std::map<std::string, CdiEdits> edits_;                     // by CDI name
  std::map<std::string, std::vector<std::string>> metadata_;  // files, by vendor
};

Result<std::vector<PreparedClaim>> ReadPrepared(const Places& places) {
  const Result<std::string> text = host::ReadFile(places.prepared_claims);
  if (!text.ok()) return text.error();
  Result<std::vector<PreparedClaim>> claims = ParsePreparedClaims(*text);
  if (!claims.ok()) return host::ContentError(claims.error(), places.prepared_claims);
  return claims;
}

Result<Done> Add(const CdiRegistry& registry, DeviceNuma& kernel, std::vector<std::string> names,
                 Container& container) {
  for (const ClaimedDevice& known : container.claimed_devices) names.push_back(known.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  Result<std::vector<ClaimedDevice>> devices = Devices(registry, kernel).Find(names);
  if (!devices.ok()) return devices.error().In("container " + container.name);
  container.claimed_devices = *std::move(devices);
  return Done{};
}

}  // namespace

Result<bool> HasClaims(const Places& places, const std::string& pod_uid) {
  const Result<std::vector<PreparedClaim>> claims = ReadPrepared(places);
  if (!claims.ok()) {
    if (claims.error().code == ErrorCode::kNotFound) return false;
    return claims.error();
  }
  return std::ranges::any_of(
      *claims, [&](const PreparedClaim& claim) { return claim.pods.contains(pod_uid); });
}

Result<Done> AddClaimed(const Places& places, const ClaimUses& uses, Pod& pod) {
  if (uses.empty()) return Done{};
  const Result<std::vector<PreparedClaim>> claims = ReadPrepared(places);
  if (!claims.ok()) return claims.error();
  const CdiRegistry registry = CdiRegistry::Read(places.cdi_directories);
  DeviceNuma kernel(places.root);
  for (Container& container : pod.containers) {
    const auto used = uses.find(container.name);
    if (used == uses.end()) continue;
    std::vector<std::string> names;
    for (const ClaimUse& use : used->second) {
      Result<std::vector<std::string>> of_claim = NamesOf(*claims, pod.uid, pod.name_space, use);
      if (!of_claim.ok()) return of_claim.error().In("container " + container.name);
      names.insert(names.end(), of_claim->begin(), of_claim->end());
    }
    const Result<Done> added = Add(registry, kernel, std::move(names), container);
    if (!added.ok()) return added;
  }
  return Done{};
}

Result<Done> AddNamed(const Places& places, const std::vector<std::string>& cdi_names,
                      Container& container) {
  const auto is_known = [&](const std::string& name) {
    return std::ranges::find(container.claimed_devices, name, &ClaimedDevice::name) !=
           container.claimed_devices.end();
  };
  if (std::ranges::all_of(cdi_names, is_known)) return Done{};
  DeviceNuma kernel(places.root);
  return Add(CdiRegistry::Read(places.cdi_directories), kernel, cdi_names, container);
}

}  // namespace alignd::dra
