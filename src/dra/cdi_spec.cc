#include "dra/cdi_spec.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "dra/json.h"

namespace alignd::dra {
namespace {

using nlohmann::json;

Error WrongSpec(const std::string& what) {
  return {ErrorCode::kInvalidArgument, what, "see the documentation of the driver that writes it"};
}

CdiEdits ReadEdits(const json& owner) {
  CdiEdits edits;
  const json& read = MemberOf(owner, "containerEdits");
  for (const json& entry : ElementsOf(read, "deviceNodes")) {
    CdiNode node{.path = TextOf(entry, "path"), .host_path = TextOf(entry, "hostPath")};
    if (node.host_path.empty()) node.host_path = node.path;
    edits.device_nodes.push_back(std::move(node));
  }
  for (const json& entry : ElementsOf(read, "mounts")) {
    edits.mounts.push_back(TextOf(entry, "hostPath"));
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
