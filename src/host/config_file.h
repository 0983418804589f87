// A `KubeletConfig` from a file, as the kubelet's --config names one.
#pragma once

#include <filesystem>

#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"

namespace alignd::host {

// Reads a YAML or JSON file of up to 1 MiB. Thread-safe.
// Errors: those of ReadFile, YamlToJson and ParseKubeletConfig, with the file's path in front; also
// kInvalidArgument if there is nothing in it.
// Source: kubelet pkg/kubelet/kubeletconfig/configfiles/configfiles.go, Load.
Result<KubeletConfig> ReadConfigFile(const std::filesystem::path& path);

}  // namespace alignd::host
