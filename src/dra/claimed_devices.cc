#include "dra/claimed_devices.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
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

// What the driver says of a device. Empty: it does not say.
struct Said {
  NumaIds nodes = {};
  NumaIds dranet_nodes = {};  // as DeviceMetadata::dranet_node
  std::string foreign_attribute = {};
};

Error Contradiction(const std::string& what) {
  return {ErrorCode::kUnavailable, what, "see the documentation of its DRA driver"};
}

Result<NumaIds> PlaceIn(const DeviceMetadata& device, const DeviceNuma& kernel) {
  if (!device.wrong_node.empty()) {
    return Contradiction("numaNode " + device.wrong_node + " is no NUMA node");
  }
  if (device.numa_node) return NumaIds{*device.numa_node};
  Result<NumaIds> ids = kernel.OfPciDevice(device.pci_bus_id);
  if (!ids.ok() || !ids->empty()) return ids;
  NumaIds all;
  for (const std::string& root : device.pcie_roots) {
    ids = kernel.OfPcieRoot(root);
    if (!ids.ok()) return ids;
    all.merge(*ids);
  }
  return all;
}

// Several entries may say where a device is, but not differently. `source`: the file of `known`.
Result<Done> Agree(const NumaIds& nodes, const std::string& file, NumaIds& known,
                   std::string& source) {
  if (nodes.empty()) return Done{};
  if (!known.empty() && known != nodes) {
    return Contradiction(source == file
                             ? file + " has it twice, on different NUMA nodes"
                             : source + " and " + file + " have different NUMA nodes of it");
  }
  known = nodes;
  source = file;
  return Done{};
}

// The devices of a metadata file. None if it does not exist or the driver has not filled it.
Result<std::vector<DeviceMetadata>> ReadMetadata(const std::string& file) {
  const Result<std::string> text = host::ReadFile(file, kMaxMetadataBytes);
  if (!text.ok()) {
    if (text.error().code == ErrorCode::kNotFound) return std::vector<DeviceMetadata>();
    return text.error();
  }
  Result<std::vector<DeviceMetadata>> devices = ParseDeviceMetadata(*text);
  if (!devices.ok()) return host::ContentError(devices.error(), file);
  return devices;
}

// A file is of a request of a claim: it may have devices of the same name in several pools.
Result<Said> PlaceByDriver(const PreparedDevice& asked, const std::set<std::string>& files,
                           const DeviceNuma& kernel) {
  Said said;
  std::string source;  // of said.nodes
  std::string dranet_source;
  for (const std::string& file : files) {
    if (!IsMetadataPath(file)) continue;
    const Result<std::vector<DeviceMetadata>> devices = ReadMetadata(file);
    if (!devices.ok()) return devices.error();
    for (const DeviceMetadata& device : *devices) {
      if (device.name != asked.name) continue;
      if (device.driver.empty() || device.pool.empty()) {
        return Contradiction(file + " has a device " + device.name + " without driver or pool");
      }
      if (device.driver != asked.driver || device.pool != asked.pool) continue;
      const Result<NumaIds> nodes = PlaceIn(device, kernel);
      if (!nodes.ok()) return nodes.error().In(file);
      if (said.foreign_attribute.empty()) said.foreign_attribute = device.foreign_attribute;
      NumaIds dranet;
      if (device.dranet_node) dranet.insert(*device.dranet_node);
      Result<Done> agrees = Agree(*nodes, file, said.nodes, source);
      if (agrees.ok()) agrees = Agree(dranet, file, said.dranet_nodes, dranet_source);
      if (!agrees.ok()) return agrees.error();
    }
  }
  return said;
}

Result<NumaIds> PlaceByNode(const CdiNode& node, DeviceNuma& kernel) {
  if (node.number) {
    const Result<std::optional<NumaIds>> shown = kernel.OfDeviceNumber(*node.number);
    if (!shown.ok()) return shown.error();
    if (*shown) return **shown;
  }
  Result<NumaIds> ids = kernel.OfDeviceNode(node.host_path);
  if (ids.ok() && ids->empty()) ids = kernel.OfDeviceNode(node.path);
  return ids;
}

Result<NumaIds> PlaceByNodes(const std::vector<CdiNode>& nodes,
                             const std::vector<std::string>& interfaces, DeviceNuma& kernel) {
  NumaIds all;
  for (const CdiNode& node : nodes) {
    Result<NumaIds> ids = PlaceByNode(node, kernel);
    if (!ids.ok()) return ids;
    all.merge(*ids);
  }
  for (const std::string& interface : interfaces) {
    Result<NumaIds> ids = kernel.OfInterface(interface);
    if (!ids.ok()) return ids;
    all.merge(*ids);
  }
  return all;
}

Result<Location> LocateOne(const PreparedDevice& device, const CdiRegistry& registry,
                           DeviceNuma& kernel) {
  Location located;
  if (device.cdi_names.empty()) {
    located.note = "without a CDI name";
    return located;
  }
  if (device.driver.empty() || device.pool.empty() || device.name.empty()) {
    return Contradiction("its driver has prepared it without a pool or a name");
  }
  std::vector<CdiNode> nodes;
  std::vector<std::string> interfaces;
  std::set<std::string> mounts;
  for (const std::string& name : device.cdi_names) {
    const Result<CdiEdits> edits = registry.Find(name);
    if (!edits.ok()) return edits.error();
    std::ranges::copy(edits->device_nodes, std::back_inserter(nodes));
    std::ranges::copy(edits->net_devices, std::back_inserter(interfaces));
    mounts.insert(edits->mounts.begin(), edits->mounts.end());
  }
  const Result<Said> said = PlaceByDriver(device, mounts, kernel);
  if (!said.ok()) return said.error();
  Result<NumaIds> ids = said->nodes.empty() ? PlaceByNodes(nodes, interfaces, kernel) : said->nodes;
  if (!ids.ok()) return ids.error();
  if (ids->empty()) ids = said->dranet_nodes;
  located.numa.assign(ids->begin(), ids->end());
  if (ids->empty() && !said->foreign_attribute.empty()) {
    located.note = "attribute " + said->foreign_attribute + " is not used";
  }
  return located;
}

}  // namespace

Result<std::vector<PreparedClaim>> ReadClaims(const Places& places) {
  const Result<std::string> text = host::ReadFile(places.prepared_claims);
  if (!text.ok()) {
    if (text.error().code == ErrorCode::kNotFound) return std::vector<PreparedClaim>();
    return Unavailable(text.error());
  }
  Result<std::vector<PreparedClaim>> claims = ParsePreparedClaims(*text);
  if (!claims.ok()) {
    return Unavailable(host::ContentError(claims.error(), places.prepared_claims));
  }
  return claims;
}

Result<std::vector<PreparedDevice>> PreparedFor(const Places& places, const std::string& pod_uid) {
  const Result<std::vector<PreparedClaim>> claims = ReadClaims(places);
  if (!claims.ok()) return claims.error();
  return DevicesOf(*claims, pod_uid);
}

std::vector<Result<Location>> LocateEach(const Places& places,
                                         const std::vector<PreparedDevice>& devices) {
  std::vector<Result<Location>> located;
  if (devices.empty()) return located;
  const CdiRegistry registry = CdiRegistry::Read(places.cdi_directories);
  DeviceNuma kernel(places.root);
  for (const PreparedDevice& device : devices) {
    Result<Location> one = LocateOne(device, registry, kernel);
    if (!one.ok()) one = Unavailable(one.error().In(IdOf(device)));
    located.push_back(std::move(one));
  }
  return located;
}

Result<std::vector<ClaimedDevice>> Locate(const Places& places,
                                          const std::vector<PreparedDevice>& devices) {
  std::vector<Result<Location>> places_of = LocateEach(places, devices);
  std::vector<ClaimedDevice> located;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!places_of[i].ok()) return places_of[i].error();
    Location& place = *places_of[i];
    const std::string note = place.note.empty() ? "" : " (" + place.note + ")";
    located.push_back({.name = IdOf(devices[i]) + note, .numa = std::move(place.numa)});
  }
  return located;
}

}  // namespace alignd::dra
