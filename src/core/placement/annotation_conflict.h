// Annotations with the resources of a pod's containers, where they contradict its spec. Private to
// the core.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "alignd/placement/manifest.h"
#include "alignd/pod/pod.h"
#include "core/json/json_view.h"

namespace alignd::placement {

struct AnnotationConflict {
  std::string text;        // PlannedPod::annotation_conflict
  AnnotatedPod annotated;  // PlannedPod::annotated
};

// nullopt: there is none. `metadata`: of the object or the pod template. `pod`: as its spec states
// it. Of a container that is not named, a node estimates the resources.
// Source: AnnotationSource, which a node asks where the kubelet has no Pods API.
std::optional<AnnotationConflict> FindAnnotationConflict(const json::View& metadata,
                                                         const Pod& pod);

// The pod for a node that follows its annotation (PlannedPod::annotated); nullopt: no node can, or
// the annotation says what the spec says.
std::optional<PlannedPod> ByAnnotation(const PlannedPod& pod);

// What PlannedPod::annotated_devices has. Empty for an annotation that cannot be read: a node that
// follows it refuses the pod.
std::map<std::string, ResourceList> AnnotatedDevices(const json::View& metadata, const Pod& pod);

}  // namespace alignd::placement
