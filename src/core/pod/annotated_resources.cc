#include "alignd/pod/annotated_resources.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "alignd/pod/kubernetes_pod.h"
#include "alignd/pod/resource_name.h"
#include "core/json/json_view.h"
#include "core/pod/resource_list.h"

namespace alignd {
namespace {

using json::View;

// A pod can have 256 KiB of annotations. No pod needs that much for its resources, and the reader
// is not made for it.
constexpr size_t kLongestText = 64 * 1024;
constexpr size_t kMaxContainers = 256;

// An annotation's text, parsed twice: once for the order of the names, once for everything else.
struct Text {
  nlohmann::ordered_json ordered;
  nlohmann::json value;
};

Result<Text> ParseText(std::string_view text) {
  if (text.size() > kLongestText) {
    return Error{ErrorCode::kInvalidArgument,
                 "is longer than " + std::to_string(kLongestText) + " bytes"};
  }
  Result<nlohmann::ordered_json> ordered = json::ParseOrdered(text);
  if (!ordered.ok()) return ordered.error();
  Result<nlohmann::json> value = json::Parse(text);
  if (!value.ok()) return value.error();
  return Text{*std::move(ordered), *std::move(value)};
}

Result<Done> RefuseUnknownMembers(const View& entry,
                                  std::initializer_list<std::string_view> known) {
  const auto members = entry.Members();
  if (!members.ok()) return members.error();
  for (const auto& [key, member] : *members) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string text = "is not known; known are";
    for (const std::string_view name : known) text += " " + std::string(name);
    return member.Wrong(text);
  }
  return Done{};
}

Result<ContainerKind> ReadKind(const View& entry) {
  const Result<std::optional<View>> init_view = entry.Find("init");
  if (!init_view.ok()) return init_view.error();
  const Result<std::optional<View>> policy_view = entry.Find("restartPolicy");
  if (!policy_view.ok()) return policy_view.error();
  const Result<bool> init = *init_view ? (*init_view)->Bool() : Result<bool>(false);
  if (!init.ok()) return init.error();
  if (!*policy_view) return *init ? ContainerKind::kInit : ContainerKind::kApp;
  const Result<std::string> policy = (*policy_view)->String();
  if (!policy.ok()) return policy.error();
  if (*policy != "Always") return (*policy_view)->IsNot("\"Always\"");
  if (!*init) return (*policy_view)->Wrong("is only for an entry with \"init\": true");
  return ContainerKind::kSidecar;
}

// Amounts of devices are whole numbers, as the API server requires for extended resources.
Result<Done> RequireWholeDevices(const View& entry, const ResourceList& list,
                                 std::string_view where) {
  for (const auto& [name, amount] : list) {
    if (!IsExtendedResource(name) || amount == Quantity(amount.Value())) continue;
    return entry.Wrong(std::string(where) + "." + name + " is " + amount.ToString() +
                       ", which is no whole number");
  }
  return Done{};
}

Result<Resources> ReadEntryResources(const View& entry) {
  Result<Resources> resources = ParseResources(
      entry.value().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), entry.path());
  if (!resources.ok()) return resources;
  for (const Result<Done>& whole : {RequireWholeDevices(entry, resources->limits, "limits"),
                                    RequireWholeDevices(entry, resources->requests, "requests")}) {
    if (!whole.ok()) return whole.error();
  }
  return resources;
}

// Appends the containers of one kind from `object`, in the order of `ordered`. `read` makes a
// container of an entry.
template <typename Read>
Result<Done> ReadContainers(const View& object, const nlohmann::ordered_json& ordered, Read read,
                            std::vector<Container>& containers) {
  for (const auto& [name, value] : ordered.items()) {
    if (containers.size() == kMaxContainers) {
      return object.Wrong("names more than " + std::to_string(kMaxContainers) + " containers");
    }
    const Result<View> entry = object.Require(name);
    if (!entry.ok()) return entry.error();
    Result<Container> container = read(name, *entry);
    if (!container.ok()) return container.error();
    for (const Container& before : containers) {
      if (before.name == name) return entry->Wrong("a second container of that name");
    }
    containers.push_back(*std::move(container));
  }
  return Done{};
}

// The same for a member of the annotation, which may be absent.
template <typename Read>
Result<Done> ReadMember(const Text& text, const char* key, Read read,
                        std::vector<Container>& containers) {
  const Result<std::optional<View>> member = View(text.value, "").Find(key);
  if (!member.ok()) return member.error();
  if (!*member) return Done{};
  if (!(*member)->value().is_object()) return (*member)->IsNot("an object of container names");
  return ReadContainers(**member, text.ordered.at(key), read, containers);
}

Result<Done> RequireExtended(const View& entry, const ResourceList& list, std::string_view where) {
  for (const auto& [name, amount] : list) {
    if (IsExtendedResource(name)) continue;
    return entry.Wrong(std::string(where) + "." + name + " is no extended resource");
  }
  return Done{};
}

}  // namespace

Result<std::vector<Container>> ParseAnnotatedResources(std::string_view json) {
  Result<Text> text = ParseText(json);
  if (!text.ok()) return text.error();
  const View top(text->value, "");
  if (!text->value.is_object()) return top.IsNot("an object of container names");
  text->ordered.erase(std::string(kPodLevelEntry));
  std::vector<Container> containers;
  const auto read = [&](const std::string& name, const View& entry) -> Result<Container> {
    const Result<Done> known =
        RefuseUnknownMembers(entry, {"requests", "limits", "claims", "init", "restartPolicy"});
    if (!known.ok()) return known.error();
    const Result<ContainerKind> kind = ReadKind(entry);
    if (!kind.ok()) return kind.error();
    if (*kind != ContainerKind::kApp && !containers.empty() &&
        containers.back().kind == ContainerKind::kApp) {
      return entry.Wrong("init containers must come before the others");
    }
    Result<Resources> resources = ReadEntryResources(entry);
    if (!resources.ok()) return resources.error();
    return Container{name, *kind, *std::move(resources)};
  };
  const Result<Done> done = ReadContainers(top, text->ordered, read, containers);
  if (!done.ok()) return done.error();
  return containers;
}

Result<std::optional<Resources>> ParseAnnotatedPodLevel(std::string_view json,
                                                        const std::vector<Container>& containers) {
  const Result<Text> text = ParseText(json);
  if (!text.ok()) return text.error();
  const Result<std::optional<View>> entry = View(text->value, "").Find(kPodLevelEntry);
  if (!entry.ok()) return entry.error();
  if (!*entry) return std::optional<Resources>();
  const Result<Done> known = RefuseUnknownMembers(**entry, {"requests", "limits"});
  if (!known.ok()) return known.error();
  const Result<Resources> read = ReadEntryResources(**entry);
  if (!read.ok()) return read.error();
  // ReadEntryResources has made requests of the limits. In a pod, those of its containers go first.
  Resources resources;
  resources.limits = read->limits;
  for (const auto& [name, amount] : read->requests) {
    const Result<std::optional<View>> requests = (*entry)->Find("requests");
    if (requests.ok() && *requests && (*requests)->value().contains(name)) {
      resources.requests[name] = amount;
    }
  }
  DefaultPodRequests(containers, resources);
  return std::optional(std::move(resources));
}

Result<std::vector<Container>> ParseIntelResources(std::string_view json) {
  const Result<Text> text = ParseText(json);
  if (!text.ok()) return text.error();
  const Result<Done> sound =
      RefuseUnknownMembers(View(text->value, ""), {"initContainers", "containers"});
  if (!sound.ok()) return sound.error();
  std::vector<Container> containers;
  for (const auto& [key, kind] : std::initializer_list<std::pair<const char*, ContainerKind>>{
           {"initContainers", ContainerKind::kInit}, {"containers", ContainerKind::kApp}}) {
    const auto read = [kind = kind](const std::string& name,
                                    const View& entry) -> Result<Container> {
      const Result<Done> known = RefuseUnknownMembers(entry, {"requests", "limits", "claims"});
      if (!known.ok()) return known.error();
      Result<Resources> resources = ReadEntryResources(entry);
      if (!resources.ok()) return resources.error();
      return Container{name, kind, *std::move(resources)};
    };
    const Result<Done> done = ReadMember(*text, key, read, containers);
    if (!done.ok()) return done.error();
  }
  return containers;
}

Result<std::vector<Container>> ParseKoordinatorResources(std::string_view json) {
  const Result<Text> text = ParseText(json);
  if (!text.ok()) return text.error();
  const Result<Done> sound = RefuseUnknownMembers(View(text->value, ""), {"containers"});
  if (!sound.ok()) return sound.error();
  const auto read = [](const std::string& name, const View& entry) -> Result<Container> {
    const Result<Done> known = RefuseUnknownMembers(entry, {"requests", "limits"});
    if (!known.ok()) return known.error();
    Result<Resources> resources = ReadEntryResources(entry);
    if (!resources.ok()) return resources.error();
    for (const Result<Done>& extended : {RequireExtended(entry, resources->limits, "limits"),
                                         RequireExtended(entry, resources->requests, "requests")}) {
      if (!extended.ok()) return extended.error();
    }
    return Container{name, ContainerKind::kApp, *std::move(resources)};
  };
  std::vector<Container> containers;
  const Result<Done> done = ReadMember(*text, "containers", read, containers);
  if (!done.ok()) return done.error();
  return containers;
}

}  // namespace alignd
