// Which device alignd assigns for an id that the kubelet allocated: a mode for each resource.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/result.h"

namespace alignd::mirror {

enum class BindingMode {
  kPreferred,  // the device with that id, unless the policy would refuse or misalign the container
  kDeferred,   // the best device when the container is created
  kStrict,     // the device with that id, or none: for plugins that rely on the kubelet's ids
};

// `preferred`, `deferred` or `strict`. For one more release the former names are accepted, too:
// `steered`, `late`, `counted`. Errors: kInvalidArgument, naming the three modes.
Result<BindingMode> ParseBindingMode(std::string_view text);

// The mode of the resources whose names match.
struct BindingRule {
  std::string pattern;  // a resource name; `*` stands for any text, also none
  BindingMode mode = BindingMode::kPreferred;

  friend bool operator==(const BindingRule&, const BindingRule&) = default;
};

// `PATTERN=MODE`. Errors: kInvalidArgument: no mode, an unknown one, or a pattern that no device
// plugin's resource can match.
Result<BindingRule> ParseBindingRule(std::string_view text);

// A value.
class BindingModes {
 public:
  // The same mode for all resources.
  BindingModes(BindingMode usual) : usual_(usual) {}  // NOLINT(google-explicit-constructor)
  // The first rule that matches a resource applies.
  BindingModes(BindingMode usual, std::vector<BindingRule> rules)
      : usual_(usual), rules_(std::move(rules)) {}

  BindingMode Of(std::string_view resource) const;

 private:
  BindingMode usual_;
  std::vector<BindingRule> rules_;
};

}  // namespace alignd::mirror
