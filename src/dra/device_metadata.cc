#include "dra/device_metadata.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
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

constexpr char kDranetNode[] = "dra.net/numaNode";

// Answers whether the value is a NUMA node: a number, or a list of which the first is the node of
// the device itself (KEP-6072). -1: as the kernel writes it, the node is not known.
bool ReadNode(const json& attribute, std::optional<int64_t>& node) {
  if (attribute.is_null()) return true;
  const json& list = ElementsOf(attribute, "ints");
  const json& number = list.empty() ? MemberOf(attribute, "int") : list.front();
  if (!number.is_number_integer() || number < -1 || number > kMaxNode) return false;
  if (number >= 0) node = number.get<int64_t>();
  return true;
}

// The value is a text, or a list of texts (KEP-5491): a device may be below several roots.
std::vector<std::string> ReadTexts(const json& attribute) {
  std::vector<std::string> texts;
  for (const json& text : ElementsOf(attribute, "strings")) {
    if (text.is_string()) texts.push_back(text.get<std::string>());
  }
  if (std::string text = TextOf(attribute, "string"); !text.empty()) texts.push_back(text);
  return texts;
}

// Attributes of other domains that have the name of Kubernetes' own. A name without a domain is of
// the driver's.
std::string ForeignAttribute(const json& attributes) {
  if (!attributes.is_object()) return {};
  for (const auto& [name, value] : attributes.items()) {
    const bool is_node = name == "numaNode" || name.ends_with("/numaNode");
    if (is_node && name != "resource.kubernetes.io/numaNode" && name != kDranetNode) return name;
  }
  return {};
}

constexpr char kKnownVersion[] = "metadata.resource.k8s.io/v1alpha1";

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// Of several objects, the first one of the known version; else the first DeviceMetadata.
// Errors: kInvalidArgument if there is none.
Result<json> FindMetadata(std::string_view text) {
  std::optional<json> found;
  while (!IsBlank(text)) {
    const std::string_view object = FirstJsonObject(text);
    text.remove_prefix(object.size());
    Result<json> parsed = ParseObject(object);
    if (!parsed.ok()) {
      if (found) break;
      return parsed.error();
    }
    if (TextOf(*parsed, "kind") != "DeviceMetadata") continue;
    if (TextOf(*parsed, "apiVersion") == kKnownVersion) return parsed;
    if (!found) found.emplace(*std::move(parsed));
  }
  if (found) return *std::move(found);
  return Error{ErrorCode::kInvalidArgument, "its kind is not DeviceMetadata",
               "see the documentation of the DRA driver that writes it"};
}

}  // namespace

Result<std::vector<DeviceMetadata>> ParseDeviceMetadata(std::string_view text) {
  std::vector<DeviceMetadata> devices;
  if (IsBlank(text)) return devices;
  const Result<json> parsed = FindMetadata(text);
  if (!parsed.ok()) return parsed.error();
  for (const json& request : ElementsOf(*parsed, "requests")) {
    for (const json& entry : ElementsOf(request, "devices")) {
      const json& attributes = MemberOf(entry, "attributes");
      DeviceMetadata& device = devices.emplace_back();
      device.driver = TextOf(entry, "driver");
      device.pool = TextOf(entry, "pool");
      device.name = TextOf(entry, "name");
      const json& node = Attribute(attributes, "numaNode");
      if (!ReadNode(node, device.numa_node)) {
        device.wrong_node = node.dump(-1, ' ', false, json::error_handler_t::replace);
      }
      device.pci_bus_id = TextOf(Attribute(attributes, "pciBusID"), "string");
      device.pcie_roots = ReadTexts(Attribute(attributes, "pcieRoot"));
      device.foreign_attribute = ForeignAttribute(attributes);
      if (!ReadNode(MemberOf(attributes, kDranetNode), device.dranet_node)) {
        device.foreign_attribute = kDranetNode;
      }
    }
  }
  return devices;
}

bool IsMetadataPath(std::string_view path) {
  return path.find("/dra-device-metadata/") != std::string_view::npos &&
         path.ends_with("/metadata.json");
}

}  // namespace alignd::dra
