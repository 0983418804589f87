#include "core/placement/annotation_conflict.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/annotated_resources.h"
#include "alignd/pod/resource_name.h"
#include "core/placement/annotated_sizes.h"
#include "core/placement/annotation_difference.h"

namespace alignd::placement {
namespace {

// The author of the pod chooses names, and the text is repeated for each node.
constexpr size_t kLongest = 400;

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

void RemoveDevices(std::vector<Container>& containers) {
  for (Container& container : containers) {
    for (ResourceList* const list : {&container.resources.requests, &container.resources.limits}) {
      std::erase_if(*list, [](const auto& entry) { return IsExtendedResource(entry.first); });
    }
  }
}

// What a node takes from an annotation.
enum class Devices { kFollowed, kIgnored };

std::string AuthorOf(std::string_view key) { return "annotation " + std::string(key); }

// The pod as the annotation states it. Errors: of the text, and those with which a node refuses it.
Result<Pod> StatedPod(std::string_view key, const std::string& text, const Pod& pod,
                      Devices devices) {
  Result<std::vector<Container>> read = ContainersIn(key, text);
  if (!read.ok()) return read.error().In(AuthorOf(key));
  Pod stated;
  stated.containers = *std::move(read);
  if (key == kResourcesAnnotation) {
    const Result<std::optional<Resources>> whole = ParseAnnotatedPodLevel(text, stated.containers);
    if (!whole.ok()) return whole.error().In(AuthorOf(key));
    stated.pod_level = *whole;
  }
  if (devices == Devices::kIgnored) RemoveDevices(stated.containers);
  if (key == kIntelResourcesAnnotation) {
    Result<std::vector<Container>> concluded =
        WithConcludedKinds(stated.containers, pod, AuthorOf(key));
    if (!concluded.ok()) return concluded.error();
    stated.containers = *std::move(concluded);
  }
  return stated;
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
    const bool is_whole = QosOf(pod) == QosClass::kBestEffort;
    annotated = {pod.containers, pod.pod_level, !is_whole};
    RemoveDevices(annotated.containers);
    for (Container& container : annotated.containers) {
      const auto stated = named(container);
      if (stated == read->end()) continue;
      const Resources& devices = stated->resources;
      container.resources.requests.insert(devices.requests.begin(), devices.requests.end());
      container.resources.limits.insert(devices.limits.begin(), devices.limits.end());
    }
    if (is_whole) std::ranges::stable_sort(annotated.containers, {}, named);
    return annotated;
  }
  annotated.containers = *read;
  if (key == kIntelResourcesAnnotation) {
    Result<std::vector<Container>> concluded = WithConcludedKinds(*read, pod, AuthorOf(key));
    if (concluded.ok()) annotated.containers = *std::move(concluded);
    // Otherwise, such a node refuses the pod: what it knows of its own is the spec.
    for (Container& container : annotated.containers) {
      const auto own = std::ranges::find(pod.containers, container.name, &Container::name);
      if (!concluded.ok() && own != pod.containers.end()) container.kind = own->kind;
    }
  }
  if (key == kResourcesAnnotation) {
    Result<std::optional<Resources>> whole = ParseAnnotatedPodLevel(text, *read);
    if (!whole.ok()) return {};
    annotated.pod_level = *std::move(whole);
  }
  std::vector<Container> unnamed;
  for (const Container& own : pod.containers) {
    if (named(own) == read->end()) unnamed.push_back(own);
  }
  annotated.is_partial = !unnamed.empty();
  RemoveDevices(unnamed);
  annotated.containers.insert(annotated.containers.end(), unnamed.begin(), unnamed.end());
  std::stable_partition(
      annotated.containers.begin(), annotated.containers.end(),
      [](const Container& container) { return container.kind != ContainerKind::kApp; });
  return annotated;
}

// Why a node refuses the pod, or takes it as something else than its spec has.
std::optional<std::string> FirstContradiction(std::string_view key, const std::string& text,
                                              const Pod& pod, Devices devices) {
  const std::string author = AuthorOf(key);
  const Result<Pod> stated = StatedPod(key, text, pod, devices);
  if (!stated.ok()) return stated.error().message;
  const std::optional<std::string> difference = DifferenceFromSpec(key, *stated, pod);
  if (difference) return author + " " + *difference;
  return key == kKoordinatorAnnotation ? std::nullopt : RefusalBySizes(*stated, pod, author);
}

// Empty: the annotation agrees with the spec.
std::string DescribeConflict(std::string_view key, const std::string& text, Pod pod,
                             Devices devices) {
  if (devices == Devices::kIgnored) RemoveDevices(pod.containers);
  std::string what = FirstContradiction(key, text, pod, devices).value_or("");
  if (what.empty()) return what;
  if (what.size() > kLongest) what = AuthorOf(key) + " does not state what the spec states";
  return what +
         "; a node that does not ask the kubelet's Pods API follows the annotation or refuses the "
         "pod: make both equal, or remove the annotation";
}

bool HasDevices(const Pod& pod) {
  return std::ranges::any_of(pod.containers, [](const Container& container) {
    return std::ranges::any_of(container.resources.limits, [](const auto& limit) {
      return IsExtendedResource(limit.first) && limit.second.Sign() > 0;
    });
  });
}

// Whether a node that follows the annotation decides about the same containers in the same order.
// Koordinator's annotation alone says nothing about CPUs and memory: such a node decides about each
// container when it is created, as without the annotation.
bool IsDecidedAlike(std::string_view key, const AnnotatedPod& annotated, const Pod& pod) {
  if (key == kKoordinatorAnnotation && annotated.is_partial) return true;
  return !annotated.is_partial && std::ranges::equal(annotated.containers, pod.containers, {},
                                                     &Container::name, &Container::name);
}

}  // namespace

std::optional<AnnotationConflict> FindAnnotationConflict(const json::View& metadata,
                                                         const Pod& pod) {
  const auto stated = AnnotationOf(metadata);
  if (!stated) return std::nullopt;
  const auto& [key, text] = *stated;
  std::string conflict = DescribeConflict(key, text, pod, Devices::kFollowed);
  AnnotatedPod annotated = AsAnnotated(key, text, pod);
  if (conflict.empty() && IsDecidedAlike(key, annotated, pod)) return std::nullopt;
  return AnnotationConflict{std::move(conflict), std::move(annotated)};
}

std::optional<AnnotationConflict> FindConflictWithoutDevices(const json::View& metadata,
                                                             const Pod& pod) {
  const auto stated = AnnotationOf(metadata);
  if (!stated) return std::nullopt;
  const auto& [key, text] = *stated;
  if (key == kKoordinatorAnnotation) return std::nullopt;  // it has nothing else
  std::string conflict = DescribeConflict(key, text, pod, Devices::kIgnored);
  AnnotatedPod annotated = AsAnnotated(key, text, pod);
  if (conflict.empty() && !HasDevices(pod) && IsDecidedAlike(key, annotated, pod)) {
    return std::nullopt;
  }
  RemoveDevices(annotated.containers);
  return AnnotationConflict{std::move(conflict), std::move(annotated)};
}

std::map<std::string, ResourceList> AnnotatedDevices(const json::View& metadata, const Pod& pod) {
  std::map<std::string, ResourceList> devices;
  const auto stated = AnnotationOf(metadata);
  if (!stated) return devices;
  const Result<std::vector<Container>> read = ContainersIn(stated->first, stated->second);
  if (!read.ok()) return devices;
  for (const Container& container : *read) {
    // It can have devices for a container that the spec does not have.
    const auto own = std::ranges::find(pod.containers, container.name, &Container::name);
    for (const auto& [name, amount] : container.resources.limits) {
      if (!IsExtendedResource(name)) continue;
      const Quantity* const of_spec =
          own == pod.containers.end() ? nullptr : Find(own->resources.limits, name);
      if ((of_spec == nullptr ? Quantity() : *of_spec) < amount) {
        devices[container.name][name] = amount;
      }
    }
  }
  return devices;
}

}  // namespace alignd::placement
