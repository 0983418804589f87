#include "core/config/feature_gates.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/config/config_problem.h"
#include "alignd/config/feature_gates.h"
#include "core/base/nearest_name.h"
#include "core/config/known_feature_gates.h"

namespace alignd {
namespace {

using json::View;

constexpr char kResources[] = "PodLevelResources";
constexpr char kManagers[] = "PodLevelResourceManagers";
constexpr char kClaimsOfAmounts[] = "DRANodeAllocatableResources";

// Those that change what alignd does.
constexpr auto kFollowed = std::to_array<std::string_view>(
    {"AllAlpha", "AllBeta", kResources, kManagers, kClaimsOfAmounts});

bool IsFollowed(std::string_view gate) {
  return std::ranges::find(kFollowed, gate) != kFollowed.end();
}

bool IsOther(std::string_view gate) {
  return std::ranges::find(OtherFeatureGates(), gate) != OtherFeatureGates().end();
}

std::string NearestGate(std::string_view gate) {
  std::vector<std::string_view> names(kFollowed.begin(), kFollowed.end());
  names.insert(names.end(), OtherFeatureGates().begin(), OtherFeatureGates().end());
  return std::string(NearestName(gate, names));
}

// Without it, the misspelt gate would be off without a word.
Result<Done> RequireNoMisspelling(const std::string& gate, const View& member) {
  for (const std::string_view followed : kFollowed) {
    if (!IsMisspelling(gate, followed)) continue;
    Error error = member.Wrong("is no feature gate");
    error.remedy = "did you mean " + std::string(followed) + "?";
    return error;
  }
  return Done{};
}

std::optional<bool> Stated(const KubeletConfig& config, const std::string& gate) {
  const auto entry = config.feature_gates.find(gate);
  return entry == config.feature_gates.end() ? std::nullopt : std::optional(entry->second);
}

// Without it, pods have no pod-level resources.
bool PodLevelResourcesOn(const KubeletConfig& config) {
  return Stated(config, kResources).value_or(Stated(config, "AllBeta").value_or(true));
}

bool ManagersRequested(const KubeletConfig& config) {
  if (config.compatibility == Compatibility::k1_20) return false;
  const bool is_alpha = config.compatibility == Compatibility::k1_36;
  const bool as_all = Stated(config, is_alpha ? "AllAlpha" : "AllBeta").value_or(false);
  return Stated(config, kManagers).value_or(as_all);
}

}  // namespace

bool PodLevelResourceManagersOn(const KubeletConfig& config) {
  return ManagersRequested(config) && PodLevelResourcesOn(config);
}

bool DraNodeAllocatableResourcesOn(const KubeletConfig& config) {
  if (config.compatibility == Compatibility::k1_20) return false;
  return Stated(config, kClaimsOfAmounts).value_or(Stated(config, "AllAlpha").value_or(false));
}

Result<Done> ReadFeatureGates(const View& top, KubeletConfig& config) {
  const Result<std::optional<View>> gates = top.Find("featureGates");
  if (!gates.ok()) return gates.error();
  if (!*gates) return Done{};
  const auto members = (*gates)->Members();
  if (!members.ok()) return members.error();
  for (const auto& [gate, member] : *members) {
    if (member.value().is_null()) continue;
    const Result<bool> on = member.Bool();
    if (!on.ok()) return on.error();
    if (IsOther(gate)) continue;
    if (IsFollowed(gate)) {
      config.feature_gates[gate] = *on;
      continue;
    }
    if (Result<Done> spelt = RequireNoMisspelling(gate, member); !spelt.ok()) return spelt;
    config.unknown_feature_gates[gate] = *on;
  }
  if (!ManagersRequested(config) || PodLevelResourcesOn(config)) return Done{};
  // Source: k8s.io/component-base/featuregate, the check of dependencies.
  return Error{
      ErrorCode::kInvalidArgument,
      std::string(kManagers) + " is enabled, but depends on features that are disabled: [" +
          kResources + "]",
      std::string("set featureGates.") + kResources + ": true, or " + kManagers + ": false"};
}

std::optional<Error> UnknownFeatureGates(const KubeletConfig& config) {
  if (config.unknown_feature_gates.empty()) return std::nullopt;
  constexpr size_t kMaxShown = 12;
  std::string names;
  size_t shown = 0;
  for (const auto& [gate, on] : config.unknown_feature_gates) {
    if (shown++ == kMaxShown) break;
    const std::string nearest = NearestGate(gate);
    names += (names.empty() ? "" : ", ") + (gate.empty() ? "\"\"" : gate) +
             (nearest.empty() ? "" : " (did you mean " + nearest + "?)");
  }
  if (config.unknown_feature_gates.size() > kMaxShown) {
    names += " and " + std::to_string(config.unknown_feature_gates.size() - kMaxShown) + " more";
  }
  return Error{ErrorCode::kInvalidArgument,
               "feature gates that alignd does not know have no effect: " + names,
               "correct the names; a kubelet refuses gates that it does not know. If they are of a "
               "newer kubelet, leave them: they change nothing that alignd does"};
}

}  // namespace alignd
