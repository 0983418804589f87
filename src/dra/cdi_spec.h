// A CDI specification: what a runtime adds to a container for a named device. Drivers of DRA write
// one for each claim or for each device.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "dra/device_numa.h"

namespace alignd::dra {

struct CdiNode {
  std::string path;       // in the container
  std::string host_path;  // as `path` if the specification has none
  // If the specification states it: the runtime makes the node by it, whatever the paths are.
  std::optional<DeviceNumber> number = {};

  friend bool operator==(const CdiNode&, const CdiNode&) = default;
};

// The edits of which alignd needs to know.
struct CdiEdits {
  std::vector<CdiNode> device_nodes;
  std::vector<std::string> mounts;       // paths on the host
  std::vector<std::string> net_devices;  // names of network interfaces of the host

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
// the name of another one.
// Source: github.com/cncf-tags/container-device-interface, SPEC.md; specs-go/config.go.
Result<CdiSpec> ParseCdiSpec(std::string_view text);

}  // namespace alignd::dra
