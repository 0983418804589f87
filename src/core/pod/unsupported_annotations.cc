#include "alignd/pod/unsupported_annotations.h"

#include <array>
#include <iterator>

namespace alignd {
namespace {

constexpr std::array<std::string_view, 2> kResourceManagers = {"cri-resource-manager.intel.com",
                                                               "resource-policy.nri.io"};

// What Koordinator's scheduler has decided about devices: types and numbers of the kernel's, which
// no device plugin knows, and shares of devices.
// Source: koordinator apis/extension/device_share.go.
constexpr std::string_view kDeviceAllocated = "scheduling.koordinator.sh/device-allocated";

// Whether `name` is a name below the domain: KEY.DOMAIN.
bool IsBelow(std::string_view name, std::string_view domain) {
  return name.size() > domain.size() + 1 && name.ends_with(domain) &&
         name[name.size() - domain.size() - 1] == '.';
}

}  // namespace

std::string_view UnsupportedName(std::string_view annotation) {
  if (annotation == kDeviceAllocated) return annotation;
  const size_t slash = annotation.find('/');
  const std::string_view prefix = annotation.substr(0, slash);
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
