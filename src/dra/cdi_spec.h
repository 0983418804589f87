// A CDI specification: what a runtime adds to a container for a named device. Drivers of DRA write
// one for each claim or for each device.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"

namespace alignd::dra {

// The edits of which alignd needs to know, as paths on the host.
struct CdiEdits {
  std::vector<std::string> device_nodes;
  std::vector<std::string> mounts;

  friend bool operator==(const CdiEdits&, const CdiEdits&) = default;
};

struct CdiSpec {
  std::string kind;                         // "vendor.com/gpu"
  std::map<std::string, CdiEdits> devices;  // by name within the kind
  CdiEdits common;                          // with every device of the kind

  friend bool operator==(const CdiSpec&, const CdiSpec&) = default;
};

// `text` is JSON. Fields that alignd does not use are skipped.
// Errors: kInvalidArgument, naming the field: not JSON, no kind, a device without a name or with
// the name of another one, a path that is no absolute path.
// Source: github.com/cncf-tags/container-device-interface, SPEC.md; specs-go/config.go.
Result<CdiSpec> ParseCdiSpec(std::string_view text);

// A name by which a container gets a device: "vendor.com/gpu=gpu0".
struct CdiName {
  std::string vendor;  // "vendor.com"
  std::string kind;    // "vendor.com/gpu"
  std::string device;  // "gpu0"
};

// nullopt: it is no such name. Source: as above, pkg/parser/parser.go, ParseQualifiedName.
std::optional<CdiName> ParseCdiName(std::string_view text);

}  // namespace alignd::dra
