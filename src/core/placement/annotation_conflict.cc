#include "core/placement/annotation_conflict.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/annotated_resources.h"
#include "alignd/pod/resource_name.h"

namespace alignd::placement {
namespace {

// The author of the pod chooses names, and the text is repeated for each node.
constexpr size_t kLongest = 400;

// What nodes assign, without amounts of 0.
ResourceList Assigned(const ResourceList& list, bool extended_only) {
  ResourceList assigned;
  for (const auto& [name, amount] : list) {
    const bool is_assigned =
        IsExtendedResource(name) ||
        (!extended_only && (name == "cpu" || name == "memory" || name.starts_with("hugepages-")));
    if (is_assigned && amount.Sign() != 0) assigned.emplace(name, amount);
  }
  return assigned;
}

// The first amount that differs: "has 3 as requests.cpu of container app, the spec has 2".
std::optional<std::string> FirstDifference(const ResourceList& annotated, const ResourceList& spec,
                                           const std::string& where, bool extended_only) {
  const ResourceList stated = Assigned(annotated, extended_only);
  const ResourceList wanted = Assigned(spec, extended_only);
  ResourceList all = stated;
  all.insert(wanted.begin(), wanted.end());
  for (const auto& [name, amount] : all) {
    const auto text = [&name = name](const ResourceList& list) {
      const auto found = list.find(name);
      return found == list.end() ? std::string("0") : found->second.ToString();
    };
    const auto ours = stated.find(name);
    const auto theirs = wanted.find(name);
    if (ours != stated.end() && theirs != wanted.end() && ours->second == theirs->second) continue;
    return "has " + text(stated) + " as " + where + "." + name + ", the spec has " + text(wanted);
  }
  return std::nullopt;
}

std::optional<std::string> FirstDifference(const Resources& annotated, const Resources& spec,
                                           const std::string& of, bool extended_only) {
  auto found = FirstDifference(annotated.requests, spec.requests, of + "requests", extended_only);
  if (!found) {
    found = FirstDifference(annotated.limits, spec.limits, of + "limits", extended_only);
  }
  return found;
}

std::optional<std::string> FirstDifference(const std::vector<Container>& annotated, const Pod& pod,
                                           bool has_kinds, bool extended_only) {
  for (const Container& stated : annotated) {
    const auto own = std::ranges::find(pod.containers, stated.name, &Container::name);
    if (own == pod.containers.end())
      return "names container " + stated.name + ", the spec has none";
    if (has_kinds && own->kind != stated.kind) {
      return "has another kind of container for " + stated.name + " than the spec";
    }
    auto found =
        FirstDifference(stated.resources, own->resources, stated.name + ".", extended_only);
    if (found) return found;
  }
  return std::nullopt;
}

// A node that follows an annotation gives a container that it does not name no devices.
std::optional<std::string> FirstUnnamedDevice(const std::vector<Container>& annotated,
                                              const Pod& pod) {
  for (const Container& own : pod.containers) {
    if (std::ranges::find(annotated, own.name, &Container::name) != annotated.end()) continue;
    auto found = FirstDifference(Resources{}, own.resources, own.name + ".", true);
    if (found) return found;
  }
  return std::nullopt;
}

// Koordinator's webhook writes some extended resources only. A node adds them to what it knows.
std::optional<std::string> FirstOther(const std::vector<Container>& annotated, const Pod& pod) {
  Pod named = pod;
  for (Container& container : named.containers) {
    const auto stated = std::ranges::find(annotated, container.name, &Container::name);
    if (stated == annotated.end()) continue;
    const auto keep = [](ResourceList& list, const ResourceList& names) {
      std::erase_if(list, [&names](const auto& entry) { return !names.contains(entry.first); });
    };
    keep(container.resources.requests, stated->resources.requests);
    keep(container.resources.limits, stated->resources.limits);
  }
  return FirstDifference(annotated, named, false, true);
}

std::optional<std::string> OtherClass(const std::vector<Container>& annotated,
                                      const std::optional<Resources>& whole, const Pod& pod) {
  Pod stated;
  stated.containers = annotated;
  stated.pod_level = whole;
  const auto ours = ToString(QosOf(stated));
  const auto theirs = ToString(QosOf(pod));
  if (ours == theirs) return std::nullopt;
  return "makes the pod " + std::string(ours) + ", the spec " + std::string(theirs);
}

Result<std::vector<Container>> ContainersIn(std::string_view key, const std::string& text) {
  if (key == kKoordinatorAnnotation) return ParseKoordinatorResources(text);
  return key == kResourcesAnnotation ? ParseAnnotatedResources(text) : ParseIntelResources(text);
}

// Its name and text. A node takes the first one that is there, in this order.
std::optional<std::pair<std::string_view, std::string>> AnnotationOf(const json::View& metadata) {
  const auto annotations = metadata.value().find("annotations");
  if (annotations == metadata.value().end() || !annotations->is_object()) return std::nullopt;
  for (const std::string_view key :
       {kResourcesAnnotation, kIntelResourcesAnnotation, kKoordinatorAnnotation}) {
    const auto found = annotations->find(std::string(key));
    if (found == annotations->end() || !found->is_string()) continue;
    return std::pair(key, found->get<std::string>());
  }
  return std::nullopt;
}

Result<std::optional<std::string>> Compare(std::string_view key, const std::string& text,
                                           const Pod& pod) {
  const Result<std::vector<Container>> read = ContainersIn(key, text);
  if (!read.ok()) return read.error();
  if (key == kKoordinatorAnnotation) return FirstOther(*read, pod);
  const bool is_own = key == kResourcesAnnotation;
  if (auto found = FirstDifference(*read, pod, is_own, false)) return found;
  std::optional<Resources> whole;
  if (is_own) {
    const Result<std::optional<Resources>> stated = ParseAnnotatedPodLevel(text, *read);
    if (!stated.ok()) return stated.error();
    whole = *stated;
  }
  auto found = FirstDifference(whole.value_or(Resources{}), pod.pod_level.value_or(Resources{}),
                               "spec.", false);
  if (!found) found = FirstUnnamedDevice(*read, pod);
  return found ? found : OtherClass(*read, whole, pod);
}

void RemoveDevices(Container& container) {
  for (ResourceList* const list : {&container.resources.requests, &container.resources.limits}) {
    std::erase_if(*list, [](const auto& entry) { return IsExtendedResource(entry.first); });
  }
}

// As AnnotationSource has the pod. Of a container that the annotation does not name, a node
// estimates all but devices.
AnnotatedPod AsAnnotated(std::string_view key, const std::string& text, const Pod& pod) {
  const Result<std::vector<Container>> read = ContainersIn(key, text);
  if (!read.ok()) return {};
  AnnotatedPod annotated;
  const auto named = [&read](const Container& own) {
    return std::ranges::find(*read, own.name, &Container::name);
  };
  if (key == kKoordinatorAnnotation) {
    // A node knows all containers of a BestEffort pod: those that are not named request nothing.
    annotated = {pod.containers, pod.pod_level, QosOf(pod) != QosClass::kBestEffort};
    for (Container& container : annotated.containers) {
      RemoveDevices(container);
      const auto stated = named(container);
      if (stated == read->end()) continue;
      const Resources& devices = stated->resources;
      container.resources.requests.insert(devices.requests.begin(), devices.requests.end());
      container.resources.limits.insert(devices.limits.begin(), devices.limits.end());
    }
    return annotated;
  }
  annotated.containers = *read;
  if (key == kResourcesAnnotation) {
    Result<std::optional<Resources>> whole = ParseAnnotatedPodLevel(text, *read);
    if (!whole.ok()) return {};
    annotated.pod_level = *std::move(whole);
  }
  for (const Container& own : pod.containers) {
    const auto stated = named(own);
    if (stated == read->end()) {
      annotated.is_partial = true;
      annotated.containers.push_back(own);
      RemoveDevices(annotated.containers.back());
    } else if (key == kIntelResourcesAnnotation) {
      // The text does not say which init containers are sidecars.
      annotated.containers[static_cast<size_t>(stated - read->begin())].kind = own.kind;
    }
  }
  std::stable_partition(
      annotated.containers.begin(), annotated.containers.end(),
      [](const Container& container) { return container.kind != ContainerKind::kApp; });
  return annotated;
}

}  // namespace

std::optional<AnnotationConflict> FindAnnotationConflict(const json::View& metadata,
                                                         const Pod& pod) {
  const auto stated = AnnotationOf(metadata);
  if (!stated) return std::nullopt;
  const std::string author = "annotation " + std::string(stated->first);
  const Result<std::optional<std::string>> difference = Compare(stated->first, stated->second, pod);
  if (difference.ok() && !*difference) return std::nullopt;
  std::string what =
      difference.ok() ? author + " " + **difference : difference.error().In(author).message;
  if (what.size() > kLongest) what = author + " does not state what the spec states";
  return AnnotationConflict{
      what +
          "; a node that does not ask the kubelet's Pods API follows the annotation or refuses the "
          "pod: make both equal, or remove the annotation",
      AsAnnotated(stated->first, stated->second, pod)};
}

std::optional<PlannedPod> ByAnnotation(const PlannedPod& pod) {
  if (!pod.annotated || pod.annotated->containers.empty()) return std::nullopt;
  PlannedPod reading = pod;
  reading.pod.containers = pod.annotated->containers;
  reading.pod.pod_level = pod.annotated->pod_level;
  reading.pod.stated_qos.reset();
  reading.annotation_conflict.clear();
  reading.annotated.reset();
  reading.annotated_devices.clear();
  return reading;
}

std::map<std::string, ResourceList> AnnotatedDevices(const json::View& metadata, const Pod& pod) {
  std::map<std::string, ResourceList> devices;
  const auto stated = AnnotationOf(metadata);
  if (!stated) return devices;
  const Result<std::vector<Container>> read = ContainersIn(stated->first, stated->second);
  if (!read.ok()) return devices;
  for (const Container& container : *read) {
    const auto own = std::ranges::find(pod.containers, container.name, &Container::name);
    if (own == pod.containers.end()) continue;
    for (const auto& [name, amount] : container.resources.limits) {
      if (!IsExtendedResource(name)) continue;
      const Quantity* const of_spec = Find(own->resources.limits, name);
      if ((of_spec == nullptr ? Quantity() : *of_spec) < amount) {
        devices[container.name][name] = amount;
      }
    }
  }
  return devices;
}

}  // namespace alignd::placement
