#include "alignd/pod/unsupported_annotations.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "alignd/pod/annotated_resources.h"
#include "alignd/pod/pod_policies.h"
#include "core/base/nearest_name.h"

namespace alignd {
namespace {

constexpr std::array<std::string_view, 2> kResourceManagers = {"cri-resource-manager.intel.com",
                                                               "resource-policy.nri.io"};

// What Koordinator's scheduler has decided about devices: types and numbers of the kernel's, which
// no device plugin knows, and shares of devices.
// Source: koordinator apis/extension/device_share.go.
constexpr std::string_view kDeviceAllocated = "scheduling.koordinator.sh/device-allocated";

// Annotations that alignd reads. One that is spelled almost so is meant to be read.
constexpr std::array<std::string_view, 5> kRead = {kResourcesAnnotation, kSharedCpusAnnotation,
                                                   kNumaTopologyAnnotation, kResourceSpecAnnotation,
                                                   kResourceStatusAnnotation};
// alignd's own annotations are no others.
constexpr std::string_view kOwnDomain = "alignd.io";

bool IsMisspelt(std::string_view annotation) {
  if (std::ranges::find(kRead, annotation) != kRead.end()) return false;
  return std::ranges::any_of(
      kRead, [&](std::string_view known) { return IsMisspelling(annotation, known); });
}

// Whether `name` is a name below the domain: KEY.DOMAIN.
bool IsBelow(std::string_view name, std::string_view domain) {
  return name.size() > domain.size() + 1 && name.ends_with(domain) &&
         name[name.size() - domain.size() - 1] == '.';
}

}  // namespace

std::string_view UnsupportedName(std::string_view annotation) {
  if (annotation == kDeviceAllocated || IsMisspelt(annotation)) return annotation;
  const size_t slash = annotation.find('/');
  const std::string_view prefix = annotation.substr(0, slash);
  if (prefix == kOwnDomain && slash != std::string_view::npos &&
      std::ranges::find(kRead, annotation) == kRead.end()) {
    return annotation;
  }
  for (const std::string_view domain : kResourceManagers) {
    if (IsBelow(prefix, domain)) return prefix;
    if (prefix == domain && slash != std::string_view::npos) return annotation;
  }
  return {};
}

void NoteUnsupported(std::string_view annotation, std::set<std::string>& names) {
  constexpr size_t kLongestKey = 253 + 1 + 63;  // Kubernetes has none that is longer
  const std::string_view name = UnsupportedName(annotation);
  if (name.empty() || annotation.size() > kLongestKey) return;
  AddUnsupported(name, names);
}

void AddUnsupported(std::string_view name, std::set<std::string>& names) {
  names.emplace(name);
  if (names.size() > kMaxUnsupported) names.erase(std::prev(names.end()));
}

std::string DescribeUnsupported(const std::set<std::string>& names) {
  if (names.empty()) return {};
  std::string text = names.size() == 1 ? "annotation " : "annotations ";
  for (const std::string& name : names) text += (name == *names.begin() ? "" : ", ") + name;
  return text + (names.size() == 1 ? " is" : " are") + " not supported";
}

}  // namespace alignd
