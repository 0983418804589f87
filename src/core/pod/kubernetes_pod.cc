#include "alignd/pod/kubernetes_pod.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/pod/pod_requests.h"
#include "core/json/json_view.h"
#include "core/pod/resource_list.h"

namespace alignd {
namespace {

using json::View;

// A string member, or "" if it is absent.
Result<std::string> OptionalString(const View& view, std::string_view key) {
  const Result<std::optional<View>> member = view.Find(key);
  if (!member.ok()) return member.error();
  return *member ? (*member)->String() : std::string();
}

Result<Resources> ReadResources(const View& view) {
  Resources resources;
  Result<ResourceList> limits = ReadResourceList(view, "limits");
  if (!limits.ok()) return limits.error();
  Result<ResourceList> requests = ReadResourceList(view, "requests");
  if (!requests.ok()) return requests.error();
  resources.limits = *std::move(limits);
  resources.requests = *std::move(requests);
  return resources;
}

// A limit without a request becomes a request too.
// Source: kubernetes pkg/apis/core/v1/defaults.go, SetDefaults_Pod.
void DefaultRequests(Resources& resources) {
  resources.requests.insert(resources.limits.begin(), resources.limits.end());
}

Result<Container> ReadContainer(const View& view, bool init) {
  Container container;
  const Result<View> name = view.Require("name");
  if (!name.ok()) return name.error();
  Result<std::string> text = name->String();
  if (!text.ok()) return text.error();
  if (text->empty()) return name->Wrong("must not be empty");
  container.name = *std::move(text);

  const Result<std::string> restart_policy = OptionalString(view, "restartPolicy");
  if (!restart_policy.ok()) return restart_policy.error();
  if (init) {
    container.kind = *restart_policy == "Always" ? ContainerKind::kSidecar : ContainerKind::kInit;
  }

  const Result<std::optional<View>> resources = view.Find("resources");
  if (!resources.ok()) return resources.error();
  if (*resources) {
    Result<Resources> read = ReadResources(**resources);
    if (!read.ok()) return read.error();
    DefaultRequests(*read);
    container.resources = *std::move(read);
  }
  return container;
}

// Appends the containers of one list; names are unique in the whole pod.
Result<Done> ReadContainers(const View& spec, std::string_view key, bool init,
                            std::set<std::string>& names, std::vector<Container>& containers) {
  const Result<std::optional<View>> list = spec.Find(key);
  if (!list.ok()) return list.error();
  if (!*list) return Done{};
  const Result<std::vector<View>> elements = (*list)->Elements();
  if (!elements.ok()) return elements.error();
  for (const View& element : *elements) {
    Result<Container> container = ReadContainer(element, init);
    if (!container.ok()) return container.error();
    if (!names.insert(container->name).second) {
      return element.Wrong("a second container named \"" + container->name + "\"");
    }
    containers.push_back(*std::move(container));
  }
  return Done{};
}

Result<std::optional<QosClass>> ReadQos(const View& status) {
  const Result<std::optional<View>> member = status.Find("qosClass");
  if (!member.ok()) return member.error();
  if (!*member) return std::optional<QosClass>();
  const Result<std::string> text = (*member)->String();
  if (!text.ok()) return text.error();
  for (const QosClass qos : {QosClass::kGuaranteed, QosClass::kBurstable, QosClass::kBestEffort}) {
    if (*text == ToString(qos)) return std::optional<QosClass>(qos);
  }
  if (text->empty()) return std::optional<QosClass>();
  return (*member)->IsNot("\"Guaranteed\", \"Burstable\" or \"BestEffort\"");
}

// The scheduler has mapped these extended resources to a ResourceClaim: a DRA driver serves them,
// and no device plugin.
// Source: Kubernetes core/v1 PodExtendedResourceClaimStatus (KEP-5004).
Result<Done> RemoveResourcesOfDra(const View& status, Pod& pod) {
  const Result<std::optional<View>> member = status.Find("extendedResourceClaimStatus");
  if (!member.ok()) return member.error();
  if (!*member) return Done{};
  const Result<std::optional<View>> list = (*member)->Find("requestMappings");
  if (!list.ok()) return list.error();
  if (!*list) return Done{};
  const Result<std::vector<View>> mappings = (*list)->Elements();
  if (!mappings.ok()) return mappings.error();
  for (const View& mapping : *mappings) {
    const Result<std::string> name = OptionalString(mapping, "containerName");
    if (!name.ok()) return name.error();
    const Result<std::string> resource = OptionalString(mapping, "resourceName");
    if (!resource.ok()) return resource.error();
    for (Container& container : pod.containers) {
      if (container.name != *name) continue;
      container.resources.limits.erase(*resource);
      container.resources.requests.erase(*resource);
    }
  }
  return Done{};
}

// The number of the pod's PriorityClass, which admission writes into the spec.
Result<int32_t> ReadPriority(const View& spec) {
  const Result<std::optional<View>> member = spec.Find("priority");
  if (!member.ok()) return member.error();
  if (!*member) return 0;
  const Result<int64_t> number =
      (*member)->Integer(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  if (!number.ok()) return number.error();
  return static_cast<int32_t>(*number);
}

Result<Done> CheckKind(const View& top) {
  const Result<std::optional<View>> kind = top.Find("kind");
  if (!kind.ok()) return kind.error();
  if (!*kind) return Done{};
  const Result<std::string> text = (*kind)->String();
  if (!text.ok()) return text.error();
  if (*text != "Pod") return (*kind)->IsNot("\"Pod\"");
  return Done{};
}

Result<Done> ReadAnnotations(const View& metadata, Pod& pod) {
  const Result<std::optional<View>> annotations = metadata.Find("annotations");
  if (!annotations.ok()) return annotations.error();
  if (!*annotations) return Done{};
  const auto members = (*annotations)->Members();
  if (!members.ok()) return members.error();
  for (const auto& [name, member] : *members) {
    const Result<std::string> text = member.String();
    if (!text.ok()) return text.error();
    ReadPodPolicies(name, *text, pod.policies);
  }
  return Done{};
}

Result<Done> ReadLabels(const View& metadata, Pod& pod) {
  const Result<std::optional<View>> labels = metadata.Find("labels");
  if (!labels.ok()) return labels.error();
  if (!*labels) return Done{};
  const auto members = (*labels)->Members();
  if (!members.ok()) return members.error();
  for (const auto& [name, member] : *members) {
    const Result<std::string> text = member.String();
    if (!text.ok()) return text.error();
    ReadSharingLabel(name, *text, pod.policies.sharing);
  }
  return Done{};
}

Result<Done> ReadMetadata(const View& top, Pod& pod) {
  const Result<View> metadata = top.Require("metadata");
  if (!metadata.ok()) return metadata.error();
  for (const auto& [key, field] :
       {std::pair{"uid", &pod.uid}, {"name", &pod.name}, {"namespace", &pod.name_space}}) {
    Result<std::string> text = OptionalString(*metadata, key);
    if (!text.ok()) return text.error();
    *field = *std::move(text);
  }
  if (pod.name_space.empty()) pod.name_space = "default";
  if (pod.uid.empty()) {
    if (pod.name.empty()) return metadata->Wrong("has neither uid nor name");
    pod.uid = pod.name_space + "/" + pod.name;
  }
  if (Result<Done> read = ReadLabels(*metadata, pod); !read.ok()) return read;
  return ReadAnnotations(*metadata, pod);
}

Result<Done> ReadSpec(const View& top, Pod& pod) {
  const Result<View> spec = top.Require("spec");
  if (!spec.ok()) return spec.error();
  std::set<std::string> names;
  Result<Done> read = ReadContainers(*spec, "initContainers", true, names, pod.containers);
  if (!read.ok()) return read.error();
  const size_t init_containers = pod.containers.size();
  read = ReadContainers(*spec, "containers", false, names, pod.containers);
  if (!read.ok()) return read.error();
  if (pod.containers.size() == init_containers) return spec->Wrong("has no containers");

  const Result<int32_t> priority = ReadPriority(*spec);
  if (!priority.ok()) return priority.error();
  pod.priority = *priority;

  const Result<std::optional<View>> resources = spec->Find("resources");
  if (!resources.ok()) return resources.error();
  if (*resources) {
    Result<Resources> pod_level = ReadResources(**resources);
    if (!pod_level.ok()) return pod_level.error();
    DefaultPodRequests(pod.containers, *pod_level);
    pod.pod_level = *std::move(pod_level);
  }
  return Done{};
}

}  // namespace

void DefaultPodRequests(const std::vector<Container>& containers, Resources& resources) {
  if (resources.limits.empty()) return;
  for (const auto& [name, amount] : RequestsOfContainers(containers)) {
    if (name == "cpu" || name == "memory") resources.requests.emplace(name, amount);
  }
  DefaultRequests(resources);
}

Result<Pod> ParseKubernetesPod(std::string_view text) {
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.error();
  const View top(*parsed, "");
  Pod pod;
  for (const Result<Done>& step : {CheckKind(top), ReadMetadata(top, pod), ReadSpec(top, pod)}) {
    if (!step.ok()) return step.error();
  }
  const Result<std::optional<View>> status = top.Find("status");
  if (!status.ok()) return status.error();
  if (*status) {
    const Result<std::optional<QosClass>> qos = ReadQos(**status);
    if (!qos.ok()) return qos.error();
    pod.stated_qos = *qos;
    const Result<Done> removed = RemoveResourcesOfDra(**status, pod);
    if (!removed.ok()) return removed.error();
  }
  return pod;
}

Result<Resources> ParseResources(std::string_view text, std::string_view path) {
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.error().In(path);
  Result<Resources> resources = ReadResources(View(*parsed, std::string(path)));
  if (resources.ok()) DefaultRequests(*resources);
  return resources;
}

}  // namespace alignd
