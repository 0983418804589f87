#include "apiserver/object_json.h"

#include <utility>

#include "alignd/base/json_depth.h"

namespace alignd::apiserver {
namespace {

const char* NameOfKind(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kNode:
      return "Node";
    case ObjectKind::kTopology:
      return "NodeResourceTopology";
    case ObjectKind::kPod:
      return "Pod";
  }
  return "";
}

void Keep(const nlohmann::json& object, const char* name, nlohmann::json& kept) {
  if (const nlohmann::json* const member = MemberIn(object, name)) kept[name] = *member;
}

// What says how the pod is resized in place.
void KeepResize(const nlohmann::json& status, nlohmann::json& kept) {
  for (const char* const name : {"resize", "resources", "allocatedResources"}) {
    Keep(status, name, kept);
  }
  const nlohmann::json* const conditions = MemberIn(status, "conditions");
  if (conditions == nullptr || !conditions->is_array()) return;
  for (const nlohmann::json& one : *conditions) {
    const nlohmann::json* const type = MemberIn(one, "type");
    if (type == nullptr || !type->is_string()) continue;
    if (type->get<std::string>().starts_with("PodResize")) kept["conditions"].push_back(one);
  }
}

// Of the status of a pod: which of its containers run, and what they have.
nlohmann::json PrunedStatus(const nlohmann::json& pod) {
  nlohmann::json kept = nlohmann::json::object();
  const nlohmann::json* const status = MemberIn(pod, "status");
  if (status == nullptr) return kept;
  Keep(*status, "phase", kept);
  for (const char* const list : {"containerStatuses", "initContainerStatuses"}) {
    const nlohmann::json* const statuses = MemberIn(*status, list);
    if (statuses == nullptr || !statuses->is_array()) continue;
    nlohmann::json& some = kept[list] = nlohmann::json::array();
    for (const nlohmann::json& one : *statuses) {
      nlohmann::json& container = some.emplace_back(nlohmann::json::object());
      for (const char* const name : {"name", "state", "resources", "allocatedResources"}) {
        Keep(one, name, container);
      }
    }
  }
  KeepResize(*status, kept);
  return kept;
}

}  // namespace

const nlohmann::json* MemberIn(const nlohmann::json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

std::string TextIn(const nlohmann::json& object, const char* outer, const char* inner) {
  const nlohmann::json* const holder = MemberIn(object, outer);
  const nlohmann::json* const text = holder == nullptr ? nullptr : MemberIn(*holder, inner);
  return text != nullptr && text->is_string() ? text->get<std::string>() : std::string();
}

nlohmann::json ParsedObject(std::string_view text) {
  if (JsonDepthOf(text) > kMaxJsonDepth) return {};
  nlohmann::json parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return parsed.is_object() ? parsed : nlohmann::json();
}

std::string KeyOf(ObjectKind kind, const nlohmann::json& object) {
  const std::string name = TextIn(object, "metadata", "name");
  if (kind != ObjectKind::kPod || name.empty()) return name;
  return TextIn(object, "metadata", "namespace") + "/" + name;
}

std::string Pruned(ObjectKind kind, nlohmann::json object) {
  object["kind"] = NameOfKind(kind);
  object["apiVersion"] = kind == ObjectKind::kTopology ? "topology.node.k8s.io/v1alpha2" : "v1";
  nlohmann::json& metadata = object["metadata"];
  metadata.erase("managedFields");
  metadata.erase("resourceVersion");
  metadata.erase("generation");
  if (kind == ObjectKind::kPod) {
    object["status"] = PrunedStatus(object);
  }
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace alignd::apiserver
