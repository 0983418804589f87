#include "core/placement/faults.h"

#include <algorithm>
#include <utility>

#include "core/base/nearest_name.h"
#include "core/placement/names.h"

namespace alignd::placement {
namespace {

// `view` must be an object.
std::optional<json::View> MemberOf(const json::View& view, std::string_view key) {
  const Result<std::optional<json::View>> member = view.Find(key);
  return member.ok() ? *member : std::nullopt;
}

}  // namespace

void Faults::AddText(std::string text) {
  if (known_.insert(text).second) texts_.push_back(std::move(text));
}

std::optional<json::View> ObjectIn(const json::View& view, std::string_view key, Faults& faults) {
  std::optional<json::View> member = MemberOf(view, key);
  if (!member || member->value().is_object()) return member;
  faults.Add(member->IsNot("an object"));
  return std::nullopt;
}

std::vector<json::View> ListIn(const json::View& view, std::string_view key, Faults& faults) {
  const std::optional<json::View> member = MemberOf(view, key);
  if (!member) return {};
  const Result<std::vector<json::View>> elements = member->Elements();
  if (!elements.ok()) {
    faults.Add(elements.error());
    return {};
  }
  std::vector<json::View> objects;
  for (const json::View& element : *elements) {
    if (element.value().is_object()) {
      objects.push_back(element);
    } else {
      faults.Add(element.IsNot("an object"));
    }
  }
  return objects;
}

std::optional<std::string> StringIn(const json::View& view, std::string_view key, Faults& faults) {
  const std::optional<json::View> member = MemberOf(view, key);
  if (!member) return std::nullopt;
  const Result<std::string> text = member->String();
  if (text.ok()) return *text;
  faults.Add(text.error());
  return std::nullopt;
}

void CheckAllFields(const json::View& object, FieldNames names, Faults& faults) {
  const auto members = object.Members();
  if (!members.ok()) return faults.Add(members.error());
  for (const auto& [name, member] : *members) {
    if (std::ranges::find(names, name) != names.end()) continue;
    const std::string nearest(NearestName(name, names));
    faults.Add(member.path(),
               "unknown field" + (nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?"));
  }
}

void CheckFields(const json::View& object, FieldNames names, Faults& faults) {
  if (!faults.is_accepted()) CheckAllFields(object, names, faults);
}

void CheckStringMap(const json::View& object, std::string_view key, Faults& faults) {
  const std::optional<json::View> map = ObjectIn(object, key, faults);
  if (!map) return;
  const auto members = map->Members();
  if (!members.ok()) return faults.Add(members.error());
  for (const auto& [name, member] : *members) {
    if (!member.value().is_string()) faults.Add(member.IsNot("a string; put it in quotes"));
  }
}

void CheckLabels(const json::View& object, std::string_view key, Faults& faults) {
  CheckStringMap(object, key, faults);
  const std::optional<json::View> map = MemberOf(object, key);
  if (faults.is_accepted() || !map || !map->value().is_object()) return;
  const auto members = map->Members();
  if (!members.ok()) return;  // noted
  for (const auto& [name, member] : *members) {
    if (!IsQualifiedName(name)) faults.Invalid(map->path(), name, kQualifiedName);
    const Result<std::string> value = member.String();
    if (value.ok() && !IsLabelValue(*value)) faults.Invalid(map->path(), *value, kLabelValue);
  }
}

std::string Joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : "; ") + text;
  return all;
}

}  // namespace alignd::placement
