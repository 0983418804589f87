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
// -1: as the kernel writes it, the node is not known.
void ReadNode(const json& attribute, DeviceMetadata& device) {
  if (attribute.is_null()) return;
  const json& list = ElementsOf(attribute, "ints");
  const json& number = list.empty() ? MemberOf(attribute, "int") : list.front();
  if (!number.is_number_integer() || number < -1 || number > kMaxNode) {
    device.wrong_node = attribute.dump(-1, ' ', false, json::error_handler_t::replace);
  } else if (number >= 0) {
    device.numa_node = number.get<int64_t>();
  }
}

// Attributes of other domains that have the name of Kubernetes' own. A name without a domain is of
// the driver's.
std::string ForeignAttribute(const json& attributes) {
  if (!attributes.is_object()) return {};
  for (const auto& [name, value] : attributes.items()) {
    const bool is_node = name == "numaNode" || name.ends_with("/numaNode");
    if (is_node && name != "resource.kubernetes.io/numaNode") return name;
  }
  return {};
}

}  // namespace

Result<std::vector<DeviceMetadata>> ParseDeviceMetadata(std::string_view text) {
  std::vector<DeviceMetadata> devices;
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return devices;
  const Result<json> parsed = ParseObject(FirstJsonObject(text));
  if (!parsed.ok()) return parsed.error();
  if (TextOf(*parsed, "kind") != "DeviceMetadata") {
    return Error{ErrorCode::kInvalidArgument, "its kind is not DeviceMetadata",
                 "see the documentation of the DRA driver that writes it"};
  }
  for (const json& request : ElementsOf(*parsed, "requests")) {
    for (const json& entry : ElementsOf(request, "devices")) {
      const json& attributes = MemberOf(entry, "attributes");
      DeviceMetadata& device = devices.emplace_back();
      device.driver = TextOf(entry, "driver");
      device.pool = TextOf(entry, "pool");
      device.name = TextOf(entry, "name");
      ReadNode(Attribute(attributes, "numaNode"), device);
      device.pci_bus_id = TextOf(Attribute(attributes, "pciBusID"), "string");
      device.pcie_root = TextOf(Attribute(attributes, "pcieRoot"), "string");
      device.foreign_attribute = ForeignAttribute(attributes);
    }
  }
  return devices;
}

bool IsMetadataPath(std::string_view path) {
  return path.find("/dra-device-metadata/") != std::string_view::npos &&
         path.ends_with("/metadata.json");
}

}  // namespace alignd::dra
