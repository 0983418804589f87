#include "cri/extended_resources.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <string_view>

#include "alignd/pod/resource_name.h"

namespace alignd::cri {
namespace {

// Resources of this domain name a DeviceClass: only DRA drivers serve them.
constexpr std::string_view kDeviceClass = "deviceclass.resource.kubernetes.io/";

bool MayBeServed(const std::string& resource) {
  return MayBeDevice(resource) || resource.starts_with(kDeviceClass);
}

// Empty: the container has no such request, or it is not one that a DRA driver may serve.
std::string ResourceAt(const Container& container, size_t index) {
  const ResourceList& sorted = container.resources.requests;
  if (index >= sorted.size()) return {};
  const auto& [resource, amount] = *std::next(sorted.begin(), static_cast<ptrdiff_t>(index));
  return MayBeServed(resource) && !amount.IsZero() ? resource : std::string();
}

// As ResourceAt, of the container that the name of the request says.
std::string ResourceOf(const std::vector<Container>& spec, std::string_view request) {
  const auto name = dra::ParseExtendedRequest(request);
  if (!name || name->container >= spec.size()) return {};
  return ResourceAt(spec[name->container], name->resource);
}

// As ResourceOf, for a list that may lack containers and requests.
std::string ResourceOf(const std::vector<Container>& listed, const Container& container,
                       std::string_view request) {
  const std::string resource = ResourceOf(listed, request);
  if (!resource.empty() && container.resources.requests.contains(resource)) return resource;
  const auto name = dra::ParseExtendedRequest(request);
  return name ? ResourceAt(container, name->resource) : std::string();
}

}  // namespace

bool RequestsExtended(const Container& container) {
  return std::ranges::any_of(container.resources.requests, [](const auto& request) {
    return MayBeServed(request.first) && !request.second.IsZero();
  });
}

Result<std::vector<std::string>> RemoveServedByDra(const devicemanager::DeviceState& plugins,
                                                   const std::vector<dra::PreparedDevice>& devices,
                                                   const std::vector<Container>& listed,
                                                   Container& container) {
  std::set<std::string> served;
  std::string unknown;
  for (const dra::PreparedDevice& device : devices) {
    for (const std::string& request : device.extended_requests) {
      const std::string resource = ResourceOf(listed, container, request);
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
  std::vector<std::string> removed(served.begin(), served.end());
  RemoveResources(removed, container);
  return removed;
}

Result<std::vector<std::string>> ServedByDra(const devicemanager::DeviceState& plugins,
                                             const std::vector<dra::PreparedDevice>& devices,
                                             const std::vector<Container>& spec) {
  std::set<std::string> served;
  std::string unknown;
  for (const dra::PreparedDevice& device : devices) {
    for (const std::string& request : device.extended_requests) {
      const std::string resource = ResourceOf(spec, request);
      if (resource.empty()) unknown = request;
      if (!resource.empty()) served.insert(resource);
    }
  }
  for (const Container& container : spec) {
    for (const auto& [resource, amount] : container.resources.limits) {
      const bool is_unserved = !amount.IsZero() && !served.contains(resource);
      if (unknown.empty() || !is_unserved || !plugins.resources.contains(resource)) continue;
      return Error{ErrorCode::kUnavailable,
                   "the pod has a device of DRA for " + unknown +
                       ", and it is not known whether that is the " + resource + " of container " +
                       container.name + ", of which there is a device plugin, too",
                   "delete the pod: what it requests is not what the scheduler has seen"};
    }
  }
  return std::vector<std::string>(served.begin(), served.end());
}

void RemoveResources(const std::vector<std::string>& resources, Container& container) {
  for (const std::string& resource : resources) {
    container.resources.limits.erase(resource);
    container.resources.requests.erase(resource);
  }
}

}  // namespace alignd::cri
