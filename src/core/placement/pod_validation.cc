#include "core/placement/pod_validation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/placement/names.h"
#include "core/placement/resource_validation.h"

namespace alignd::placement {
namespace {

using json::View;

constexpr std::string_view kLabel =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character, with at most 63 characters";

// The containers of one list. `names` are those of the whole pod.
class ContainerChecks {
 public:
  ContainerChecks(std::set<std::string> claims, Faults& faults)
      : claims_(std::move(claims)), faults_(faults) {}

  void Check(const View& spec, std::string_view key, ContainerKind kind) {
    for (const View& container : ListIn(spec, key, faults_)) {
      CheckFields(container, ContainerFields(), faults_);
      Container& read = containers_.emplace_back();
      read.kind = kind;
      read.name = Name(container);
      CheckRestartPolicy(container, read);
      if (const auto resources = ObjectIn(container, "resources", faults_)) {
        read.resources = CheckContainerResources(*resources, claims_, faults_);
      }
    }
  }

  // Source: validation.go, validateEphemeralContainers.
  void CheckEphemeral(const View& spec) {
    for (const View& container : ListIn(spec, "ephemeralContainers", faults_)) {
      CheckFields(container, EphemeralContainerFields(), faults_);
      Name(container);
      const auto resources = ObjectIn(container, "resources", faults_);
      if (resources && !resources->value().empty()) {
        faults_.Forbidden(resources->path(), "cannot be set for an Ephemeral Container");
      }
    }
  }

  const std::vector<Container>& containers() const { return containers_; }

 private:
  std::string Name(const View& container) {
    const std::string path = container.path() + ".name";
    std::string name = StringIn(container, "name", faults_).value_or("");
    if (name.empty()) {
      faults_.Required(path);
    } else if (!IsDnsLabel(name)) {
      faults_.Invalid(path, name, kLabel);
    } else if (!names_.insert(name).second) {
      faults_.Duplicate(path, name);
    }
    return name;
  }

  void CheckRestartPolicy(const View& container, Container& read) {
    const auto policy = StringIn(container, "restartPolicy", faults_);
    if (!policy || policy->empty()) return;
    const bool is_known = *policy == "Always" || *policy == "Never" || *policy == "OnFailure";
    if (!is_known && !faults_.is_accepted()) {
      faults_.Unsupported(container.path() + ".restartPolicy", *policy,
                          "\"Always\", \"Never\", \"OnFailure\"");
    }
    if (read.kind == ContainerKind::kInit && *policy == "Always") {
      read.kind = ContainerKind::kSidecar;
    }
  }

  std::set<std::string> claims_;
  Faults& faults_;
  std::set<std::string> names_;
  std::vector<Container> containers_;
};

std::set<std::string> CheckClaims(const View& spec, Faults& faults) {
  std::set<std::string> names;
  for (const View& claim : ListIn(spec, "resourceClaims", faults)) {
    CheckFields(claim, PodClaimFields(), faults);
    const std::string path = claim.path() + ".name";
    const std::string name = StringIn(claim, "name", faults).value_or("");
    if (name.empty()) {
      faults.Required(path);
    } else if (!IsDnsLabel(name)) {
      faults.Invalid(path, name, kLabel);
    } else if (!names.insert(name).second) {
      faults.Duplicate(path, name);
    }
  }
  return names;
}

// Source: validation.go, ValidateTolerations.
void CheckToleration(const View& toleration, Faults& faults) {
  CheckFields(toleration, TolerationFields(), faults);
  const std::string& path = toleration.path();
  const std::string key = StringIn(toleration, "key", faults).value_or("");
  const std::string op = StringIn(toleration, "operator", faults).value_or("");
  const std::string value = StringIn(toleration, "value", faults).value_or("");
  const std::string effect = StringIn(toleration, "effect", faults).value_or("");
  if (!key.empty() && !IsQualifiedName(key)) faults.Invalid(path + ".key", key, kQualifiedName);
  if (key.empty() && op != "Exists") {
    faults.Invalid(path + ".operator", op,
                   "operator must be Exists when `key` is empty, which means \"match all values "
                   "and all keys\"");
  }
  const auto seconds = toleration.value().find("tolerationSeconds");
  if (seconds != toleration.value().end() && !seconds->is_null()) {
    const std::string seconds_path = path + ".tolerationSeconds";
    const Result<int64_t> read = View(*seconds, seconds_path).Integer(INT64_MIN, INT64_MAX);
    if (!read.ok()) faults.Add(read.error());
    if (effect != "NoExecute") {
      faults.Invalid(path + ".effect", effect,
                     "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
  }
  if (op.empty() || op == "Equal") {
    if (!IsLabelValue(value)) faults.Invalid(path + ".operator", value, kLabelValue);
  } else if (op == "Exists") {
    if (!value.empty()) {
      faults.Invalid(path + ".operator", value, "value must be empty when `operator` is 'Exists'");
    }
  } else {
    faults.Unsupported(path + ".operator", op, "\"Equal\", \"Exists\"");
  }
  if (!effect.empty() && effect != "NoSchedule" && effect != "PreferNoSchedule" &&
      effect != "NoExecute") {
    faults.Unsupported(path + ".effect", effect,
                       "\"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"");
  }
}

// Source: validation.go, validateSchedulingGates.
void CheckSchedulingGates(const View& spec, Faults& faults) {
  std::set<std::string> names;
  for (const View& gate : ListIn(spec, "schedulingGates", faults)) {
    CheckFields(gate, SchedulingGateFields(), faults);
    const std::string name = StringIn(gate, "name", faults).value_or("");
    if (!IsQualifiedName(name)) {
      faults.Invalid(gate.path() + ".name", name, kQualifiedName);
    } else if (!names.insert(name).second) {
      faults.Duplicate(gate.path() + ".name", name);
    }
  }
}

// Source: validation.go, validateOS.
void CheckOs(const View& spec, Faults& faults) {
  const auto os = ObjectIn(spec, "os", faults);
  if (!os) return;
  CheckFields(*os, OsFields(), faults);
  const std::string name = StringIn(*os, "name", faults).value_or("");
  if (name.empty()) {
    faults.Required(os->path() + ".name");
  } else if (name != "linux" && name != "windows") {
    faults.Unsupported(os->path() + ".name", name, "\"linux\", \"windows\"");
  }
}

// Fields whose values decide where the pod may go, and of which a newer API server may accept more.
void CheckValues(const View& spec, Faults& faults) {
  for (const View& toleration : ListIn(spec, "tolerations", faults)) {
    CheckToleration(toleration, faults);
  }
  CheckSchedulingGates(spec, faults);
  CheckOs(spec, faults);
}

void CheckOverhead(const View& spec, Faults& faults) {
  if (const auto overhead = ObjectIn(spec, "overhead", faults)) CheckAmounts(*overhead, faults);
}

// Source: apimachinery pkg/api/validation, ValidateAnnotations.
void CheckAnnotations(const View& metadata, Faults& faults) {
  CheckStringMap(metadata, "annotations", faults);
  const auto map = ObjectIn(metadata, "annotations", faults);
  if (faults.is_accepted() || !map) return;
  constexpr size_t kMaxBytes = 256 << 10;
  size_t bytes = 0;
  for (const auto& [name, value] : map->value().items()) {
    std::string lower = name;
    std::ranges::transform(lower, lower.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    if (!IsQualifiedName(lower)) faults.Invalid(map->path(), name, kQualifiedName);
    bytes += name.size() + (value.is_string() ? value.get_ref<const std::string&>().size() : 0);
  }
  if (bytes > kMaxBytes) {
    faults.Add(map->path(),
               "Too long: may not be more than " + std::to_string(kMaxBytes) + " bytes");
  }
}

// The name of another object.
void CheckName(const View& spec, std::string_view key, Faults& faults) {
  const std::string name = StringIn(spec, key, faults).value_or("");
  if (name.empty() || faults.is_accepted() || IsDnsSubdomain(name)) return;
  faults.Invalid(spec.path() + "." + std::string(key), name, kDnsSubdomain);
}

}  // namespace

void CheckMetadata(const View& object, bool is_template, Faults& faults) {
  const auto metadata = ObjectIn(object, "metadata", faults);
  if (!metadata) {
    if (!is_template) faults.Required("metadata.name", "name or generateName is required");
    return;
  }
  CheckFields(*metadata, ObjectMetaFields(), faults);
  CheckLabels(*metadata, "labels", faults);
  CheckAnnotations(*metadata, faults);
  const std::string name = StringIn(*metadata, "name", faults).value_or("");
  std::string generate_name = StringIn(*metadata, "generateName", faults).value_or("");
  const std::string name_space = StringIn(*metadata, "namespace", faults).value_or("");
  const std::string& path = metadata->path();
  StringIn(*metadata, "uid", faults);
  if (!name_space.empty() && !IsDnsLabel(name_space)) {
    faults.Invalid(path + ".namespace", name_space, kLabel);
  }
  if (is_template) return;
  if (!name.empty() && !IsDnsSubdomain(name)) faults.Invalid(path + ".name", name, kDnsSubdomain);
  if (name.empty() && generate_name.empty()) {
    faults.Required(path + ".name", "name or generateName is required");
  }
  // A prefix may end with '-'. Source: apimachinery pkg/api/validation, maskTrailingDash.
  if (generate_name.size() > 1 && generate_name.back() == '-') generate_name.back() = 'a';
  if (!generate_name.empty() && !IsDnsSubdomain(generate_name)) {
    faults.Invalid(path + ".generateName", generate_name, kDnsSubdomain);
  }
}

void CheckPodSpec(const View& object, Faults& faults) {
  const auto spec = ObjectIn(object, "spec", faults);
  if (!spec) {
    const std::string path = object.path().empty() ? "spec" : object.path() + ".spec";
    return faults.Required(path + ".containers");
  }
  CheckFields(*spec, PodSpecFields(), faults);
  StringIn(*spec, "schedulerName", faults);
  for (const char* key : {"nodeName", "runtimeClassName"}) CheckName(*spec, key, faults);
  CheckLabels(*spec, "nodeSelector", faults);
  if (!faults.is_accepted()) CheckValues(*spec, faults);
  ContainerChecks containers(CheckClaims(*spec, faults), faults);
  containers.Check(*spec, "initContainers", ContainerKind::kInit);
  containers.Check(*spec, "containers", ContainerKind::kApp);
  containers.CheckEphemeral(*spec);
  if (ListIn(*spec, "containers", faults).empty()) {
    faults.Required(spec->path() + ".containers");
  }
  CheckOverhead(*spec, faults);
  if (const auto resources = ObjectIn(*spec, "resources", faults)) {
    CheckPodResources(*resources, containers.containers(), faults);
  }
}

}  // namespace alignd::placement
