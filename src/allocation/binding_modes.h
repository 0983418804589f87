// Which device an id that the kubelet counted becomes: by resource, as the operator wants it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/result.h"

namespace alignd::allocation {

enum class BindingMode {
  kPreferred,  // the one of that id, unless the policy would refuse or misalign with it
  kDeferred,   // the best one
  kStrict,     // the one of that id or none: where others go by the ids that the kubelet shows
};

// `steered`, `late` or `counted`. Errors: kInvalidArgument, naming the three.
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
  // All resources alike.
  BindingModes(BindingMode usual) : usual_(usual) {}  // NOLINT(google-explicit-constructor)
  // The first rule that matches a resource counts.
  BindingModes(BindingMode usual, std::vector<BindingRule> rules)
      : usual_(usual), rules_(std::move(rules)) {}

  BindingMode Of(std::string_view resource) const;

 private:
  BindingMode usual_;
  std::vector<BindingRule> rules_;
};

}  // namespace alignd::allocation
