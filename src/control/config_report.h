// The settings with which alignd runs, and where each comes from.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "alignd/config/kubelet_config.h"
#include "alignd/control/v1/control.pb.h"

namespace alignd::control {

// Every field that alignd honours, in the order of config/kubelet-config.yaml, with its value in
// YAML's short form. `given`: the fields of the file, with their values as JSON; the others have
// their defaults.
std::vector<v1::Setting> ReportFields(const KubeletConfig& config,
                                      const std::map<std::string, std::string>& given);

}  // namespace alignd::control
