// What is wrong with a configuration, and where: every problem, not only the first.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"

namespace alignd {

// A value.
struct ConfigProblem {
  // Of KubeletConfiguration, with what is below it: "cpuManagerPolicyOptions.full-pcpu-only".
  // Empty: the text as a whole.
  std::string field;
  std::string value;  // of the field, as text; empty: it is not set
  Error error;        // the message is the kubelet's where the kubelet has the same error

  friend bool operator==(const ConfigProblem&, const ConfigProblem&) = default;
};

// What could be read of a configuration.
struct ReadConfig {
  KubeletConfig config;  // fields with a problem have their defaults, or a part of their value
  std::vector<ConfigProblem> problems;
};

// As ParseKubeletConfig, which gives the first problem.
ReadConfig ReadKubeletConfig(std::string_view json);

// "did you mean NAME?", or `otherwise` if no candidate is similar.
std::string SuggestName(std::string_view name, const std::vector<std::string_view>& candidates,
                        std::string otherwise);

// A warning about gates that are misspelt, or of a newer kubelet; with the names that were probably
// meant. nullopt: alignd knows all gates.
std::optional<Error> UnknownFeatureGates(const KubeletConfig& config);

}  // namespace alignd
