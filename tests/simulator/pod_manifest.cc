#include "simulator/pod_manifest.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "alignd/pod/annotated_resources.h"
#include "alignd/pod/kubernetes_pod.h"
#include "host/yaml.h"

namespace alignd::simulator {
namespace {

using Json = nlohmann::json;

// The member, or null. Members that the core does not use are read leniently: a member of the wrong
// type is treated as missing.
const Json& Member(const Json& object, const char* key) {
  static const Json kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

std::string Text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

bool Flag(const Json& object, const char* key) {
  const Json& value = Member(object, key);
  return value.is_boolean() && value.get<bool>();
}

std::map<std::string, std::string> StringMap(const Json& object) {
  std::map<std::string, std::string> texts;
  if (!object.is_object()) return texts;
  for (const auto& [key, value] : object.items()) texts[key] = Text(value);
  return texts;
}

std::vector<std::string> List(const Json& array) {
  std::vector<std::string> list;
  if (!array.is_array()) return list;
  for (const Json& value : array) list.push_back(Text(value));
  return list;
}

Result<Done> ReadContainers(const Json& array, std::map<std::string, ContainerManifest>& into) {
  if (!array.is_array()) return Done{};
  for (const Json& entry : array) {
    const std::string name = Text(Member(entry, "name"));
    ContainerManifest container;
    container.image = Text(Member(entry, "image"));
    if (container.image.empty()) {
      return Error{ErrorCode::kInvalidArgument, "container " + name + " has no image"};
    }
    container.command = List(Member(entry, "command"));
    container.args = List(Member(entry, "args"));
    container.cdi_devices = List(Member(entry, "cdiDevices"));
    container.working_dir = Text(Member(entry, "workingDir"));
    container.never_pull = Text(Member(entry, "imagePullPolicy")) == "Never";
    if (const Json& envs = Member(entry, "env"); envs.is_array()) {
      for (const Json& env : envs) {
        if (Member(env, "valueFrom").is_null()) {
          container.envs.emplace_back(Text(Member(env, "name")), Text(Member(env, "value")));
        }
      }
    }
    into[name] = std::move(container);
  }
  return Done{};
}

// 64-bit FNV-1a.
uint64_t Hash(std::string_view text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

std::string UidOf(std::string_view text) {
  const uint64_t first = Hash(text, 14695981039346656037U);
  char digits[33];
  std::snprintf(digits, sizeof digits, "%016llx%016llx", static_cast<unsigned long long>(first),
                static_cast<unsigned long long>(Hash(text, first)));
  return digits;
}

nlohmann::ordered_json ToJson(const ResourceList& list) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [name, amount] : list) json[name] = amount.ToString();
  return json;
}

}  // namespace

Result<PodManifest> ParsePodManifest(std::string_view text) {
  const Result<std::string> json = host::YamlToJson(text);
  if (!json.ok()) return json.error();
  Result<Pod> pod = ParseKubernetesPod(*json);
  if (!pod.ok()) return pod.error();
  PodManifest manifest;
  manifest.pod = *std::move(pod);
  const Json top = Json::parse(*json, nullptr, /*allow_exceptions=*/false);
  const Json& metadata = Member(top, "metadata");
  const Json& spec = Member(top, "spec");
  if (Text(Member(metadata, "uid")).empty()) manifest.pod.uid = UidOf(text);
  manifest.labels = StringMap(Member(metadata, "labels"));
  manifest.annotations = StringMap(Member(metadata, "annotations"));
  manifest.host_network = Flag(spec, "hostNetwork");
  manifest.host_pid = Flag(spec, "hostPID");
  manifest.host_ipc = Flag(spec, "hostIPC");
  if (const Json& grace = Member(spec, "terminationGracePeriodSeconds"); grace.is_number()) {
    manifest.grace_seconds = grace.get<int64_t>();
  }
  for (const char* const key : {"initContainers", "containers"}) {
    const Result<Done> read = ReadContainers(Member(spec, key), manifest.containers);
    if (!read.ok()) return read.error();
  }
  return manifest;
}

std::string ResourcesAnnotation(const Pod& pod) {
  nlohmann::ordered_json annotation = nlohmann::ordered_json::object();
  if (pod.pod_level) {
    annotation[std::string(kPodLevelEntry)] = {{"requests", ToJson(pod.pod_level->requests)},
                                               {"limits", ToJson(pod.pod_level->limits)}};
  }
  for (const Container& container : pod.containers) {
    nlohmann::ordered_json& entry = annotation[container.name] = nlohmann::ordered_json::object();
    const Resources& resources = container.resources;
    if (!resources.requests.empty()) entry["requests"] = ToJson(resources.requests);
    if (!resources.limits.empty()) entry["limits"] = ToJson(resources.limits);
    if (container.kind != ContainerKind::kApp) entry["init"] = true;
    if (container.kind == ContainerKind::kSidecar) entry["restartPolicy"] = "Always";
  }
  return annotation.dump();
}

}  // namespace alignd::simulator
