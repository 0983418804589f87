// What the flags of a node's alignd say in place of its KubeletConfiguration.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "alignd/base/result.h"
#include "alignd/config/pod_policy_switch.h"

namespace alignd::placement {

struct PolicyFlags {
  std::optional<std::set<PodPolicy>> pod_policies = {};            // --pod-policies
  std::optional<std::set<std::string>> shared_pool_handlers = {};  // --shared-pool-handlers
  std::optional<std::set<std::string>> not_devices = {};           // --not-devices
  std::optional<bool> annotated_extended_resources = {};           // --annotated-extended-resources

  friend bool operator==(const PolicyFlags&, const PolicyFlags&) = default;
};

// The KubeletConfiguration, in JSON, with the flags as alignd applies them (LetNoPodsChoose). An
// empty text stays empty: there is none.
// Errors: kInvalidArgument: the text is no JSON object.
Result<std::string> WithFlags(const std::string& config, const PolicyFlags& flags);

}  // namespace alignd::placement
