#include "alignd/placement/manifest.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/json/json_view.h"
#include "core/placement/faults.h"
#include "core/placement/object_kinds.h"
#include "core/placement/pod_reader.h"
#include "core/placement/pod_status.h"
#include "core/placement/pod_validation.h"
#include "core/placement/runtime_class.h"

namespace alignd::placement {
namespace {

using json::View;

Error Unreadable(std::string message, std::string remedy = {}) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)};
}

int64_t ReadCount(const View& spec, std::string_view key, int64_t standard, Faults& faults) {
  const auto member = spec.value().find(std::string(key));
  if (member == spec.value().end() || member->is_null()) return standard;
  constexpr int64_t kMaxInt32 = 2'147'483'647;
  const std::string path = spec.path() + "." + std::string(key);
  const Result<int64_t> count = View(*member, path).Integer(0, kMaxInt32);
  if (count.ok()) return *count;
  faults.Add(count.error());
  return 0;
}

void ReadJobCounts(const View& spec, Workload& workload, Faults& faults) {
  workload.replicas = ReadCount(spec, "parallelism", 1, faults);
  if (HasValue(spec, "completions")) {
    workload.replicas = std::min(workload.replicas, ReadCount(spec, "completions", 1, faults));
  }
  const auto mode = StringIn(spec, "completionMode", faults);
  if (mode && *mode == "Indexed" && workload.kind == "Job") workload.names = PodNames::kIndexed;
}

void ReadCounts(const View& spec, Workload& workload, Faults& faults) {
  if (workload.kind == "Job" || workload.kind == "CronJob") {
    return ReadJobCounts(spec, workload, faults);
  }
  if (workload.kind == "DaemonSet") {
    workload.one_per_node = true;
    return;
  }
  workload.replicas = ReadCount(spec, "replicas", 1, faults);
  if (workload.kind != "StatefulSet") return;
  if (const auto ordinals = ObjectIn(spec, "ordinals", faults)) {
    workload.first_ordinal = ReadCount(*ordinals, "start", 0, faults);
  }
}

PodNames NamesOf(std::string_view kind) {
  if (kind == "Deployment") return PodNames::kHashed;
  if (kind == "StatefulSet") return PodNames::kOrdinal;
  if (kind == "CronJob") return PodNames::kJobOf;
  return PodNames::kRandom;
}

// The spec that has the counts and the template: of a CronJob, that of its job template.
std::optional<View> SpecWithTemplate(const View& object, const std::string& kind, Faults& faults) {
  std::optional<View> spec = ObjectIn(object, "spec", faults);
  if (!spec) {
    faults.Required("spec");
    return spec;
  }
  CheckFields(*spec, WorkloadSpecFields(kind), faults);
  if (kind != "CronJob") return spec;
  const std::optional<View> job = ObjectIn(*spec, "jobTemplate", faults);
  std::optional<View> below = job ? ObjectIn(*job, "spec", faults) : std::nullopt;
  if (!below) {
    faults.Required("spec.jobTemplate.spec");
    return below;
  }
  CheckFields(*job, PodTemplateFields(), faults);
  CheckFields(*below, WorkloadSpecFields("Job"), faults);
  return below;
}

// What the controller of DaemonSets lets its pods tolerate, beyond what all pods do for a while:
// that the node is not ready or reachable.
// Source: kubernetes pkg/controller/daemon/util/daemonset_util.go, AddOrUpdateDaemonPodTolerations.
void AddDaemonTolerations(const View& pod_template, PlannedPod& pod) {
  const auto add = [&pod](const char* key, const char* effect) {
    pod.tolerations.push_back(
        {std::string("node.kubernetes.io/") + key, "Exists", /*value=*/"", effect});
  };
  for (const char* key : {"disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"}) {
    add(key, "NoSchedule");
  }
  Faults known;  // already
  const auto spec = ObjectIn(pod_template, "spec", known);
  if (!spec) return;
  const auto host_network = spec->value().find("hostNetwork");
  if (host_network != spec->value().end() && *host_network == true) {
    add("network-unavailable", "NoSchedule");
  }
}

void ReadController(const View& object, Workload& workload, Faults& faults) {
  constexpr auto kTop =
      std::to_array<std::string_view>({"apiVersion", "kind", "metadata", "spec", "status"});
  CheckFields(object, kTop, faults);
  workload.names = NamesOf(workload.kind);
  CheckMetadata(object, /*is_template=*/false, faults);
  // Source: validation.go of batch, ValidateCronJobCreate: its Jobs' names have 11 more.
  constexpr size_t kLongestCronJob = 52;
  if (workload.kind == "CronJob" && workload.name.size() > kLongestCronJob) {
    faults.Invalid("metadata.name", workload.name, "must be no more than 52 characters");
  }
  const std::optional<View> spec = SpecWithTemplate(object, workload.kind, faults);
  const std::optional<View> pod = spec ? ObjectIn(*spec, "template", faults) : std::nullopt;
  if (spec) ReadCounts(*spec, workload, faults);
  if (spec && !pod) faults.Required(spec->path() + ".template");
  if (!pod) {
    workload.pod.faults = faults.texts();
    workload.pod.owner = workload.kind + " " + workload.name_space + "/" + workload.name;
    return;
  }
  CheckFields(*pod, PodTemplateFields(), faults);
  ReadPlannedPod(*pod, /*is_template=*/true, workload, faults);
  if (workload.one_per_node) AddDaemonTolerations(*pod, workload.pod);
}

void ReadPodObject(const View& object, Workload& workload, Faults& faults) {
  constexpr auto kTop =
      std::to_array<std::string_view>({"apiVersion", "kind", "metadata", "spec", "status"});
  CheckFields(object, kTop, faults);
  ReadPlannedPod(object, /*is_template=*/false, workload, faults);
  if (workload.name.empty()) {
    const auto metadata = ObjectIn(object, "metadata", faults);
    workload.names = PodNames::kRandom;
    workload.name = metadata ? StringIn(*metadata, "generateName", faults).value_or("") : "";
    workload.pod.pod.name = "";
  } else {
    workload.pod.pod.name = workload.name;
  }
}

// What is named here of an object is checked later.
std::string NameOf(const View& object, std::string_view key) {
  Faults ignored;
  const auto metadata = ObjectIn(object, "metadata", ignored);
  return metadata ? StringIn(*metadata, key, ignored).value_or("") : "";
}

std::string PhaseOf(const View& object) {
  Faults ignored;
  const auto status = ObjectIn(object, "status", ignored);
  return status ? StringIn(*status, "phase", ignored).value_or("") : std::string();
}

bool HasEnded(const View& object) {
  const std::string phase = PhaseOf(object);
  return phase == "Succeeded" || phase == "Failed";
}

// A value of another type is a fault that is found later.
bool IsSuspended(const View& object) {
  Faults ignored;
  const auto spec = ObjectIn(object, "spec", ignored);
  if (!spec) return false;
  const auto suspend = spec->value().find("suspend");
  return suspend != spec->value().end() && *suspend == true;
}

// A Deployment that was paused before it had pods makes none until it is resumed. Only the API
// server's object shows that: one without status may have had pods before.
bool IsPausedWithoutPods(const View& object) {
  Faults ignored;
  const auto spec = ObjectIn(object, "spec", ignored);
  if (!spec || spec->value().value("paused", nlohmann::json()) != true) return false;
  const auto status = ObjectIn(object, "status", ignored);
  return status && ReadCount(*status, "replicas", 0, ignored) == 0;
}

// Only of a kind that is read here. A reference that is malformed is none: it is not checked.
std::optional<ControllerReference> ControllerOf(const View& object) {
  Faults ignored;
  const auto metadata = ObjectIn(object, "metadata", ignored);
  if (!metadata) return std::nullopt;
  for (const View& owner : ListIn(*metadata, "ownerReferences", ignored)) {
    if (!owner.value().is_object()) continue;
    if (owner.value().value("controller", nlohmann::json()) != true) continue;
    const auto text = [&](const char* key) { return StringIn(owner, key, ignored).value_or(""); };
    const std::string kind = text("kind");
    const auto known = std::ranges::find(kWithPods, kind, &Kind::name);
    if (known == kWithPods.end() || text("apiVersion") != known->api_version) return std::nullopt;
    return ControllerReference{kind, text("name"), text("uid")};
  }
  return std::nullopt;
}

// The objects of one document, lists included.
class DocumentReader {
 public:
  DocumentReader(const std::string& file, ManifestOrigin origin, Manifests& manifests)
      : file_(file), origin_(origin), manifests_(manifests) {}

  // `standard`: the kind and version that an element of a list need not state.
  Result<Done> Read(const View& object, const Kind& standard) {
    if (!object.value().is_object()) return object.IsNot("a Kubernetes object");
    const Result<std::string> kind = Text(object, "kind", standard.name);
    if (!kind.ok()) return kind.error();
    const Result<std::string> version = Text(object, "apiVersion", standard.api_version);
    if (!version.ok()) return version.error();
    for (const Kind& known : kWithPods) {
      if (*kind == known.name) return ReadWorkload(object, *version, known);
    }
    if (*kind == "List" || IsListOfPods(*kind)) return ReadList(object, *kind);
    if (IsRuntimeClass(*kind, *version)) return ReadRuntimeClass(object, manifests_);
    if (HasNoPods(*kind, *version)) {
      manifests_.skipped.push_back(*kind + " " + NameOf(object, "name") + " has no pods");
      return Done{};
    }
    if (*kind == "LimitRange" || *kind == "ResourceQuota") {
      return Unreadable("kind: a " + *kind + " changes or limits requests, and is not applied here",
                        "remove it, and state the requests in the pods");
    }
    return Unreadable("kind: \"" + *kind + "\" of version \"" + *version + "\" is not known",
                      "remove the object; " + std::string(kReadKinds));
  }

 private:
  static Result<std::string> Text(const View& object, std::string_view key,
                                  std::string_view standard) {
    const Result<std::optional<View>> member = object.Find(key);
    if (!member.ok()) return member.error();
    if (*member) return (*member)->String();
    if (!standard.empty()) return std::string(standard);
    return Unreadable(std::string(key) + ": is missing",
                      "add it: apiVersion: v1 and kind: Pod for a pod");
  }

  static bool IsListOfPods(std::string_view kind) {
    return std::ranges::any_of(
        kWithPods, [&](const Kind& known) { return kind == std::string(known.name) + "List"; });
  }

  Result<Done> ReadList(const View& list, const std::string& kind) {
    // With a misspelt `items`, none of them would be read.
    constexpr auto kTop =
        std::to_array<std::string_view>({"apiVersion", "items", "kind", "metadata"});
    Faults faults;
    CheckAllFields(list, kTop, faults);
    if (!faults.empty()) return Unreadable(faults.texts().front());
    const Result<std::optional<View>> items = list.Find("items");
    if (!items.ok()) return items.error();
    if (!*items) return Done{};
    const Result<std::vector<View>> elements = (*items)->Elements();
    if (!elements.ok()) return elements.error();
    Kind standard;
    for (const Kind& known : kWithPods) {
      if (kind == std::string(known.name) + "List") standard = known;
    }
    for (const View& element : *elements) {
      const Result<std::optional<View>> kind_of = element.Find("kind");
      if (!kind_of.ok()) return kind_of.error();
      if (*kind_of && (*kind_of)->value() == "List") return element.Wrong("is a list in a list");
      const Result<Done> read = Read(View(element.value(), ""), standard);
      if (!read.ok()) return read.error().In(element.path());
    }
    return Done{};
  }

  Result<Done> ReadWorkload(const View& object, const std::string& version, const Kind& kind) {
    if (version != kind.api_version) {
      return Unreadable("apiVersion: no matches for kind \"" + std::string(kind.name) +
                            "\" in version \"" + version + "\"",
                        "its version is " + std::string(kind.api_version));
    }
    Workload workload;
    workload.kind = kind.name;
    workload.file = file_;
    workload.name = NameOf(object, "name");
    workload.name_space = NameOf(object, "namespace");
    if (workload.name_space.empty()) workload.name_space = "default";
    if (kind.name == "Pod" && HasEnded(object)) {
      manifests_.skipped.push_back("Pod " + workload.name_space + "/" + workload.name +
                                   " has ended");
      return Done{};
    }
    const bool is_job = kind.name == "Job" || kind.name == "CronJob";
    const bool is_suspended = is_job && IsSuspended(object);
    if (is_suspended || (kind.name == "Deployment" && IsPausedWithoutPods(object))) {
      manifests_.skipped.push_back(std::string(kind.name) + " " + workload.name_space + "/" +
                                   workload.name + " is " +
                                   (is_suspended ? "suspended" : "paused") + ": it has no pods");
      return Done{};
    }
    const bool is_accepted_pod = kind.name == "Pod" && IsOfApiServer(object.value());
    Faults faults(origin_ == ManifestOrigin::kApiServer || is_accepted_pod);
    if (kind.name == "Pod") {
      ReadPodObject(object, workload, faults);
      workload.pod.is_pending = PhaseOf(object) == "Pending";
    } else {
      ReadController(object, workload, faults);
    }
    // The API server has resolved the RuntimeClass of a pod that it has, not that of a template.
    workload.uid = NameOf(object, "uid");
    workload.controller = ControllerOf(object);
    workload.is_resolved = is_accepted_pod || (kind.name == "Pod" && !workload.uid.empty() &&
                                               origin_ == ManifestOrigin::kApiServer);
    if (is_accepted_pod) TakeStatus(object.value(), workload.pod);
    manifests_.workloads.push_back(std::move(workload));
    return Done{};
  }

  const std::string& file_;
  const ManifestOrigin origin_;
  Manifests& manifests_;
};

}  // namespace

Result<Done> ReadManifest(std::string_view text, const std::string& file, Manifests& manifests,
                          ManifestOrigin origin) {
  // Of a key that occurs twice, the readers of JSON take either.
  const Result<nlohmann::ordered_json> ordered = json::ParseOrdered(text);
  if (!ordered.ok()) return ordered.error();
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.error();
  return DocumentReader(file, origin, manifests).Read(View(*parsed, ""), {});
}

}  // namespace alignd::placement
