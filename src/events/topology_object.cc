#include "events/topology_object.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "alignd/noderesourcetopology/object.h"

namespace alignd::events {
namespace {

using Json = nlohmann::json;

constexpr char kFingerprint[] = "topology.node.k8s.io/fingerprint";
constexpr std::array<const char*, 3> kOwnFields = {"topologyPolicies", "attributes", "zones"};

Json Parsed(const std::string& text) { return Json::parse(text, nullptr, false); }

// The member, an object; empty if it is none.
Json ObjectIn(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_object() ? *found : Json::object();
}

Json FieldOf(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? Json() : *found;
}

Json AttributeOf(const Json& object, const char* name) {
  const Json attributes = FieldOf(object, "attributes");
  for (const Json& attribute : attributes) {
    if (FieldOf(attribute, "name") == name) return FieldOf(attribute, "value");
  }
  return {};
}

// The names of the annotations that are alignd's in this object.
std::vector<std::string> OwnAnnotations(const Json& object) {
  std::vector<std::string> names = {kFingerprint};
  if (!AttributeOf(object, noderesourcetopology::kKoordinatorAttribute).is_null()) {
    const auto& koordinator = noderesourcetopology::kKoordinatorAnnotations;
    names.insert(names.end(), koordinator.begin(), koordinator.end());
  }
  return names;
}

// Those of alignd that the object has.
Json OwnAnnotationsIn(const Json& object) {
  const Json annotations = ObjectIn(ObjectIn(object, "metadata"), "annotations");
  Json own = Json::object();
  for (const std::string& name : OwnAnnotations(object)) {
    if (const Json value = FieldOf(annotations, name.c_str()); !value.is_null()) own[name] = value;
  }
  return own;
}

Error NoObject(const std::string& whose) {
  return {ErrorCode::kCorrupt, "the topology object of " + whose + " is no object",
          "use the alignd-events of the same version as alignd"};
}

std::string TextOf(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Nothing if `node` is no Node object.
void AddOwner(const std::string& node, Json& metadata) {
  const Json of_node = ObjectIn(Parsed(node), "metadata");
  if (!of_node.contains("uid") || !of_node.contains("name")) return;
  Json& owners = metadata["ownerReferences"];
  if (!owners.is_array()) owners = Json::array();
  owners.push_back(
      {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", of_node["name"]}, {"uid", of_node["uid"]}});
}

}  // namespace

Result<std::string> CreationOf(const std::string& wanted, const std::string& node) {
  Json body = Parsed(wanted);
  if (!body.is_object()) return NoObject("alignd");
  AddOwner(node, body["metadata"]);
  return TextOf(body);
}

bool HasNodeAsOwner(const std::string& object) {
  const Json owners = FieldOf(ObjectIn(Parsed(object), "metadata"), "ownerReferences");
  return owners.is_array() && std::ranges::any_of(owners, [](const Json& owner) {
           return FieldOf(owner, "kind") == "Node";
         });
}

Result<std::string> ReplacementOf(const std::string& wanted, const std::string& existing,
                                  const std::string& node) {
  const Json own = Parsed(wanted);
  if (!own.is_object()) return NoObject("alignd");
  Json body = Parsed(existing);
  if (ObjectIn(body, "metadata").empty()) return NoObject("the API server");
  const std::vector<std::string> replaced = OwnAnnotations(body);
  for (const char* const field : kOwnFields) body[field] = FieldOf(own, field);
  Json& metadata = body["metadata"];
  metadata.erase("managedFields");
  Json annotations = ObjectIn(metadata, "annotations");
  for (const std::string& name : replaced) annotations.erase(name);
  annotations.update(OwnAnnotationsIn(own));
  metadata["annotations"] = annotations;
  AddOwner(node, metadata);
  return TextOf(body);
}

bool SaysTheSame(const std::string& one, const std::string& other) {
  const Json a = Parsed(one);
  const Json b = Parsed(other);
  for (const char* const field : kOwnFields) {
    if (FieldOf(a, field) != FieldOf(b, field)) return false;
  }
  return OwnAnnotationsIn(a) == OwnAnnotationsIn(b);
}

std::string PolicyIn(const std::string& object) {
  const Json policy = AttributeOf(Parsed(object), noderesourcetopology::kPolicyAttribute);
  return policy.is_string() ? policy.get<std::string>() : "none named";
}

}  // namespace alignd::events
