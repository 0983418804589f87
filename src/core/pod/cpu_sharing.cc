#include "alignd/pod/cpu_sharing.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "alignd/config/kubelet_config.h"

namespace alignd {
namespace {

// In the order in which they count.
constexpr std::array<std::string_view, 2> kSharingDomains = {"resource-policy.nri.io",
                                                             "cri-resource-manager.intel.com"};
constexpr std::string_view kContainerScope = "/container.";
constexpr std::string_view kPodScope = "/pod";
constexpr size_t kMaxSharingAnnotations = 256;

std::string NameIn(std::string_view domain) {
  return std::string(kPreferShared) + "." + std::string(domain);
}

// The scope of such an annotation; nullopt: it is another one.
std::optional<std::string_view> ScopeOf(std::string_view annotation) {
  const size_t slash = std::min(annotation.find('/'), annotation.size());
  for (const std::string_view domain : kSharingDomains) {
    if (annotation.substr(0, slash) == NameIn(domain)) return annotation.substr(slash);
  }
  return std::nullopt;
}

// Names of containers are DNS labels: such a name can stand in a message as it is.
bool IsContainerScope(std::string_view scope) {
  constexpr size_t kLongestLabel = 63;
  if (!scope.starts_with(kContainerScope)) return false;
  scope.remove_prefix(kContainerScope.size());
  return !scope.empty() && scope.size() <= kLongestLabel && std::ranges::all_of(scope, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

// A value as a message names it.
std::string ShownSharing(std::string_view value) {
  constexpr size_t kLongestValue = 64;
  const bool is_plain = value.size() <= kLongestValue && std::ranges::all_of(value, [](char c) {
                          return c >= 0x20 && c < 0x7f && c != '"';
                        });
  return is_plain ? "\"" + std::string(value) + "\"" : "the value";
}

}  // namespace

bool ReadSharingAnnotation(std::string_view annotation, std::string_view value,
                           CpuSharing& sharing) {
  constexpr size_t kLongestKey = 253 + 1 + 63;  // Kubernetes has none that is longer
  const std::optional<std::string_view> scope = ScopeOf(annotation);
  if (!scope || annotation.size() > kLongestKey) return false;
  const std::optional<bool> prefers = ParseGoBool(value);
  const std::string name(annotation.substr(0, annotation.size() - scope->size()));
  if (!scope->empty() && *scope != kPodScope && !IsContainerScope(*scope)) {
    sharing.fault =
        "annotation " + name + ": the part from / on is not \"/pod\" or \"/container.NAME\"";
  } else if (!prefers) {
    sharing.fault = "annotation " + name + std::string(*scope) + ": " + ShownSharing(value) +
                    " is not \"true\" or \"false\"";
  } else if (sharing.annotations.size() == kMaxSharingAnnotations) {
    sharing.fault = "there are more than " + std::to_string(kMaxSharingAnnotations) +
                    " annotations " + std::string(kPreferShared);
  } else {
    sharing.annotations[std::string(annotation)] = *prefers;
  }
  return true;
}

void ReadSharingLabel(std::string_view label, std::string_view value, CpuSharing& sharing) {
  if (label != kQosClassLabel) return;
  for (const std::string_view known : {"LSE", "LSR", "LS", "BE", ""}) {
    if (value != known) continue;
    sharing.qos_class = value;
    return;
  }
  sharing.label_fault = "label " + std::string(label) + ": " + ShownSharing(value) +
                        R"( is not "LSE", "LSR", "LS", "BE" or "")";
  if (value == "SYSTEM") sharing.label_fault += R"(: "SYSTEM" is not supported)";
}

std::optional<bool> PrefersShared(const CpuSharing& sharing, std::string_view container) {
  for (const std::string_view domain : kSharingDomains) {
    const std::string name = NameIn(domain);
    for (const std::string& scope : {std::string(kContainerScope) + std::string(container),
                                     std::string(kPodScope), std::string()}) {
      const auto found = sharing.annotations.find(name + scope);
      if (found != sharing.annotations.end()) return found->second;
    }
    const auto first = sharing.annotations.lower_bound(name);
    if (first != sharing.annotations.end() && first->first.starts_with(name)) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<bool> LabelShares(const CpuSharing& sharing) {
  if (sharing.qos_class.empty()) return std::nullopt;
  return sharing.qos_class == "LS" || sharing.qos_class == "BE";
}

std::vector<std::string> ContainersNamed(const CpuSharing& sharing) {
  std::vector<std::string> names;
  for (const auto& [annotation, prefers] : sharing.annotations) {
    const std::string_view scope = *ScopeOf(annotation);
    if (IsContainerScope(scope)) names.emplace_back(scope.substr(kContainerScope.size()));
  }
  return names;
}

}  // namespace alignd
