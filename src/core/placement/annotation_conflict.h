// Annotations with the resources of a pod's containers, where they contradict its spec. Private to
// the core.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/placement/manifest.h"
#include "alignd/pod/pod.h"
#include "core/json/json_view.h"

namespace alignd::placement {

// nullopt: there is none, and a node that follows the annotation decides as one that follows the
// spec. Without a text, it decides in another order, or about some containers later. `metadata`: of
// the object or the pod template. `pod`: as its spec states it. Of a container that is not named, a
// node estimates the resources. Source: AnnotationSource, which a node asks where the kubelet has
// no Pods API.
std::optional<AnnotationConflict> FindAnnotationConflict(const json::View& metadata,
                                                         const Pod& pod);

// PlannedPod::without_devices.
std::optional<AnnotationConflict> FindConflictWithoutDevices(const json::View& metadata,
                                                             const Pod& pod);

// The pod for a node that follows its annotation (PlannedPod::annotated); nullopt: no node can, or
// the annotation says what the spec says.
std::optional<PlannedPod> ByAnnotation(const PlannedPod& pod);

// The same of a pod that runs. What such a node has started has the sizes of CRI, which are those
// of the spec, and its QoS class: it has refused all else.
// Source: AnnotationSource::Know and Contradicted.
std::optional<PlannedPod> ByAnnotationWhileItRuns(const PlannedPod& pod);

// Whether a node that follows the annotation decides about the containers of the pod one by one,
// because it does not name all of them, and can decide otherwise than about the whole pod.
bool IsDecidedInParts(const admission::Node& node, const admission::NodeState& state,
                      const PlannedPod& pod);

// Whether a node can refuse the pod for its annotation.
bool MayBeRefused(const PlannedPod& pod);

// The pod as its spec has it, without what its annotations say.
PlannedPod BySpec(PlannedPod pod);

// The pod with the annotations of PlannedPod::without_devices in place of the others.
PlannedPod WithoutAnnotatedDevices(PlannedPod pod);

// What PlannedPod::annotated_devices has. Empty for an annotation that cannot be read: a node that
// follows it refuses the pod.
std::map<std::string, ResourceList> AnnotatedDevices(const json::View& metadata, const Pod& pod);

}  // namespace alignd::placement
