#include "events/object_json.h"

#include <utility>

#include "alignd/base/json_depth.h"

namespace alignd::events {
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
    nlohmann::json status = nlohmann::json::object();
    if (const std::string phase = TextIn(object, "status", "phase"); !phase.empty()) {
      status["phase"] = phase;
    }
    object["status"] = std::move(status);
  }
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace alignd::events
