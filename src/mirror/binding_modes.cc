#include "mirror/binding_modes.h"

#include <algorithm>

namespace alignd::mirror {
namespace {

constexpr char kAny = '*';

// The text between two stars matches at its first occurrence: that leaves the longest rest.
bool Matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find(kAny);
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  name.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  for (size_t next = pattern.find(kAny); next != std::string_view::npos;
       next = pattern.find(kAny)) {
    const std::string_view between = pattern.substr(0, next);
    const size_t found = name.find(between);
    if (found == std::string_view::npos) return false;
    name.remove_prefix(found + between.size());
    pattern.remove_prefix(next + 1);
  }
  return name.ends_with(pattern);
}

Error Invalid(std::string_view text, const std::string& why) {
  return {ErrorCode::kInvalidArgument, "\"" + std::string(text) + "\": " + why,
          "write it as intel.com/sriov*=strict"};
}

}  // namespace

Result<BindingMode> ParseBindingMode(std::string_view text) {
  if (text == "preferred" || text == "steered") return BindingMode::kPreferred;
  if (text == "deferred" || text == "late") return BindingMode::kDeferred;
  if (text == "strict" || text == "counted") return BindingMode::kStrict;
  return Error{ErrorCode::kInvalidArgument,
               "\"" + std::string(text) + "\" is none of preferred, deferred, strict",
               "write one of these modes"};
}

Result<BindingRule> ParseBindingRule(std::string_view text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) return Invalid(text, "no mode");
  const Result<BindingMode> mode = ParseBindingMode(text.substr(equals + 1));
  if (!mode.ok()) return Invalid(text, mode.error().message);
  const std::string_view pattern = text.substr(0, equals);
  if (pattern.empty()) return Invalid(text, "no resource");
  // A device plugin's resource has a domain in its name, unlike cpu or memory.
  if (pattern.find_first_of("/*") == std::string_view::npos) {
    return Invalid(text, "a device plugin's resource has a name like example.com/gpu");
  }
  return BindingRule{std::string(pattern), *mode};
}

BindingMode BindingModes::Of(std::string_view resource) const {
  const auto rule = std::ranges::find_if(
      rules_, [&](const BindingRule& r) { return Matches(r.pattern, resource); });
  return rule == rules_.end() ? usual_ : rule->mode;
}

}  // namespace alignd::mirror
