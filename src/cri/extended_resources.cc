#include "cri/extended_resources.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "alignd/pod/resource_name.h"

namespace alignd::cri {
namespace {

// Resources of this domain name a DeviceClass: only DRA drivers serve them.
constexpr std::string_view kDeviceClass = "deviceclass.resource.kubernetes.io/";

bool MayBeServed(const std::string& resource) {
  return MayBeDevice(resource) || resource.starts_with(kDeviceClass);
}

// The second number of "container-0-request-2".
std::optional<size_t> IndexOf(std::string_view request) {
  constexpr std::string_view kMark = "-request-";
  const size_t at = request.find(kMark);
  if (!request.starts_with("container-") || at == std::string_view::npos) return std::nullopt;
  const std::string_view number = request.substr(at + kMark.size());
  size_t index = 0;
  const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), index);
  const bool is_whole = code == std::errc() && end == number.data() + number.size();
  return is_whole ? std::optional(index) : std::nullopt;
}

// The resource of that request; empty: it is not known.
std::string ResourceOf(const Container& container, std::string_view request) {
  const std::optional<size_t> index = IndexOf(request);
  const ResourceList& sorted = container.resources.requests;
  if (!index || *index >= sorted.size()) return {};
  const std::string& resource = std::next(sorted.begin(), static_cast<ptrdiff_t>(*index))->first;
  return MayBeServed(resource) ? resource : std::string();
}

}  // namespace

bool RequestsExtended(const Container& container) {
  return std::ranges::any_of(container.resources.requests, [](const auto& request) {
    return MayBeServed(request.first) && !request.second.IsZero();
  });
}

Result<std::vector<std::string>> RemoveServedByDra(const devicemanager::DeviceState& plugins,
                                                   const std::vector<dra::PreparedDevice>& devices,
                                                   Container& container) {
  std::set<std::string> served;
  std::string unknown;
  for (const dra::PreparedDevice& device : devices) {
    for (const std::string& request : device.extended_requests) {
      const std::string resource = ResourceOf(container, request);
      if (resource.empty()) unknown = request;
      if (!resource.empty()) served.insert(resource);
    }
  }
  // The index counts all that the container requests. What the list here lacks, such as
  // ephemeral-storage in the estimate from CRI, shifts it to another resource.
  for (const auto& [resource, amount] : container.resources.limits) {
    if (amount.IsZero() || !MayBeServed(resource) || served.contains(resource)) continue;
    const bool has_plugin = plugins.resources.contains(resource);
    if (served.empty() && (unknown.empty() || !has_plugin)) continue;
    return Error{ErrorCode::kUnavailable,
                 "container " + container.name + " has a device of DRA for " +
                     (unknown.empty() ? "an extended resource" : unknown) +
                     ", and it is not known whether that is its " + resource +
                     (has_plugin ? ", of which there is a device plugin, too" : ""),
                 "switch on the kubelet's Pods API"};
  }
  for (const std::string& resource : served) {
    container.resources.limits.erase(resource);
    container.resources.requests.erase(resource);
  }
  return std::vector<std::string>(served.begin(), served.end());
}

}  // namespace alignd::cri
