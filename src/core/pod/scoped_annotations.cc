#include "alignd/pod/scoped_annotations.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "alignd/config/kubelet_config.h"
#include "core/pod/shown_value.h"

namespace alignd {
namespace {

// In the order in which they count.
constexpr std::array<std::string_view, 2> kScopedDomains = {"resource-policy.nri.io",
                                                            "cri-resource-manager.intel.com"};
constexpr std::string_view kContainerScope = "/container.";
constexpr std::string_view kPodScope = "/pod";
constexpr size_t kMaxScopedAnnotations = 256;

std::string NameIn(std::string_view domain, std::string_view key) {
  return std::string(key) + "." + std::string(domain);
}

// The scope of such an annotation; nullopt: it is another one.
std::optional<std::string_view> ScopeOf(std::string_view annotation, std::string_view key) {
  const size_t slash = std::min(annotation.find('/'), annotation.size());
  for (const std::string_view domain : kScopedDomains) {
    if (annotation.substr(0, slash) == NameIn(domain, key)) return annotation.substr(slash);
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

}  // namespace

bool ReadScopedAnnotation(std::string_view key, std::string_view annotation, std::string_view value,
                          ScopedAnnotations& read) {
  constexpr size_t kLongestKey = 253 + 1 + 63;  // Kubernetes has none that is longer
  const std::optional<std::string_view> scope = ScopeOf(annotation, key);
  if (!scope || annotation.size() > kLongestKey) return false;
  const std::optional<bool> is_on = ParseGoBool(value);
  const std::string name(annotation.substr(0, annotation.size() - scope->size()));
  if (!scope->empty() && *scope != kPodScope && !IsContainerScope(*scope)) {
    read.fault =
        "annotation " + name + ": the part from / on is not \"/pod\" or \"/container.NAME\"";
  } else if (!is_on) {
    read.fault = "annotation " + name + std::string(*scope) + ": " + ShownValue(value) +
                 " is not \"true\" or \"false\"";
  } else if (read.values.size() == kMaxScopedAnnotations) {
    read.fault = "there are more than " + std::to_string(kMaxScopedAnnotations) + " annotations " +
                 std::string(key);
  } else {
    read.values[std::string(annotation)] = *is_on;
  }
  return true;
}

std::optional<bool> ValueFor(std::string_view container, std::string_view key,
                             const ScopedAnnotations& read) {
  for (const std::string_view domain : kScopedDomains) {
    const std::string name = NameIn(domain, key);
    for (const std::string& scope : {std::string(kContainerScope) + std::string(container),
                                     std::string(kPodScope), std::string()}) {
      const auto found = read.values.find(name + scope);
      if (found != read.values.end()) return found->second;
    }
    const auto first = read.values.lower_bound(name);
    if (first != read.values.end() && first->first.starts_with(name)) return std::nullopt;
  }
  return std::nullopt;
}

std::vector<std::string> ContainersNamed(const ScopedAnnotations& read) {
  std::vector<std::string> names;
  for (const auto& [annotation, is_on] : read.values) {
    const std::string_view scope =
        std::string_view(annotation).substr(std::min(annotation.find('/'), annotation.size()));
    if (IsContainerScope(scope)) names.emplace_back(scope.substr(kContainerScope.size()));
  }
  return names;
}

}  // namespace alignd
