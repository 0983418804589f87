#include "events/topology_object.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
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

// In bytes, as the API server counts them.
size_t SizeOf(const Json& annotations) {
  size_t bytes = 0;
  for (const auto& [name, value] : annotations.items()) {
    bytes += name.size() + (value.is_string() ? value.get_ref<const std::string&>().size() : 0);
  }
  return bytes;
}

// Those that alignd does not replace.
Json AnnotationsOfOthers(const Json& object) {
  Json annotations = ObjectIn(ObjectIn(object, "metadata"), "annotations");
  for (const std::string& name : OwnAnnotations(object)) annotations.erase(name);
  return annotations;
}

// Deletes the attribute and gives its value; null: there is none.
Json TakeAttribute(Json& of, const char* name) {
  const auto attributes = of.find("attributes");
  if (attributes == of.end() || !attributes->is_array()) return {};
  Json value = AttributeOf(of, name);
  std::erase_if(attributes->get_ref<Json::array_t&>(),
                [name](const Json& attribute) { return FieldOf(attribute, "name") == name; });
  if (attributes->empty()) of.erase(attributes);
  return value;
}

// nullopt: it is no amount.
std::optional<Quantity> AmountIn(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  const Result<Quantity> amount = Quantity::Parse(value.get<std::string>());
  return amount.ok() ? std::optional(*amount) : std::nullopt;
}

// The object as alignd makes it without the option: also without reserved CPUs in what is
// allocatable, which Koordinator subtracts by an annotation.
Json WithoutKoordinator(Json object) {
  Json metadata = ObjectIn(object, "metadata");
  Json annotations = ObjectIn(metadata, "annotations");
  for (const char* const name : noderesourcetopology::kKoordinatorAnnotations) {
    annotations.erase(name);
  }
  metadata.erase("annotations");
  if (!annotations.empty()) metadata["annotations"] = annotations;
  object["metadata"] = metadata;
  TakeAttribute(object, noderesourcetopology::kKoordinatorAttribute);
  if (!object.contains("zones")) return object;
  for (Json& zone : object["zones"]) {
    const auto reserved =
        AmountIn(TakeAttribute(zone, noderesourcetopology::kReservedCpusAttribute));
    if (!reserved || !zone.contains("resources")) continue;
    for (Json& resource : zone["resources"]) {
      const std::optional<Quantity> amount = AmountIn(FieldOf(resource, "allocatable"));
      if (FieldOf(resource, "name") != "cpu" || !amount) continue;
      resource["allocatable"] = (*amount - *reserved).ToString();
    }
  }
  return object;
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
  Json annotations = AnnotationsOfOthers(body);
  for (const char* const field : kOwnFields) body[field] = FieldOf(own, field);
  Json& metadata = body["metadata"];
  metadata.erase("managedFields");
  annotations.update(OwnAnnotationsIn(own));
  metadata["annotations"] = annotations;
  AddOwner(node, metadata);
  return TextOf(body);
}

Writable WritableBeside(const std::string& wanted, const std::string& existing) {
  const Json object = Parsed(wanted);
  if (AttributeOf(object, noderesourcetopology::kKoordinatorAttribute).is_null()) {
    return {wanted, {}};
  }
  const Json others = AnnotationsOfOthers(Parsed(existing));
  Json all = others;
  all.update(OwnAnnotationsIn(object));
  const size_t bytes = SizeOf(all);
  if (bytes <= noderesourcetopology::kMaxAnnotationBytes) return {wanted, {}};
  return {TextOf(WithoutKoordinator(object)),
          "they and the annotations of others, of " + std::to_string(SizeOf(others)) +
              " bytes, would have " + std::to_string(bytes) + " bytes, and the API server takes " +
              std::to_string(noderesourcetopology::kMaxAnnotationBytes) +
              "; remove annotations of others from the NodeResourceTopology, or "
              "leave --koordinator-annotations out"};
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
