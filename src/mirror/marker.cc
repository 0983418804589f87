#include "mirror/marker.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "deviceplugin/v1beta1/deviceplugin.pb.h"

namespace alignd::mirror {
namespace {

constexpr char kResource[] = "resource";
constexpr char kIds[] = "ids";
// More than the ids of one gRPC message to the kubelet (4 MiB).
constexpr size_t kMaxValue = 16 * 1024 * 1024;

Error Invalid(const std::string& key, const std::string& why) {
  return {ErrorCode::kInvalidArgument, "container annotation " + key + ": " + why,
          "delete the pod, so that the kubelet allocates its devices again"};
}

}  // namespace

std::string ResourceHash(std::string_view resource) {
  constexpr char kHex[] = "0123456789abcdef";
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, 64 bits
  for (const char c : resource) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kHex[(hash >> shift) & 15];
  return text;
}

Annotation FormatMarker(const Marker& marker) {
  nlohmann::json value;
  value[kResource] = marker.resource;
  value[kIds] = marker.ids;
  return {std::string(kMarkerPrefix) + ResourceHash(marker.resource), value.dump()};
}

Result<Marker> ParseMarker(const std::string& key, std::string_view value) {
  if (value.size() > kMaxValue) return Invalid(key, "too long");
  // Only a flat object is read, so that a deep text cannot exhaust the stack.
  Marker marker;
  int depth = 0;
  const auto flat = [&depth](int level, nlohmann::json::parse_event_t event, nlohmann::json&) {
    if (event == nlohmann::json::parse_event_t::object_start ||
        event == nlohmann::json::parse_event_t::array_start) {
      depth = std::max(depth, level);
    }
    return level < 3;
  };
  const nlohmann::json read = nlohmann::json::parse(value, flat, /*allow_exceptions=*/false);
  if (read.is_discarded() || !read.is_object() || depth > 1) {
    return Invalid(key, "not an object with a resource and ids");
  }
  const auto resource = read.find(kResource);
  const auto ids = read.find(kIds);
  if (resource == read.end() || !resource->is_string() || ids == read.end() || !ids->is_array()) {
    return Invalid(key, "not an object with a resource and ids");
  }
  marker.resource = resource->get<std::string>();
  if (key != std::string(kMarkerPrefix) + ResourceHash(marker.resource)) {
    return Invalid(key, "not the key of the resource that it names");
  }
  if (marker.resource.find('/') == std::string::npos) {
    return Invalid(key, "\"" + marker.resource + "\" is not a resource of a device plugin");
  }
  for (const nlohmann::json& id : *ids) {
    if (!id.is_string() || id.get_ref<const std::string&>().empty()) {
      return Invalid(key, "an id is not a string, or empty");
    }
    if (!marker.ids.insert(id.get<std::string>()).second) {
      return Invalid(key, "id " + id.get<std::string>() + " is listed twice");
    }
  }
  if (marker.ids.empty()) return Invalid(key, "no ids");
  return marker;
}

Result<allocation::KubeletAllocatedIds> TakeMarkers(
    google::protobuf::Map<std::string, std::string>& annotations) {
  allocation::KubeletAllocatedIds allocated;
  std::vector<std::string> keys;
  for (const auto& [key, value] : annotations) {
    if (key.starts_with(kMarkerPrefix)) keys.push_back(key);
  }
  for (const std::string& key : keys) {
    Result<Marker> marker = ParseMarker(key, annotations.at(key));
    if (!marker.ok()) return marker.error();
    allocated[marker->resource] = std::move(marker->ids);
    annotations.erase(key);
  }
  return allocated;
}

bool HasMarker(const std::string& response) {
  v1beta1::ContainerAllocateResponse answer;
  return answer.ParseFromString(response) &&
         std::ranges::any_of(answer.annotations(), [](const auto& annotation) {
           return annotation.first.starts_with(kMarkerPrefix);
         });
}

Result<Done> Apply(const allocation::KubeletAllocatedIds& allocated, Container& container) {
  for (const auto& [resource, ids] : allocated) {
    const Quantity count(static_cast<int64_t>(ids.size()));
    const Quantity* known = Find(container.resources.limits, resource);
    if (known != nullptr && known->Value() != count.Value()) {
      return Error{ErrorCode::kInvalidArgument,
                   container.name + ": limits." + resource + " is " +
                       std::to_string(known->Value()) + ", but the kubelet allocated " +
                       std::to_string(count.Value()),
                   "leave devices out of the annotation, or delete the pod"};
    }
    container.resources.limits[resource] = count;
    container.resources.requests[resource] = count;
  }
  return Done{};
}

}  // namespace alignd::mirror
