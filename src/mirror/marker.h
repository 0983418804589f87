// The annotation by which the kubelet tells us which devices it counted for a container: we give it
// to the kubelet as our answer to Allocate, and it comes back with CreateContainer.
#pragma once

#include <google/protobuf/map.h>

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "allocation/counted_devices.h"

namespace alignd::mirror {

// Every key begins with it; a hash of the resource's name follows, so that the markers of several
// resources stand beside each other.
inline constexpr std::string_view kMarkerPrefix = "alignd.io/dev.";

// 16 hexadecimal digits, the same for the same name at all times.
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

// Whether this answer of a plugin, a serialised v1beta1.ContainerAllocateResponse, is one with
// which we marked a container.
bool HasMarker(const std::string& response);

// Takes the markers out of a container's annotations. Those of a pod or of a sandbox are their
// author's word and never looked at.
// Errors: as ParseMarker.
Result<allocation::KubeletAllocatedIds> TakeMarkers(
    google::protobuf::Map<std::string, std::string>& annotations);

// The container asks for what was counted.
// Errors: kInvalidArgument if what is known of it says another number: both are named.
Result<Done> Apply(const allocation::KubeletAllocatedIds& counted, Container& container);

}  // namespace alignd::mirror
