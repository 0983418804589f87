// The annotation with the ids that the kubelet allocated to a container. The mirror returns it from
// Allocate, and the kubelet passes it on with CreateContainer.
#pragma once

#include <google/protobuf/map.h>

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "allocation/admission_request.h"

namespace alignd::mirror {

// The beginning of each key. A hash of the resource's name follows, so that a container can have
// markers of several resources.
inline constexpr std::string_view kMarkerPrefix = "alignd.io/dev.";

// 16 hexadecimal digits, the same for the same name in every release.
std::string ResourceHash(std::string_view resource);

struct Marker {
  std::string resource;
  std::set<std::string> ids;

  friend bool operator==(const Marker&, const Marker&) = default;
};

struct Annotation {
  std::string key;
  std::string value;  // a JSON object: resource, ids
};

Annotation FormatMarker(const Marker& marker);

// Errors: kInvalidArgument, naming the key: not such an object, a key that is not the resource's,
// a name that no plugin may have, no ids, an empty id, or one twice.
Result<Marker> ParseMarker(const std::string& key, std::string_view value);

// Whether a plugin's answer, a serialised v1beta1.ContainerAllocateResponse, has a marker, so that
// the mirror has made it.
bool HasMarker(const std::string& response);

// Removes the markers from a container's annotations. Annotations of a pod or a sandbox come from
// the pod's author and are never read as markers.
// Errors: as ParseMarker.
Result<allocation::KubeletAllocatedIds> TakeMarkers(
    google::protobuf::Map<std::string, std::string>& annotations);

// Sets the container's limits to the number of allocated ids.
// Errors: kInvalidArgument, naming both numbers, if its limits ask for another number.
Result<Done> Apply(const allocation::KubeletAllocatedIds& allocated, Container& container);

}  // namespace alignd::mirror
