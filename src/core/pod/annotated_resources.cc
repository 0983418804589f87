#include "alignd/pod/annotated_resources.h"

#include <optional>
#include <set>
#include <utility>

#include "alignd/pod/kubernetes_pod.h"
#include "core/json/json_view.h"

namespace alignd {
namespace {

using json::View;

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

// Members other than these are likely misspelt, and a misspelt "limits" would ask for nothing.
Result<Done> RefuseUnknownMembers(const View& entry) {
  static const std::set<std::string, std::less<>> kKnown = {"requests", "limits", "claims", "init",
                                                            "restartPolicy"};
  const auto members = entry.Members();
  if (!members.ok()) return members.error();
  for (const auto& [key, member] : *members) {
    if (!kKnown.contains(key)) {
      return member.Wrong("is not known; known are requests, limits, init and restartPolicy");
    }
  }
  return Done{};
}

Result<Container> ReadContainer(const std::string& name, const View& entry) {
  const Result<Done> known = RefuseUnknownMembers(entry);
  if (!known.ok()) return known.error();
  const Result<ContainerKind> kind = ReadKind(entry);
  if (!kind.ok()) return kind.error();
  Result<Resources> resources = ParseResources(
      entry.value().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), entry.path());
  if (!resources.ok()) return resources.error();
  return Container{name, *kind, *std::move(resources)};
}

}  // namespace

Result<std::vector<Container>> ParseAnnotatedResources(std::string_view text) {
  // Read twice: once for the order of the names, once for everything else.
  const Result<nlohmann::ordered_json> ordered = json::ParseOrdered(text);
  if (!ordered.ok()) return ordered.error();
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.error();
  const View top(*parsed, "");
  if (!parsed->is_object()) return top.IsNot("an object of container names");
  std::vector<Container> containers;
  for (const auto& [name, value] : ordered->items()) {
    const Result<View> entry = top.Require(name);
    if (!entry.ok()) return entry.error();
    Result<Container> container = ReadContainer(name, *entry);
    if (!container.ok()) return container.error();
    if (container->kind != ContainerKind::kApp && !containers.empty() &&
        containers.back().kind == ContainerKind::kApp) {
      return entry->Wrong("init containers must come before the others");
    }
    containers.push_back(*std::move(container));
  }
  return containers;
}

}  // namespace alignd
