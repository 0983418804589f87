#include "dra/cdi_spec.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "dra/json.h"

namespace alignd::dra {
namespace {

using nlohmann::json;

Error WrongSpec(const std::string& what) {
  return {ErrorCode::kInvalidArgument, what, "see the documentation of the driver that writes it"};
}

// Without a type or a major number, the runtime takes both from the node on the host.
// Source: container-device-interface, pkg/cdi/container-edits_unix.go, fillMissingInfo.
std::optional<DeviceNumber> NumberOf(const json& node) {
  const std::string type = TextOf(node, "type");
  const json& major = MemberOf(node, "major");
  const json& minor = MemberOf(node, "minor");
  const bool is_block = type == "b";
  if (!is_block && type != "c" && type != "u") return std::nullopt;
  if (!major.is_number_unsigned() || major == 0) return std::nullopt;
  if (!minor.is_null() && !minor.is_number_unsigned()) return std::nullopt;
  const uint64_t number = minor.is_null() ? 0 : minor.get<uint64_t>();
  return DeviceNumber{is_block, major.get<uint64_t>(), number};
}

CdiEdits ReadEdits(const json& owner) {
  CdiEdits edits;
  const json& read = MemberOf(owner, "containerEdits");
  for (const json& entry : ElementsOf(read, "deviceNodes")) {
    CdiNode node{.path = TextOf(entry, "path"),
                 .host_path = TextOf(entry, "hostPath"),
                 .number = NumberOf(entry)};
    if (node.host_path.empty()) node.host_path = node.path;
    edits.device_nodes.push_back(std::move(node));
  }
  for (const json& entry : ElementsOf(read, "mounts")) {
    edits.mounts.push_back(TextOf(entry, "hostPath"));
  }
  for (const json& entry : ElementsOf(read, "netDevices")) {
    edits.net_devices.push_back(TextOf(entry, "hostInterfaceName"));
  }
  return edits;
}

}  // namespace

Result<CdiSpec> ParseCdiSpec(std::string_view text) {
  const Result<json> parsed = ParseObject(text);
  if (!parsed.ok()) return parsed.error();
  CdiSpec spec;
  spec.kind = TextOf(*parsed, "kind");
  const size_t slash = spec.kind.find('/');
  if (slash == 0 || slash == std::string::npos || slash + 1 == spec.kind.size()) {
    return WrongSpec("kind: \"" + spec.kind + "\" is not of the form vendor.com/class");
  }
  spec.common = ReadEdits(*parsed);
  for (const json& device : ElementsOf(*parsed, "devices")) {
    const std::string name = TextOf(device, "name");
    if (name.empty()) return WrongSpec("devices: a device has no name");
    if (!spec.devices.emplace(name, ReadEdits(device)).second) {
      return WrongSpec("devices: two have the name " + name);
    }
  }
  return spec;
}

}  // namespace alignd::dra
