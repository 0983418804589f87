#include "podsource/v1_pod.h"

#include <google/protobuf/map.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "alignd/pod/kubernetes_pod.h"
#include "kubernetes/v1/pod.pb.h"

namespace alignd::podsource {
namespace {

namespace v1 = kubernetes::v1;
using nlohmann::json;

json ToJson(const google::protobuf::Map<std::string, v1::Quantity>& list) {
  json object = json::object();
  for (const auto& [name, quantity] : list) object[name] = quantity.string();
  return object;
}

json ToJson(const v1::ResourceRequirements& resources) {
  return {{"limits", ToJson(resources.limits())}, {"requests", ToJson(resources.requests())}};
}

template <typename Containers>
json ToJson(const Containers& containers) {
  json list = json::array();
  for (const v1::Container& container : containers) {
    list.push_back({{"name", container.name()},
                    {"restartPolicy", container.restart_policy()},
                    {"resources", ToJson(container.resources())}});
  }
  return list;
}

json MappingsOf(const v1::PodStatus& status) {
  json list = json::array();
  for (const auto& mapping : status.extended_resource_claim_status().request_mappings()) {
    list.push_back(
        {{"containerName", mapping.container_name()}, {"resourceName", mapping.resource_name()}});
  }
  return list;
}

bool Decode(std::string_view bytes, v1::Pod& pod) {
  return bytes.size() <= size_t{std::numeric_limits<int>::max()} &&
         pod.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

// The manager of entries that the API server has merged, without their subresource.
constexpr char kMergedEntries[] = "ancient-changes";

bool Contains(const json& fields, std::initializer_list<std::string> path) {
  const json* at = &fields;
  for (const std::string& name : path) {
    if (!at->is_object()) return false;
    const auto next = at->find(name);
    if (next == at->end()) return false;
    at = &*next;
  }
  return true;
}

// Whether one of the updates has set each cpu and memory request, or its limit, of the containers.
template <typename Containers>
bool AreSetBy(const std::vector<json>& updates, const std::string& list,
              const Containers& containers) {
  for (const v1::Container& container : containers) {
    const json key = {{"name", container.name()}};
    const std::string entry = "k:" + key.dump(-1, ' ', false, json::error_handler_t::replace);
    for (const std::string resource : {"cpu", "memory"}) {
      if (container.resources().requests().count(resource) == 0) continue;
      const bool is_set = std::ranges::any_of(updates, [&](const json& fields) {
        return Contains(fields,
                        {"f:spec", list, entry, "f:resources", "f:requests", "f:" + resource}) ||
               Contains(fields,
                        {"f:spec", list, entry, "f:resources", "f:limits", "f:" + resource});
      });
      if (!is_set) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<std::string> EphemeralContainers(std::string_view bytes) {
  std::vector<std::string> names;
  v1::Pod pod;
  if (!Decode(bytes, pod)) return names;
  for (const v1::EphemeralContainer& container : pod.spec().ephemeral_containers()) {
    names.push_back(container.common().name());
  }
  return names;
}

bool ShowsExtendedClaim(std::string_view bytes) {
  v1::Pod pod;
  return Decode(bytes, pod) && pod.status().has_extended_resource_claim_status();
}

bool HasLaterGeneration(std::string_view bytes) {
  v1::Pod pod;
  return !Decode(bytes, pod) || pod.metadata().generation() != 1;
}

bool HasRequestsSinceCreation(std::string_view bytes) {
  v1::Pod pod;
  if (!Decode(bytes, pod)) return false;
  std::vector<json> updates;
  for (const v1::ManagedFieldsEntry& entry : pod.metadata().managed_fields()) {
    if (entry.subresource() == "resize" || entry.manager() == kMergedEntries) return false;
    if (!entry.subresource().empty() || entry.operation() != "Update") continue;
    json fields = json::parse(entry.fields_v1().raw(), nullptr, /*allow_exceptions=*/false);
    if (!fields.is_discarded()) updates.push_back(std::move(fields));
  }
  return AreSetBy(updates, "f:initContainers", pod.spec().init_containers()) &&
         AreSetBy(updates, "f:containers", pod.spec().containers());
}

Result<Pod> ParseV1Pod(std::string_view bytes) {
  v1::Pod pod;
  if (!Decode(bytes, pod)) {
    return Error{ErrorCode::kInvalidArgument, "not a v1.Pod in protobuf",
                 "report it, with the kubelet's version"};
  }
  // One parser for both encodings: this is the JSON of the fields that it reads.
  json spec = {{"initContainers", ToJson(pod.spec().init_containers())},
               {"containers", ToJson(pod.spec().containers())},
               {"priority", pod.spec().priority()}};
  if (pod.spec().has_resources()) spec["resources"] = ToJson(pod.spec().resources());
  const json object = {
      {"metadata",
       {{"uid", pod.metadata().uid()},
        {"name", pod.metadata().name()},
        {"namespace", pod.metadata().namespace_()}}},
      {"spec", spec},
      {"status",
       {{"qosClass", pod.status().qos_class()},
        {"extendedResourceClaimStatus", {{"requestMappings", MappingsOf(pod.status())}}}}}};
  return ParseKubernetesPod(object.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace alignd::podsource
