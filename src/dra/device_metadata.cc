#include "dra/device_metadata.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "dra/json.h"

namespace alignd::dra {
namespace {

using nlohmann::json;

constexpr int64_t kMaxNode = 1023;  // as MAX_NUMNODES of any architecture

Error WrongMetadata(const std::string& what) {
  return {ErrorCode::kInvalidArgument, what, "see the documentation of the DRA driver"};
}

// An attribute's value, under the name with or without the domain.
const json& Attribute(const json& attributes, const char* name) {
  const json& plain = MemberOf(attributes, name);
  if (!plain.is_null()) return plain;
  return MemberOf(attributes, ("resource.kubernetes.io/" + std::string(name)).c_str());
}

// The value is a number, or a list of which the first is the node of the device itself (KEP-6072).
Result<std::optional<int64_t>> NumaNode(const json& attribute) {
  const json& list = ElementsOf(attribute, "ints");
  const json& number = list.empty() ? MemberOf(attribute, "int") : list.front();
  if (attribute.is_null()) return std::optional<int64_t>();
  const bool is_node = number.is_number_integer() && number >= 0 && number <= kMaxNode;
  if (!is_node) return WrongMetadata("numaNode: " + attribute.dump(-1, ' ', true) + " is no node");
  return std::optional(number.get<int64_t>());
}

// The first JSON text.
std::string_view FirstText(std::string_view text) {
  const char* end = text.data();
  int depth = 0;
  bool is_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_string) {
      if (c == '\\') ++i;
      is_string = c != '"';
    } else if (c == '"') {
      is_string = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      end = text.data() + i + 1;
      break;
    }
  }
  return end == text.data() ? text : text.substr(0, static_cast<size_t>(end - text.data()));
}

}  // namespace

Result<std::vector<DeviceMetadata>> ParseDeviceMetadata(std::string_view text) {
  std::vector<DeviceMetadata> devices;
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return devices;
  const Result<json> parsed = ParseObject(FirstText(text));
  if (!parsed.ok()) return parsed.error();
  if (TextOf(*parsed, "kind") != "DeviceMetadata") {
    return WrongMetadata("kind: \"" + TextOf(*parsed, "kind") + "\" is not DeviceMetadata");
  }
  for (const json& request : ElementsOf(*parsed, "requests")) {
    for (const json& entry : ElementsOf(request, "devices")) {
      const json& attributes = MemberOf(entry, "attributes");
      DeviceMetadata device{.name = TextOf(entry, "name"),
                            .numa_node = {},
                            .pci_bus_id = TextOf(Attribute(attributes, "pciBusID"), "string"),
                            .pcie_root = TextOf(Attribute(attributes, "pcieRoot"), "string")};
      Result<std::optional<int64_t>> node = NumaNode(Attribute(attributes, "numaNode"));
      if (!node.ok()) return node.error().In("device " + device.name);
      device.numa_node = *node;
      devices.push_back(std::move(device));
    }
  }
  return devices;
}

bool IsMetadataPath(std::string_view path) {
  return path.find("/dra-device-metadata/") != std::string_view::npos &&
         path.ends_with("/metadata.json");
}

}  // namespace alignd::dra
