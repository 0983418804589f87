// Which device belongs to each kubelet-allocated id of a container, and the text of alignd's own
// file device_bindings.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"

namespace alignd::checkpoint {

// Kubelet-allocated id -> the device that is assigned to the container. No two ids share a device.
using Binding = std::map<std::string, std::string>;

// Container -> resource -> binding. Inner maps and bindings are never empty.
using Bindings = std::map<ContainerKey, std::map<std::string, Binding>>;

inline constexpr std::string_view kBindingFileName = "device_bindings";

// The whole file, with a checksum over its content. One line, no line end.
std::string FormatBindingCheckpoint(const Bindings& bindings);

// Errors: kCorrupt, naming what is wrong: not JSON, a wrong type, a checksum that does not match
// or is missing, an entry without name or ids, the same entry twice, or two ids with one device.
Result<Bindings> ParseBindingCheckpoint(std::string_view text);

}  // namespace alignd::checkpoint
