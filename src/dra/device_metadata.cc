#include "dra/device_metadata.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "alignd/base/json_depth.h"
#include "dra/json.h"

namespace alignd::dra {
namespace {

using nlohmann::json;

constexpr int64_t kMaxNode = 1023;  // as MAX_NUMNODES of any architecture

// The value of an attribute of Kubernetes' own domain; a driver's own may mean something else.
const json& Attribute(const json& attributes, const char* name) {
  return MemberOf(attributes, ("resource.kubernetes.io/" + std::string(name)).c_str());
}

// The value is a number, or a list of which the first is the node of the device itself (KEP-6072).
std::optional<int64_t> NumaNode(const json& attribute) {
  const json& list = ElementsOf(attribute, "ints");
  const json& number = list.empty() ? MemberOf(attribute, "int") : list.front();
  if (!number.is_number_integer() || number < 0 || number > kMaxNode) return std::nullopt;
  return number.get<int64_t>();
}

}  // namespace

std::vector<DeviceMetadata> ParseDeviceMetadata(std::string_view text) {
  std::vector<DeviceMetadata> devices;
  const Result<json> parsed = ParseObject(FirstJsonObject(text));
  if (!parsed.ok() || TextOf(*parsed, "kind") != "DeviceMetadata") return devices;
  for (const json& request : ElementsOf(*parsed, "requests")) {
    for (const json& entry : ElementsOf(request, "devices")) {
      const json& attributes = MemberOf(entry, "attributes");
      devices.push_back({.name = TextOf(entry, "name"),
                         .numa_node = NumaNode(Attribute(attributes, "numaNode")),
                         .pci_bus_id = TextOf(Attribute(attributes, "pciBusID"), "string"),
                         .pcie_root = TextOf(Attribute(attributes, "pcieRoot"), "string")});
    }
  }
  return devices;
}

bool IsMetadataPath(std::string_view path) {
  return path.find("/dra-device-metadata/") != std::string_view::npos &&
         path.ends_with("/metadata.json");
}

}  // namespace alignd::dra
