// A pod as its annotation with resources has it, and as its spec has it.
#include <algorithm>
#include <optional>
#include <utility>

#include "alignd/pod/resource_name.h"
#include "core/placement/annotation_conflict.h"

namespace alignd::placement {
namespace {

// Whether the annotation agrees with what CRI shows of the container. CRI shows no request of
// memory.
bool HasSizesOf(const Container& annotated, const Container& own) {
  const auto same = [](const ResourceList& one, const ResourceList& other, const char* name) {
    const Quantity* const a = Find(one, name);
    const Quantity* const b = Find(other, name);
    return (a == nullptr ? Quantity() : *a) == (b == nullptr ? Quantity() : *b);
  };
  const Resources& a = annotated.resources;
  const Resources& b = own.resources;
  return same(a.limits, b.limits, "cpu") && same(a.limits, b.limits, "memory") &&
         same(a.requests, b.requests, "cpu");
}

// The container with the devices of the annotation, and all else from the spec.
void TakeSizes(const Container& own, Container& annotated) {
  Resources sizes = own.resources;
  const auto take_devices = [](const ResourceList& from, ResourceList& to) {
    std::erase_if(to, [](const auto& entry) { return IsExtendedResource(entry.first); });
    for (const auto& [name, amount] : from) {
      if (IsExtendedResource(name)) to[name] = amount;
    }
  };
  take_devices(annotated.resources.requests, sizes.requests);
  take_devices(annotated.resources.limits, sizes.limits);
  annotated.resources = std::move(sizes);
}

}  // namespace

std::optional<PlannedPod> ByAnnotation(const PlannedPod& pod) {
  if (!pod.annotated || pod.annotated->containers.empty()) return std::nullopt;
  PlannedPod reading = BySpec(pod);
  reading.pod.containers = pod.annotated->containers;
  reading.pod.pod_level = pod.annotated->pod_level;
  reading.pod.stated_qos.reset();
  return reading;
}

std::optional<PlannedPod> ByAnnotationWhileItRuns(const PlannedPod& pod) {
  std::optional<PlannedPod> reading = ByAnnotation(pod);
  if (!reading) return std::nullopt;
  if (QosOf(reading->pod) != QosOf(pod.pod)) return std::nullopt;
  for (Container& container : reading->pod.containers) {
    const auto own = std::ranges::find(pod.pod.containers, container.name, &Container::name);
    if (own == pod.pod.containers.end() || HasSizesOf(container, *own)) continue;
    TakeSizes(*own, container);
  }
  return reading;
}

bool MayBeRefused(const PlannedPod& pod) {
  return !pod.annotation_conflict.empty() || (pod.annotated && pod.annotated->containers.empty());
}

PlannedPod BySpec(PlannedPod pod) {
  pod.annotation_conflict.clear();
  pod.annotated.reset();
  pod.annotated_devices.clear();
  pod.without_devices.reset();
  return pod;
}

PlannedPod WithoutAnnotatedDevices(PlannedPod pod) {
  std::optional<AnnotationConflict> conflict = std::move(pod.without_devices);
  pod = BySpec(std::move(pod));
  if (!conflict) return pod;
  pod.annotation_conflict = std::move(conflict->text);
  pod.annotated = std::move(conflict->annotated);
  return pod;
}

}  // namespace alignd::placement
