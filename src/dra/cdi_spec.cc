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

// Adds the host's path of each entry: `hostPath`, else `path` if the entry may lack it.
Result<Done> AddPaths(const json& edits, const char* list, const char* otherwise,
                      std::vector<std::string>& paths) {
  for (const json& entry : ElementsOf(edits, list)) {
    std::string path = TextOf(entry, "hostPath");
    if (path.empty() && otherwise != nullptr) path = TextOf(entry, otherwise);
    if (!path.starts_with('/')) {
      return WrongSpec(std::string(list) + ": \"" + path + "\" is no absolute path");
    }
    paths.push_back(std::move(path));
  }
  return Done{};
}

Result<CdiEdits> ReadEdits(const json& owner) {
  CdiEdits edits;
  const json& read = MemberOf(owner, "containerEdits");
  if (Result<Done> nodes = AddPaths(read, "deviceNodes", "path", edits.device_nodes); !nodes.ok()) {
    return nodes.error();
  }
  if (Result<Done> mounts = AddPaths(read, "mounts", nullptr, edits.mounts); !mounts.ok()) {
    return mounts.error();
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
  Result<CdiEdits> common = ReadEdits(*parsed);
  if (!common.ok()) return common.error();
  spec.common = *std::move(common);
  for (const json& device : ElementsOf(*parsed, "devices")) {
    const std::string name = TextOf(device, "name");
    if (name.empty()) return WrongSpec("devices: a device has no name");
    Result<CdiEdits> edits = ReadEdits(device);
    if (!edits.ok()) return edits.error().In("device " + name);
    if (!spec.devices.emplace(name, *std::move(edits)).second) {
      return WrongSpec("devices: two have the name " + name);
    }
  }
  return spec;
}

std::optional<CdiName> ParseCdiName(std::string_view text) {
  const size_t equals = text.find('=');
  const size_t slash = text.substr(0, equals).find('/');
  if (equals == std::string_view::npos || slash == std::string_view::npos) return std::nullopt;
  CdiName name{.vendor = std::string(text.substr(0, slash)),
               .kind = std::string(text.substr(0, equals)),
               .device = std::string(text.substr(equals + 1))};
  if (name.vendor.empty() || slash + 1 == equals || name.device.empty()) return std::nullopt;
  return name;
}

}  // namespace alignd::dra
