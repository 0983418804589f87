#include "cri/extended_resources.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
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

// The list may lack containers and requests.
std::string ResourceOf(const std::vector<Container>& listed, const Container& container,
                       std::string_view request) {
  const auto name = dra::ParseExtendedRequest(request);
  if (!name) return {};
  if (name->container < listed.size()) {
    std::string resource = ResourceAt(listed[name->container], name->resource);
    if (!resource.empty() && container.resources.requests.contains(resource)) return resource;
  }
  return ResourceAt(container, name->resource);
}

using Names = std::set<std::string>;

constexpr char kDelete[] = "delete the pod: what it requests is not what the scheduler has seen";

// Whether only the scheduler counts it, or a container of the pod has a device of a plugin for it.
bool IsNotOfDra(const devicemanager::DeviceState& plugins, const PodSpec& spec,
                const std::string& resource) {
  if (spec.not_devices.contains(resource)) return true;
  return std::ranges::any_of(spec.containers, [&](const Container& container) {
    return plugins.Find({spec.uid, container.name}, resource) != nullptr;
  });
}

// The resources that these requests of the container are for, if it was scheduled without `added`;
// nullopt: it was not.
std::optional<Names> MeaningOf(const devicemanager::DeviceState& plugins, const PodSpec& spec,
                               Container container, const Names& requests,
                               const std::vector<std::string>& added) {
  for (const std::string& resource : added) {
    if (container.resources.requests.erase(resource) == 0) return std::nullopt;
  }
  Names resources;
  for (const std::string& request : requests) {
    const auto name = dra::ParseExtendedRequest(request);
    std::string resource = ResourceAt(container, name->resource);
    if (resource.empty()) return std::nullopt;
    if (spec.may_have_added && IsNotOfDra(plugins, spec, resource)) return std::nullopt;
    resources.insert(std::move(resource));
  }
  return resources;
}

// All that these requests of the container of that number can be for.
std::set<Names> MeaningsOf(const devicemanager::DeviceState& plugins, const PodSpec& spec,
                           size_t number, const Names& requests) {
  std::vector<std::vector<std::string>> all_added = {{}};
  if (spec.may_have_added) {
    all_added.insert(all_added.end(), {{"cpu"}, {"memory"}, {"cpu", "memory"}});
  }
  std::set<Names> meanings;
  for (const std::vector<std::string>& added : all_added) {
    if (auto meaning = MeaningOf(plugins, spec, spec.containers[number], requests, added)) {
      meanings.insert(*std::move(meaning));
    }
  }
  return meanings;
}

// "a.com/gpu, b.com/nic"
std::string ListOf(const Names& resources) {
  std::string list;
  for (const std::string& resource : resources) list += (list.empty() ? "" : ", ") + resource;
  return list;
}

Error NotUnique(const std::string& container, const std::string& request,
                const std::set<Names>& meanings) {
  std::string texts;
  for (const Names& meaning : meanings) {
    texts += (texts.empty() ? "" : " or its ") + ListOf(meaning);
  }
  return {ErrorCode::kUnavailable,
          "DRA serves extended resources of container " + container + " (" + request +
              "), and it is not known whether its " + texts +
              ": its pod may have been changed since it was scheduled (metadata.generation is not "
              "1), and a resize that adds a cpu or memory request changes which resource that is",
          "give each container of the pod cpu and memory requests and limits, and no resources to "
          "the pod as a whole; or name what only the scheduler counts in notDevices"};
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
                                             const PodSpec& spec) {
  std::map<size_t, Names> by_container;
  std::string unknown;
  for (const dra::PreparedDevice& device : devices) {
    for (const std::string& request : device.extended_requests) {
      const auto name = dra::ParseExtendedRequest(request);
      const bool is_listed = name && name->container < spec.containers.size();
      if (!is_listed) unknown = request;
      if (is_listed) by_container[name->container].insert(request);
    }
  }
  std::set<std::string> served;
  for (const auto& [number, requests] : by_container) {
    const std::set<Names> meanings = MeaningsOf(plugins, spec, number, requests);
    if (meanings.size() > 1) {
      return NotUnique(spec.containers[number].name, *requests.begin(), meanings);
    }
    if (meanings.empty()) unknown = *requests.begin();
    if (!meanings.empty()) served.insert(meanings.begin()->begin(), meanings.begin()->end());
  }
  for (const Container& container : spec.containers) {
    for (const auto& [resource, amount] : container.resources.limits) {
      const bool is_unserved = !amount.IsZero() && !served.contains(resource);
      if (unknown.empty() || !is_unserved || !plugins.resources.contains(resource)) continue;
      return Error{ErrorCode::kUnavailable,
                   "the pod has a device of DRA for " + unknown +
                       ", and it is not known whether that is the " + resource + " of container " +
                       container.name + ", of which there is a device plugin, too",
                   kDelete};
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
